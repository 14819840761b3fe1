"""A producer of one topic: it sends its schedule to whichever broker it is attached to, each message once and in order.

A message is the producer's until a broker has answered OK.  A broker that has fenced the topic refuses what comes
later, and says so for each message: those are sent again, first, to the next broker.  Only where a connection breaks
nobody knows what became of the messages that were under way: they are sent again, and may come twice.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.brokers import nsq
from testbed.brokers.wires import Wire
from testbed.hosts.loop import Clock, Loop

ANSWER_NS = 3 * SECOND_NS  # how long a broker that was left may take to answer what it was sent
REDIAL_NS = 100 * MILLISECOND_NS
NEVER = -1
FENCED = b"E_FENCED"

COLUMNS = ("born_ns", "fired_ns", "sent_ns", "answered_ns", "refused_count", "lost_count")


class _Flight:
    """A connection, and what was sent on it."""

    def __init__(self, wire: Wire):
        self.wire = wire
        self.unanswered: deque[int] = deque()  # numbers of messages
        self.refused: list[int] = []


class Producer:
    """``connect(broker)``: a connection to its ingress; ``number``: of the client, for the head of each message."""

    def __init__(self, loop: Loop, topic: str, number: int, size_bytes: int, connect: Callable[[str], Wire]):
        self._loop, self._topic, self._number, self._connect = loop, topic, number, connect
        self._padding = b"\0" * max(0, size_bytes - nsq.HEADER.size)
        self._broker = ""
        self._now: _Flight | None = None
        self._left: _Flight | None = None  # of the broker that was left, until it has answered everything
        self._waiting: deque[int] = deque()  # due, in order
        self._clock: Clock
        self.rows: list[list[int]] = []  # of ``COLUMNS``, by number

    # --- what is due ---------------------------------------------------------------------------------

    def go(self, clock: Clock, born_ns: Sequence[int]) -> None:
        """Begin to send at these instants."""
        self._clock = clock
        self.rows = [[at_ns, NEVER, NEVER, NEVER, 0, 0] for at_ns in born_ns]
        self._plan(0)

    def _plan(self, message: int) -> None:
        if message < len(self.rows):
            self._loop.call_at(self._clock.zero_ns + self.rows[message][0], self._fire, message)

    def _fire(self, message: int) -> None:
        self.rows[message][1] = self._clock.now_ns()
        self._waiting.append(message)
        self._plan(message + 1)
        self._flush()

    # --- where to --------------------------------------------------------------------------------------

    def attach(self, broker: str) -> None:
        """Send to the broker from now on, after what the one before has not taken."""
        self.detach()
        self._broker = broker
        self._dial()

    def detach(self) -> None:
        """Send to nobody; what was sent is still answered."""
        self._broker = ""
        flight, self._now = self._now, None
        if flight is None:
            return
        if not flight.unanswered:
            self._settle(flight)
        else:
            assert self._left is None, "nothing was sent before all was answered"
            self._left = flight
            self._loop.call_at(time.monotonic_ns() + ANSWER_NS, self._give_up, flight)

    @property
    def is_done(self) -> bool:
        """Whether all that was due has been taken."""
        return not self._waiting and not (self._left or (self._now and self._now.unanswered))

    def _dial(self) -> None:
        flight = _Flight(self._connect(self._broker))
        flight.wire.on_open = self._flush
        flight.wire.on_frame = lambda kind, data: self._answered(flight, kind, data)
        flight.wire.on_close = lambda: self._broken(flight)
        self._now = flight
        if flight.wire.is_closed:
            self._broken(flight)
        else:
            self._flush()

    def _flush(self) -> None:
        """Send what is due, unless a broker still has to answer, or has fenced the topic."""
        flight = self._now
        if flight is None or self._left is not None or flight.refused:
            return
        while self._waiting and flight.wire.is_open:
            message = self._waiting.popleft()
            row = self.rows[message]
            row[2] = self._clock.now_ns()
            flight.unanswered.append(message)
            head = nsq.HEADER.pack(message, self._number, 0, row[0])
            flight.wire.send(nsq.pub(self._topic, head + self._padding))

    # --- answers ---------------------------------------------------------------------------------------

    def _answered(self, flight: _Flight, kind: int, data: bytes) -> None:
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
        flight.wire.close()
        self._waiting.extendleft(reversed(flight.refused))
        flight.refused.clear()
        if self._left is flight:
            self._left = None
        self._flush()

    def _give_up(self, flight: _Flight) -> None:
        if self._left is flight:
            flight.wire.close()
            self._broken(flight)

    def _broken(self, flight: _Flight) -> None:
        """Nobody knows what became of what was not answered: send it again."""
        for message in flight.unanswered:
            self.rows[message][5] += 1
        flight.refused.extend(flight.unanswered)
        flight.unanswered.clear()
        again = self._now is flight
        self._now = None if again else self._now
        self._settle(flight)
        if again:
            self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._dial_again, self._broker)

    def _dial_again(self, broker: str) -> None:
        if broker and broker == self._broker and self._now is None:
            self._dial()
