"""Agent: a subscriber of one or several brokers, which keeps a row of every delivery.

    {"do": "subscribe", "brokers": ["ip:port"], "topic": T, "channel": "sub", "rdy": 2500, "tries": 10}
    {"do": "status"}                      deliveries so far, states, errors
    {"do": "collect", "path": ROWS}       the rows as .npz, sequence accounts per topic and tag; begins anew

Arguments: the number of rows to make room for (default a million).
"""

import json
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from core.units import MILLISECOND_NS
from testbed.brokers import nsq
from testbed.brokers.connection import DIAL_NS, Connection, Retries
from testbed.brokers.publish_host import allow_descriptors, write_columns
from testbed.hosts.agent import serve
from testbed.hosts.loop import Loop, LoopThread
from testbed.trust.accounts import sequence

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
    """Deliveries, in the order of their arrival: memory for ``capacity`` of them, made beforehand."""

    def __init__(self, capacity: int):
        self._data = np.full((capacity, len(COLUMNS)), -1, np.int64)  # touched, so that it is there
        self._view = self._data.reshape(-1).data.cast("B")
        self.capacity = capacity
        self.count = self.dropped_count = self.foreign_count = self.repeated_count = 0

    def add(self, data: bytes, received_at_ns: int, broker: int, topic: int) -> bytes:
        """Keep the row of a message frame's data; returns the message's id."""
        stamp_ns, attempts, message_id, body = nsq.message(data)
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
        return message_id

    def take(self) -> dict[str, np.ndarray]:
        """The columns so far, as copies; begins anew."""
        columns = {name: self._data[: self.count, number].copy() for number, name in enumerate(COLUMNS)}
        self.count = self.dropped_count = self.foreign_count = self.repeated_count = 0
        return columns


class Subscription:
    """A topic of one nsqd.  ``state``: connecting, subscribing, receiving, waiting, gone.

    ``output_buffer_size`` -1 makes nsqd write each message at once; all its timers would be slower.
    """

    def __init__(self, loop: Loop, rows: Rows, address: str, topic: str, channel: str, wanted_rdy: int, tries: int):
        nsq.address(address)
        self._loop, self._rows, self.address = loop, rows, address
        self.topic, self._channel, self._wanted_rdy = topic, channel, wanted_rdy
        self.broker_number = self.topic_number = 0
        self._retries = Retries(tries - 1, RETRY_NS)
        self.error_count = self.reconnect_count = 0
        self.last_problem = ""
        self.state = "waiting"

    def begin(self) -> None:
        """Connect; never blocks."""
        self.state = "connecting"
        self._connection = Connection(
            self._loop,
            self.address,
            client_id="ratebed",
            user_agent="ratebed",
            feature_negotiation=True,
            output_buffer_size=-1,
        )
        self._connection.on_open, self._connection.on_frame = self._identified, self._take
        self._connection.on_close = self._broken
        self._connection.expect(lambda: self.state == "receiving", DIAL_NS, "no answer in time")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _identified(self, data: bytes) -> None:
        """The broker's answer says how many messages may be on their way at once."""
        try:
            answer = {} if data == nsq.OK else json.loads(data)
            most = answer.get("max_rdy_count") or self._wanted_rdy
            ready_count = min(self._wanted_rdy, most)
        except (ValueError, AttributeError, TypeError):
            raise nsq.ProtocolError(f"no answer to IDENTIFY: {data[:60]!r}") from None
        self.state = "subscribing"
        self._connection.write(nsq.sub(self.topic, self._channel) + nsq.rdy(ready_count))

    def _take(self, kind: int, data: bytes) -> None:
        """One frame."""
        if kind == nsq.MESSAGE:
            received_at_ns = self._connection.read_at_ns
            message_id = self._rows.add(data, received_at_ns, self.broker_number, self.topic_number)
            self._connection.write(nsq.fin(message_id))
        elif kind == nsq.ERROR:
            self.error_count += 1
            self.last_problem = nsq.text(data)
        elif self.state == "subscribing" and data == nsq.OK:
            self.state = "receiving"
            self.reconnect_count += self._retries.failed_count > 0
            self._retries.succeeded()

    def _broken(self, why: str) -> None:
        """The connection is gone; try again, a bounded number of times."""
        self.last_problem = f"{self.topic} at {self.address}: {why}"
        pause_ns = self._retries.next_ns()
        self.state = "waiting" if pause_ns is not None else "gone"
        if pause_ns is not None:
            self._loop.call_at(time.monotonic_ns() + pause_ns, self.begin)


