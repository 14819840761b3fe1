"""What has been soaked: a file that adds up over sessions, in ``results/soak.json``.

One entry a commit, with the ranges of seeds that were played to their end; deviations stand beside, each with the seed
that replays it and, once somebody has looked, its reason.
"""

from pathlib import Path

import msgspec

from core.writing import replace_file
from harness import ledgers
from harness.soak.trial import Breach


class Stretch(msgspec.Struct, frozen=True):
    """Seeds ``first`` to ``last``, of one system or of all ("")."""

    commit: str
    system: str
    first: int
    last: int
    count: int  # schedules played
    hours: float  # of processor time


class Deviation(msgspec.Struct, frozen=True):
    """A schedule in which an invariant did not hold."""

    seed: int
    system: str
    commit: str
    invariant: str
    what: str
    reason: str = "open"


class SoakLedger(msgspec.Struct, frozen=True):
    """All sessions."""

    stretches: tuple[Stretch, ...] = ()
    deviations: tuple[Deviation, ...] = ()

    @property
    def count(self) -> int:
        """Schedules in all."""
        return sum(stretch.count for stretch in self.stretches)

    def next_seed(self, system: str) -> int:
        """The first seed after all that were played of a system, or of all systems ("")."""
        return 1 + max((stretch.last for stretch in self.stretches if stretch.system == system), default=0)

    def played(self, more: Stretch) -> "SoakLedger":
        """With a stretch that follows on another, or stands alone."""
        rest, new = list(self.stretches), more
        for old in self.stretches:
            if (old.commit, old.system, old.last + 1) == (more.commit, more.system, more.first):
                rest.remove(old)
                new = msgspec.structs.replace(
                    more, first=old.first, count=old.count + more.count, hours=round(old.hours + more.hours, 4)
                )
        return SoakLedger((*rest, new), self.deviations)

    def deviated(self, seed: int, system: str, commit: str, breaches: tuple[Breach, ...]) -> "SoakLedger":
        """With what a seed broke; what is known of it at this commit already stays as it is."""
        known = {(one.seed, one.commit, one.invariant) for one in self.deviations}
        new = [
            Deviation(seed, system, commit, breach.invariant, breach.what)
            for breach in breaches
            if (seed, commit, breach.invariant) not in known
        ]
        return SoakLedger(self.stretches, (*self.deviations, *new))


def read_ledger(path: Path) -> SoakLedger:
    """See ``harness.ledgers``."""
    return ledgers.read_ledger(path, SoakLedger, "ratebed soak")


def write_ledger(path: Path, ledger: SoakLedger) -> None:
    """Whole or not at all."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(ledger), indent=1) + b"\n")
