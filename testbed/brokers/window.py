"""One window of a live topic, put together from the records of senders, brokers and subscribers.

Arrays have one entry a message, in the window's canonical order; ``ABSENT`` where something did not
happen.  Instants are the schedule's: the virtual run of the same window has the same ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.records import Block, Envelope, Int32, Int64
from systems.parts import token_bucket
from testbed.brokers.brokerd.client import exact_releases_ns
from testbed.brokers.counts import Counts, histogram
from testbed.brokers.publish_load import ABSENT
from testbed.trust.accounts import DeliveryAccount, account

UNDUE_DELAYS = ("undue_delay", "undue_delay_kernel", "undue_delay_read")


@dataclass
class Window:
    """What became of a window's messages.  ``offered``: bool, those of publishers that had a broker."""

    start_ns: int
    offered: np.ndarray
    publisher: Int32
    broker: Int32  # that the publisher was assigned to at the start
    intended_at_ns: Int64
    sent_at_ns: Int64
    acknowledged_at_ns: Int64
    arrived_at_ns: Int64  # the kernel's stamp at the broker
    released_at_ns: Int64
    received_at_ns: Int64  # the first time
    access_delay_ns: Int64
    stamp_error_ns: Int64  # of a stamp taken at reading: when the broker's process had read it, less its arrival
    undue_delay_ns: Mapping[str, Int64]  # of messages that conform by their arrivals: see ``undue_delays``
    account: DeliveryAccount

    def counts(self, from_ns: int, until_ns: int, brokers: int) -> Counts:
        """Histograms by broker of the messages with an intended instant in the span; what never came is lost."""
        span = self.offered & (self.intended_at_ns >= from_ns) & (self.intended_at_ns < until_ns)
        came, passed = span & (self.received_at_ns != ABSENT), span & (self.access_delay_ns != ABSENT)
        latency = histogram(self.received_at_ns[came] - self.intended_at_ns[came], self.broker[came], brokers)
        access_delay = histogram(self.access_delay_ns[passed], self.broker[passed], brokers)
        lost = np.bincount(self.broker[span & ~came], minlength=brokers).astype(np.int64)
        return Counts(latency, access_delay, np.zeros(brokers, np.int64), lost, self._inside(span, came, brokers))

    def _inside(self, span: np.ndarray, came: np.ndarray, brokers: int) -> dict[str, Int64]:
        """Histograms of what only a live broker has; ``collectors.schema`` says what they are."""
        read, at_once = self.stamp_error_ns != ABSENT, self.access_delay_ns == 0
        found = {
            "stamp_error": (self.stamp_error_ns, span & read),
            **{name: (delay, span & (delay != ABSENT)) for name, delay in self.undue_delay_ns.items()},
            "ingress_time": (self.released_at_ns - self.arrived_at_ns, span & at_once),
            "broker_time": (self.received_at_ns - self.arrived_at_ns, span & at_once & came),
        }
        return {name: histogram(values[rows], self.broker[rows], brokers) for name, (values, rows) in found.items()}

    def columns(self, topic: str) -> dict[str, Any]:
        """Columns of the table ``messages``; null where something did not happen."""
        rows = np.flatnonzero(self.offered)
        found: dict[str, Any] = {
            "message": rows.astype(np.int64),
            "publisher": self.publisher[rows],
            "broker": self.broker[rows],
            "topic": np.full(len(rows), topic, object),
            "intended_at_ns": self.intended_at_ns[rows],
        }
        for name in ("sent_at_ns", "arrived_at_ns", "released_at_ns", "received_at_ns", "acknowledged_at_ns"):
            column = getattr(self, name)[rows]
            found[name] = np.ma.masked_equal(column, ABSENT) if (column == ABSENT).any() else column
        return found

    def lateness_ns(self) -> Int64:
        """How long after its intended instant each message that was sent was sent."""
        sent = self.offered & (self.sent_at_ns != ABSENT)
        late: Int64 = self.sent_at_ns[sent] - self.intended_at_ns[sent]
        return late


