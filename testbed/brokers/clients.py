"""Producers and consumers of one topic, which go to whichever broker they are told: a topic moves, and loses nothing.

A message is the producer's until a broker has answered OK.  A broker that has fenced the topic refuses what comes
later, and says so for each message: those are sent again, first, to the next broker.  One that was started again does
so until it opens the topic; there consumers, too, wait to be told where to go.  Only where a connection breaks nobody
knows what became of the messages that were under way: they are sent again, and may come twice.

A consumer's channel bears its own name, so that each consumer gets every message.  The subscription at a broker that
was left stays for a while: what that one had accepted before, it still delivers.  Who comes back goes on with it, since
messages overtake each other on two; and before it ends the broker stops sending, since nsqd gives what it had sent, and
nobody has finished, to the next one after a minute only.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.brokers import nsq
from testbed.brokers.connection import Connection
from testbed.hosts.loop import Clock, Loop
from testbed.nodes.sockets import ignore
from testbed.trust.accounts import ABSENT

REDIAL_NS = 100 * MILLISECOND_NS
REPLACE_NS = 500 * MILLISECOND_NS  # after a spare was taken: a migration should be over by then
ANSWER_NS = 3 * SECOND_NS  # how long a broker that was left may take to answer what it was sent
STAY_NS = 2 * SECOND_NS  # at a broker that was left
LAST_NS = 100 * MILLISECOND_NS  # ours: a message that nsqd had in hand may follow its CLOSE_WAIT
READY_COUNT = 1_000
FENCED = b"E_FENCED"


class Spares:
    """A spare connection to each of ``addresses``, greeted and waiting, as a node keeps one to every other node.

    So that after a migration a client's data take one way, and not the three that a new connection needs first (ours).
    """

    def __init__(self, loop: Loop, addresses: Iterable[str], token: str, **features: object):
        self._loop, self._token, self._features = loop, token, features
        self._spares: dict[str, Connection | None] = dict.fromkeys(addresses)
        for address in self._spares:
            self._mend(address)

    def ready(self) -> bool:
        """Whether all are there."""
        return all(spare is not None and spare.is_open for spare in self._spares.values())

    def take(self, address: str) -> Connection:
        """The spare one, which may still be on its way; another is made, when there is time for it."""
        spare, self._spares[address] = self._spares[address], None
        self._loop.call_at(time.monotonic_ns() + REPLACE_NS, self._mend, address)
        if spare is None or spare.is_closed:
            return Connection(self._loop, address, self._token, **self._features)
        spare.on_close = ignore
        return spare

    def _mend(self, address: str) -> None:
        spare = self._spares[address]
        if spare is None or spare.is_closed:
            self._spares[address] = spare = Connection(self._loop, address, self._token, **self._features)
            spare.on_close = lambda why: self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._mend, address)


class _Client:
    """What is at one broker at a time; where its connection breaks, it dials again, for as long as it is to be there.

    ``connect(broker)``: a connection to the broker's port.
    """

    def __init__(self, loop: Loop, topic: str, connect: Callable[[str], Connection]):
        self._loop, self._topic, self._connect = loop, topic, connect
        self._broker = ""
        self._now: Connection | None = None
        self._clock: Clock

    def _begin(self, connection: Connection) -> None:
        raise NotImplementedError

    def _take(self, connection: Connection, kind: int, data: bytes) -> None:
        raise NotImplementedError

    def _broken(self, connection: Connection) -> None:
        """The connection is gone."""
        if self._now is connection:
            self._now = None
            self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._dial, self._broker)

    def _dial(self, broker: str) -> None:
        """Unless it has gone elsewhere in the meantime, or is there."""
        if not broker or broker != self._broker or self._now is not None:
            return
        connection = self._connect(broker)
        connection.on_open = lambda answer: self._begin(connection)
        connection.on_frame = lambda kind, data: self._take(connection, kind, data)
        connection.on_close = lambda why: self._broken(connection)
        self._now = connection
        if connection.is_open:
            self._begin(connection)
        elif connection.is_closed:
            self._broken(connection)


@dataclass
class _Stay:
    """At a broker that was left."""

    connection: Connection
    is_ending: bool = False  # the broker has been told to send no more


class Consumer(_Client):
    """``channel`` is its name.  ``rows``: (producer, message, born_ns, received_ns), as ``trust.accounts.Got``."""

    def __init__(self, loop: Loop, topic: str, channel: str, connect: Callable[[str], Connection]):
        super().__init__(loop, topic, connect)
        self._channel = channel
        self._stays: dict[str, _Stay] = {}  # by broker
        self.rows: list[tuple[int, int, int, int]] = []
        self.subscribed_ns: list[int] = []  # when a broker said so

    def go(self, clock: Clock) -> None:
        """Time 0 is known."""
        self._clock = clock

    def follow(self, broker: str) -> None:
        """Receive from the broker from now on."""
        self.unfollow()
        self._broker = broker
        stay = self._stays.get(broker)
        if stay is None:
            self._dial(broker)
        elif not stay.is_ending:  # else it is dialled when that is over
            del self._stays[broker]
            self._now = connection = stay.connection
            connection.on_close = lambda why: self._broken(connection)
            self.subscribed_ns.append(self._clock.now_ns())

    def unfollow(self) -> None:
        """Nobody is followed; the one who was may still deliver what it had."""
        broker, self._broker = self._broker, ""
        connection, self._now = self._now, None
        if connection is None:
            return
        if connection.is_open:
            self._stays[broker] = stay = _Stay(connection)
            connection.on_close = lambda why: self._left(broker)
            self._loop.call_at(time.monotonic_ns() + STAY_NS, self._end, broker, stay)
        else:  # nothing was asked of that broker yet
            connection.close()

    def _end(self, broker: str, stay: _Stay) -> None:
        """Unless the consumer has come back to it."""
        if self._stays.get(broker) is stay:
            stay.is_ending = True
            stay.connection.write(nsq.CLS)
            stay.connection.expect(lambda: False, ANSWER_NS, "it did not end in time")

    def _left(self, broker: str) -> None:
        del self._stays[broker]
        self._dial(broker)

    def _begin(self, connection: Connection) -> None:
        connection.write(nsq.sub(self._topic, self._channel) + nsq.rdy(READY_COUNT))

    def _take(self, connection: Connection, kind: int, data: bytes) -> None:
        now_ns = self._clock.now_ns()
        if kind == nsq.MESSAGE:
            delivered = nsq.message(data)
            if len(delivered.body) >= nsq.HEADER.size:  # else it is a stranger's
                message, producer, _, born_ns = nsq.HEADER.unpack_from(delivered.body)
                self.rows.append((producer, message, born_ns, now_ns))
            connection.write(nsq.fin(delivered.id))
        elif kind == nsq.RESPONSE and data == nsq.OK:
            self.subscribed_ns.append(now_ns)
        elif kind == nsq.RESPONSE and data == nsq.CLOSE_WAIT:
            self._loop.call_at(time.monotonic_ns() + LAST_NS, connection.fail, "it was left")
        elif kind == nsq.ERROR and data.startswith(FENCED):
            if connection is self._now:  # as for a producer: until the next word
                connection.close()
            else:
                connection.fail("it was left")


@dataclass
class _Flight:
    """What was sent on a connection: numbers of messages."""

    connection: Connection
    unanswered: deque[int] = field(default_factory=deque)
    refused: list[int] = field(default_factory=list)


class Producer(_Client):
    """Sends its schedule, each message once and in order.  ``number``: of the client, for the head of each message.

    ``rows``: a list of what ``trust.accounts.Sent`` has, for each message by its number.
    """

    def __init__(self, loop: Loop, topic: str, number: int, size_bytes: int, connect: Callable[[str], Connection]):
        super().__init__(loop, topic, connect)
        self._number = number
        self._padding = b"\0" * max(0, size_bytes - nsq.HEADER.size)
        self._flight: _Flight | None = None  # of the connection that is used now
        self._left: _Flight | None = None  # of the broker that was left, until it has answered everything
        self._waiting: deque[int] = deque()  # due, in order
        self.rows: list[list[int]] = []

    def go(self, clock: Clock, born_ns: Sequence[int]) -> None:
        """Begin to send at these instants."""
        self._clock = clock
        self.rows = [[at_ns, ABSENT, ABSENT, ABSENT, 0, 0] for at_ns in born_ns]
        self._plan(0)

    def _plan(self, message: int) -> None:
        if message < len(self.rows):
            self._loop.call_at(self._clock.zero_ns + self.rows[message][0], self._fire, message)

    def _fire(self, message: int) -> None:
        self.rows[message][1] = self._clock.now_ns()
        self._waiting.append(message)
        self._plan(message + 1)
        self._flush()

    def attach(self, broker: str) -> None:
        """Send to the broker from now on, after what the one before has not taken."""
        self.detach()
        self._broker = broker
        self._dial(broker)

    def detach(self) -> None:
        """Send to nobody; what was sent is still answered."""
        connection, flight = self._now, self._flight
        self._now, self._flight, self._broker = None, None, ""
        if flight is None:
            if connection is not None:  # still on its way there
                connection.close()
        elif not flight.unanswered:
            self._settle(flight)
        else:
            assert self._left is None, "nothing was sent before all was answered"
            self._left = flight
            self._loop.call_at(time.monotonic_ns() + ANSWER_NS, self._give_up, flight)

    def _begin(self, connection: Connection) -> None:
        self._flight = _Flight(connection)
        self._flush()

    def _flush(self) -> None:
        """Send what is due, unless a broker still has to answer, or has fenced the topic."""
        flight = self._flight
        if flight is None or self._left is not None or flight.refused:
            return
        while self._waiting and flight.connection.is_open:
            message = self._waiting.popleft()
            row = self.rows[message]
            row[2] = self._clock.now_ns()
            flight.unanswered.append(message)
            head = nsq.HEADER.pack(message, self._number, 0, row[0])
            flight.connection.write(nsq.pub(self._topic, head + self._padding))

    def _on(self, connection: Connection) -> _Flight | None:
        return next((each for each in (self._flight, self._left) if each and each.connection is connection), None)

    def _take(self, connection: Connection, kind: int, data: bytes) -> None:
        flight = self._on(connection)
        assert flight is not None
        if kind == nsq.RESPONSE and data == nsq.OK:
            self.rows[flight.unanswered.popleft()][3] = self._clock.now_ns()
        elif kind == nsq.ERROR and data.startswith(FENCED):
            message = flight.unanswered.popleft()
            self.rows[message][4] += 1
            flight.refused.append(message)
        else:  # the broker hangs up after any other error
            return
        if flight is self._left and not flight.unanswered:
            self._settle(flight)

    def _settle(self, flight: _Flight) -> None:
        """All was answered: what was refused is due again, before all else."""
        flight.connection.close()
        self._waiting.extendleft(reversed(flight.refused))
        flight.refused.clear()
        if self._left is flight:
            self._left = None
        self._flush()

    def _give_up(self, flight: _Flight) -> None:
        if self._left is flight:
            flight.connection.close()
            self._broken(flight.connection)

    def _broken(self, connection: Connection) -> None:
        """Nobody knows what became of what was not answered: send it again."""
        super()._broken(connection)
        flight = self._on(connection)
        if flight is None:
            return
        for message in flight.unanswered:
            self.rows[message][5] += 1
        flight.refused.extend(flight.unanswered)
        flight.unanswered.clear()
        if self._flight is flight:
            self._flight = None
        self._settle(flight)
