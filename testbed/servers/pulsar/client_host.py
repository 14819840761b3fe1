"""Agent: producers and consumers of real topics, by Pulsar's own client, which keep a row of every message.

    {"do": "connect", "service": "pulsar://…", "topics": ["persistent://…"], "roles": ["producer", "consumer"],
     "name": "clients"}                  called clients.0, clients.1, … in the order of topics; "": as Pulsar likes
    {"do": "play", "rate_rps": 20, "size_bytes": 64}    to each topic; open loop, paced by a thread
    {"do": "offer", "path": LOAD, "epoch_ns": 17…}    or what an .npz says: columns ``DUE``, in order of time
    {"do": "end"}                        send no more
    {"do": "status"}                     what is unacknowledged; what has come
    {"do": "collect", "path": ROWS}      the rows as .npz, two tables (``SENT``, ``GOT``)

Arguments: the log of Pulsar's client, which says when connections were closed and made (``downtime``).
"""

import struct
import sys
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.records import Int64, Json
from core.units import SECOND_NS
from testbed.brokers.publish_host import write_columns
from testbed.hosts.agent import serve
from testbed.servers.pulsar.build import CLIENT
from testbed.trust.accounts import ABSENT

if TYPE_CHECKING:
    import pulsar

SENT = ("topic", "message", "intended_at_ns", "sent_at_ns", "acknowledged_at_ns")
GOT = ("topic", "message", "received_at_ns")
DUE = ("topic", "message", "intended_at_ns")  # of a load; instants since its epoch
SUBSCRIPTION = "ratebed"
SEND_TIMEOUT_MS = 120_000  # ours: longer than a broker is missed
_PENDING = 100_000
_HEADER = struct.Struct("<iq")  # of a body: the topic's number, the message's
SIZE_BYTES = 64  # ours


class GrowingRows:
    """What happened, in order: int64 columns that grow.  Rows are added by threads of Pulsar's client."""

    def __init__(self, names: Sequence[str]):
        self._names, self._values = names, array("q")
        self._lock = threading.Lock()

    def add(self, *values: int) -> None:
        """One row."""
        with self._lock:
            self._values.extend(values)

    def columns(self) -> dict[str, Int64]:
        """By name."""
        with self._lock:
            table = np.array(self._values, np.int64).reshape(-1, len(self._names))
        return {name: table[:, number] for number, name in enumerate(self._names)}


class ClientHost:
    """The commands.  One connection pool of Pulsar's client for all topics."""

    def __init__(self, log: str):
        self._log = log
        self._client: pulsar.Client
        self._producers: list[pulsar.Producer] = []
        self.sent, self.got = GrowingRows(SENT), GrowingRows(GOT)
        self._count_lock = threading.Lock()
        self._open_count, self._got_count, self._size_bytes = 0, 0, SIZE_BYTES
        self._pacer, self._over = threading.Thread(), threading.Event()

    def connect(self, service: str, topics: Sequence[str], roles: Sequence[str], name: str = "") -> None:
        """Consumers first, so that they miss nothing.  Each role is numbered in the order of its topics."""
        import pulsar

        logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, self._log)
        self._client = pulsar.Client(service, logger=logger, operation_timeout_seconds=30)
        if "consumer" in roles:
            for number, topic in enumerate(topics):
                self._client.subscribe(
                    topic,
                    SUBSCRIPTION,
                    consumer_name=f"{name}.{number}" if name else None,
                    initial_position=pulsar.InitialPosition.Earliest,
                    message_listener=self._listener(number),
                )
        if "producer" in roles:
            self._producers = [
                self._client.create_producer(
                    topic,
                    producer_name=f"{name}.{number}" if name else None,
                    batching_enabled=False,
                    send_timeout_millis=SEND_TIMEOUT_MS,
                    max_pending_messages=_PENDING,
                )
                for number, topic in enumerate(topics)
            ]

    def play(self, rate_rps: float, size_bytes: int = SIZE_BYTES) -> None:
        """Begin to send; ``rate_rps``: to each topic; ``size_bytes``: of a message, enough for its number at least."""
        self._size_bytes = size_bytes
        self._begin(self._evenly(rate_rps))

    def offer(self, path: str, epoch_ns: int) -> None:
        """Begin to send what is due, from an instant of CLOCK_REALTIME on."""
        with np.load(path) as table:
            columns = [table[name].tolist() for name in DUE]
        self._begin((topic, message, epoch_ns + at_ns) for topic, message, at_ns in zip(*columns, strict=True))

    def end(self) -> None:
        """Send no more."""
        self._over.set()
        self._pacer.join()

    def status(self) -> Json:
        """``open``: messages that are sent and neither acknowledged nor given up; ``got``: deliveries."""
        return {"open": self._open_count, "got": self._got_count}

    def collect(self, path: str) -> None:
        """Write all rows so far."""
        sent = {f"sent_{name}": column for name, column in self.sent.columns().items()}
        got = {f"got_{name}": column for name, column in self.got.columns().items()}
        write_columns(Path(path), {**sent, **got})

    def _evenly(self, rate_rps: float) -> Iterator[tuple[int, int, int]]:
        """Topics in turn, evenly spread: message k of topic i is due (k + i / topics) periods after the beginning."""
        topic_count, at_ns = len(self._producers), time.time_ns()
        step_ns = SECOND_NS / rate_rps / topic_count
        for number in count():
            yield number % topic_count, number // topic_count, at_ns + int(number * step_ns)

    def _begin(self, due: Iterator[tuple[int, int, int]]) -> None:
        self._over.clear()
        self._pacer = threading.Thread(target=self._send_all, args=(due,), daemon=True)
        self._pacer.start()

    def _send_all(self, due: Iterator[tuple[int, int, int]]) -> None:
        for topic, message, due_ns in due:
            if self._over.wait(max(0, due_ns - time.time_ns()) / SECOND_NS):
                return
            self._send(topic, message, due_ns)

    def _send(self, topic: int, message: int, due_ns: int) -> None:
        sent_ns = time.time_ns()
        with self._count_lock:
            self._open_count += 1

        def acknowledged(result: Any, _: object) -> None:
            at_ns = time.time_ns() if result.name == "Ok" else ABSENT
            self.sent.add(topic, message, due_ns, sent_ns, at_ns)
            with self._count_lock:
                self._open_count -= 1

        body = _HEADER.pack(topic, message).ljust(self._size_bytes, b"\0")
        self._producers[topic].send_async(body, acknowledged)

    def _listener(self, topic: int) -> Any:
        def received(consumer: "pulsar.Consumer", message: "pulsar.Message") -> None:
            at_ns = time.time_ns()
            self.got.add(topic, _HEADER.unpack_from(message.data())[1], at_ns)
            with self._count_lock:
                self._got_count += 1
            consumer.acknowledge(message)

        return received


def main() -> None:
    """Serve until standard input ends."""
    sys.path.append(str(CLIENT))
    host = ClientHost(sys.argv[1])
    serve({name: getattr(host, name) for name in ("connect", "play", "offer", "end", "status", "collect")})


if __name__ == "__main__":
    main()
