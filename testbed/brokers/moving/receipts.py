"""Receipts: subscribers tell publishers what has come.

A broker's OK says that it has a message in its memory, where it may wait for a token, or die with the broker.  So the
process that subscribes keeps a connection to each process that publishes: a ``Hello``, then frames with a row for each
delivery.  Publisher i is the business of process i modulo their number.
"""

import socket
import struct
import time
from collections.abc import Callable, Sequence

import msgspec

from core.errors import MachineError
from testbed.brokers import nsq
from testbed.hosts.loop import Loop
from testbed.nodes.frames import FrameSocket, Hello
from testbed.nodes.links import Doorstep

Receipt = Callable[[int, int, int], None]  # takes a publisher, its load's tag, the message's number
_ROW = struct.Struct(">iiq")


class ReceiptPort:
    """Where a process that publishes takes receipts; ``port``: at ``address``."""

    def __init__(self, loop: Loop, address: str, token: str, take: Receipt):
        self._token, self._receipt = token, take
        listener = socket.create_server((address, 0))
        self.port: int = listener.getsockname()[1]
        Doorstep(loop, listener, self._greet)

    def _greet(self, connection: FrameSocket, hello: Hello) -> bool:
        if hello.token != self._token:
            return False
        connection.on_frame = self._take
        return True

    def _take(self, frame: bytes) -> None:
        for publisher, tag, message in _ROW.iter_unpack(frame):
            self._receipt(publisher, tag, message)


class Receipts:
    """Those that one process gives: what comes in one turn of the loop goes out together.

    MachineError in the loop, and so the process' end, where a connection breaks: publishers would wait for ever.
    """

    def __init__(self, loop: Loop, addresses: Sequence[str], token: str):
        self._loop = loop
        self._to = [FrameSocket(loop, nsq.address(address)) for address in addresses]
        self._rows = [bytearray() for _ in addresses]
        self._is_planned = False
        for connection in self._to:
            connection.on_close = _end
            connection.send(msgspec.json.encode(Hello(token)))

    def add(self, publisher: int, tag: int, message: int) -> None:
        """A message has come."""
        self._rows[publisher % len(self._rows)] += _ROW.pack(publisher, tag, message)
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_at(time.monotonic_ns(), self._send)

    def _send(self) -> None:
        self._is_planned = False
        for connection, rows in zip(self._to, self._rows, strict=True):
            if rows:
                connection.send(bytes(rows))
                rows.clear()


def _end(why: str) -> None:
    raise MachineError(f"receipts: {why}", "see the publishers' log")
