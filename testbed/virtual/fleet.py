"""The data plane of virtual time: the brokers of one topic, fed from its schedule.

The same protocol as a live broker's: ``move``, ``set_bucket``, ``advance``, ``report``.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from collectors.histogram import BUCKET_COUNT
from core.errors import SystemFault
from core.records import Block, Envelope, Int32, Schedule
from core.units import SECOND_NS
from systems.api import SetBucket, TopicReport
from systems.parts import token_bucket
from testbed.brokers.model import BrokerModel
from testbed.virtual import broker_kernel, shared_kernel
from testbed.virtual.shared_kernel import NEVER, line_of
from workloads.chunks import piece_ns

_EMPTY = Block(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


class FleetState:
    """Everything that the kernel carries from one call to the next, for all brokers of one topic.

    int64 arrays of one entry a broker (``free_at_ns``: one a broker and core).  Counts are kept in
    histograms, shape (brokers, BUCKET_COUNT).  ``cores``: of each broker.
    """

    def __init__(self, cores: Sequence[int], residents: bool = False):
        brokers, core = len(cores), np.arange(max(cores, default=1))
        self.free_at_ns = np.where(core < np.array(cores, np.int64)[:, None], 0, NEVER)  # one that is not there
        self.pump_free_at_ns = np.zeros(brokers, np.int64)
        self.level = np.zeros(brokers, np.int64)
        self.level_at_ns = np.zeros(brokers, np.int64)
        self.rate = np.ones(brokers, np.int64)
        self.capacity = np.full(brokers, token_bucket.TOKEN, np.int64)
        self.quantum = np.ones(brokers, np.int64)  # debts are repaid in multiples of it; 1 = to the unit
        self.dropped_count = np.zeros(brokers, np.int64)  # of the messages counted in the histograms
        self.lowest_level = np.zeros(brokers, np.int64)  # since the last report, relative to the capacity
        self.lowest_balance = np.zeros(brokers, np.int64)  # since the last report; negative = messages wait
        self.message_count = np.zeros(brokers, np.int64)  # since the last report
        self.latency = np.zeros((brokers, BUCKET_COUNT), np.int64)
        self.access_delay = np.zeros((brokers, BUCKET_COUNT), np.int64)
        # Of the topics that were there before, one a broker; without rows nobody counts.
        self.resident_latency = np.zeros((brokers if residents else 0, BUCKET_COUNT), np.int64)
        self.resident_free_at_ns = np.zeros(brokers, np.int64)  # their pumps
        # Where pumps run on the cores:
        self.busy_ns = np.zeros(brokers, np.int64)  # work that the cores were given
        self.own, self.resident = line_of(brokers), line_of(brokers)  # messages that wait for the pumps

    def set_bucket(self, broker: int, envelope: Envelope, at_ns: int, full: bool) -> None:
        """A new sub-bucket: full, or with the tokens it has, cut to its new size."""
        rate, capacity = token_bucket.units(envelope)
        level, filled_at_ns = capacity, at_ns
        if not full:
            held, held_at_ns = int(self.level[broker]), int(self.level_at_ns[broker])
            filled_at_ns = max(at_ns, held_at_ns)  # the last message may be stamped later: it is on its way
            elapsed_ns, held_rate, size = filled_at_ns - held_at_ns, int(self.rate[broker]), int(self.capacity[broker])
            level = min(capacity, token_bucket.refill(held, elapsed_ns, held_rate, size))
        self.level[broker], self.level_at_ns[broker] = level, filled_at_ns
        self.rate[broker], self.capacity[broker] = rate, capacity

    def clear_histograms(self) -> None:
        """Forget the counts: a new round begins."""
        self.latency[:] = self.access_delay[:] = self.resident_latency[:] = 0
        self.dropped_count[:] = 0


class Fleet:
    """One topic's publishers on brokers, each with other topics' load (``others``).

    ``drop``: messages without a token are dropped instead of delayed.  ``release_quantum``: those that
    wait are released several at a time, as the artifact does.  ``cores``: of each broker, if not all as the model's.
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
        cores: Sequence[int] = (),
    ):
        self.cores = list(cores) or [model.cores] * len(others)
        self.model, self.topic, self.schedule, self.others = model, topic, schedule, others
        self.journal_rows, self.drop, self.release_quantum = journal_rows, drop, release_quantum
        self.piece_ns = piece_ns([schedule, *filter(None, others)])
        self.broker_of: Int32 = np.full(schedule.population.count, -1, np.int32)
        self.restart(0)

    @property
    def broker_count(self) -> int:
        """Number of brokers."""
        return len(self.others)

    def restart(self, at_ns: int, residents: bool = False) -> None:
        """Idle brokers at instant ``at_ns``; publishers stay where they are, buckets must be set anew.

        ``residents``: count the latency of the others' messages, too.
        """
        self.state = FleetState(self.cores, residents)
        self.state.level_at_ns[:] = at_ns
        self.now_ns = self.reported_at_ns = at_ns
        self.record_from_ns = self.record_until_ns = 0
        self.keep(self.journal_rows)

    def keep(self, rows: int) -> None:
        """So many messages are journalled from now on, numbered from 0."""
        self.journal = np.empty((rows, 8), np.int64)  # five columns of the kernel's, and three of ours
        self.journal_used = self.offered_count = 0

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
            end_ns = min(until_ns, self.now_ns + self.piece_ns)
            others = [_EMPTY if other is None else other.block(self.now_ns, end_ns) for other in self.others]
            self._carry(self.schedule.block(self.now_ns, end_ns), others)
            self.now_ns = end_ns

    def finish(self) -> None:
        """Carry what was sent to its end, when nothing more comes: histograms and journal are whole."""
        if self.model.pump_takes_core:
            state = self.state
            shared_kernel.finish(state.own, state.resident, self._cores(), self.model.costs(), self._shown())

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
        _, broker, arrived, released, received, publisher, sent, number = self.journal[: self.journal_used].T
        return {
            "message": number,
            "publisher": publisher.astype(np.int32),
            "broker": broker.astype(np.int32),
            "topic": np.full(len(number), self.topic, object),
            "intended_at_ns": sent,
            "sent_at_ns": sent,
            "arrived_at_ns": arrived,
            "released_at_ns": released,
            "received_at_ns": received,
        }

    def _carry(self, block: Block, others: list[Block]) -> None:
        """One chunk through the kernel, then what is left of the other topics' emissions."""
        ends = np.cumsum([len(other.at_ns) for other in others])
        left = shared_kernel.Others(
            np.concatenate([other.at_ns for other in others]),
            np.concatenate([other.count for other in others]),
            ends - [len(other.at_ns) for other in others],
            ends,
        )
        used = self.journal_used
        carry = self._carry_shared if self.model.pump_takes_core else self._carry_free
        self.journal_used = carry(block, left)
        rows = self.journal[used : self.journal_used]
        if len(rows):
            emission = rows[:, 0]
            first = self.offered_count + np.cumsum(block.count) - block.count
            within = np.arange(len(rows)) - np.searchsorted(emission, emission)  # rows of one emission stand together
            rows[:, 5], rows[:, 6] = block.publisher[emission], block.at_ns[emission]
            rows[:, 7] = first[emission] + within
        self.offered_count += int(block.count.sum())

    def _carry_free(self, block: Block, others: shared_kernel.Others) -> int:
        """With pumps that take nothing from the cores; returns the journal's next free row."""
        state, costs = self.state, self.model.costs()
        residents = state.resident_free_at_ns, state.resident_latency
        rows: int = broker_kernel.advance(
            block.at_ns, block.publisher, block.count, self.broker_of, *others, costs,
            state.free_at_ns, state.pump_free_at_ns, state.level, state.level_at_ns, state.rate, state.capacity,
            state.lowest_level, state.lowest_balance, state.message_count,
            state.quantum, self.drop, state.dropped_count,
            state.latency, state.access_delay, *residents, self.record_from_ns, self.record_until_ns,
            self.journal, self.journal_used,
        )  # fmt: skip
        span = (self.record_from_ns, self.record_until_ns)
        for broker in np.flatnonzero(others.begin < others.end):
            left = others.at_ns[: others.end[broker]], others.batch, others.begin[broker]
            broker_kernel.background(*left, broker, state.free_at_ns, costs, *residents, span)
        return rows

    def _carry_shared(self, block: Block, others: shared_kernel.Others) -> int:
        """With pumps on the cores."""
        state, sent = self.state, self.broker_of[block.publisher]
        most = np.bincount(sent[sent >= 0], block.count[sent >= 0], self.broker_count).max(initial=0)
        state.own = shared_kernel.with_room(state.own, int(most))
        state.resident = shared_kernel.with_room(state.resident, int((others.end - others.begin).max(initial=0)))
        buckets = shared_kernel.Buckets(
            state.level, state.level_at_ns, state.rate, state.capacity, state.quantum,
            state.lowest_level, state.lowest_balance, state.message_count, state.dropped_count,
        )  # fmt: skip
        lines = state.own, state.resident, self._cores(), buckets
        emissions = block.at_ns, block.publisher, block.count, self.broker_of
        rows: int = shared_kernel.advance(
            *emissions, others, self.model.costs(), *lines, self.drop, self._shown(), self.journal_used
        )
        return rows

    def _cores(self) -> shared_kernel.Cores:
        return shared_kernel.Cores(self.state.free_at_ns, self.state.busy_ns)

    def _shown(self) -> shared_kernel.Shown:
        state, span = self.state, (self.record_from_ns, self.record_until_ns)
        return shared_kernel.Shown(*span, state.latency, state.access_delay, state.resident_latency, self.journal)


