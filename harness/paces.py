"""How fast runs are, kind by kind, where none of the kind has been made here yet: measured, and how to measure anew.

A pace is the seconds of one core that runs of a kind took, over those that their study says they take.  Measured at
scale quick, up to three runs of each figure and kind, in processor time, kernels compiled, on two cores of x86-64 that
were busy with other work, which makes runs take more.  All 4,464 runs of the quick scale together, idle: 13.3 min of
one core foreseen, 13.5 min taken; single figures 0.2 to 2 times.  After ``make figures`` on an idle machine,
``python -m benchmarks.paces out`` prints this table anew, and what was foreseen beside what it took.
"""

from typing import NamedTuple

from studies.spec import ROUND


class Kind(NamedTuple):
    """Runs that take alike: one testbed, study, system and workload, and rounds of one length."""

    testbed: str
    study: str
    system: str
    workload: str
    round: str = ROUND


PACES: dict[tuple[str, str, str], float] = {  # study, system, workload -> pace, in virtual time
    ("control", "tb-adaptor", "shifting"): 1.5,
    ("coordinates", "static-split", "requests"): 0.35,
    ("distribution", "conc", "periodic"): 0.2,
    ("distribution", "conc", "poisson"): 0.33,
    ("distribution", "lb", "periodic"): 0.15,
    ("distribution", "lb", "poisson"): 0.28,
    ("distribution", "max-min", "periodic"): 0.18,
    ("distribution", "max-min", "poisson"): 0.21,
    ("distribution", "srtm", "periodic"): 0.077,
    ("distribution", "srtm", "poisson"): 0.12,
    ("erlang", "crdt-counter", "data-set"): 0.27,
    ("erlang", "crdt-queue", "data-set"): 0.49,
    ("limiting", "centralised", "data-set"): 0.73,
    ("limiting", "centralised", "hot-keys"): 0.62,
    ("limiting", "centralised", "instants"): 0.082,
    ("limiting", "centralised", "requests"): 0.41,
    ("limiting", "centralised-throttler", "data-set"): 1.2,
    ("limiting", "centralised-throttler", "requests"): 0.4,
    ("limiting", "crdt-counter", "data-set"): 0.3,
    ("limiting", "crdt-counter", "hot-keys"): 0.42,
    ("limiting", "crdt-counter", "instants"): 0.048,
    ("limiting", "crdt-counter", "requests"): 0.16,
    ("limiting", "crdt-queue", "data-set"): 0.37,
    ("limiting", "crdt-queue", "instants"): 0.044,
    ("limiting", "crdt-queue", "probes"): 0.075,
    ("limiting", "crdt-queue", "requests"): 0.23,
    ("limiting", "fixed-window", "hot-keys"): 0.63,
    ("limiting", "leases", "data-set"): 1.4,
    ("limiting", "leases", "hot-keys"): 0.49,
    ("limiting", "leases", "requests"): 0.49,
    ("limiting", "overwrite", "hot-keys"): 1.3,
    ("limiting", "owner-global", "hot-keys"): 0.7,
    ("limiting", "sliding-log", "data-set"): 0.25,
    ("limiting", "sliding-log", "instants"): 0.066,
    ("limiting", "sliding-log", "requests"): 0.27,
    ("limiting", "static-split", "data-set"): 0.3,
    ("limiting", "static-split", "hot-keys"): 0.34,
    ("limiting", "static-split", "requests"): 0.071,
    ("limiting", "throttler", "data-set"): 3.5,
    ("limiting", "throttler", "requests"): 1.7,
    ("placement", "all-pairs", "static-topics"): 1.7,
    ("placement", "epulsar", "mmog"): 1.5,
    ("placement", "epulsar", "static-topics"): 0.76,
    ("placement", "epulsar", "topic-churn"): 0.72,
    ("placement", "epulsar", "uav-swarms"): 0.51,
    ("placement", "pulsar", "mmog"): 1.3,
    ("placement", "pulsar", "static-topics"): 0.48,
    ("placement", "pulsar", "topic-churn"): 0.71,
    ("placement", "pulsar", "uav-swarms"): 0.43,
    ("policies", "static-split", "requests"): 0.67,
    ("throttling", "centralised-throttler", "load-curve"): 0.52,
    ("throttling", "throttler", "load-curve"): 0.54,
}


# Of runs so short that set-up and files are much of them: 30 and more of each, drawn from the whole of srtm-sweep.
SHORT_PACES: dict[tuple[str, str, str, str], float] = {  # study, system, workload, round -> pace, in virtual time
    ("distribution", "conc", "periodic", "3s"): 0.39,
    ("distribution", "conc", "poisson", "3s"): 0.43,
    ("distribution", "lb", "periodic", "3s"): 0.39,
    ("distribution", "lb", "poisson", "3s"): 0.38,
    ("distribution", "max-min", "periodic", "3s"): 0.36,
    ("distribution", "max-min", "poisson", "3s"): 0.37,
    ("distribution", "srtm", "periodic", "3s"): 0.24,
    ("distribution", "srtm", "poisson", "3s"): 0.36,
}


def shipped_pace(kind: Kind) -> float:
    """Of a kind of runs in virtual time, whatever their rounds; else the mean of its study's, or 1."""
    of_study = [pace for (study, _, _), pace in PACES.items() if study == kind.study]
    plain = PACES.get(kind[1:4], sum(of_study) / len(of_study) if of_study else 1.0)
    return SHORT_PACES.get(kind[1:], plain)
