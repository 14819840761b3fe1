"""A session: runs one after another, each in the ledger before the next; so many, until enough count, or a soak."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from core.errors import MachineError
from core.units import SECOND_NS
from harness.code_version import commit
from harness.nemesis.grounds import GROUNDS
from harness.nemesis.ledger import NemesisLedger, When, read_ledger, write_ledger
from harness.nemesis.schedule import draw, with_step
from harness.nemesis.trial import LiveTrial, play
from testbed.making import alone_in

WARM_UP_ROUNDS = 2  # runs of each kind, of which a soak begins with: until then modules are imported, heaps filled
FRUITLESS_RUNS = 15  # one after another without counted fates, as one in five is: the machine, not chance


@dataclass(frozen=True)
class NemesisPlan:
    """What a session plays.  Of ``runs``, ``until`` and ``soak_ns`` one is above 0.

    ``runs``: so many; ``until``: so many runs of the ledger have counted fates; ``soak_ns``: for so long, after a
    warm-up.  ``first``: the seed; 0: the ledger's next.  ``ledger``: its file; None: of this session alone.
    """

    testbed: str
    load_ns: int
    grounds: tuple[str, ...] = ()
    sets_clock: bool = False
    ledger: Path | None = None
    first: int = 0
    runs: int = 0
    until: int = 0
    soak_ns: int = 0


@dataclass
class NemesisSession:
    """One process's; ``begun`` names it."""

    plan: NemesisPlan
    begun: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    ledger: NemesisLedger = field(default_factory=NemesisLedger)

    def trials(self) -> Iterator[LiveTrial]:
        """Play; MachineError where no run at all comes to an account."""
        plan, began_ns = self.plan, time.monotonic_ns()
        self.ledger = read_ledger(plan.ledger) if plan.ledger else self.ledger
        first, fruitless = plan.first or self.ledger.next_seed(plan.testbed), 0
        kinds = plan.grounds or tuple(GROUNDS)
        warm_up = WARM_UP_ROUNDS * len(kinds) if plan.soak_ns else 0
        for number in count():
            if number == warm_up:
                end_ns = time.monotonic_ns() + plan.soak_ns
            if number >= warm_up and self._is_over(number, end_ns):
                return
            if plan.until and fruitless >= FRUITLESS_RUNS:
                raise MachineError(f"{fruitless} runs in a row without counted fates", "see why in what they said")
            is_warm_up = number < warm_up
            grounds = (kinds[number % len(kinds)],) if is_warm_up else plan.grounds
            schedule = draw(first + number, plan.testbed, plan.load_ns, grounds)
            trial = play(with_step(schedule) if plan.sets_clock else schedule)
            fruitless = 0 if trial.fates else fruitless + 1
            self._keep(trial, When(self.begun, round((time.monotonic_ns() - began_ns) / SECOND_NS, 1), is_warm_up))
            yield trial

    def _is_over(self, number: int, end_ns: int) -> bool:
        plan = self.plan
        if plan.until:
            return self.ledger.counted(plan.testbed) >= plan.until
        return time.monotonic_ns() >= end_ns if plan.soak_ns else number >= plan.runs

    def _keep(self, trial: LiveTrial, when: When) -> None:
        path, of = self.plan.ledger, commit() or ""
        if path is None:
            self.ledger = self.ledger.with_trial(trial, of, when)
            return
        with alone_in(path.parent):  # what another adds meanwhile would be lost
            self.ledger = read_ledger(path).with_trial(trial, of, when)
            write_ledger(path, self.ledger)
