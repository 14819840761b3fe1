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
from typing import NamedTuple

import msgspec

from core.errors import SystemFault
from core.reading import reading
from core.records import COST_MAXIMUM, Request
from systems.api import Decide, Verdict
from testbed.hosts.directory import Address
from testbed.hosts.loop import Loop
from testbed.nodes.sockets import LoopSocket, ignore

FRAME_BYTES_MAXIMUM = 2**28
_SAME_CODE = "do all nodes run the same code?"
_LENGTH = struct.Struct(">I")
_SIOCOUTQ = termios.TIOCOUTQ  # tcp(7): bytes that were not sent, or not acknowledged


class Hello(msgspec.Struct):
    """Who calls: a node by its name, or with the name "" users."""

    token: str
    node: str = ""


_REQUEST = struct.Struct(">qqi")  # id, intended instant, cost; then the user


def request_frame(request: Request) -> bytes:
    """A request as bytes; users may be any text."""
    return _REQUEST.pack(request.id, request.at_ns, request.cost) + request.user.encode("utf-8", "surrogatepass")


def read_request(frame: bytes) -> Request:
    """What ``request_frame`` made; SystemFault where it is none."""
    with reading(f"no request: {frame[:60]!r}", _SAME_CODE, SystemFault):
        number, at_ns, cost = _REQUEST.unpack_from(frame)
        if not 1 <= cost <= COST_MAXIMUM:
            raise ValueError(f"it costs {cost} tokens")
        return Request(number, frame[_REQUEST.size :].decode("utf-8", "surrogatepass"), at_ns, cost)


class VerdictRow(NamedTuple):
    """A verdict as users get it; ``decided_at_ns`` on the true clock."""

    request_id: int
    decided_at_ns: int
    verdict: Verdict
    unanswered: bool  # see ``systems.api.Decide``


def verdict_frame(decision: Decide, decided_at_ns: int) -> bytes:
    """A verdict as bytes."""
    row = VerdictRow(decision.request_id, decided_at_ns, decision.verdict, decision.unanswered)
    return msgspec.msgpack.encode(row)


def read_verdict(frame: bytes) -> VerdictRow:
    """What ``verdict_frame`` made; SystemFault where it is none."""
    with reading(f"a node's verdict {frame[:60]!r}", _SAME_CODE, SystemFault):
        return _VERDICTS.decode(frame)


_VERDICTS = msgspec.msgpack.Decoder(VerdictRow)


class FrameSocket(LoopSocket):
    """A connection that carries frames, each with its length in front: ``on_frame(frame)``."""

    def __init__(self, loop: Loop, other: socket.socket | Address):
        self.on_frame: Callable[[bytes], None] = ignore
        self.frame_bytes_maximum = FRAME_BYTES_MAXIMUM
        self._incoming = bytearray()
        super().__init__(loop, other)

    @property
    def peer_address(self) -> str:
        """The other side's address, without its port."""
        assert self._socket is not None
        address: str = self._socket.getpeername()[0]
        return address

    def unsent_bytes(self) -> int:
        """What was not sent yet, or not acknowledged by the other side's kernel."""
        if self._socket is None:
            return 0
        answer = fcntl.ioctl(self._socket.fileno(), _SIOCOUTQ, b"\0" * 4)
        return len(self._outgoing) + int.from_bytes(answer, sys.byteorder)

    def send(self, frame: bytes) -> bool:
        """Write a frame; see ``write``."""
        return self.write(_LENGTH.pack(len(frame)) + frame)

    def _take(self, data: bytes) -> None:
        self._incoming += data
        while not self.is_closed and len(self._incoming) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._incoming)
            end = _LENGTH.size + length
            if length > self.frame_bytes_maximum:
                self.fail(f"a frame of {length} bytes")
            elif len(self._incoming) < end:
                return
            else:
                frame = bytes(memoryview(self._incoming)[_LENGTH.size : end])
                del self._incoming[:end]
                self.on_frame(frame)
