"""One subscription: a connection to one nsqd, and the rows of what it delivers.

``output_buffer_size`` -1 makes nsqd write each message at once; all its timers would be slower.
Messages are finished (FIN) together, one write for all that one read brought.
"""

import json
import os
import select
import socket
import struct
from contextlib import suppress
from time import time_ns
from typing import Any

import numpy as np

from core.units import MILLISECOND_NS
from testbed.brokers import nsq

COLUMNS = (
    *("message", "publisher", "tag", "intended_at_ns"),  # of the body's header; -1 where there is none
    *("received_at_ns", "timestamp_ns", "attempts"),  # after the read; the broker's stamp; deliveries so far
    *("broker", "topic"),  # numbers of the process' lists
)
RETRY_NS = 200 * MILLISECOND_NS
_ROW = struct.Struct(f"={len(COLUMNS)}q")
_READ_BYTES = 1 << 18
_NO_HEADER = (-1, -1, -1, -1)


class Rows:
    """Deliveries, in the order of their arrival: memory for ``capacity`` of them, made beforehand."""

    def __init__(self, capacity: int):
        self._data = np.full((capacity, len(COLUMNS)), -1, np.int64)  # touched, so that it is there
        self._view = self._data.reshape(-1).data.cast("B")
        self.capacity = capacity
        self.count = self.dropped_count = self.foreign_count = self.repeated_count = 0

    def add(self, data: bytes, received_at_ns: int, broker: int, topic: int) -> bytes:
        """Keep the row of a message frame's data; returns the message's id."""
        stamp_ns, attempts, its_id, body = nsq.message(data)
        header = _NO_HEADER
        if len(body) >= nsq.HEADER.size:
            header = nsq.HEADER.unpack_from(body)
        else:
            self.foreign_count += 1
        if attempts > 1:
            self.repeated_count += 1
        if self.count < self.capacity:
            at = self.count * _ROW.size
            _ROW.pack_into(self._view, at, *header, received_at_ns, stamp_ns, attempts, broker, topic)
            self.count += 1
        else:
            self.dropped_count += 1
        return its_id

    def take(self) -> dict[str, np.ndarray]:
        """The columns so far, as copies; begins anew."""
        columns = {name: self._data[: self.count, number].copy() for number, name in enumerate(COLUMNS)}
        self.count = self.dropped_count = self.foreign_count = self.repeated_count = 0
        return columns


class Subscription:
    """A topic of one nsqd.  ``state``: connecting, identifying, subscribing, receiving, waiting, gone."""

    def __init__(
        self, epoll: select.epoll, rows: Rows, address: str, topic: str, channel: str, wanted_rdy: int, tries: int
    ):
        self.epoll, self.rows, self.address = epoll, rows, address
        self.topic, self.channel, self.wanted_rdy = topic, channel, wanted_rdy
        self.target = nsq.address(address)
        self.broker_number = self.topic_number = 0
        self.tries_left = self.tries = tries
        self.error_count = self.reconnect_count = 0
        self.last_problem = ""
        self.socket: socket.socket | None = None
        self.retry_at_ns = 0
        self.state = "waiting"

    def begin(self) -> None:
        """Connect; never blocks."""
        self.parser, self.outgoing = nsq.FrameParser(), b""
        self.state = "connecting"
        try:
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.epoll.register(self.socket.fileno(), select.EPOLLOUT)
            self.socket.connect_ex(self.target)  # a refusal comes with the first event
        except OSError as error:  # out of descriptors, say
            self.broken(f"{type(error).__name__}: {error}")
            return
        self.retry_at_ns = time_ns() + 15 * RETRY_NS  # the patience with this attempt

    def tick(self, now_ns: int) -> None:
        """Try again, or give an attempt up, when it is time."""
        if self.state in ("receiving", "gone") or now_ns < self.retry_at_ns:
            return
        if self.socket is None:
            self.begin()
        else:
            self.broken("no answer in time")

    def happened(self, events: int) -> None:
        """React to what epoll says."""
        assert self.socket is not None
        try:
            if self.state == "connecting":
                self._connected()
                return
            if events & ~select.EPOLLOUT:
                self._read()
            if events & select.EPOLLOUT and self.socket is not None:
                self._write(b"")
        except BlockingIOError:
            pass
        except (OSError, ValueError) as error:
            self.broken(f"{type(error).__name__}: {error}")

    def broken(self, why: str) -> None:
        """The connection is gone; try again, a bounded number of times."""
        self.last_problem = f"{self.topic} at {self.address}: {why}"
        self.close()
        self.tries_left -= 1
        self.state = "waiting" if self.tries_left > 0 else "gone"
        self.retry_at_ns = time_ns() + RETRY_NS

    def close(self) -> None:
        """Close the connection."""
        if self.socket is not None:
            self.socket.close()
        self.socket = None

    def _connected(self) -> None:
        assert self.socket is not None
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        self.state = "identifying"
        features = {"client_id": "ratebed", "user_agent": "ratebed", "feature_negotiation": True}
        self._write(nsq.MAGIC + nsq.identify(**features, output_buffer_size=-1))

    def _read(self) -> None:
        assert self.socket is not None
        data = self.socket.recv(_READ_BYTES)
        received_at_ns = time_ns()
        if not data:
            raise ConnectionError("closed by the broker")
        finished = []
        for kind, content in self.parser.feed(data):
            if kind == nsq.MESSAGE:
                finished.append(nsq.fin(self.rows.add(content, received_at_ns, self.broker_number, self.topic_number)))
            else:
                self._take(kind, content)
        if finished:
            self._write(b"".join(finished))

    def _take(self, kind: int, data: bytes) -> None:
        """A response or an error."""
        if kind == nsq.ERROR:
            self.error_count += 1
            self.last_problem = data.decode("ascii", "replace")[:200]
        elif data == nsq.HEARTBEAT:
            self._write(nsq.NOP)
        elif self.state == "identifying":
            self._identified(data)
        elif self.state == "subscribing" and data == nsq.OK:
            self.state = "receiving"
            self.reconnect_count += self.tries_left < self.tries
            self.tries_left = self.tries

    def _identified(self, data: bytes) -> None:
        """The broker's answer says how many messages may be on their way at once."""
        answer: Any = {} if data == nsq.OK else json.loads(data)
        if not isinstance(answer, dict) or not isinstance(answer.get("max_rdy_count", 0), int):
            raise nsq.ProtocolError(f"no answer to IDENTIFY: {data[:60]!r}")
        most = answer.get("max_rdy_count") or self.wanted_rdy
        self.state = "subscribing"
        self._write(nsq.sub(self.topic, self.channel) + nsq.rdy(min(self.wanted_rdy, most)))

    def _write(self, data: bytes) -> None:
        """Write, or keep what the socket does not take."""
        assert self.socket is not None
        self.outgoing += data
        if self.outgoing:
            with suppress(BlockingIOError):
                self.outgoing = self.outgoing[self.socket.send(self.outgoing) :]
        events = select.EPOLLIN | (select.EPOLLOUT if self.outgoing else 0)
        self.epoll.modify(self.socket.fileno(), events)
