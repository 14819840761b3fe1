"""Agent: a subscriber of one or several brokers, which keeps a row of every delivery.

    {"do": "subscribe", "brokers": ["ip:port"], "topic": T, "token": RUN'S, "channel": "sub", "rdy": 2500, "tries": 10}
    {"do": "status"}                      deliveries so far, states
    {"do": "collect", "path": ROWS}       the rows as .npz, counters; begins anew

Arguments: the number of rows to make room for (default a million).
"""

import json
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from core.records import Int64, Json
from core.units import MILLISECOND_NS
from testbed.brokers import nsq
from testbed.brokers.connection import DIAL_NS, Connection, Retries
from testbed.brokers.publish_host import allow_descriptors, write_columns
from testbed.hosts.agent import serve
from testbed.hosts.loop import Loop, LoopThread
from testbed.trust.accounts import out_of_order_count

ROWS = 1_000_000
SUBSCRIBE_WAIT_S = 10.0
COLUMNS = (
    *("message", "publisher", "tag", "intended_at_ns"),  # of the body's header; -1 where there is none
    *("received_at_ns", "timestamp_ns", "attempts"),  # after the read; the broker's stamp; deliveries so far
    *("broker", "topic"),  # numbers of the process' lists
)
RETRY_NS = 200 * MILLISECOND_NS
_ROW = struct.Struct(f"={len(COLUMNS)}q")
_NO_HEADER = (-1, -1, -1, -1)


class Rows:
    """Deliveries, in the order of their arrival: memory for ``capacity`` of them, made beforehand.

    ``count``: deliveries so far, with those that had no room.
    """

    def __init__(self, capacity: int):
        self._data = np.full((capacity, len(COLUMNS)), -1, np.int64)  # touched, so that it is there
        self._view = self._data.reshape(-1).data.cast("B")
        self.count = 0

    def add(self, data: bytes, received_at_ns: int, broker: int, topic: int) -> bytes:
        """Keep the row of a message frame's data; returns the message's id."""
        stamp_ns, attempts, message_id, body = nsq.message(data)
        header = nsq.HEADER.unpack_from(body) if len(body) >= nsq.HEADER.size else _NO_HEADER
        if self.count < len(self._data):
            at = self.count * _ROW.size
            _ROW.pack_into(self._view, at, *header, received_at_ns, stamp_ns, attempts, broker, topic)
        self.count += 1
        return message_id

    def take(self) -> tuple[int, dict[str, Int64]]:
        """How many have come, and the columns of those that had room, as copies; begins anew."""
        count, self.count = self.count, 0
        return count, {name: self._data[:count, number].copy() for number, name in enumerate(COLUMNS)}


class Subscription:
    """A topic of one nsqd.  ``state``: connecting, subscribing, receiving, waiting, gone.

    ``output_buffer_size`` -1 makes nsqd write each message at once; all its timers would be slower.
    """

    def __init__(
        self, loop: Loop, rows: Rows, address: str, topic: str, channel: str, token: str, wanted_rdy: int, tries: int
    ):
        nsq.address(address)
        self._loop, self._rows, self.address, self._token = loop, rows, address, token
        self.topic, self._channel, self._wanted_rdy = topic, channel, wanted_rdy
        self.broker_number = self.topic_number = 0
        self._retries = Retries(tries - 1, RETRY_NS)
        self.last_problem = ""
        self.state = "waiting"

    def begin(self) -> None:
        """Connect; never blocks."""
        self.state = "connecting"
        features = {"client_id": "ratebed", "feature_negotiation": True, "output_buffer_size": -1}
        self.connection = Connection(self._loop, self.address, self._token, user_agent="ratebed", **features)
        self.connection.on_open, self.connection.on_frame = self._identified, self._take
        self.connection.on_close = self._broken
        self.connection.expect(lambda: self.state == "receiving", DIAL_NS, "no answer in time")

    def _identified(self, data: bytes) -> None:
        """The broker's answer says how many messages may be on their way at once."""
        try:
            answer = {} if data == nsq.OK else json.loads(data)
            ready_count = min(self._wanted_rdy, answer.get("max_rdy_count") or self._wanted_rdy)
        except (ValueError, AttributeError, TypeError, RecursionError):
            raise nsq.ProtocolError(f"no answer to IDENTIFY: {data[:60]!r}") from None
        self.state = "subscribing"
        self.connection.write(nsq.sub(self.topic, self._channel) + nsq.rdy(ready_count))

    def _take(self, kind: int, data: bytes) -> None:
        if kind == nsq.MESSAGE:
            message_id = self._rows.add(data, self.connection.read_at_ns, self.broker_number, self.topic_number)
            self.connection.write(nsq.fin(message_id))
        elif kind == nsq.ERROR:
            self.last_problem = nsq.text(data)
        elif self.state == "subscribing" and data == nsq.OK:
            self.state = "receiving"
            self._retries.succeeded()

    def _broken(self, why: str) -> None:
        self.last_problem = f"{self.topic} at {self.address}: {why}"
        pause_ns = self._retries.next_ns()
        self.state = "waiting" if pause_ns is not None else "gone"
        if pause_ns is not None:
            self._loop.call_at(time.monotonic_ns() + pause_ns, self.begin)


