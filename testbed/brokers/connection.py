"""One connection that speaks NSQ's V2, in a loop: what publishers, subscribers, producers and consumers share.

It dials and introduces itself, answers heartbeats, keeps what the kernel does not take at once, and ends when the other
side is late or says what is no frame.  When to dial again is its owner's business, by ``Retries`` or for ever.
"""

import errno
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from core.units import SECOND_NS
from testbed.brokers import nsq
from testbed.hosts.loop import Loop
from testbed.nodes.frames import retry_soon

DIAL_NS = 3 * SECOND_NS  # until the broker has answered IDENTIFY
_READ_BYTES = 1 << 18


class Connection:
    """To ``address``, "ip:port"; ``features`` are what it says of itself.

    ``on_open(answer to IDENTIFY)``; then ``on_frame(kind, data)`` and, when all has gone that ``write`` had to keep,
    ``on_drained()``; ``on_close(why)`` once, unless ``close`` was called.  None is called from inside of ``write``.
    """

    __slots__ = (
        *("heartbeat_count", "is_closed", "is_open", "on_close", "on_drained", "on_frame", "on_open"),
        *("read_at_ns", "_hello", "_is_reading", "_is_watched", "_loop", "_outgoing", "_parser", "_socket"),
    )

    def __init__(self, loop: Loop, address: str, **features: object):
        self.is_open = self.is_closed = False
        self.heartbeat_count = 0
        self.read_at_ns = 0  # CLOCK_REALTIME, when the latest bytes had been read
        self.on_open: Callable[[bytes], None] = ignore
        self.on_frame: Callable[[int, bytes], None] = ignore
        self.on_drained: Callable[[], None] = ignore
        self.on_close: Callable[[str], None] = ignore
        self._loop, self._parser, self._outgoing = loop, nsq.FrameParser(), bytearray()
        self._is_reading = self._is_watched = False
        self._hello = nsq.MAGIC + nsq.identify(**features)
        self._socket: socket.socket | None = None
        self._dial(nsq.address(address))
        self.expect(lambda: self.is_open, DIAL_NS, "no connection in time")

    def write(self, data: bytes | memoryview) -> bool:
        """Send, now or as soon as the kernel takes it; whether it has gone.  Where it has not, ``on_drained`` follows.

        What frames bring about goes out together, when all of them have been read.
        """
        assert self._socket is not None
        sent = 0
        if not self._outgoing and not self._is_reading:
            with suppress(OSError):  # what is broken says so with the next event
                sent = self._socket.send(data)
            if sent == len(data):
                return True
            self._watch(True)
        self._outgoing += data[sent:]
        return False

    def expect(self, is_done: Callable[[], bool], span_ns: int, why: str) -> None:
        """End the connection unless something is done within a span."""
        self._loop.call_at(time.monotonic_ns() + span_ns, self._check, is_done, why)

    def fail(self, why: str) -> None:
        """End it, and say so."""
        if not self.is_closed:
            self.close()
            self.on_close(why)

    def close(self) -> None:
        """Hang up, without a word."""
        self.is_open, self.is_closed = False, True
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None

    # --- inside --------------------------------------------------------------------------------------------

    def _dial(self, target: tuple[str, int]) -> None:
        try:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            retry_soon(self._socket)
            code = self._socket.connect_ex(target)
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, os.strerror(code))
            self._loop.on_writable(self._socket.fileno(), self._reached)
        except OSError as error:  # no way there, or out of descriptors
            self._loop.call_at(time.monotonic_ns(), self.fail, reason(error))

    def _reached(self) -> None:
        """The dialling has ended, one way or the other."""
        assert self._socket is not None
        self._loop.on_writable(self._socket.fileno(), None)
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.fail(reason(OSError(code, os.strerror(code))))
            return
        self._loop.on_readable(self._socket.fileno(), self._read)
        self.write(self._hello)

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(reason(error))
            return
        self.read_at_ns = time.time_ns()
        if not data:
            self.fail("closed by the broker")
        elif data == nsq.OK_FRAME and self.is_open and not self._parser.rest:  # by far the most frequent
            self.on_frame(nsq.RESPONSE, nsq.OK)
        else:
            self._is_reading = True
            self._take_all(data)
            self._is_reading = False
            if self._outgoing and not self.is_closed:
                self._flush()

    def _take_all(self, data: bytes) -> None:
        try:
            for kind, content in self._parser.feed(data):
                self._take(kind, content)
                if self.is_closed:
                    return
        except nsq.ProtocolError as error:
            self.fail(reason(error))

    def _take(self, kind: int, data: bytes) -> None:
        if kind == nsq.RESPONSE and data == nsq.HEARTBEAT:
            self.heartbeat_count += 1
            self.write(nsq.NOP)  # behind what was begun: never in the middle of a command
        elif self.is_open:
            self.on_frame(kind, data)
        elif kind == nsq.RESPONSE:
            self.is_open = True
            self.on_open(data)
        else:
            self.fail(nsq.text(data))

    def _flush(self) -> None:
        """Write what was kept, as far as the socket takes it."""
        assert self._socket is not None
        try:
            del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            pass
        except OSError as error:
            self.fail(reason(error))
            return
        self._watch(bool(self._outgoing))
        if not self._outgoing:
            self.on_drained()

    def _watch(self, is_wanted: bool) -> None:
        """Hear when the socket takes more."""
        if is_wanted != self._is_watched and self._socket is not None:
            self._is_watched = is_wanted
            self._loop.on_writable(self._socket.fileno(), self._flush if is_wanted else None)

    def _check(self, is_done: Callable[[], bool], why: str) -> None:
        if not self.is_closed and not is_done():
            self.fail(why)


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


def reason(error: BaseException) -> str:
    """What went wrong, in a line."""
    return f"{type(error).__name__}: {error}"


def ignore(*_: object) -> None:
    """Nobody listens."""
