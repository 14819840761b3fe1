"""What has been soaked: a file that adds up over sessions, in ``results/soak.json``.

One entry a commit, with the ranges of seeds that were played to their end; deviations stand beside, each with the seed
that replays it and, once somebody has looked, its reason.

A schedule counts once at a commit, and once at a commit with changes ("+"), however often it is played: as one of a
system or of all, again with ``--first``, or by two sessions at a time.  What is played again adds neither to the count
nor to the hours; what it breaks is kept.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from core.writing import replace_file
from harness import ledgers
from harness.soak.draw import system_of
from harness.soak.session import Chunk
from harness.soak.trial import Breach
from testbed.making import alone_in

_DIGITS = 6  # of hours: a chunk takes some 0.0002


class Stretch(msgspec.Struct, frozen=True):
    """Seeds ``first`` to ``last``, of one system or of all (""): all of these were played."""

    commit: str
    system: str
    first: int
    last: int
    count: int  # schedules played, without those that another stretch of the commit counts
    hours: float  # of processor time, for these

    def has(self, seed: int) -> bool:
        """Whether it is one of these seeds."""
        return self.first <= seed <= self.last and self.system in ("", system_of(seed))

    def seeds(self) -> Iterator[int]:
        """All of them."""
        return filter(self.has, range(self.first, self.last + 1))

    def overlaps(self, other: "Stretch", gap: int = 0) -> bool:
        """Whether the ranges have a seed in common; ``gap`` 1: or follow on each other."""
        return self.first <= other.last + gap and other.first <= self.last + gap


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
        """The first seed after all that were played of a system, alone or among all; or of all systems ("")."""
        return 1 + max((stretch.last for stretch in self.stretches if stretch.system in ("", system)), default=0)

    def played(self, more: Stretch) -> "SoakLedger":
        """With what is new in a stretch.  Ranges of the same kind that overlap, or follow on each other, become one."""
        there = [old for old in self.stretches if old.commit == more.commit and old.overlaps(more)]
        known = sum(any(old.has(seed) for old in there) for seed in more.seeds()) if there else 0
        if known >= more.count:
            return self
        count = more.count - known
        hours = round(more.hours * count / more.count, _DIGITS)
        new, rest = msgspec.structs.replace(more, count=count, hours=hours), list[Stretch]()
        for old in self.stretches:
            if (old.commit, old.system) == (new.commit, new.system) and old.overlaps(new, 1):
                new = _together(old, new)
            else:
                rest.append(old)
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


def _together(one: Stretch, other: Stretch) -> Stretch:
    first, last = min(one.first, other.first), max(one.last, other.last)
    hours = round(one.hours + other.hours, _DIGITS)
    return msgspec.structs.replace(one, first=first, last=last, count=one.count + other.count, hours=hours)


def read_ledger(path: Path) -> SoakLedger:
    """See ``harness.ledgers``."""
    return ledgers.read_ledger(path, SoakLedger, "ratebed soak")


def write_ledger(path: Path, ledger: SoakLedger) -> None:
    """Whole or not at all."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(ledger), indent=1) + b"\n")


def add_to(path: Path, commit: str, system: str, chunk: Chunk) -> tuple[int, int]:
    """Add a chunk of a session, of one system or of all, to the file as others may have left it meanwhile.

    Returns how many schedules it has then, and how many of these are new.
    """
    stretch = Stretch(commit, system, chunk.first, chunk.last, chunk.count, round(chunk.seconds / 3_600, _DIGITS))
    with alone_in(path.parent):
        before = read_ledger(path)
        after = before.played(stretch)
        for failure in chunk.failures:
            after = after.deviated(failure.seed, failure.system, commit, failure.breaches)
        write_ledger(path, after)
    return after.count, after.count - before.count
