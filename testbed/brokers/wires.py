"""Connections of a client to brokers' ports, in the loop of its process; some are made before they are needed.

A client keeps a spare connection to every port, greeted and waiting, as its node keeps one to every other node: so
that after a migration its data take one way, and not the three that a new connection needs first (ours).
"""

import errno
import socket
import time
from collections.abc import Callable, Iterable

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.brokers import nsq
from testbed.hosts.loop import Loop
from testbed.nodes.frames import FrameSocket, retry_soon

DIAL_NS = 3 * SECOND_NS  # until the broker has answered IDENTIFY
REDIAL_NS = 100 * MILLISECOND_NS
REPLACE_NS = 500 * MILLISECOND_NS  # after a spare was taken: a migration should be over by then
_KIND_BYTES = 4


class Wire:
    """One connection that speaks NSQ's V2: it dials and introduces itself; then ``on_open``, frames, ``on_close``.

    Heartbeats are its own business.
    """

    def __init__(self, loop: Loop, address: str, **features: object):
        self.address, self.is_open, self.is_closed = address, False, False
        self.on_open: Callable[[], None] = _nothing
        self.on_close: Callable[[], None] = _nothing
        self.on_frame: Callable[[int, bytes], None] = lambda kind, data: None
        self._loop, self._features = loop, features
        self._frames: FrameSocket | None = None
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        retry_soon(self._socket)
        if self._socket.connect_ex(nsq.address(address)) in (0, errno.EINPROGRESS):
            loop.on_writable(self._socket.fileno(), self._reached)
        else:
            loop.call_at(time.monotonic_ns(), self._lost)
        loop.call_at(time.monotonic_ns() + DIAL_NS, self._hurry)

    def send(self, data: bytes) -> None:
        """Send, now or as soon as the kernel takes it."""
        assert self._frames is not None
        self._frames.write(data)

    def close(self) -> None:
        """Hang up; ``on_close`` is not called."""
        self.on_close = _nothing
        self._lost()

    def _reached(self) -> None:
        self._loop.forget(self._socket.fileno())
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._lost()
            return
        self._frames = FrameSocket(self._loop, self._socket, self._take, self._lost)
        self._frames.write(nsq.MAGIC + nsq.identify(**self._features))

    def _take(self, frame: bytes) -> None:
        kind, data = int.from_bytes(frame[:_KIND_BYTES], "big"), frame[_KIND_BYTES:]
        if kind == nsq.RESPONSE and data == nsq.HEARTBEAT:
            self.send(nsq.NOP)
        elif self.is_open:
            self.on_frame(kind, data)
        elif kind == nsq.RESPONSE:
            self.is_open = True
            self.on_open()
        else:
            self._lost()

    def _hurry(self) -> None:
        if not self.is_open:
            self._lost()

    def _lost(self) -> None:
        if self.is_closed:
            return
        self.is_open, self.is_closed = False, True
        if self._frames is not None:
            self._frames.close()
        else:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
        self.on_close()


class Spares:
    """A spare connection to each of ``addresses``."""

    def __init__(self, loop: Loop, addresses: Iterable[str], **features: object):
        self._loop, self._features = loop, features
        self._spares: dict[str, Wire | None] = dict.fromkeys(addresses)
        for address in self._spares:
            self._replace(address)

    def ready(self) -> bool:
        """Whether all are there."""
        return all(wire is not None and wire.is_open for wire in self._spares.values())

    def take(self, address: str) -> Wire:
        """The spare one, which may still be on its way; another is made, when there is time for it."""
        wire, self._spares[address] = self._spares[address], None
        self._loop.call_at(time.monotonic_ns() + REPLACE_NS, self._mend, address)
        if wire is None or wire.is_closed:
            return Wire(self._loop, address, **self._features)
        wire.on_close = _nothing
        return wire

    def _replace(self, address: str) -> None:
        wire = Wire(self._loop, address, **self._features)
        wire.on_close = lambda: self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._mend, address)
        self._spares[address] = wire

    def _mend(self, address: str) -> None:
        wire = self._spares[address]
        if wire is None or wire.is_closed:
            self._replace(address)


def _nothing() -> None:
    pass
