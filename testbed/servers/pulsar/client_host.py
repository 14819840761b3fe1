"""Agent: producers and consumers of real topics, by Pulsar's own client, which keep a row of every message.

    {"do": "connect", "service": "pulsar://…", "topics": ["persistent://…"], "consuming": [0], "producing": [0, 1],
     "name": "clients", "subscription": "ratebed", "sender": 0}
                                         clients of topics by number, called clients.0, …; "": as Pulsar likes
    {"do": "play", "rate_rps": 20, "size_bytes": 64}    to each topic; open loop, paced by a thread
    {"do": "offer", "path": LOAD, "epoch_ns": 17…, "size_bytes": 64}    or what an .npz says: columns ``DUE``, in
                                                                        order of time
    {"do": "follow", "changes": [[AT_NS, TOPIC, WANTED]], "epoch_ns": 17…}    consumers that come and go, in order
    {"do": "end"}                        send no more than is due
    {"do": "status"}                     what is unacknowledged; what has come
    {"do": "collect", "path": ROWS}      the rows as .npz, three tables (``SENT``, ``GOT``, ``SUBSCRIBED``)

Arguments: the log of Pulsar's client, which says when connections were closed and made (``client_log``).
"""

import struct
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
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
GOT = ("topic", "sender", "message", "received_at_ns")
SUBSCRIBED = ("topic", "at_ns")  # consumers that came later: when they were there, ``ABSENT`` where one was not let in
DUE = ("topic", "message", "intended_at_ns")  # of a load; instants since its epoch
SUBSCRIPTION = "ratebed"
OPERATION_S = 30  # Pulsar's own: until a client gives up to subscribe, or to leave
SEND_TIMEOUT_MS = 120_000  # ours: longer than a broker is missed
_AGAIN_S = 0.1  # ours: who was not let in asks again
_LATE_S = 0.5  # ours: who is late at the end sends what is due, for so long
_PENDING = 100_000
_HEADER = struct.Struct("<iq")  # of a body: the sender's number, the message's
SIZE_BYTES = 64  # ours
COMMANDS = ("connect", "play", "offer", "follow", "end", "status", "collect")


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
        self._topics: Sequence[str] = ()
        self._name, self._subscription, self._sender = "", SUBSCRIPTION, 0
        self._producers: dict[int, pulsar.Producer] = {}  # by topic, as the next
        self._consumers: dict[int, pulsar.Consumer] = {}
        self.sent, self.got, self.subscribed = GrowingRows(SENT), GrowingRows(GOT), GrowingRows(SUBSCRIBED)
        self._open: dict[tuple[int, int], tuple[int, int]] = {}  # topic, message: intended and sent at
        self._count_lock = threading.Lock()
        self._got_count, self._size_bytes = 0, SIZE_BYTES
        self._threads, self._over, self._failures = list[threading.Thread](), threading.Event(), list[Exception]()
        self._over_s = 0.0  # monotonic

    def connect(
        self,
        service: str,
        topics: Sequence[str],
        consuming: Sequence[int],
        producing: Sequence[int],
        name: str = "",
        subscription: str = SUBSCRIPTION,
        sender: int = 0,
    ) -> None:
        """Consumers first, so that they miss nothing; one by one: ``client_log`` knows them by their order.

        ``sender``: whose messages these are, where others send, too.
        """
        import pulsar

        Path(self._log).unlink(missing_ok=True)  # of who had it before; Pulsar's would add to it
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, self._log)
        self._client = pulsar.Client(service, logger=logger, operation_timeout_seconds=OPERATION_S)
        self._topics, self._name, self._subscription, self._sender = topics, name, subscription, sender
        for number in consuming:
            self._subscribe(number, pulsar.InitialPosition.Earliest)
        for number in producing:
            self._producers[number] = self._client.create_producer(
                topics[number],
                producer_name=f"{name}.{number}" if name else None,
                batching_enabled=False,
                send_timeout_millis=SEND_TIMEOUT_MS,
                max_pending_messages=_PENDING,
            )

    def _subscribe(self, number: int, position: "pulsar.InitialPosition") -> None:
        self._consumers[number] = self._client.subscribe(
            self._topics[number],
            self._subscription,
            consumer_name=f"{self._name}.{number}" if self._name else None,
            initial_position=position,
            message_listener=self._listener(number),
        )

    def play(self, rate_rps: float, size_bytes: int = SIZE_BYTES) -> None:
        """Begin to send; ``rate_rps``: to each topic; ``size_bytes``: of a message, enough for its number at least."""
        self._size_bytes = size_bytes
        self._begin(partial(self._send_all, self._evenly(rate_rps)))

    def offer(self, path: str, epoch_ns: int, size_bytes: int = SIZE_BYTES) -> None:
        """Begin to send what is due, from an instant of CLOCK_REALTIME on."""
        self._size_bytes = size_bytes
        with np.load(path) as table:
            columns = [table[name].tolist() for name in DUE]
        due = ((topic, message, epoch_ns + at_ns) for topic, message, at_ns in zip(*columns, strict=True))
        self._begin(partial(self._send_all, due))

    def follow(self, changes: Sequence[tuple[int, int, bool]], epoch_ns: int) -> None:
        """Begin to come and go: a consumer of a topic is wanted, or is not any more; it gets what comes from then on.

        One after the other, each as soon as it is due: who comes late has waited for the one before.
        """
        self._begin(partial(self._follow_all, changes, epoch_ns))

    def end(self) -> None:
        """Send no more than is due, and come and go no more; raises what stopped either before."""
        self._over_s = time.monotonic()
        self._over.set()
        while self._threads:
            self._threads.pop().join()
        if self._failures:
            raise self._failures[0]

    def _begin(self, work: Callable[[], None]) -> None:
        def carry_out() -> None:
            try:
                work()
            except Exception as error:
                self._failures.append(error)

        self._over.clear()
        self._threads.append(threading.Thread(target=carry_out, daemon=True))
        self._threads[-1].start()

    def status(self) -> Json:
        """``open``: messages that are sent and neither acknowledged nor given up; ``got``: deliveries."""
        return {"open": len(self._open), "got": self._got_count}

    def collect(self, path: str) -> None:
        """Write all rows so far; who has no receipt yet gets none any more."""
        for key in [*self._open]:
            self._settle(key, ABSENT)
        sent = {f"sent_{name}": column for name, column in self.sent.columns().items()}
        got = {f"got_{name}": column for name, column in self.got.columns().items()}
        subscribed = {f"subscribed_{name}": column for name, column in self.subscribed.columns().items()}
        write_columns(Path(path), {**sent, **got, **subscribed})

    def _follow_all(self, changes: Sequence[tuple[int, int, bool]], epoch_ns: int) -> None:
        for at_ns, number, wanted in changes:
            if self._over.wait(max(0, epoch_ns + at_ns - time.time_ns()) / SECOND_NS):
                return
            if not wanted:
                self._leave(number)
            else:
                while not self._comes(number) and not self._over.wait(_AGAIN_S):
                    pass

    def _comes(self, number: int) -> bool:
        import pulsar

        try:
            self._subscribe(number, pulsar.InitialPosition.Latest)
        except pulsar.PulsarException:
            self.subscribed.add(number, ABSENT)
            return False
        self.subscribed.add(number, time.time_ns())
        return True

    def _leave(self, number: int) -> None:
        import pulsar

        consumer = self._consumers.pop(number, None)
        if consumer is not None:
            try:
                consumer.unsubscribe()
            except pulsar.PulsarException:  # its topic has no broker just now
                with suppress(pulsar.PulsarException):
                    consumer.close()

    def _evenly(self, rate_rps: float) -> Iterator[tuple[int, int, int]]:
        """Topics in turn, evenly spread: message k of topic i is due (k + i / topics) periods after the beginning."""
        topics, at_ns = list(self._producers), time.time_ns()
        step_ns = SECOND_NS / rate_rps / len(topics)
        for number in count():
            yield topics[number % len(topics)], number // len(topics), at_ns + int(number * step_ns)

    def _send_all(self, due: Iterator[tuple[int, int, int]]) -> None:
        for topic, message, due_ns in due:
            wait_ns = due_ns - time.time_ns()
            is_over = self._over.wait(max(0, wait_ns) / SECOND_NS)
            if is_over and (wait_ns > 0 or time.monotonic() > self._over_s + _LATE_S):
                return
            self._send(topic, message, due_ns)

    def _send(self, topic: int, message: int, due_ns: int) -> None:
        self._open[topic, message] = due_ns, time.time_ns()

        def acknowledged(result: Any, _: object) -> None:
            self._settle((topic, message), time.time_ns() if result.name == "Ok" else ABSENT)

        body = _HEADER.pack(self._sender, message).ljust(self._size_bytes, b"\0")
        self._producers[topic].send_async(body, acknowledged)

    def _settle(self, key: tuple[int, int], acknowledged_at_ns: int) -> None:
        """Write a message down, once; by threads of Pulsar's client, and by ours."""
        times = self._open.pop(key, None)
        if times is not None:
            self.sent.add(*key, *times, acknowledged_at_ns)

    def _listener(self, topic: int) -> Any:
        def received(consumer: "pulsar.Consumer", message: "pulsar.Message") -> None:
            at_ns = time.time_ns()
            self.got.add(topic, *_HEADER.unpack_from(message.data()), at_ns)
            with self._count_lock:
                self._got_count += 1
            consumer.acknowledge(message)

        return received


def main() -> None:
    """Serve until standard input ends."""
    sys.path.append(str(CLIENT))
    host = ClientHost(sys.argv[1])
    serve({name: getattr(host, name) for name in COMMANDS})


if __name__ == "__main__":
    main()