class SubscribeHost:
    """The subscriptions of a process, served by one thread, and the commands."""

    def __init__(self, row_count: int = ROWS):
        self.rows = Rows(row_count)
        self.brokers, self.topics = dict[str, int](), dict[str, int]()  # name -> number
        self.subscriptions: list[Subscription] = []
        self.loop = Loop()
        self.thread = LoopThread(self.loop, "receiving")
        self.thread.start()

    def subscribe(
        self,
        brokers: Sequence[str],
        topic: str,
        token: str,
        channel: str = "sub",
        rdy: int = 2_500,
        tries: int = 10,
        wait_s: float = SUBSCRIBE_WAIT_S,
    ) -> Json:
        """Subscribe to a topic at brokers, and wait until they deliver or are gone.

        ``tries``: connections in a row that may fail; 1 for a topic that will be released, since a
        subscriber that comes back would make it anew.
        """
        new = [Subscription(self.loop, self.rows, address, topic, channel, token, rdy, tries) for address in brokers]
        self.subscriptions += new
        for subscription in new:
            subscription.broker_number = self.brokers.setdefault(subscription.address, len(self.brokers))
            subscription.topic_number = self.topics.setdefault(topic, len(self.topics))
            self.thread.call(subscription.begin)
        until_s = time.monotonic() + wait_s
        while time.monotonic() < until_s and any(each.state not in ("receiving", "gone") for each in new):
            time.sleep(0.005)
        failed = [each for each in new if each.state != "receiving"]
        return {
            "failed": [each.address for each in failed],
            "last_problem": next((each.last_problem for each in failed), ""),
        }

    def status(self) -> Json:
        """How much has come so far."""
        return {
            "delivery_count": self.rows.count,
            "states": [[each.address, each.topic, each.state] for each in self.subscriptions],
            "last_problem": next((each.last_problem for each in self.subscriptions if each.last_problem), ""),
            "cpu_ns": time.process_time_ns(),
        }

    def collect(self, path: str) -> Json:
        """Write the rows since the last time, ``brokers`` and ``topics`` (the lists that columns count)."""
        delivery_count, columns = self.thread.call(self.rows.take)
        write_columns(Path(path), columns, brokers=list(self.brokers), topics=list(self.topics))
        return {
            "delivery_count": delivery_count,
            "dropped_rows": delivery_count - len(columns["message"]),
            "out_of_order_count": _out_of_order_in(columns),
        }

    def stop(self) -> None:
        """Close everything."""
        self.thread.stop()
        for subscription in self.subscriptions:
            subscription.connection.close()


def _out_of_order_in(columns: Mapping[str, Int64]) -> int:
    """Over all loads: those of one tag, of one topic."""
    count, ours = 0, columns["publisher"] >= 0
    for topic, tag in set(zip(columns["topic"][ours].tolist(), columns["tag"][ours].tolist(), strict=True)):
        chosen = ours & (columns["topic"] == topic) & (columns["tag"] == tag)
        count += out_of_order_count(columns["message"][chosen], columns["publisher"][chosen])
    return count


def main() -> None:
    """Serve until standard input ends."""
    allow_descriptors()
    host = SubscribeHost(*(int(argument) for argument in sys.argv[1:2]))
    serve({name: getattr(host, name) for name in ("subscribe", "status", "collect")})


if __name__ == "__main__":
    main()
