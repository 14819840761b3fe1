"""Frames over TCP: what nodes, and users and nodes, send each other on live testbeds.

The first frame of a connection is a ``Hello``; without the run's token it is refused.  Users of a node
send ``request_frame`` and get ``verdict_frame``; nodes send each other what the codec makes.
"""

import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from core.records import Request
from systems.api import Decide, Verdict
from testbed.hosts.loop import Loop

FRAME_BYTES_MAXIMUM = 2**28
_LENGTH = struct.Struct(">I")
_READ_BYTES = 1 << 18
_SIOCOUTQ = termios.TIOCOUTQ  # tcp(7): bytes that were not sent, or not acknowledged
_TCP_RTO_MAX_MS = 44  # Linux 6.15
_RETRY_MAXIMUM_MS = 1_000


class Hello(msgspec.Struct):
    """Who calls: a node by its name, or with the name "" users."""

    token: str
    node: str = ""


_REQUEST = struct.Struct(">qqi")  # id, intended instant, cost; then the user
_VERDICT = struct.Struct(">qqB")  # id, instant of the decision, and the two below
_ADMITTED, _UNANSWERED = 1, 2


def request_frame(request: Request) -> bytes:
    """A request as bytes; users may be any text."""
    return _REQUEST.pack(request.id, request.at_ns, request.cost) + request.user.encode("utf-8", "surrogatepass")


def read_request(frame: bytes) -> Request:
    """What ``request_frame`` made; ValueError where it is none."""
    try:
        number, at_ns, cost = _REQUEST.unpack_from(frame)
        return Request(number, frame[_REQUEST.size :].decode("utf-8", "surrogatepass"), at_ns, cost)
    except (struct.error, UnicodeDecodeError, AssertionError) as error:
        raise ValueError(f"no request: {error}") from None


class VerdictRow(NamedTuple):
    """A verdict as users get it; ``decided_at_ns`` on the true clock."""

    request_id: int
    decided_at_ns: int
    verdict: Verdict
    unanswered: bool  # see ``systems.api.Decide``


def verdict_frame(decision: Decide, decided_at_ns: int) -> bytes:
    """A verdict as bytes."""
    flags = _ADMITTED * (decision.verdict is Verdict.ADMIT) + _UNANSWERED * decision.unanswered
    return _VERDICT.pack(decision.request_id, decided_at_ns, flags)


def read_verdict(frame: bytes) -> VerdictRow:
    """What ``verdict_frame`` made."""
    number, at_ns, flags = _VERDICT.unpack(frame)
    verdict = Verdict.ADMIT if flags & _ADMITTED else Verdict.REJECT
    return VerdictRow(number, at_ns, verdict, bool(flags & _UNANSWERED))


def retry_soon(sock: socket.socket) -> None:
    """Let TCP try again every second at least, where the kernel can: so that a partition's end is soon noticed.

    Without it a connection that was cut off for a minute may stay silent for another one.
    """
    with suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, _RETRY_MAXIMUM_MS)


class FrameSocket:
    """A TCP connection that carries frames, each with its length in front; it never blocks.

    ``on_frame(frame)``; ``on_close()`` once, when the other side has gone or sent what is no frame.
    """

    def __init__(
        self, loop: Loop, sock: socket.socket, on_frame: Callable[[bytes], None], on_close: Callable[[], None]
    ):
        self._loop, self._socket, self.on_frame, self.on_close = loop, sock, on_frame, on_close
        self._incoming, self._outgoing = bytearray(), bytearray()
        self.frame_bytes_maximum = FRAME_BYTES_MAXIMUM
        self.open = True
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.on_readable(sock.fileno(), self._read)

    @property
    def peer_address(self) -> str:
        """The other side's address, without its port."""
        address: str = self._socket.getpeername()[0]
        return address

    def unsent_bytes(self) -> int:
        """What was not sent yet, or not acknowledged by the other side's kernel."""
        if not self.open:
            return 0
        answer = fcntl.ioctl(self._socket.fileno(), _SIOCOUTQ, b"\0" * 4)
        return len(self._outgoing) + int.from_bytes(answer, sys.byteorder)

    def send(self, frame: bytes) -> None:
        """Send a frame, now or as soon as the kernel takes it."""
        if not self.open:
            return
        data, sent = _LENGTH.pack(len(frame)) + frame, 0
        if not self._outgoing:
            sent = self._try(data)
        if self.open and sent < len(data):
            self._outgoing += data[sent:]
            self._loop.on_writable(self._socket.fileno(), self._write)

    def close(self) -> None:
        """Close it; ``on_close`` is not called."""
        if self.open:
            self.open = False
            self._loop.forget(self._socket.fileno())
            self._socket.close()

    def _try(self, data: bytes | bytearray) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._lost()
            return 0

    def _write(self) -> None:
        del self._outgoing[: self._try(self._outgoing)]
        if self.open and not self._outgoing:
            self._loop.on_writable(self._socket.fileno(), None)

    def _read(self) -> None:
        try:
            part = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            self._lost()
            return
        self._incoming += part
        while self.open and len(self._incoming) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._incoming)
            if length > self.frame_bytes_maximum:
                self._lost()
                return
            if len(self._incoming) < _LENGTH.size + length:
                return
            frame = bytes(memoryview(self._incoming)[_LENGTH.size : _LENGTH.size + length])
            del self._incoming[: _LENGTH.size + length]
            self.on_frame(frame)

    def _lost(self) -> None:
        if self.open:
            self.close()
            self.on_close()
