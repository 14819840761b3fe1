"""A TCP connection in a loop that never blocks: what nodes, users, publishers and consumers have in common."""

import errno
import os
import socket
import time
from collections.abc import Callable

from testbed.hosts.directory import Address
from testbed.hosts.loop import Loop
from testbed.nodes.retransmission import retry_soon

_READ_BYTES = 1 << 18


class LoopSocket:
    """``other``: a connection, or the address to dial; what is written before that is reached goes out then.

    It keeps what the kernel does not take at once, and calls ``on_drained()`` when all of that has gone;
    ``on_close(why)`` once, unless ``close`` was called.  Neither is called from inside of ``write``.
    """

    def __init__(self, loop: Loop, other: socket.socket | Address):
        self.on_close: Callable[[str], None] = ignore
        self.on_drained: Callable[[], None] = ignore
        self.is_closed = self._is_watched = False
        self._is_held = isinstance(other, tuple)  # what is written now goes out together, by ``_flush``
        self._loop, self._outgoing = loop, bytearray()
        self._socket: socket.socket | None = None
        try:
            self._socket = other if isinstance(other, socket.socket) else _dialled(other)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            retry_soon(self._socket)  # whether the kernel does is in the run's notes
            loop.on_readable(self._socket.fileno(), self._read)
            self._watch(self._is_held)
        except OSError as error:  # no way there, or out of descriptors
            loop.call_at(time.monotonic_ns(), self.fail, reason(error))

    def write(self, data: bytes | memoryview) -> bool:
        """Send, now or as soon as the kernel takes it; whether it has gone.  Where it has not, ``on_drained`` follows.

        What is written to a connection that has ended is lost.
        """
        if self._socket is None:
            return False
        sent = 0
        if not self._outgoing and not self._is_held:
            try:
                sent = self._socket.send(data)
            except OSError:
                sent = 0  # what is broken says so with the next event
            if sent == len(data):
                return True
            self._watch(True)
        self._outgoing += data[sent:]
        return False

    def expect(self, is_done: Callable[[], bool], span_ns: int, why: str) -> None:
        """End the connection unless something is done within a span."""

        def check() -> None:
            if not is_done():
                self.fail(why)

        self._loop.call_at(time.monotonic_ns() + span_ns, check)

    def fail(self, why: str) -> None:
        """End it, and say so."""
        if not self.is_closed:
            self.close()
            self.on_close(why)

    def close(self) -> None:
        """Hang up, without a word."""
        self.is_closed = True
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _take(self, data: bytes) -> None:
        raise NotImplementedError

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(reason(error))
            return
        if data:
            self._take(data)
        else:
            self.fail("closed by the other side")

    def _flush(self) -> None:
        assert self._socket is not None
        self._is_held = False
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
        if is_wanted != self._is_watched and self._socket is not None:
            self._is_watched = is_wanted
            self._loop.on_writable(self._socket.fileno(), self._flush if is_wanted else None)


def _dialled(address: Address) -> socket.socket:
    """On its way there; OSError where that is refused at once."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    code = sock.connect_ex(address)
    if code not in (0, errno.EINPROGRESS):
        sock.close()
        raise OSError(code, os.strerror(code))
    return sock


def reason(error: BaseException) -> str:
    """What went wrong, in a line."""
    return f"{type(error).__name__}: {error}"


def ignore(*_: object) -> None:
    """Nobody listens."""
