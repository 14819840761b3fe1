"""Experiments are declared grids; a run is one point of one, with one seed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from core.errors import SpecError
from core.records import Options
from core.seeds import child_seed
from studies.spec import CALIBRATED, ROUND, SLO, RunSpec

__all__ = [
    "CALIBRATED",
    "FEWER",
    "LIVE_REPETITIONS",
    "ROUND",
    "SCALES",
    "SLO",
    "Experiment",
    "Option",
    "Reading",
    "RunSpec",
    "Scale",
    "repeated",
]


@dataclass(frozen=True)
class Scale:
    """How much of a grid is run.  tiny, quick and paper change grid and repetitions, never the physics.

    small changes the physics too, to rates and an SLO that a machine of two cores can carry on real
    sockets: figures ask ``physics`` for that.
    """

    name: str
    repetitions: int
    physics: str = "paper"  # or "small"

    def pick(self, **grids: Any) -> Any:
        """The grid of this scale, ``scale.pick(tiny=…, quick=…, paper=…)``.

        A missing one is the next larger's; beyond the largest given, the largest.
        """
        order = ["small", "tiny", "quick", "paper"]
        place = order.index(self.name)
        for name in [*order[place:], *reversed(order[:place])]:
            if name in grids:
                return grids[name]
        raise AssertionError(f"no grid for scale {self.name}")


RUNS_MAXIMUM = 100_000  # ours: of a figure or a matrix; each has a folder, of 40 kB and more

FEWER = {"quick": 3}  # repetitions of large figures of ours on which no claim hangs
# Of live runs, which take their load's time: three repetitions keep a command below a quarter of an hour.
LIVE_REPETITIONS = {"tiny": 1, "small": 3, "quick": 3, "paper": 5}

SCALES = {
    "tiny": Scale("tiny", 2),
    "small": Scale("small", 1, "small"),
    "quick": Scale("quick", 5),
    "paper": Scale("paper", 10),
}


@dataclass(frozen=True)
class Option:
    """An option that a figure declares for the command line, ``--trace FILE``; one of type bool is a bare flag."""

    name: str
    help: str
    default: object = None
    type: type = str

    def of(self, options: Options) -> Any:
        """Its value among a figure's options."""
        return options.get(self.name, self.default)


@dataclass(frozen=True)
class Reading(Option):
    """How to read what a source leaves open and what moves a verdict.

    The default is what the text says best.  The defaults of all readings of a paper are its cell of record: there its
    claims count.  Other values are tried as well, and a claim's verdict names those under which it holds.
    """

    values: tuple[object, ...] = ()  # all that are tried; of text: all that there are
    source: str = ""  # what the text says, and where
    after: bool = False  # thought of after results were seen: judged on fresh seeds
    # By value, the claims that it was made from: under it they are fitted.
    fitted_on: Mapping[object, tuple[str, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class GroundOption(Option):
    """On what a figure is made beside its testbed: results on another one have a name, and verdicts, of their own."""


@dataclass(frozen=True)
class Experiment:
    """A figure's grid.

    ``points(scale, options)`` gives the specs of repetition 0; the harness repeats each with the
    repetition's number and seed.  An empty list means "skipped", for the reason ``skip_reason(options)``.
    """

    key: str
    title: str
    source: str  # paper, section, figure
    points: Callable[[Scale, Options], list[RunSpec]]
    options: tuple[Option, ...] = ()
    skip_reason: Callable[[Options], str] | None = None
    open_to_systems: bool = False  # may ``--system`` join the grid, beside the figure's own systems?
    # By scale, where not the scale's own: runs that take real time, or on which no claim hangs.
    repetitions: Mapping[str, int] = field(default_factory=dict)
    times: Callable[[RunSpec], int] = lambda spec: 1  # of a point where chance decides much: so many times as often
    analytic: bool = False  # its tables are computed from formulas alone: no points, and yet not skipped

    def runs(self, scale: Scale, options: Options, seed: int) -> list[RunSpec]:
        """All runs: the grid times the repetitions."""
        repetitions = self.repetitions.get(scale.name, scale.repetitions)
        return repeated(self.points(scale, options), repetitions, seed, times=self.times)


def repeated(
    specs: Sequence[RunSpec],
    repetitions: int,
    seed: int,
    runs_maximum: int = RUNS_MAXIMUM,
    times: Callable[[RunSpec], int] = lambda spec: 1,
) -> list[RunSpec]:
    """Each spec once a repetition, with that repetition's seed: the same for all points, so that they are paired.

    ``times``: how many times as many repetitions a spec has.  SpecError where that makes more than ``runs_maximum``.
    """
    counts = [repetitions * times(spec) for spec in specs]
    check_runs(sum(counts), runs_maximum)
    seeds = [child_seed(seed, "repetition", repetition) >> 1 for repetition in range(max(counts, default=0))]
    return [
        msgspec.structs.replace(spec, repetition=repetition, seed=own_seed)
        for repetition, own_seed in enumerate(seeds)
        for spec, count in zip(specs, counts, strict=True)
        if repetition < count
    ]


def check_runs(count: int, most: int = RUNS_MAXIMUM, where: str = "") -> None:
    """SpecError that begins with ``where`` for more runs than anybody wants."""
    if count > most:
        raise SpecError(f"{where}{count:,} runs", f"at most {most:,}; a matrix may say runs_maximum = …")
