"""A consumer of one topic: it subscribes at whichever broker it is to follow, and writes down what it gets.

Its channel bears its own name, so that each consumer gets every message.  The subscription at a broker that was left
stays for a while: what that one had accepted before, it still delivers.
"""

import time
from collections.abc import Callable

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.brokers import nsq
from testbed.brokers.wires import Wire
from testbed.hosts.loop import Clock, Loop

STAY_NS = 2 * SECOND_NS  # at a broker that was left
REDIAL_NS = 100 * MILLISECOND_NS
READY_COUNT = 1_000

COLUMNS = ("producer", "message", "born_ns", "received_ns")


class Consumer:
    """``connect(broker)``: a connection to its nsqd."""

    def __init__(self, loop: Loop, topic: str, channel: str, connect: Callable[[str], Wire]):
        self._loop, self._topic, self._channel, self._connect = loop, topic, channel, connect
        self._broker = ""
        self._now: Wire | None = None
        self._clock: Clock
        self.rows: list[tuple[int, int, int, int]] = []  # of ``COLUMNS``
        self.subscribed_ns: list[int] = []  # when a broker said so

    def go(self, clock: Clock) -> None:
        """Time 0 is known."""
        self._clock = clock

    def follow(self, broker: str) -> None:
        """Receive from the broker from now on."""
        self.unfollow()
        self._broker = broker
        self._dial()

    def unfollow(self) -> None:
        """Nobody is followed; the one who was may still deliver what it had."""
        self._broker = ""
        wire, self._now = self._now, None
        if wire is None:
            return
        if wire.is_open:
            wire.on_close = lambda: None
            self._loop.call_at(time.monotonic_ns() + STAY_NS, wire.close)
        else:  # nothing was asked of that broker yet
            wire.close()

    def _dial(self) -> None:
        wire = self._connect(self._broker)
        wire.on_open = lambda: self._subscribe(wire)
        wire.on_frame = lambda kind, data: self._take(wire, kind, data)
        wire.on_close = self._broken
        self._now = wire
        if wire.is_open:
            self._subscribe(wire)
        elif wire.is_closed:
            self._broken()

    def _subscribe(self, wire: Wire) -> None:
        wire.send(nsq.sub(self._topic, self._channel) + nsq.rdy(READY_COUNT))

    def _take(self, wire: Wire, kind: int, data: bytes) -> None:
        now_ns = self._clock.now_ns()
        if kind == nsq.MESSAGE:
            found = nsq.message(data)
            message, producer, _, born_ns = nsq.HEADER.unpack_from(found.body)
            self.rows.append((producer, message, born_ns, now_ns))
            wire.send(nsq.fin(found.id))
        elif kind == nsq.RESPONSE and data == nsq.OK:
            self.subscribed_ns.append(now_ns)

    def _broken(self) -> None:
        self._now = None
        self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._dial_again, self._broker)

    def _dial_again(self, broker: str) -> None:
        if broker and broker == self._broker and self._now is None:
            self._dial()
