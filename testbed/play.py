"""ONE live run: an epoch that all agree on, a timeline of what happens, a look at who lives, a drain, evidence."""

import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from collectors.writer import read_logs
from core.errors import MachineError
from core.records import Sample
from core.units import MILLISECOND_NS, SECOND_NS
from testbed.faults import Handover
from testbed.hosts.loop import Clock
from testbed.hosts.site import Site
from testbed.trust.evidence import INVALID, RunEvidence
from testbed.trust.observed import HANDOVER_LATENESS, Findings

LEAD_NS = SECOND_NS // 2  # from the last word before the load to the epoch: everybody has heard it by then
POLL_NS = 100 * MILLISECOND_NS  # between two looks at who lives; Ctrl-C is heard
PACE_NS = SECOND_NS // 2  # of a drain: whoever looks more seldom stood still, and so may those it looks at have


class Progress(NamedTuple):
    """How far a drain is."""

    seen: object  # what is counted: while it changes, something is under way
    at_rest: bool  # nothing waits anywhere to be sent
    rest_ns: int = 0  # what is at rest must not change for so long: nothing is under way either
    patience_ns: int | None = None  # what is not at rest, and does not change for so long, never will be


class Play:
    """The timeline of a run.  Instants count from the epoch, on a clock that no step of the machine's clock moves.

    ``look``: asked at every wake-up; raises where a process has ended on its own.
    """

    def __init__(self, look: Callable[[], None] = lambda: None):
        self.epoch_ns = 0  # CLOCK_REALTIME
        self._look = look
        self._clock: Clock
        self._to_come: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = count()

    def plan(self, at_ns: int, action: Callable[[], None]) -> None:
        """Let something happen at an instant; what is planned first for an instant happens first."""
        heapq.heappush(self._to_come, (at_ns, next(self._serial), action))

    def begin(self, lead_ns: int = LEAD_NS, align_ns: int = 0) -> int:
        """Agree on the epoch, so long from now; returns it.

        ``align_ns`` above 0: the next whole multiple of that, so that windows of the wall clock begin with the run.
        """
        self.epoch_ns = time.time_ns() + lead_ns
        if align_ns:
            self.epoch_ns = -(-self.epoch_ns // align_ns) * align_ns
        self._clock = Clock(self.epoch_ns)
        return self.epoch_ns

    def now_ns(self) -> int:
        """The run's time."""
        return self._clock.now_ns()

    @property
    def is_over(self) -> bool:
        """Whether all that was planned has happened."""
        return not self._to_come

    def until(self, at_ns: int) -> None:
        """Sleep, let what is due happen, and look whether everybody lives; ends at the instant, or raises.

        What is due before the instant has happened then, be it late: a machine that stands still drops no heal.
        """
        while True:
            now_ns = self.now_ns()
            if self._to_come and self._to_come[0][0] <= min(now_ns, at_ns - 1):
                heapq.heappop(self._to_come)[2]()
                continue
            if now_ns >= at_ns:
                return
            next_ns = min(at_ns, self._to_come[0][0]) if self._to_come else at_ns
            time.sleep(max(0, min(POLL_NS, next_ns - now_ns)) / SECOND_NS)
            self._look()

    def forget(self) -> None:
        """What was planned for later does not happen any more."""
        self._to_come.clear()

    def drain(self, progress: Callable[[], Progress], end_ns: Callable[[], int]) -> bool:
        """Wait until all is at rest and still; False where that is not so at ``end_ns()``, or will never be."""
        before, looked_ns, still_ns = None, self.now_ns(), 0
        while True:
            told, now_ns = progress(), self.now_ns()
            still_ns = still_ns + min(now_ns - looked_ns, PACE_NS) if told.seen == before else 0
            before, looked_ns = told.seen, now_ns
            if told.at_rest and still_ns >= told.rest_ns:
                return True
            gave_up = told.patience_ns is not None and not told.at_rest and still_ns > told.patience_ns
            if gave_up or now_ns >= end_ns():
                return False
            self.until(min(end_ns(), now_ns + POLL_NS))


def hand_over(site: Site, play: Play, move: Handover) -> Sample:
    """Let a client's host move; returns how late that was done."""
    site.apply(move)
    return move.at_ns, move.host, HANDOVER_LATENESS, float(play.now_ns() - move.at_ns)


class Observer:
    """What is seen of a site's processes and links while a run goes on, judged at its end."""

    def __init__(self, site: Site, scale_ns: int):
        """Verifies the links: LinkError where a path is not as the topology wants it.

        ``scale_ns``: the smallest latency that matters.
        """
        self.site, self.findings = site, Findings(scale_ns, site.verify(), site.topology.links)
        self.findings.counters_before = site.counters()
        self.watch = site.watched()  # to be entered while the load goes on

    def evidence(self) -> RunEvidence:
        """Everything, judged; the processes still live, or have left their logs."""
        try:
            self.findings.site_counters = self.site.counters()
            self.findings.delays_late = self.site.delays_late
        except MachineError:
            if not self.findings.faulty:  # a host that was crashed on purpose counts no more
                raise
        self.findings.notes = [*self.findings.notes, *self.site.notes]
        evidence = self.findings.evidence(self.watch.seen(), read_logs(self.site.folder / "logs"))
        self.site.is_worn = self.findings.faulty or evidence.fidelity.validity == INVALID
        return evidence
