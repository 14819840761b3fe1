"""A node's connection to a server program: questions out, answers in, in order, many under way at once."""

import errno
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from core.units import MILLISECOND_NS
from testbed.hosts.loop import Loop
from testbed.nodes.frames import retry_soon
from testbed.nodes.planes import Plane, ServerAt

REDIAL_NS = 10 * MILLISECOND_NS  # ours: a server that is back is asked again within one time-out, by far
_PART_BYTES = 1 << 18


class Wire(Protocol):
    """What passes over one connection to a server, as bytes; a new connection has a new one."""

    def hello(self) -> bytes:
        """What is said first."""

    def is_ready(self) -> bool:
        """Whether the server takes questions."""

    def ask(self, command: Any) -> bytes:
        """A node's command."""

    def take(self, content: bytes) -> Sequence[object]:
        """The reports in what came; the rest of an answer may come later."""


class WirePlane(Plane):
    """See ``testbed.nodes.planes.Plane``.  What is asked while there is no connection is never answered."""

    def __init__(
        self,
        loop: Loop,
        at: ServerAt,
        make_wire: Callable[[], Wire],
        report: Callable[[object], None],
        count_sent: Callable[[bytes], None],
    ):
        self._loop, self._at, self._make_wire = loop, at, make_wire
        self._report, self._count_sent = report, count_sent
        self._socket: socket.socket | None = None
        self._wire: Wire | None = None  # of the connection, once that is made
        self._outgoing = bytearray()
        self._dial()

    def ready(self) -> bool:
        """Whether the server takes questions."""
        return self._wire is not None and self._wire.is_ready()

    def actuate(self, command: Any) -> None:
        """Ask, if there is a connection."""
        if self._wire is None or not self._wire.is_ready():
            return
        content = self._wire.ask(command)
        self._count_sent(content)
        self._send(content)

    def _dial(self) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        retry_soon(sock)
        self._socket = sock
        if sock.connect_ex((self._at.address, self._at.port)) in (0, errno.EINPROGRESS):
            self._loop.on_writable(sock.fileno(), self._reached)
        else:
            self._broken()

    def _reached(self) -> None:
        assert self._socket is not None
        self._loop.on_writable(self._socket.fileno(), None)
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._broken()
            return
        self._wire = self._make_wire()
        self._loop.on_readable(self._socket.fileno(), self._read)
        self._send(self._wire.hello())

    def _send(self, content: bytes) -> None:
        self._outgoing += content
        self._write()

    def _write(self) -> None:
        assert self._socket is not None
        try:
            del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            pass
        except OSError:
            self._broken()
            return
        self._loop.on_writable(self._socket.fileno(), self._write if self._outgoing else None)

    def _read(self) -> None:
        assert self._socket is not None and self._wire is not None
        try:
            content = self._socket.recv(_PART_BYTES)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        if not content:
            self._broken()
            return
        for report in self._wire.take(content):
            self._report(report)

    def _broken(self) -> None:
        """What was asked is lost; try again soon."""
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
        self._socket, self._wire = None, None
        self._outgoing.clear()
        self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._dial)
