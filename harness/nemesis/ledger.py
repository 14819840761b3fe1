"""What the nemesis has done: a file that adds up over sessions, ``results/nemesis.json``, a line of facts a run."""

import re
from pathlib import Path
from tempfile import gettempdir

import msgspec

from core.writing import replace_file
from harness import ledgers
from harness.nemesis.trial import ENDED, NOT_PLAYED, LiveTrial


class LivePlayed(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run.  ``fates``: as counted at both ends, which sum to ``offered``; none of a run without a result."""

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

    def with_trial(self, trial: LiveTrial, commit: str, begun: str) -> "NemesisLedger":
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
            begun,
            fates.offered if fates else 0,
            {name: count for name, count in fates.counts.items() if count} if fates else {},
            tuple(_without_folder(line) for line in trial.said) if trial.outcome in (ENDED, NOT_PLAYED) else (),
            schedule.grounds,
        )
        new = [
            LiveDeviation(*where, commit, _without_folder(what), command=schedule.command) for what in trial.problems
        ]
        return NemesisLedger((*self.played, one), (*self.deviations, *new))

    def summary(self) -> str:
        """In a line."""
        counts = {word: sum(one.outcome == word for one in self.played) for word in ("valid", "degraded", "invalid")}
        told = ", ".join(f"{count} {word}" for word, count in counts.items())
        not_played = sum(one.outcome == NOT_PLAYED for one in self.played)
        runs = len(self.played) - not_played
        offered = sum(one.offered for one in self.played)
        summed = sum(one.offered > 0 and sum(one.fates.values()) == one.offered for one in self.played)
        return (
            f"{runs} runs: {told}, {runs - sum(counts.values())} ended with an error; "
            f"fates sum to offered in {summed} of {sum(one.offered > 0 for one in self.played)} ({offered:,} in all); "
            f"{len(self.deviations)} deviations" + (f"; {not_played} could not be played" if not_played else "")
        )


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