class FleetPlane:
    """A ``Fleet`` as the event loop's ``DataPlane``: ``names[i]`` is the node that controls broker i of ``fleet``."""

    def __init__(self, fleet: Fleet, names: Sequence[str]):
        assert len(names) == fleet.broker_count
        self.fleet, self.names = fleet, list(names)

    def advance(self, until_ns: int) -> None:
        """Carry all traffic up to ``until_ns``."""
        self.fleet.advance(until_ns)

    def report(self) -> Iterable[tuple[str, TopicReport]]:
        """(node, TopicReport) of each broker."""
        return list(zip(self.names, self.fleet.report(), strict=True))

    def actuate(self, node: str, command: object, now_ns: int) -> None:
        """Set a broker's sub-bucket, keeping its tokens."""
        assert now_ns == self.fleet.now_ns, "the loop advances the fleet before it commands"
        if not isinstance(command, SetBucket) or command.topic != self.fleet.topic or node not in self.names:
            raise SystemFault(f"{node} commanded {command}", f"brokers set the bucket of {self.fleet.topic!r}")
        self.fleet.set_bucket(self.names.index(node), Envelope(command.rate_rps, command.burst_count))

    def crash(self, node: str, now_ns: int) -> None:
        """A broker outlives its control node, and keeps its bucket."""
