"""A node's connection to the run's Redis: scripts out, answers in, in order, many under way at once."""

import errno
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha1

import hiredis

from core.units import MILLISECOND_NS
from systems.limiting.redis_gcra import SCRIPT, Evaluate, Evaluated
from testbed.hosts.loop import Loop
from testbed.nodes.frames import retry_soon
from testbed.nodes.planes import Plane

SHA = sha1(SCRIPT.encode()).hexdigest()
REDIAL_NS = 50 * MILLISECOND_NS


def packed(*words: str | bytes | int) -> bytes:
    """A command on the wire."""
    content: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]  # its stub knows commands of one word
    return content


class RedisPlane(Plane):
    """See ``testbed.nodes.planes.Plane``.  What is asked while there is no connection is never answered."""

    def __init__(
        self,
        loop: Loop,
        services: Mapping[str, Sequence[object]],
        report: Callable[[Evaluated], None],
        count_sent: Callable[[bytes], None],
    ):
        self._loop, self._report, self._count_sent = loop, report, count_sent
        host, port, password, origin_s = services["redis"]
        self._address, self._password, self._origin_s = (str(host), int(str(port))), str(password), int(str(origin_s))
        self._socket: socket.socket | None = None
        self._reader = hiredis.Reader()
        self._outgoing = bytearray()
        self._asked: deque[int | None] = deque()  # request ids, oldest first; None: a command of ours
        self._loaded = False
        self._dial()

    def ready(self) -> bool:
        """Whether Redis has the script."""
        return self._loaded

    def actuate(self, command: Evaluate) -> None:
        """Ask, if there is a connection."""
        if not self._loaded:
            return
        user = command.user.encode("utf-8", "surrogatepass")
        content = packed("EVALSHA", SHA, 1, user, *command.arguments, self._origin_s)
        self._count_sent(content)
        self._send(content, command.request_id)

    def _dial(self) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        retry_soon(sock)
        self._socket = sock
        if sock.connect_ex(self._address) in (0, errno.EINPROGRESS):
            self._loop.on_writable(sock.fileno(), self._reached)
        else:
            self._broken()

    def _reached(self) -> None:
        assert self._socket is not None
        self._loop.on_writable(self._socket.fileno(), None)
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._broken()
            return
        self._reader = hiredis.Reader()
        self._loop.on_readable(self._socket.fileno(), self._read)
        self._send(packed("AUTH", self._password), None)
        self._send(packed("SCRIPT", "LOAD", SCRIPT), None)

    def _send(self, content: bytes, request_id: int | None) -> None:
        self._asked.append(request_id)
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
        assert self._socket is not None
        try:
            part = self._socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            self._broken()
            return
        self._reader.feed(part)
        while (answer := self._reader.gets()) is not False:
            request_id = self._asked.popleft()
            if request_id is not None and answer in (0, 1):  # not an error of the server's: those time out
                self._report(Evaluated(request_id, answer == 1))
            elif request_id is None:
                self._loaded = answer == SHA.encode()

    def _broken(self) -> None:
        """What was asked is lost; try again soon."""
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
        self._socket, self._loaded = None, False
        self._outgoing.clear()
        self._asked.clear()
        self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._dial)
