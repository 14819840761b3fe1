"""The windows of a deployed topic: which part of its schedule each round carries, and with which envelope.

Windows on the schedule's time: the profile (for the envelope) lies before instant 0, then comes one
window a search round; the final assignment is judged on a window of its own beyond any search, the
same for every system, so that comparisons are paired and nobody is judged on the sample that it
fitted itself to.  All testbeds share this, so a live round offers the very messages of the virtual one.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from math import ceil

import numpy as np

from collectors.histogram import BUCKET_COUNT, quantile
from core.errors import SystemFault
from core.records import Columns, Envelope, Float64, Int32, Int64, Schedule
from core.units import NEVER_NS
from core.units import duration_ns as duration_of_text
from studies.distribution.asked import TRIALS_MAXIMUM, Deployed, Round
from systems.api import Broker, BrokerMeasure, Measured
from systems.parts.assignment import rates_of
from systems.parts.envelope import RATE_FACTOR
from systems.parts.md1 import smallest_burst
from systems.parts.token_bucket import InfeasibleSplit, release_quantum, split_bucket
from testbed.brokers.counts import Counts
from testbed.trust.evidence import RunEvidence

SETTLE = 6  # the artifact keeps the middle 4/6 of the samples: a sixth at either end settles and drains

SubBuckets = tuple[Envelope | None, ...]  # a broker; None: none of the topic is there


class Remembered:
    """A schedule that keeps the blocks of one window: the envelope and the brokers ask for the same ones."""

    def __init__(self, schedule: Schedule):
        self.population, self.block = schedule.population, cache(schedule.block)


class TopicWindows(ABC):
    """A topic, its brokers and the clock of its schedule; a testbed adds how a window is carried."""

    topic = "topic"

    def __init__(self, asked: Deployed, others: Sequence[Schedule | None], mcap_rps: float):
        self.names, self.schedule, self.rule = asked.names, asked.schedule, asked.rule
        self.loads_rps = [0.0 if other is None else other.population.total_rps for other in others]
        self.mcaps_rps = [share * (asked.rule.mcap_rps or mcap_rps) for share in asked.core_shares]
        # Elsewhere the envelope is of another window than the round: to remember its blocks is to keep every round's.
        self._source = Remembered(asked.schedule) if asked.rule.envelope == "conformant" else asked.schedule
        self._known: dict[tuple[int, int], Envelope] = {}  # of the last window asked for
        self.now_ns, self.judge_at_ns = 0, TRIALS_MAXIMUM * asked.round_ns

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """What a distributor is told about the brokers."""
        return tuple(map(Broker, self.names, self.mcaps_rps, self.loads_rps))

    def envelope_for(self, start_ns: int, duration_ns: int) -> Envelope:
        """The topic's envelope for a window, by the rule."""
        from studies.distribution import envelope_kernel

        if self.rule.envelope == "poisson-model":
            burst = self.rule.model_batch * smallest_burst(1 / RATE_FACTOR)
            burst_count = float(ceil(burst * self.rule.margin - 1e-6))  # as a profiled one
            return Envelope(RATE_FACTOR * self.schedule.population.total_rps, burst_count)
        if self.rule.envelope == "profiled":
            duration_ns, settle_ns = duration_of_text(self.rule.profile), 0
            start_ns = -duration_ns
        else:
            settle_ns = duration_ns // SETTLE
            if self.rule.envelope == "replayed":  # every window is the first one again: one b for all
                start_ns = 0
        window = (start_ns, start_ns + duration_ns)
        if window not in self._known:
            recorded = (window[0] + settle_ns, window[1] - settle_ns)
            if isinstance(self._source, Remembered):
                self._source.block.cache_clear()  # the window before is over
            self._known = {window: envelope_kernel.profile(self._source, *window, *recorded, self.rule.margin)}
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

    def start_in_blocks(self, duration_ns: int) -> tuple[Int32, Envelope, dict[str, Envelope]]:
        """Start at 0 with publishers in equal blocks of ids; returns them, the envelope, and sub-buckets by name.

        A broker without publishers has none.
        """
        count = self.schedule.population.count
        assignment: Int32 = (np.arange(count) * len(self.names) // count).astype(np.int32)
        envelope = self.envelope_for(0, duration_ns)
        parts = zip(self.names, self.start(0, assignment, envelope), strict=True)
        return assignment, envelope, {name: part for name, part in parts if part is not None}

    @abstractmethod
    def start(self, start_ns: int, assignment: Int32, envelope: Envelope) -> SubBuckets:
        """Idle brokers, full sub-buckets in proportion to the assigned load; returns the sub-buckets."""

    @abstractmethod
    def carry(self, start_ns: int, end_ns: int, from_ns: int, until_ns: int) -> Counts:
        """Carry a window after ``start``; count the messages with ``from_ns`` <= intended instant < ``until_ns``."""

    @abstractmethod
    def messages(self) -> Columns:
        """Columns of ``messages`` for the last window; none where they are not kept."""

    @abstractmethod
    def evidence(self) -> RunEvidence:
        """What the testbed says about the run, and what it counted beside the rounds."""

    def split(self, envelope: Envelope, assignment: Int32) -> SubBuckets:
        """Sub-buckets in proportion to the assigned rates; the share of unassigned publishers is set aside.

        Every broker that has publishers has a sub-bucket, the smallest that there is if they are silent as yet.
        Raises InfeasibleSplit where b cannot be split into parts of at least the quantum in which it is released.
        """
        rates_rps, total_rps = self._rates_rps(assignment), self.schedule.population.total_rps
        used = np.unique(assignment[assignment >= 0]).tolist()
        weights = [float(rates_rps[b]) for b in used]
        unassigned = total_rps - sum(weights)
        if unassigned > 1e-9 * total_rps:
            weights.append(unassigned)
        quantum = release_quantum(envelope.burst_count) if self.rule.release_quantum else 1
        parts = dict(zip(used, split_bucket(envelope, weights, quantum=quantum), strict=False))
        return tuple(parts.get(broker) for broker in range(len(rates_rps)))

    def placed_part(self, envelope: Envelope, assignment: Int32) -> Envelope:
        """One bucket for all publishers that are placed: as much of the envelope, and of its tokens one at least."""
        share = float(self._rates_rps(assignment).sum()) / self.schedule.population.total_rps
        if share > 1 - 1e-9:  # everybody is placed: the sums differ by their rounding
            return envelope
        return Envelope(share * envelope.rate_rps, max(1.0, share * envelope.burst_count))

    def _rates_rps(self, assignment: Int32) -> Float64:
        return rates_of(self.schedule.population, assignment, len(self.names))

    def _round(self, start_ns: int, assignment: Int32, duration_ns: int) -> Round:
        envelope, rates = self.envelope_for(start_ns, duration_ns), self._rates_rps(assignment)
        try:
            parts = self.start(start_ns, assignment, envelope)
        except InfeasibleSplit as error:
            brokers = tuple(BrokerMeasure(NEVER_NS if rate else None, 0, float(rate)) for rate in rates)
            nothing = np.zeros((len(rates), BUCKET_COUNT), np.int64)
            return Round(
                start_ns, duration_ns, assignment, rates, envelope, (None,) * len(rates), nothing, nothing,
                Measured(brokers, NEVER_NS), np.zeros(len(rates), np.int64), f"infeasible split: {error}",
            )  # fmt: skip
        end_ns, settle_ns = start_ns + duration_ns, duration_ns // SETTLE
        counts = self.carry(start_ns, end_ns, start_ns + settle_ns, end_ns - settle_ns)
        gone = counts.dropped_count if counts.lost_count is None else counts.dropped_count + counts.lost_count
        return Round(
            start_ns, duration_ns, assignment, rates, envelope, parts, counts.latency, counts.access_delay,
            measured(counts.latency, rates, gone), counts.dropped_count, more=counts.more,
        )  # fmt: skip


def measured(latency: Int64, rates_rps: Float64, gone_count: Int64) -> Measured:
    """What the search is told: 99th percentiles by broker and over all; a message that is gone is beyond any."""
    brokers = tuple(
        BrokerMeasure(_p99_ns(counts, gone), int(counts.sum()), float(rate))
        for counts, rate, gone in zip(latency, rates_rps, gone_count, strict=True)
    )
    return Measured(brokers, _p99_ns(latency.sum(axis=0), int(gone_count.sum())) or 0)


def _p99_ns(counts: Int64, gone: int) -> int | None:
    """None without a message."""
    carried = int(counts.sum())
    if carried + gone == 0:
        return None
    share = 0.99 * (carried + gone) / carried if carried else 2.0
    return quantile(counts, share) if share <= 1 else NEVER_NS