class SubscribeHost:
    """The subscriptions of a process, served by one thread, and the commands."""

    def __init__(self, row_count: int = ROWS):
        self.rows = Rows(row_count)
        self.brokers: list[str] = []
        self.topics: list[str] = []
        self.subscriptions: list[Subscription] = []
        self._loop = Loop()
        self._thread = LoopThread(self._loop, "receiving")
        self._thread.start()

    def subscribe(
        self,
        brokers: Sequence[str],
        topic: str,
        channel: str = "sub",
        rdy: int = 2_500,
        tries: int = 10,
        wait_s: float = SUBSCRIBE_WAIT_S,
    ) -> dict[str, Any]:
        """Subscribe to a topic at brokers, and wait until they deliver or are gone.

        ``tries``: connections in a row that may fail; 1 for a topic that will be released, since a
        subscriber that comes back would make it anew.
        """
        new = [Subscription(self._loop, self.rows, address, topic, channel, rdy, tries) for address in brokers]
        for subscription in new:
            subscription.broker_number = _number(self.brokers, subscription.address)
            subscription.topic_number = _number(self.topics, topic)
        self._thread.call(lambda: self._begin(new))
        until_s = time.monotonic() + wait_s
        while time.monotonic() < until_s and any(each.state not in ("receiving", "gone") for each in new):
            time.sleep(0.005)
        failed = [each for each in new if each.state != "receiving"]
        return {
            "failed": [each.address for each in failed],
            "last_problem": next((each.last_problem for each in failed), ""),
        }

    def status(self) -> dict[str, Any]:
        """How much has come so far."""
        return {
            **self._counters(),
            "states": [[each.address, each.topic, each.state] for each in self.subscriptions],
            "error_count": sum(each.error_count for each in self.subscriptions),
            "reconnect_count": sum(each.reconnect_count for each in self.subscriptions),
            "last_problem": next((each.last_problem for each in self.subscriptions if each.last_problem), ""),
            "cpu_ns": time.process_time_ns(),
        }

    def collect(self, path: str) -> dict[str, Any]:
        """Write the rows since the last time, ``brokers`` and ``topics`` (the lists that columns count)."""
        counters = self._counters()
        columns = self._thread.call(self.rows.take)
        names = {"brokers": np.array(self.brokers, np.str_), "topics": np.array(self.topics, np.str_)}
        write_columns(Path(path), {**columns, **names})
        return {**counters, "rows": len(columns["message"]), "sequences": self._sequences(columns)}

    def stop(self) -> None:
        """Close everything."""
        self._thread.stop()
        for subscription in self.subscriptions:
            subscription.close()

    def _counters(self) -> dict[str, int]:
        rows = self.rows
        return {
            "delivery_count": rows.count + rows.dropped_count,
            "dropped_rows": rows.dropped_count,
            "foreign_count": rows.foreign_count,
            "repeated_count": rows.repeated_count,
        }

    def _sequences(self, columns: dict[str, np.ndarray]) -> list[dict[str, Any]]:
        """Duplicates and gaps of each topic's loads."""
        ours = columns["publisher"] >= 0
        loads = set(zip(columns["topic"][ours].tolist(), columns["tag"][ours].tolist(), strict=True))
        rows = []
        for topic, tag in sorted(loads):
            chosen = ours & (columns["topic"] == topic) & (columns["tag"] == tag)
            account = sequence(columns["message"][chosen], columns["publisher"][chosen])
            rows.append({"topic": self.topics[topic], "tag": tag, **asdict(account)})
        return rows

    def _begin(self, new: list[Subscription]) -> None:
        self.subscriptions += new
        for subscription in new:
            subscription.begin()


def _number(names: list[str], name: str) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)


def main() -> None:
    """Serve until standard input ends."""
    allow_descriptors()
    host = SubscribeHost(*(int(argument) for argument in sys.argv[1:2]))
    serve({name: getattr(host, name) for name in ("subscribe", "status", "collect")})


if __name__ == "__main__":
    main()
