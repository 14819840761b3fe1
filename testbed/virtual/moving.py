"""Publishers that move between brokers while traffic flows: a data plane in virtual time.

A publisher that is told to move stops: its old broker refuses what it sends from then on.  When all that the broker had
accepted is delivered and acknowledged, it goes on at the new one, first with what it had to hold.  So the order of each
publisher is kept, and nothing is lost.  The cost: the move's *closed time*, and the *held time* of each message that
waited at its publisher.

A broker that is killed takes with it what it had not delivered.  Its publishers notice at once (a connection that
breaks on a LAN), keep what was not acknowledged, and offer it again, oldest first: those that were on their way to
another broker there, all others when their broker is back.  A message that had been delivered, and its acknowledgement
lost, comes twice.  A broker comes back with its last sub-bucket, empty.

Acknowledged is what the subscriber has confirmed: two ways after it was received.  The brokers' work is ``Fleet``'s;
what it sees of the topic is what publishers really send (``Outbox``), message by message in its journal.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from core.errors import SystemFault
from core.records import Block, Envelope, Int32, Int64, Schedule
from core.units import NEVER_NS, SECOND_NS
from systems.api import SetBucket
from systems.distribution.commands import MoveAway, PublisherReport
from testbed.faults import Fault, Restart
from testbed.trust.moved import MovedMessages, PublisherMove
from testbed.virtual.fleet import Fleet
from testbed.virtual.gates import NodeGroup
from testbed.virtual.scheduler import EventLoop

BROKER, ARRIVED, RELEASED, RECEIVED, PUBLISHER, SENT = range(1, 7)  # columns of the fleet's journal


class Emissions(NamedTuple):
    """What publishers want to send: so many ``messages``, from ``number`` on, intended ``at_ns``."""

    at_ns: Int64
    publisher: Int32
    messages: Int32
    number: Int64

    def where(self, chosen: np.ndarray) -> "Emissions":
        """Those rows, in that order."""
        return Emissions(*(column[chosen] for column in self))


def _joined(parts: Iterable[Emissions]) -> Emissions:
    return Emissions(*map(np.concatenate, zip(*parts, strict=True)))


class Outbox:
    """A ``Schedule`` as brokers see it: each emission when its publisher sends it.

    ``opens_ns()``: from when on each publisher sends.  Blocks must be asked for one after another.  ``make_room``: told
    of the messages that a block has.  ``number_of``: of each message sent, in order, its number among those intended.
    """

    def __init__(
        self, schedule: Schedule, end_ns: int, opens_ns: Callable[[], Int64], make_room: Callable[[int], None]
    ):
        self.population, self.schedule, self.end_ns = schedule.population, schedule, end_ns
        self.opens_ns, self.make_room = opens_ns, make_room
        self.waiting = self._read(0, 0, 0)
        self.offered_count = 0
        nothing = np.zeros(0, np.int64)
        self.parts = [(nothing, nothing)]  # numbers of what was sent, and when it was intended

    def block(self, start_ns: int, end_ns: int) -> Block:
        """See ``core.records.Schedule``; at one instant, what was intended first is sent first."""
        new = self._read(start_ns, min(end_ns, self.end_ns), self.offered_count)
        self.offered_count += int(new.messages.sum())
        ready = _joined((self.waiting, new))
        sent_ns = np.maximum(np.maximum(ready.at_ns, self.opens_ns()[ready.publisher]), start_ns)
        goes = sent_ns < end_ns
        self.waiting, ready, sent_ns = ready.where(~goes), ready.where(goes), sent_ns[goes]
        order = np.lexsort((ready.number, sent_ns))
        ready, sent_ns = ready.where(order), sent_ns[order]
        many = ready.messages
        within = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
        self.parts.append((np.repeat(ready.number, many) + within, np.repeat(ready.at_ns, many)))
        self.make_room(len(within))
        return Block(sent_ns, ready.publisher, many)

    def again(self, unacknowledged: Emissions) -> None:
        """To be sent once more."""
        self.waiting = _joined((self.waiting, unacknowledged))

    def sent(self) -> tuple[Int64, Int64]:
        """Of each message sent, in order: its number among those intended, and the instant intended."""
        numbers, intended = zip(*self.parts, strict=True)
        self.parts = [(np.concatenate(numbers), np.concatenate(intended))]
        return self.parts[0]

    def _read(self, start_ns: int, end_ns: int, first: int) -> Emissions:
        block = self.schedule.block(start_ns, max(start_ns, end_ns))
        return Emissions(block.at_ns, block.publisher, block.count, first + np.cumsum(block.count) - block.count)


class MovingPlane:
    """A ``DataPlane`` of brokers that ``MoveAway`` and ``SetBucket`` command; ``names[i]`` is the node beside broker i.

    ``broker_of``: where publishers begin.  ``end_ns``: no message is intended later.
    """

    def __init__(self, fleet: Fleet, names: Sequence[str], broker_of: Int32, end_ns: int):
        assert len(names) == fleet.broker_count and not fleet.model.pump_takes_core and not fleet.drop
        self.fleet, self.names = fleet, list(names)
        self.network_ns = fleet.model.network_ns
        self.drained_ns = np.zeros(fleet.schedule.population.count, np.int64)  # all was acknowledged where they were
        self.up_ns = np.zeros(len(names), np.int64)
        self.outbox = Outbox(fleet.schedule, end_ns, self.opens_ns, self._make_room)
        fleet.schedule = self.outbox
        fleet.move(broker_of)
        fleet.keep(0)
        self.transfers: list[PublisherMove] = []
        self.refused_count = self.resent_count = 0
        self._gone, self._over = np.zeros(0, bool), np.zeros(0, bool)  # rows lost in a crash; rows of lives that ended
        self._reported = 0

    def opens_ns(self) -> Int64:
        """From when on each publisher sends to its broker."""
        opens: Int64 = np.maximum(self.drained_ns, self.up_ns[self.fleet.broker_of])
        return opens

    @property
    def is_idle(self) -> bool:
        """No message waits at its publisher."""
        return len(self.outbox.waiting.number) == 0

    def is_up(self, node: str) -> bool:
        """Its broker has not been killed, or is back."""
        return bool(self.up_ns[self.names.index(node)] < NEVER_NS)

    # --- as a data plane -----------------------------------------------------------------------------

    def advance(self, until_ns: int) -> None:
        """Carry all traffic up to ``until_ns``."""
        self.fleet.advance(until_ns)

    def report(self) -> Iterable[tuple[str, object]]:
        """What each broker that is up saw of the topic, and of its publishers."""
        span_s = max(1, self.fleet.now_ns - self.fleet.reported_at_ns) / SECOND_NS
        told: list[tuple[str, object]] = list(zip(self.names, self.fleet.report(), strict=True))
        rows = self._rows()[self._reported :]
        self._reported += len(rows)
        for broker, name in enumerate(self.names):
            who, count = np.unique(rows[rows[:, BROKER] == broker, PUBLISHER], return_counts=True)
            rates = dict(zip(who.tolist(), (count / span_s).tolist(), strict=True))
            told.append((name, PublisherReport(self.fleet.topic, rates)))
        return [(name, report) for name, report in told if self.is_up(name)]

    def actuate(self, node: str, command: object, now_ns: int) -> None:
        """Set a sub-bucket, keeping its tokens, or move publishers away from the node's broker."""
        assert now_ns == self.fleet.now_ns, "the loop advances the plane before it commands"
        match command:
            case SetBucket(topic, rate_rps, burst_count) if topic == self.fleet.topic and node in self.names:
                self.fleet.set_bucket(self.names.index(node), Envelope(rate_rps, burst_count))
            case MoveAway(topic, publishers, broker) if topic == self.fleet.topic and {node, broker} <= set(self.names):
                self._move(self.names.index(node), np.array(publishers, np.int64), self.names.index(broker))
            case _:
                raise SystemFault(f"{node} commanded {command}", f"brokers of {self.fleet.topic!r} set and move")

    def crash(self, node: str, now_ns: int) -> None:
        """A broker dies with its node; publishers keep what was not acknowledged."""
        if node not in self.names:
            return
        broker, rows = self.names.index(node), self._rows()
        self.up_ns[broker] = NEVER_NS
        hangs = (rows[:, BROKER] == broker) & ~self._over & (rows[:, RECEIVED] + self.network_ns > now_ns)
        self._over |= rows[:, BROKER] == broker
        self._gone |= hangs & (rows[:, RECEIVED] - self.network_ns > now_ns)  # the pump was not done with them
        number, intended_ns = (column[hangs] for column in self.outbox.sent())
        who = rows[hangs, PUBLISHER]
        self.outbox.again(Emissions(intended_ns, who.astype(np.int32), np.ones(len(who), np.int32), number))
        self.resent_count += len(who)
        self.drained_ns[who] = np.minimum(self.drained_ns[who], now_ns)  # nothing more will be acknowledged
        self._reschedule(now_ns)

    def restart(self, node: str) -> None:
        """It is back: idle, with its sub-bucket, which is empty; publishers connect anew."""
        broker, state, now_ns = self.names.index(node), self.fleet.state, self.fleet.now_ns
        cores = state.free_at_ns[broker]
        cores[: self.fleet.cores[broker]] = now_ns
        for counted in (state.message_count, state.lowest_level, state.lowest_balance, state.level):
            counted[broker] = 0
        state.pump_free_at_ns[broker] = state.level_at_ns[broker] = now_ns
        self.up_ns[broker] = now_ns + 2 * self.network_ns
        self._reschedule(now_ns)

    # --- publishers ----------------------------------------------------------------------------------

    def _move(self, source: int, publishers: Int64, target: int) -> None:
        """Only those that are there and open; whoever asks for others knows too late."""
        now_ns = self.fleet.now_ns
        here = (self.fleet.broker_of[publishers] == source) & (self.opens_ns()[publishers] <= now_ns)
        self.refused_count += int((~here).sum())
        moving = publishers[here] if source != target else publishers[:0]
        rows = self._rows()
        mine = ~self._over & np.isin(rows[:, PUBLISHER], moving)
        told_ns = now_ns + 3 * self.network_ns  # a word to the publisher, which connects
        self.drained_ns[moving] = told_ns
        np.maximum.at(self.drained_ns, rows[mine, PUBLISHER], rows[mine, RECEIVED] + 2 * self.network_ns)
        self.fleet.broker_of[moving] = target
        opens_ns = self.opens_ns()
        self.transfers += [PublisherMove(now_ns, who, source, target, int(opens_ns[who])) for who in moving.tolist()]

    def _reschedule(self, now_ns: int) -> None:
        opens_ns = self.opens_ns()
        for transfer in self.transfers:
            if transfer.opens_ns > now_ns:
                transfer.opens_ns = int(opens_ns[transfer.publisher])

    # --- rows ----------------------------------------------------------------------------------------

    def _rows(self) -> Int64:
        rows: Int64 = self.fleet.journal[: self.fleet.journal_used]
        more = len(rows) - len(self._gone)
        self._gone, self._over = (np.append(flags, np.zeros(more, bool)) for flags in (self._gone, self._over))
        return rows

    def _make_room(self, count: int) -> None:
        fleet = self.fleet
        if fleet.journal_used + count > len(fleet.journal):
            grown = np.empty((2 * (fleet.journal_used + count) + 1_000, fleet.journal.shape[1]), np.int64)
            grown[: fleet.journal_used] = fleet.journal[: fleet.journal_used]
            fleet.journal = grown

    def deliveries(self) -> MovedMessages:
        """Of all that has been offered so far."""
        rows, (number, intended_ns) = self._rows(), self.outbox.sent()
        came = np.flatnonzero(~self._gone)
        came = came[np.lexsort((rows[came, RECEIVED], number[came]))]
        first = came[np.append(True, np.diff(number[came]) != 0)] if len(came) else came
        told = rows[first].T
        who, broker = told[PUBLISHER].astype(np.int32), told[BROKER].astype(np.int32)
        return MovedMessages(
            number[first], who, broker, intended_ns[first], told[SENT], told[ARRIVED], told[RELEASED], told[RECEIVED],
            told[SENT] > intended_ns[first],
            self.outbox.offered_count, self._waiting(number[first]), self.resent_count, len(came) - len(first),
        )  # fmt: skip

    def _waiting(self, delivered: Int64) -> int:
        """Messages at their publishers, without those of which a copy came."""
        waiting = self.outbox.waiting
        again = np.isin(waiting.number, delivered) & (waiting.messages == 1)
        return int(waiting.messages[~again].sum())


class MovingLoop(EventLoop):
    """The event loop of nodes beside the brokers of a ``MovingPlane``, which a restarted node brings back."""

    def __init__(self, deployed: NodeGroup, plane: MovingPlane):
        super().__init__(**deployed.parts(), plane=plane)
        self.plane = plane

    def fail(self, faults: Iterable[Fault]) -> None:
        """See ``EventLoop``."""
        faults = list(faults)
        super().fail(faults)
        for fault in faults:
            if isinstance(fault, Restart) and fault.node in self.plane.names:
                self.call_at(fault.at_ns, self._bring_back, fault.node)

    def carried(self) -> MovingPlane:
        """See ``EventLoop``."""
        super().carried()
        return self.plane

    def drain(self, until_ns: int) -> None:
        """Go on while messages wait at publishers, and no longer."""
        while self.now_ns < until_ns and not self.plane.is_idle:
            self.run(min(self.now_ns + SECOND_NS // 10, until_ns))

    def _bring_back(self, node: str) -> None:
        self.carried().restart(node)
