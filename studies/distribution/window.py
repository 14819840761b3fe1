"""One window of a live topic, put together from the records of senders, brokers and subscribers.

Arrays have one entry a message, in the window's canonical order; ``ABSENT`` where something did not
happen.  Instants are the schedule's: the virtual run of the same window has the same ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.records import Block, Columns, Envelope, Int32, Int64
from testbed.brokers.counts import Counts, histogram
from testbed.trust.accounts import ABSENT, DeliveryAccount, account, lateness_ns, passage, shifted

UNDUE_DELAYS = ("undue_delay", "undue_delay_kernel", "undue_delay_read")
RECORDED = (
    *("sent_at_ns", "acknowledged_at_ns", "arrived_at_ns", "released_at_ns", "received_at_ns"),
    *("access_delay_ns", "stamp_error_ns"),
)


@dataclass
class Window:
    """What became of a window's messages.  ``offered``: bool, those of publishers that had a broker."""

    start_ns: int
    offered: np.ndarray
    publisher: Int32
    broker: Int32  # that the publisher was assigned to at the start
    intended_at_ns: Int64
    undue_delay_ns: Mapping[str, Int64]  # of messages that conform by their arrivals: ``trust.accounts.undue_delays``
    account: DeliveryAccount
    sent_at_ns: Int64
    acknowledged_at_ns: Int64
    arrived_at_ns: Int64  # the kernel's stamp at the broker
    released_at_ns: Int64
    received_at_ns: Int64  # the first time
    access_delay_ns: Int64
    stamp_error_ns: Int64  # of a stamp taken at reading: when the broker's process had read it, less its arrival

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
        spans = {
            "stamp_error": (self.stamp_error_ns, span & read),
            **{name: (delay, span & (delay != ABSENT)) for name, delay in self.undue_delay_ns.items()},
            "ingress_time": (self.released_at_ns - self.arrived_at_ns, span & at_once),
            "broker_time": (self.received_at_ns - self.arrived_at_ns, span & at_once & came),
        }
        return {name: histogram(values[rows], self.broker[rows], brokers) for name, (values, rows) in spans.items()}

    def columns(self, topic: str) -> Columns:
        """Columns of the table ``messages``; null where something did not happen."""
        rows = np.flatnonzero(self.offered)
        table: dict[str, np.ndarray] = {
            "message": rows.astype(np.int64),
            "publisher": self.publisher[rows],
            "broker": self.broker[rows],
            "topic": np.full(len(rows), topic, object),
            "intended_at_ns": self.intended_at_ns[rows],
        }
        for name in RECORDED[:5]:
            column = getattr(self, name)[rows]
            table[name] = np.ma.masked_equal(column, ABSENT) if (column == ABSENT).any() else column
        return table

    def lateness_ns(self) -> Int64:
        """How long after its intended instant each message that was sent was sent."""
        return lateness_ns(self.intended_at_ns[self.offered], self.sent_at_ns[self.offered])


def put_together(
    block: Block,
    start_ns: int,
    epoch_ns: int,
    assignment: Int32,
    sent: Iterable[Mapping[str, np.ndarray]],
    passed: Iterable[Mapping[str, Int64]],
    received: Mapping[str, Int64],
    buckets: Sequence[Envelope | None] | None,
) -> Window:
    """Join by message number what each publisher process, each broker and the subscribers wrote down.

    ``epoch_ns``: CLOCK_REALTIME of the schedule's instant 0 · ``received``: in order of arrival · ``buckets``: of each
    broker, full at the start and the same throughout, or None where they changed.
    """
    intended_at_ns, publisher, _ = block.messages()
    count = len(intended_at_ns)
    broker = assignment[publisher]
    offered = broker >= 0
    columns = {name: np.full(count, ABSENT, np.int64) for name in (*RECORDED, *UNDUE_DELAYS)}
    for rows in sent:
        columns["sent_at_ns"][rows["message"]] = shifted(rows["sent_at_ns"], epoch_ns)
        columns["acknowledged_at_ns"][rows["message"]] = shifted(rows["acknowledged_at_ns"], epoch_ns)
    for number, rows in enumerate(passed):
        through = passage(_ours(rows, count), None if buckets is None else buckets[number], buckets is not None)
        columns["arrived_at_ns"][through.message] = through.arrived_at_ns - epoch_ns
        columns["released_at_ns"][through.message] = shifted(through.released_at_ns, epoch_ns)
        columns["access_delay_ns"][through.message] = through.access_delay_ns
        columns["stamp_error_ns"][through.message] = through.stamp_error_ns
        for name, delay_ns in through.undue_delay_ns.items():
            columns[name][through.message] = delay_ns
    deliveries = _ours(received, count)
    numbers, first = np.unique(deliveries["message"], return_index=True)
    columns["received_at_ns"][numbers] = deliveries["received_at_ns"][first] - epoch_ns
    was_sent, was_acknowledged, arrived, released, *_ = (np.flatnonzero(columns[name] != ABSENT) for name in RECORDED)
    due = np.flatnonzero(offered).astype(np.int64)
    whole = account(due, was_sent, was_acknowledged, received["message"], arrived, released)
    undue_delay_ns = {name: columns.pop(name) for name in UNDUE_DELAYS}
    return Window(start_ns, offered, publisher, broker, intended_at_ns, undue_delay_ns, whole, **columns)


def _ours(rows: Mapping[str, Int64], count: int) -> dict[str, Int64]:
    mask = (rows["message"] >= 0) & (rows["message"] < count)
    return {name: column[mask] for name, column in rows.items()}
