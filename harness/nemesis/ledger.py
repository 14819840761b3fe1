"""What the nemesis has done: a file that adds up over sessions, ``results/nemesis.json``, a line of facts a run."""

import re
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import gettempdir
from typing import NamedTuple

import msgspec

from core.writing import replace_file
from harness import ledgers
from harness.nemesis.growth import Growth, growth
from harness.nemesis.schedule import SMALL_DISK
from harness.nemesis.trial import AUDIT_FAILED, ENDED, NOT_PLAYED, LiveTrial


class When(NamedTuple):
    """Of a run: its session, by when that began; seconds since then, at the run's end; whether a soak warmed up."""

    begun: str
    at_s: float = 0.0
    is_warm_up: bool = False


class LivePlayed(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run.  ``fates``: as counted at both ends, which sum to ``offered``.

    None of a run that ended with an error, as ``said`` says, for it brings nothing home; nor of one on a small disk.
    """

    seed: int
    ground: str
    testbed: str
    load_seconds: float
    commit: str
    troubles: tuple[str, ...]
    outcome: str  # valid, degraded, invalid; ended, with an error; or not played, for this machine cannot
    seconds: float
    resident_mb: float  # of the harness afterwards: what must not grow
    descriptors: int
    begun: str  # of the session: memory is of one process
    offered: int = 0
    fates: dict[str, int] = {}
    said: tuple[str, ...] = ()
    grounds: tuple[str, ...] = ()  # that the seed was drawn from; none: all
    at_s: float = 0.0  # since the session began, at the run's end
    is_warm_up: bool = False  # of a soak
    beside_mb: float = 0.0  # of the harness's other processes that live on

    @property
    def on_small_disk(self) -> bool:
        """Whether a full disk was played."""
        return any(line.startswith(SMALL_DISK) for line in self.troubles)


class LiveDeviation(msgspec.Struct, frozen=True):
    """What must not be, and the seed that shows it; ``command`` replays it, where that was kept."""

    seed: int
    ground: str
    testbed: str
    commit: str
    what: str
    reason: str = "open"
    command: str = ""


class NemesisLedger(msgspec.Struct, frozen=True):
    """All sessions."""

    played: tuple[LivePlayed, ...] = ()
    deviations: tuple[LiveDeviation, ...] = ()

    def next_seed(self, testbed: str) -> int:
        """The first seed after all that were played on a testbed."""
        return 1 + max((one.seed for one in self.played if one.testbed == testbed), default=0)

    def counted(self, testbed: str) -> int:
        """Runs on a testbed that have counted fates; what was drawn alike, and played again, counts once."""
        with_fates = (one for one in self.played if one.testbed == testbed and one.fates)
        return len({(one.seed, one.grounds, one.load_seconds) for one in with_fates})

    def soaks(self) -> list[Growth]:
        """The memory of each session that is one."""
        told = []
        for begun, those in groupby(sorted(self.played, key=attrgetter("begun")), key=attrgetter("begun")):
            runs = sorted(those, key=attrgetter("at_s"))
            warm_at_s = max((one.at_s for one in runs if one.is_warm_up), default=None)
            if warm_at_s is not None:
                rows = [(one.at_s, one.resident_mb + one.beside_mb) for one in runs if not one.is_warm_up]
                told.append(growth(begun, warm_at_s, rows))
        return told

    def with_trial(self, trial: LiveTrial, commit: str, when: When) -> "NemesisLedger":
        """With one run more."""
        schedule, fates = trial.schedule, trial.fates
        where = (schedule.seed, schedule.ground, schedule.testbed)
        one = LivePlayed(
            *where,
            schedule.load_ns / 1e9,
            commit,
            tuple(trial.lines()),
            trial.outcome,
            trial.seconds,
            round(trial.resident_bytes / 1e6, 1),
            trial.descriptor_count,
            when.begun,
            fates.offered if fates else 0,
            {name: count for name, count in fates.counts.items() if count} if fates else {},
            tuple(_without_folder(line) for line in trial.said) if trial.outcome in (ENDED, NOT_PLAYED) else (),
            schedule.grounds,
            when.at_s,
            when.is_warm_up,
            round(trial.beside_bytes / 1e6, 1),
        )
        new = [
            LiveDeviation(*where, commit, _without_folder(what), command=schedule.command) for what in trial.problems
        ]
        return NemesisLedger((*self.played, one), (*self.deviations, *new))

    def summary(self) -> str:
        """In a line, and one for each soak."""
        counts = {word: sum(one.outcome == word for one in self.played) for word in ("valid", "degraded", "invalid")}
        told = ", ".join(f"{count} {word}" for word, count in counts.items())
        runs = [one for one in self.played if one.outcome != NOT_PLAYED]
        with_fates = [one for one in runs if one.fates]
        summed = sum(sum(one.fates.values()) == one.offered for one in with_fates)
        offered = sum(one.offered for one in with_fates)
        others = {
            "on a small disk": sum(one.on_small_disk for one in runs),
            "ended with an error": sum(one.outcome == ENDED and not one.on_small_disk for one in runs),
            AUDIT_FAILED: sum(one.outcome == AUDIT_FAILED for one in runs),
            "could not be played": len(self.played) - len(runs),
        }
        without = ", ".join(f"{count} {why}" for why, count in others.items() if count)
        lines = [
            f"{len(runs)} runs ({told}); {len(with_fates)} have counted fates, which sum to offered in {summed} of "
            f"{len(with_fates)} ({offered:,} in all); without: {without or 'none'}; {len(self.deviations)} deviations"
        ]
        return "\n".join([*lines, *(soak.line() for soak in self.soaks())])


def _without_folder(text: str) -> str:
    """The temporary folder's name says nothing, and is gone."""
    return re.sub(rf"{re.escape(gettempdir())}/[\w-]+", "…", text)


def read_ledger(path: Path) -> NemesisLedger:
    """See ``harness.ledgers``."""
    return ledgers.read_ledger(path, NemesisLedger, "the nemesis")


def write_ledger(path: Path, ledger: NemesisLedger) -> None:
    """A run a line; whole or not at all."""
    parts = [
        f'"{name}": [\n' + ",\n".join(msgspec.json.encode(one).decode() for one in rows) + "\n]"
        for name, rows in (("played", ledger.played), ("deviations", ledger.deviations))
    ]
    replace_file(path, ("{\n" + ",\n".join(parts) + "\n}\n").encode())
