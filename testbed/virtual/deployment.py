"""One topic deployed on the virtual testbed: measurement rounds, each on the next window of its schedule.

Windows on the schedule's time: the profile (for the envelope) lies before instant 0, then comes one
window a search round; the final assignment is judged on a window of its own beyond any search, the
same for every system, so that comparisons are paired and nobody is judged on the sample that it
fitted itself to.
"""

from math import ceil
from typing import Any

import numpy as np

from collectors.histogram import BUCKET_COUNT, quantile
from core.errors import SystemFault
from core.records import Block, Envelope, Float64, Int32, Int64, Schedule
from core.units import SECOND_NS
from core.units import duration_ns as duration_of_text
from systems.api import Broker, BrokerMeasure, Measured, System
from systems.parts.assignment import rates_of
from systems.parts.envelope import RATE_FACTOR
from systems.parts.md1 import smallest_burst
from systems.parts.token_bucket import InfeasibleSplit, release_quantum, split_bucket
from testbed.rounds import TRIALS_MAXIMUM, Controlled, DeploymentConfig, Round
from testbed.topology import Topology
from testbed.virtual import envelope_kernel
from testbed.virtual.broker_model import BrokerModel
from testbed.virtual.fleet import Fleet
from testbed.virtual.plane import FleetPlane
from testbed.virtual.request_run import RequestJournal, event_loop

FOREVER_NS = 2**62  # the p99 of what cannot work
_SETTLE = 6  # the artifact keeps the middle 4/6 of the samples: a sixth at either end settles and drains


class Remembered:
    """A schedule that keeps the blocks of one window: the envelope and the brokers ask for the same ones."""

    def __init__(self, schedule: Schedule):
        self.schedule, self.population = schedule, schedule.population
        self._blocks: dict[tuple[int, int], Block] = {}

    def block(self, start_ns: int, end_ns: int) -> Block:
        """See ``core.records.Schedule``."""
        found = self._blocks.get((start_ns, end_ns))
        if found is None:
            found = self._blocks[start_ns, end_ns] = self.schedule.block(start_ns, end_ns)
        return found

    def forget(self) -> None:
        """The window is over."""
        self._blocks.clear()


