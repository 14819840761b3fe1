"""Receipts: subscribers tell publishers what has come.

A broker's OK says that it has a message in its memory, where it may wait for a token, or die with the broker.  So the
process that subscribes keeps a connection to each process that publishes: the run's token first, then a row for each
delivery.  Publisher i is the business of process i modulo their number.
"""

import socket
import struct
import time
from collections.abc import Callable, Sequence

from core.errors import MachineError
from testbed.brokers import nsq
from testbed.hosts.loop import Loop
from testbed.nodes.sockets import LoopSocket

Receipt = Callable[[int, int, int], None]  # takes a publisher, its load's tag, the message's number
_ROW = struct.Struct(">iiq")


class ReceiptSocket(LoopSocket):
    """The end of a connection that takes receipts, once it has shown the token."""

    def __init__(self, loop: Loop, connection: socket.socket, token: str, take: Receipt):
        super().__init__(loop, connection)
        self._token, self._take_row, self._rest = token.encode(), take, bytearray()
        self._is_known = False

    def _take(self, data: bytes) -> None:
        self._rest += data
        if not self._is_known:
            if len(self._rest) < len(self._token):
                return
            if self._rest[: len(self._token)] != self._token:
                self.close()
                return
            del self._rest[: len(self._token)]
            self._is_known = True
        whole = len(self._rest) // _ROW.size * _ROW.size
        rows = bytes(self._rest[:whole])
        del self._rest[:whole]
        for publisher, tag, message in _ROW.iter_unpack(rows):
            self._take_row(publisher, tag, message)


class ReceiptPort:
    """Where a process that publishes takes receipts; ``port``: at ``address``."""

    def __init__(self, loop: Loop, address: str, token: str, take: Receipt):
        self._loop, self._token, self._receipt = loop, token, take
        self._listener = socket.create_server((address, 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        loop.on_readable(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it has gone again
            return
        ReceiptSocket(self._loop, connection, self._token, self._receipt)


class Receipts:
    """Those that one process gives: what comes in one turn of the loop goes out together.

    MachineError in the loop, and so the process' end, where a connection breaks: publishers would wait for ever.
    """

    def __init__(self, loop: Loop, addresses: Sequence[str], token: str):
        self._loop = loop
        self._to = [LoopSocket(loop, nsq.address(address)) for address in addresses]
        self._rows = [bytearray() for _ in addresses]
        self._is_planned = False
        for connection in self._to:
            connection.on_close = _end
            connection.write(token.encode())

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
                connection.write(bytes(rows))
                rows.clear()


def _end(why: str) -> None:
    raise MachineError(f"receipts: {why}", "see the publishers' log")
