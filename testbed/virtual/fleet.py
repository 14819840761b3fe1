"""The data plane of virtual time: the brokers of one topic, fed from its schedule.

The same protocol as a live broker's: ``move``, ``set_bucket``, ``advance``, ``report``.
"""

from collections.abc import Sequence

import numpy as np

from core.records import Block, Envelope, Int32, Schedule
from core.units import SECOND_NS
from systems.api import TopicReport
from systems.parts import token_bucket
from testbed.brokers.model import BrokerModel
from testbed.virtual import broker_kernel
from testbed.virtual.fleet_state import FleetState

CHUNK_NS = SECOND_NS // 1  # the schedule is walked in pieces of this length: memory stays flat
_EMPTY = Block(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


class Fleet:
    """One topic's publishers on brokers, each with other topics' load (``others``).

    ``drop``: messages without a token are dropped instead of delayed.  ``release_quantum``: those that
    wait are released several at a time, as the artifact does.
    """

    def __init__(
        self,
        model: BrokerModel,
        topic: str,
        schedule: Schedule,
        others: Sequence[Schedule | None],
        journal_rows: int = 0,
        drop: bool = False,
        release_quantum: bool = False,
    ):
        self.model, self.topic, self.schedule, self.others = model, topic, schedule, others
        self.journal_rows, self.drop, self.release_quantum = journal_rows, drop, release_quantum
        self.broker_of: Int32 = np.full(schedule.population.count, -1, np.int32)
        self.restart(0)

    @property
    def broker_count(self) -> int:
        """Number of brokers."""
        return len(self.others)

    def restart(self, at_ns: int) -> None:
        """Idle brokers at instant ``at_ns``; publishers stay where they are, buckets must be set anew."""
        self.state = FleetState(self.broker_count, self.model.cores)
        self.state.level_at_ns[:] = at_ns
        self.now_ns = self.reported_at_ns = at_ns
        self.record_from_ns = self.record_until_ns = 0
        self.journal = np.empty((self.journal_rows, 5), np.int64)
        self.journal_publisher = np.empty(self.journal_rows, np.int32)
        self.journal_sent_at_ns = np.empty(self.journal_rows, np.int64)
        self.journal_number = np.empty(self.journal_rows, np.int64)
        self.journal_used = 0
        self.offered_count = 0

    def move(self, assignment: Int32) -> None:
        """Publishers to brokers; -1 keeps a publisher off all of them."""
        assert assignment.shape == self.broker_of.shape
        self.broker_of = np.ascontiguousarray(assignment, np.int32)

    def set_bucket(self, broker: int, envelope: Envelope, full: bool = False) -> None:
        """A new sub-bucket: ``full``, or with the tokens that the old one has."""
        self.state.set_bucket(broker, envelope, self.now_ns, full)
        if self.release_quantum:
            self.state.quantum[broker] = token_bucket.release_quantum(envelope.burst_count) * token_bucket.TOKEN

    def record(self, from_ns: int, until_ns: int) -> None:
        """Count only messages with an intended instant in this window."""
        self.record_from_ns, self.record_until_ns = from_ns, until_ns

    def advance(self, until_ns: int) -> None:
        """Carry everything that is sent before ``until_ns``."""
        while self.now_ns < until_ns:
            end_ns = min(until_ns, self.now_ns + CHUNK_NS)
            self._carry(self.schedule.block(self.now_ns, end_ns), self._other_blocks(end_ns), end_ns)
            self.now_ns = end_ns

    def report(self) -> list[TopicReport]:
        """What each broker saw of the topic since the last report."""
        state, token = self.state, token_bucket.TOKEN
        span_s = (self.now_ns - self.reported_at_ns) / SECOND_NS
        reports = [
            TopicReport(
                self.topic,
                rate_rps=float(state.message_count[b]) / span_s if span_s else 0.0,
                backlog_count=float(-state.lowest_level[b]) / token,
                waiting_count=float(np.ceil(-state.lowest_balance[b] / token)),
            )
            for b in range(self.broker_count)
        ]
        state.message_count[:] = state.lowest_level[:] = state.lowest_balance[:] = 0
        self.reported_at_ns = self.now_ns
        return reports

    def messages(self) -> dict[str, np.ndarray]:
        """Columns of the ``messages`` table, for what was carried since the last restart (at most ``journal_rows``)."""
        rows = self.journal[: self.journal_used]
        sent_at_ns = self.journal_sent_at_ns[: self.journal_used]
        return {
            "message": self.journal_number[: self.journal_used],
            "publisher": self.journal_publisher[: self.journal_used],
            "broker": rows[:, 1].astype(np.int32),
            "topic": np.full(len(rows), self.topic, object),
            "intended_at_ns": sent_at_ns,
            "sent_at_ns": sent_at_ns,
            "arrived_at_ns": rows[:, 2],
            "released_at_ns": rows[:, 3],
            "received_at_ns": rows[:, 4],
        }

    def _other_blocks(self, end_ns: int) -> list[Block]:
        return [_EMPTY if other is None else other.block(self.now_ns, end_ns) for other in self.others]

    def _carry(self, block: Block, others: list[Block], end_ns: int) -> None:
        """One chunk through the kernel, then what is left of the other topics' emissions."""
        ends = np.cumsum([len(other.at_ns) for other in others])
        begins = ends - [len(other.at_ns) for other in others]
        at_ns = np.concatenate([other.at_ns for other in others])
        count = np.concatenate([other.count for other in others])
        state, costs = self.state, self.model.costs()
        used = self.journal_used
        self.journal_used = broker_kernel.advance(
            block.at_ns, block.publisher, block.count, self.broker_of,
            at_ns, count, begins, ends, costs,
            state.free_at_ns, state.pump_free_at_ns, state.level, state.level_at_ns, state.rate, state.capacity,
            state.lowest_level, state.lowest_balance, state.message_count,
            state.quantum, self.drop, state.dropped_count,
            state.latency, state.access_delay, self.record_from_ns, self.record_until_ns,
            self.journal, used,
        )  # fmt: skip
        rows = self.journal[used : self.journal_used, 0]
        self.journal_publisher[used : self.journal_used] = block.publisher[rows]
        self.journal_sent_at_ns[used : self.journal_used] = block.at_ns[rows]
        if len(rows):
            first = self.offered_count + np.cumsum(block.count) - block.count
            within = np.arange(len(rows)) - np.searchsorted(rows, rows)  # rows of one emission stand together
            self.journal_number[used : self.journal_used] = first[rows] + within
        self.offered_count += int(block.count.sum())
        for broker in np.flatnonzero(begins < ends):
            broker_kernel.background(
                at_ns[: ends[broker]], count, begins[broker], 2**62, broker, state.free_at_ns, costs
            )  # fmt: skip
