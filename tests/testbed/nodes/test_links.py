"""The port that a node listens on."""

import errno
import os
import socket
import time
from typing import Any

from core.units import MILLISECOND_NS
from testbed.hosts.loop import Loop
from testbed.nodes.frames import FrameSocket
from testbed.nodes.links import REDIAL_NS, Doorstep


class Full(socket.socket):
    """Listens in a process that is out of descriptors, for a while."""

    asked_count, asked_until_ns = 0, 0

    def accept(self) -> tuple[socket.socket, Any]:
        if time.monotonic_ns() > self.asked_until_ns:
            return super().accept()
        self.asked_count += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_who_cannot_be_let_in_does_not_keep_the_loop_busy() -> None:
    loop = Loop()
    guests: list[FrameSocket] = []

    def greet(connection: FrameSocket, hello: object) -> bool:
        guests.append(connection)
        loop.stop()
        return True

    with Full() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        Doorstep(loop, listener, greet)
        with socket.create_connection(listener.getsockname(), 5) as friend:
            friend.sendall(b"\0\0\0\x0c" + b'{"token":""}')
            span_ns = 400 * MILLISECOND_NS
            listener.asked_until_ns = time.monotonic_ns() + span_ns
            loop.call_at(time.monotonic_ns() + 60_000 * MILLISECOND_NS, loop.stop)
            loop.run()
    assert len(guests) == 1, "there was room again"
    assert 1 <= listener.asked_count <= span_ns // REDIAL_NS + 1