def put_together(
    block: Block,
    start_ns: int,
    epoch_ns: int,
    assignment: Int32,
    sent: Sequence[Mapping[str, np.ndarray]],
    passed: Sequence[Mapping[str, Int64]],
    buckets: Sequence[Envelope | None] | None,
    received: Mapping[str, Int64],
) -> Window:
    """Join the records by message number.

    ``epoch_ns``: CLOCK_REALTIME of the schedule's instant 0 · ``passed``: the rows of each broker ·
    ``buckets``: of each broker, full at the start and the same throughout, or None where they changed:
    the access delay is then all of the time from stamp to release, otherwise 0 for those that had
    their token on arrival (by the exact step), whatever it took to read them.
    """
    at_ns, publisher, _ = block.messages()
    count = len(at_ns)
    broker = assignment[publisher]
    columns = {name: np.full(count, ABSENT, np.int64) for name in ("sent", "acknowledged", "arrived", "released")}
    for part in sent:
        numbers = part["message"]
        columns["sent"][numbers] = _shifted(part["sent_at_ns"], epoch_ns)
        columns["acknowledged"][numbers] = _shifted(part["acknowledged_at_ns"], epoch_ns)
    delay_ns, error_ns = np.full(count, ABSENT, np.int64), np.full(count, ABSENT, np.int64)
    undue_ns = {name: np.full(count, ABSENT, np.int64) for name in UNDUE_DELAYS}
    for number, rows in enumerate(passed):
        rows = _ours(rows, count)
        message, arrived_ns, released_ns = rows["message"], rows["arrived_at_ns"], rows["released_at_ns"].copy()
        released_ns[released_ns == 0] = ABSENT
        bucket = None if buckets is None else buckets[number]
        waited = np.ones(len(message), bool) if buckets is None else _waited(rows["stamp_ns"], bucket)
        delays = np.where(waited, np.maximum(released_ns - arrived_ns, 0), 0)
        columns["arrived"][message] = arrived_ns - epoch_ns
        columns["released"][message] = _shifted(released_ns, epoch_ns)
        delay_ns[message] = np.where(released_ns == ABSENT, ABSENT, delays)
        error_ns[message] = rows["read_at_ns"] - arrived_ns
        if bucket is not None:
            for name, delays in undue_delays(rows, waited, bucket).items():
                undue_ns[name][message] = np.where(released_ns == ABSENT, ABSENT, delays)
    received_ns = np.full(count, ABSENT, np.int64)
    deliveries = _ours(received, count)
    numbers, first = np.unique(deliveries["message"], return_index=True)
    received_ns[numbers] = deliveries["received_at_ns"][first] - epoch_ns
    offered = broker >= 0
    found = account(
        np.flatnonzero(offered).astype(np.int64),
        np.flatnonzero(columns["sent"] != ABSENT),
        np.flatnonzero(columns["acknowledged"] != ABSENT),
        received["message"],
        np.flatnonzero(columns["arrived"] != ABSENT),
        np.flatnonzero(columns["released"] != ABSENT),
    )
    return Window(
        start_ns, offered, publisher, broker, at_ns, columns["sent"], columns["acknowledged"], columns["arrived"],
        columns["released"], received_ns, delay_ns, error_ns, undue_ns, found,
    )  # fmt: skip


def undue_delays(rows: Mapping[str, Int64], waited: np.ndarray, bucket: Envelope) -> dict[str, Int64]:
    """How long the bucket kept messages that conform: those that would find a token in it when they arrived.

    ``rows`` of a broker, in the order in which they took tokens.  The bucket of comparison takes them in the order of
    the kernel's arrival stamps, so it knows nothing of when the process came to read them.  What reading itself takes
    is no fault of the bucket: the delay counts from then.  ``ABSENT`` for messages that do not conform.

    Three answers: ``undue_delay``, what happened: 0 where the broker's own bucket let the message through (``waited``
    says which it did not); and what an exact broker would have done with these very messages, had its bucket gone
    by the kernel's stamps (``undue_delay_kernel``) or by the instants of reading (``undue_delay_read``).
    """
    arrived_ns, read_at_ns = rows["arrived_at_ns"], rows["read_at_ns"]
    order = np.argsort(arrived_ns, kind="stable")
    conformant = np.zeros(len(arrived_ns), bool)
    conformant[order] = ~_waited(arrived_ns[order], bucket)
    found = {"undue_delay": np.where(waited, rows["released_at_ns"] - read_at_ns, 0)}
    for name, stamp_ns in (("undue_delay_kernel", arrived_ns), ("undue_delay_read", read_at_ns)):
        found[name] = exact_releases_ns(stamp_ns, bucket) - read_at_ns
    return {name: np.where(conformant, np.maximum(delay, 0), ABSENT) for name, delay in found.items()}


def _shifted(real_ns: Int64, epoch_ns: int) -> Int64:
    """Instants since the epoch; ``ABSENT`` stays."""
    shifted: Int64 = np.where(real_ns == ABSENT, ABSENT, real_ns - epoch_ns)
    return shifted


def _ours(rows: Mapping[str, Int64], count: int) -> dict[str, Int64]:
    """The rows of messages that the window has."""
    mask = (rows["message"] >= 0) & (rows["message"] < count)
    return {name: column[mask] for name, column in rows.items()}


def _waited(stamp_ns: Int64, bucket: Envelope | None) -> np.ndarray:
    """Which messages found no token: the integer step over the stamps, in the order in which tokens were taken."""
    waited = np.zeros(len(stamp_ns), bool)
    if bucket is None:
        return waited
    rate, capacity = token_bucket.units(bucket)
    level, at_ns = capacity, int(stamp_ns[0]) if len(stamp_ns) else 0
    for number, stamp in enumerate(stamp_ns.tolist()):
        elapsed_ns = max(0, stamp - at_ns)  # stamps of two connections may cross: the bucket never goes back
        level, wait_ns = token_bucket.take(level, elapsed_ns, rate, capacity)
        at_ns += elapsed_ns
        waited[number] = wait_ns > 0
    return waited
