"""One connection that speaks NSQ's V2, in a loop: what publishers, subscribers, producers and consumers share.

It dials and introduces itself, answers heartbeats, and ends when the other side is late or says what is no frame.
When to dial again is its owner's business, by ``Retries`` or for ever.
"""

import time
from collections.abc import Callable

from core.units import SECOND_NS
from testbed.brokers import nsq
from testbed.hosts.loop import Loop
from testbed.nodes.sockets import LoopSocket, ignore, reason

DIAL_NS = 3 * SECOND_NS  # until the broker has answered IDENTIFY and AUTH


class Connection(LoopSocket):
    """To ``address``, "ip:port", with the run's ``token``; ``features`` are what it says of itself.

    ``on_open(answer to IDENTIFY)``; then ``on_frame(kind, data)``.  What those write goes out together, when all frames
    that have come have been read.
    """

    def __init__(self, loop: Loop, address: str, token: str, **features: object):
        self.is_open = False
        self._identified: bytes | None = None  # the answer to IDENTIFY
        self.read_at_ns = 0  # CLOCK_REALTIME, when the latest bytes had been read
        self.on_open: Callable[[bytes], None] = ignore
        self.on_frame: Callable[[int, bytes], None] = ignore
        self._parser = nsq.FrameParser()
        super().__init__(loop, nsq.address(address))
        self.write(nsq.MAGIC + nsq.identify(**features) + nsq.auth(token))
        self.expect(lambda: self.is_open, DIAL_NS, "no connection in time")

    def close(self) -> None:
        """Hang up, without a word."""
        self.is_open = False
        super().close()

    def _take(self, data: bytes) -> None:
        self.read_at_ns = time.time_ns()
        if data == nsq.OK_FRAME and self.is_open and not self._parser.rest:  # by far the most frequent
            self.on_frame(nsq.RESPONSE, nsq.OK)
            return
        self._is_held = True
        try:
            for kind, content in self._parser.feed(data):
                self._take_frame(kind, content)
                if self.is_closed:
                    return
        except nsq.ProtocolError as error:
            self.fail(reason(error))
        self._is_held = False
        if self._outgoing and not self.is_closed:
            self._flush()

    def _take_frame(self, kind: int, data: bytes) -> None:
        if kind == nsq.RESPONSE and data == nsq.HEARTBEAT:
            self.write(nsq.NOP)  # behind what was begun: never in the middle of a command
        elif self.is_open:
            self.on_frame(kind, data)
        elif kind != nsq.RESPONSE:
            self.fail(nsq.text(data))
        elif self._identified is None:
            self._identified = data
        else:  # to AUTH
            self.is_open = True
            self.on_open(self._identified)


class Retries:
    """How often a connection may fail in a row, and how long to wait before each new try."""

    def __init__(self, maximum: int, first_ns: int, doubles: bool = False):
        self._maximum, self._first_ns, self._doubles = maximum, first_ns, doubles
        self.failed_count = 0

    def next_ns(self) -> int | None:
        """It has failed: how long to wait; None: no more."""
        self.failed_count += 1
        if self.failed_count > self._maximum:
            return None
        return self._first_ns << (self.failed_count - 1 if self._doubles else 0)

    def succeeded(self) -> None:
        """Begin to count anew."""
        self.failed_count = 0
