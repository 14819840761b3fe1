"""How fast runs are, kind by kind, where none of the kind has been made here yet: measured, and how to measure anew.

A pace is the seconds of one core that runs of a kind took, over those that their study says they take.  Measured at
scale quick on an x86-64 at some 2.5 GHz, in processor time, kernels compiled.  After ``make figures`` on an idle
machine, ``python -m benchmarks.paces out`` prints this table anew, and what was foreseen beside what it took.
"""

from typing import NamedTuple


class Kind(NamedTuple):
    """Runs that take alike: one testbed, study, system and workload."""

    testbed: str
    study: str
    system: str
    workload: str


PACES: dict[tuple[str, str, str], float] = {  # study, system, workload -> pace, on the virtual testbed
    ("control", "tb-adaptor", "shifting"): 1.55,
}


def shipped_pace(kind: Kind) -> float:
    """Of the kind, else the mean of its study's; of runs in real time the clock is the pace: 1."""
    if kind.testbed != "virtual":
        return 1.0
    of_study = [pace for (study, _, _), pace in PACES.items() if study == kind.study]
    return PACES.get(kind[1:], sum(of_study) / len(of_study) if of_study else 1.0)