class Deployment:
    """A topic, its brokers and the clock of its schedule."""

    topic = "topic"

    def __init__(
        self,
        model: BrokerModel,
        names: list[str],
        schedule: Schedule,
        others: list[Schedule | None],
        rule: DeploymentConfig,
        round_ns: int,
        journal_rows: int = 0,
    ):
        self.model, self.names, self.schedule, self.rule = model, names, schedule, rule
        self._window = Remembered(schedule)
        source = self._window if rule.envelope == "conformant" else schedule
        self.fleet = Fleet(
            model, self.topic, source, others, journal_rows, rule.non_conformant == "drop", rule.release_quantum
        )
        self.loads_rps = [0.0 if other is None else other.population.total_rps for other in others]
        self._known: dict[tuple[int, int], Envelope] = {}  # of the last window asked for
        self.now_ns, self.judge_at_ns = 0, TRIALS_MAXIMUM * round_ns

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """What a distributor is told about the brokers."""
        pairs = zip(self.names, self.loads_rps, strict=True)
        return tuple(Broker(name, self.model.mcap_rps, load_rps) for name, load_rps in pairs)

    def envelope_for(self, start_ns: int, duration_ns: int) -> Envelope:
        """The topic's envelope for a window, by the rule."""
        if self.rule.envelope == "poisson-model":
            burst = self.rule.model_batch * smallest_burst(1 / RATE_FACTOR)
            return Envelope(RATE_FACTOR * self.schedule.population.total_rps, float(ceil(burst * self.rule.margin)))
        if self.rule.envelope == "profiled":
            duration_ns, settle_ns = duration_of_text(self.rule.profile), 0
            start_ns = -duration_ns
        else:
            settle_ns = duration_ns // _SETTLE
        window = (start_ns, start_ns + duration_ns)
        if window not in self._known:
            recorded = (window[0] + settle_ns, window[1] - settle_ns)
            self._window.forget()
            source = self._window if settle_ns else self.schedule
            self._known = {window: envelope_kernel.profile(source, *window, *recorded, self.rule.margin)}
        return self._known[window]

    def next_round(self, assignment: Int32, duration_ns: int) -> Round:
        """Measure an assignment on the next window; one whose bucket cannot be split is infinitely bad."""
        start_ns = self.now_ns
        self.now_ns += duration_ns
        if self.now_ns > self.judge_at_ns:
            raise SystemFault("the search is too long", f"at most {TRIALS_MAXIMUM} rounds of the spec's length")
        return self._round(start_ns, assignment, duration_ns)

    def fresh_round(self, assignment: Int32, duration_ns: int) -> Round:
        """Measure the final assignment on the window kept for it."""
        return self._round(self.judge_at_ns, assignment, duration_ns)

    def start(self, start_ns: int, assignment: Int32, envelope: Envelope) -> tuple[Envelope | None, ...]:
        """Idle brokers, full sub-buckets in proportion to the assigned load; returns the sub-buckets."""
        self.fleet.restart(start_ns)
        self.fleet.move(assignment)
        rates = rates_of(self.schedule.population, assignment, len(self.loads_rps))
        quantum = release_quantum(envelope.burst_count) if self.rule.release_quantum else 1
        parts = _sub_buckets(envelope, rates, self.schedule.population.total_rps, quantum)
        for broker, part in enumerate(parts):
            if part is not None:
                self.fleet.set_bucket(broker, part, full=True)
        return parts

    def control(
        self, system: System, config: Any, topology: Topology, duration_ns: int, window_ns: int, seed: int
    ) -> Controlled:
        """Let a controller's nodes work on the running brokers for ``duration_ns``; one report a second.

        Histograms are taken window by window, by the messages' intended instants.
        """
        plane = FleetPlane(self.fleet, self.names)
        begin_ns = self.fleet.now_ns
        loop = event_loop(system, config, topology, self.names, seed, plane, start_ns=begin_ns)
        loop.report_every(SECOND_NS)
        windows = []
        for start_ns in range(begin_ns, begin_ns + duration_ns - window_ns + 1, window_ns):
            self.fleet.state.clear_histograms()
            self.fleet.record(start_ns, start_ns + window_ns)
            journal = RequestJournal(loop.run(start_ns + window_ns - 1))
            self.fleet.advance(start_ns + window_ns)
            windows.append((self.fleet.state.latency.copy(), self.fleet.state.access_delay.copy()))
        return Controlled(windows, journal.samples(), journal.journal.commands)

    def _round(self, start_ns: int, assignment: Int32, duration_ns: int) -> Round:
        end_ns, settle_ns = start_ns + duration_ns, duration_ns // _SETTLE
        from_ns, until_ns = start_ns + settle_ns, end_ns - settle_ns
        envelope = self.envelope_for(start_ns, duration_ns)
        try:
            parts = self.start(start_ns, assignment, envelope)
        except InfeasibleSplit as error:
            return self._infeasible(start_ns, assignment, duration_ns, str(error))
        self.fleet.record(from_ns, until_ns)
        self.fleet.advance(end_ns)
        rates = rates_of(self.schedule.population, assignment, len(self.loads_rps))
        latency, access_delay = self.fleet.state.latency, self.fleet.state.access_delay
        return Round(
            start_ns, duration_ns, assignment, rates, envelope, parts, latency, access_delay,
            _measured(latency, rates, self.fleet.state.dropped_count), self.fleet.state.dropped_count,
        )  # fmt: skip

    def _infeasible(self, start_ns: int, assignment: Int32, duration_ns: int, note: str) -> Round:
        rates = rates_of(self.schedule.population, assignment, len(self.loads_rps))
        brokers = tuple(BrokerMeasure(FOREVER_NS if rate else None, 0, float(rate)) for rate in rates)
        nothing = np.zeros((len(rates), BUCKET_COUNT), np.int64)
        return Round(
            start_ns, duration_ns, assignment, rates, self.envelope_for(start_ns, duration_ns),
            (None,) * len(rates), nothing, nothing,
            Measured(brokers, FOREVER_NS), np.zeros(len(rates), np.int64), f"infeasible split: {note}",
        )  # fmt: skip


def _sub_buckets(envelope: Envelope, rates_rps: Float64, total_rps: float, quantum: int) -> tuple[Envelope | None, ...]:
    """Sub-buckets in proportion to the assigned rates; the share of unassigned publishers is set aside.

    Raises InfeasibleSplit where b cannot be split into parts of at least ``quantum``.
    """
    used = [int(b) for b in np.flatnonzero(rates_rps > 0)]
    weights = [float(rates_rps[b]) for b in used]
    unassigned = total_rps - sum(weights)
    if unassigned > 1e-9 * total_rps:
        weights.append(unassigned)
    split = split_bucket(envelope, weights, quantum=quantum)
    parts: list[Envelope | None] = [None] * len(rates_rps)
    for broker, part in zip(used, split, strict=False):
        parts[broker] = part
    return tuple(parts)


def _measured(latency: Int64, rates_rps: Float64, dropped_count: Int64) -> Measured:
    """What the search is told: 99th percentiles by broker and over all, of which a dropped message is beyond any."""
    brokers = tuple(
        BrokerMeasure(_p99_ns(counts, dropped), int(counts.sum()), float(rate))
        for counts, rate, dropped in zip(latency, rates_rps, dropped_count, strict=True)
    )
    return Measured(brokers, _p99_ns(latency.sum(axis=0), int(dropped_count.sum())) or 0)


def _p99_ns(counts: Int64, dropped: int) -> int | None:
    """None without a message."""
    carried = int(counts.sum())
    if carried + dropped == 0:
        return None
    share = 0.99 * (carried + dropped) / carried if carried else 2.0
    return quantile(counts, share) if share <= 1 else FOREVER_NS
