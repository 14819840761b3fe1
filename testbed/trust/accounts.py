"""The account of a load: what became of every message, from the records of senders, brokers and subscribers.

Arrays in, rows out: no files, no sockets.  Instants are integer nanoseconds of one clock, whichever; ``ABSENT`` stands
where something did not happen.  Latency and lateness count from the intended instant, never from when a busy process
came to it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.records import Envelope, Int64
from systems.parts import token_bucket

ABSENT = -1
_MISSING_NS = 2**62  # somebody who is owed it never had it
_NONE = np.empty(0, np.int64)

Bools = NDArray[np.bool_]


def shifted(instants_ns: Int64, by_ns: int) -> Int64:
    """The same instants, counted from ``by_ns``; ``ABSENT`` stays."""
    return np.where(instants_ns == ABSENT, ABSENT, instants_ns - by_ns)


def lateness_ns(intended_ns: Int64, done_ns: Int64) -> Int64:
    """How long after its intended instant each thing was done that was done at all."""
    done = done_ns != ABSENT
    late_ns: Int64 = done_ns[done] - intended_ns[done]
    return late_ns


# --- every message has one fate ----------------------------------------------------------------------------


@dataclass(frozen=True)
class DeliveryAccount:
    """Numbers of messages.  The first five are disjoint and sum to ``offered_count``.

    A message that arrived counts as delivered whatever the sender knows of it: an answer may be lost
    where the message was not.
    """

    not_sent_count: int
    unacknowledged_count: int  # sent, never acknowledged, never delivered
    undelivered_count: int  # acknowledged, never delivered
    delivered_count: int  # exactly once
    duplicated_count: int  # more than once
    offered_count: int
    # What else the records say; parts of the above, or outside of it.
    unacknowledged_at_broker_count: int  # of the unacknowledged, those that a broker has a record of
    undelivered_released_count: int  # of the undelivered, those that a broker released
    delivered_unacknowledged_count: int  # delivered, once or more, though the sender has no acknowledgement
    surplus_count: int  # deliveries beyond each message's first
    foreign_count: int  # deliveries of what was never offered

    def __add__(self, other: "DeliveryAccount") -> "DeliveryAccount":
        return DeliveryAccount(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))

    @property
    def accounted_count(self) -> int:
        """The sum of the five; equal to what was offered."""
        came_count = self.delivered_count + self.duplicated_count
        return self.not_sent_count + self.unacknowledged_count + self.undelivered_count + came_count


def account(
    offered: Int64, sent: Int64, acknowledged: Int64, delivered: Int64, arrived: Int64 = _NONE, released: Int64 = _NONE
) -> DeliveryAccount:
    """The account of one load, from message numbers.

    ``offered``: each number once.  ``sent``, ``acknowledged``: from senders' records (none, where a
    sender died with them).  ``delivered``: one entry a delivery, repeated where it was repeated.
    ``arrived``, ``released``: from brokers' records, where there are any.
    """
    numbers = np.unique(offered)
    assert len(numbers) == len(offered), "a message number was offered twice"
    received, times = np.unique(delivered, return_counts=True)
    is_ours = np.isin(received, numbers)
    deliveries = np.zeros(len(numbers), np.int64)
    deliveries[np.isin(numbers, received)] = times[is_ours]
    was_sent, was_acknowledged = np.isin(numbers, sent), np.isin(numbers, acknowledged)
    came = deliveries > 0
    undelivered = was_acknowledged & ~came
    unacknowledged = was_sent & ~was_acknowledged & ~came
    return DeliveryAccount(
        not_sent_count=_count(~was_sent & ~was_acknowledged & ~came),
        unacknowledged_count=_count(unacknowledged),
        undelivered_count=_count(undelivered),
        delivered_count=_count(deliveries == 1),
        duplicated_count=_count(deliveries > 1),
        offered_count=len(numbers),
        unacknowledged_at_broker_count=_count(unacknowledged & np.isin(numbers, arrived)),
        undelivered_released_count=_count(undelivered & np.isin(numbers, released)),
        delivered_unacknowledged_count=_count(came & ~was_acknowledged),
        surplus_count=int((deliveries[came] - 1).sum()),
        foreign_count=int(times[~is_ours].sum()),
    )


def out_of_order_count(message: Int64, publisher: Int64) -> int:
    """First deliveries that came after a later message of the same publisher; rows in the order of their arrival."""
    rows = np.sort(np.unique(message, return_index=True)[1])
    numbers, senders = message[rows], publisher[rows]
    order = np.argsort(senders, kind="stable")
    of_each = np.split(numbers[order], np.flatnonzero(np.diff(senders[order])) + 1)
    return sum(_count(part < np.maximum.accumulate(part)) for part in of_each)


def _count(mask: Bools) -> int:
    return int(np.count_nonzero(mask))


# --- through a broker with a token bucket ----------------------------------------------------------------------


class Passage(NamedTuple):
    """A broker's rows of one load: arrays with one entry a message that has arrived there."""

    message: Int64
    arrived_at_ns: Int64  # the kernel's stamp
    released_at_ns: Int64  # ``ABSENT``: it still waits
    access_delay_ns: Int64  # ``ABSENT``, too
    stamp_error_ns: Int64  # of a stamp taken at reading: when the broker's process had read it, less its arrival
    undue_delay_ns: Mapping[str, Int64]  # see ``undue_delays``; empty without a known bucket


def passage(rows: Mapping[str, Int64], bucket: Envelope | None, is_steady: bool) -> Passage:
    """What became of the messages that a broker has recorded; it writes 0 for a release that did not come.

    ``is_steady``: the bucket was full at the start and the same throughout.  Then the access delay is 0 for messages
    that had their token on arrival (by the exact step), whatever it took to read them; else all of the time from
    stamp to release.
    """
    arrived_ns = rows["arrived_at_ns"]
    released_ns = np.where(rows["released_at_ns"] == 0, ABSENT, rows["released_at_ns"])
    waited = has_waited(rows["stamp_ns"], bucket) if is_steady else np.ones(len(arrived_ns), bool)
    delay_ns = np.where(waited, np.maximum(released_ns - arrived_ns, 0), 0)
    undue_ns = {} if bucket is None or not is_steady else undue_delays(rows, waited, bucket)
    out = released_ns != ABSENT
    return Passage(
        rows["message"],
        arrived_ns,
        released_ns,
        np.where(out, delay_ns, ABSENT),
        rows["read_at_ns"] - arrived_ns,
        {name: np.where(out, span_ns, ABSENT) for name, span_ns in undue_ns.items()},
    )


def exact_releases_ns(stamps_ns: Int64, envelope: Envelope) -> Int64:
    """When each message of a bucket that began full should have left, from the recorded stamps, to the nanosecond."""
    rate, capacity = token_bucket.units(envelope)
    level, level_at_ns = capacity, int(stamps_ns[0]) if len(stamps_ns) else 0
    exact_ns = np.empty_like(stamps_ns)
    for i, stamp_ns in enumerate(stamps_ns.tolist()):
        at_ns = max(stamp_ns, level_at_ns)  # the stamps of two connections may cross: the bucket never goes back
        level, wait_ns = token_bucket.take(level, at_ns - level_at_ns, rate, capacity)
        level_at_ns = at_ns
        exact_ns[i] = at_ns + wait_ns if wait_ns else stamp_ns
    return exact_ns


def has_waited(stamp_ns: Int64, bucket: Envelope | None) -> Bools:
    """Which messages had no token, in the order in which tokens were taken; none without a bucket."""
    return np.zeros(len(stamp_ns), bool) if bucket is None else exact_releases_ns(stamp_ns, bucket) != stamp_ns


def undue_delays(rows: Mapping[str, Int64], waited: Bools, bucket: Envelope) -> dict[str, Int64]:
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
    conformant[order] = ~has_waited(arrived_ns[order], bucket)
    delays = {
        "undue_delay": np.where(waited, rows["released_at_ns"] - read_at_ns, 0),
        "undue_delay_kernel": exact_releases_ns(arrived_ns, bucket) - read_at_ns,
        "undue_delay_read": exact_releases_ns(read_at_ns, bucket) - read_at_ns,
    }
    return {name: np.where(conformant, np.maximum(delay, 0), ABSENT) for name, delay in delays.items()}


# --- fan-out: a copy for every consumer ------------------------------------------------------------------------


class Copies(NamedTuple):
    """Of a topic's messages and one consumer, in a span: ``latency_ns`` of each copy whose message was due then."""

    latency_ns: Int64
    due_count: int
    lost_count: int  # due then, and never came
    came_count: int  # in the span, whenever they were due


def within(instants_ns: Int64, span_ns: tuple[int, int]) -> Bools:
    """Which instants are in a span, its end left out."""
    return (instants_ns >= span_ns[0]) & (instants_ns < span_ns[1])


def copies(intended_ns: Int64, message: Int64, received_ns: Int64, span_ns: tuple[int, int]) -> Copies:
    """``intended_ns`` by message number; the other two have one entry a delivery."""
    ours = (message >= 0) & (message < len(intended_ns))
    message, received_ns = message[ours], received_ns[ours]
    due = within(intended_ns, span_ns)
    lost = due.copy()
    lost[message] = False
    chosen = due[message]
    latency_ns = received_ns[chosen] - intended_ns[message[chosen]]
    return Copies(latency_ns, _count(due), _count(lost), _count(within(received_ns, span_ns)))


# --- topics that move: who is owed what --------------------------------------------------------------------------


class Sent(NamedTuple):
    """A producer's messages by number: int64 arrays."""

    born_ns: Int64  # when each is due
    fired_ns: Int64  # when the process came to it
    sent_ns: Int64  # the last time
    answered_ns: Int64  # when a broker said that it has it
    refused_count: Int64  # by fenced brokers
    resent_count: Int64  # as nobody knew what had become of it


class Got(NamedTuple):
    """A consumer's deliveries in the order of their arrival, int64 arrays."""

    producer: Int64
    message: Int64
    born_ns: Int64
    received_ns: Int64


class Interest(NamedTuple):
    """When a consumer wanted a topic."""

    spans_ns: Sequence[tuple[int, int]]
    told_ns: Int64  # when brokers told it that it is subscribed
    until_ns: int  # the run's end


class Receipt(NamedTuple):
    """What one consumer had of one producer's messages: arrays with one entry a message."""

    received_ns: Int64  # the first time; ``ABSENT``: never
    is_owed: Bools
    times: Int64
    reordered_count: int

    @property
    def gap_count(self) -> int:
        """Messages that it was owed and never had."""
        return _count(self.is_owed & (self.received_ns == ABSENT))

    @property
    def duplicate_count(self) -> int:
        """Deliveries beyond each message's first."""
        return int(np.maximum(0, self.times - 1).sum())


class Fate(NamedTuple):
    """A topic's messages, in the order of ``born_ns``: arrays (n,).  No consumer: not in here."""

    born_ns: Int64
    latency_ns: Int64  # until the last consumer has it; -1: somebody never got it
    late_count: Int64  # consumers that had it later than the bound, or never
    consumer_count: Int64


def receipt(sent: Sent, got: Got, producer: int, interest: Interest) -> Receipt:
    """A consumer is *owed* what was accepted after a broker had told it that it is subscribed, as long as it wants the
    topic, and everything between the first and the last message of a producer that it got; and what was to be sent in
    that time and nobody is known to have accepted: a topic that nobody serves is late with everything.
    """
    count = len(sent.born_ns)
    mine = (got.producer == producer) & (got.message >= 0) & (got.message < count)
    message, received_at_ns = got.message[mine], got.received_ns[mine]
    received_ns = np.full(count, ABSENT, np.int64)
    numbers, first = np.unique(message, return_index=True)
    received_ns[numbers] = received_at_ns[first]
    is_owed, accepted = received_ns != ABSENT, sent.answered_ns != ABSENT
    for span_ns in interest.spans_ns:
        told_ns = interest.told_ns[within(interest.told_ns, span_ns)]
        if len(told_ns):
            is_owed |= ~accepted & within(sent.born_ns, (told_ns[0], span_ns[1]))
            if span_ns[1] == interest.until_ns:  # to the end: all that was accepted
                is_owed |= accepted & (sent.sent_ns >= told_ns[0])
        had = numbers[within(received_ns[numbers], span_ns)]
        if len(had):
            between = slice(had.min(), had.max() + 1)
            is_owed[between] |= accepted[between]
    reordered_count = _count(np.diff(message[np.sort(first)]) < 0)
    return Receipt(received_ns, is_owed, np.bincount(message, minlength=count), reordered_count)


def fate(sent: Sent, receipts: Iterable[Receipt], bound_ns: int) -> tuple[Fate, DeliveryAccount]:
    """Of one producer's messages; delivered is what everybody has who is owed it."""
    last_ns = np.full(len(sent.born_ns), ABSENT, np.int64)
    owed_count, late_count, copy_count, most = (np.zeros(len(last_ns), np.int64) for _ in range(4))
    for each in receipts:
        copy_count, most = copy_count + each.times, np.maximum(most, each.times)
        missing = each.is_owed & (each.received_ns == ABSENT)
        owed_count += each.is_owed
        late_count += each.is_owed & (missing | (each.received_ns - sent.born_ns > bound_ns))
        last_ns = np.where(each.is_owed, np.maximum(last_ns, each.received_ns), last_ns)
        last_ns[missing] = _MISSING_NS
    there, is_missed = owed_count > 0, last_ns >= _MISSING_NS
    latency_ns = np.where(is_missed, ABSENT, np.maximum(last_ns - sent.born_ns, 0))  # the clocks of two hosts differ
    rows = Fate(sent.born_ns[there], latency_ns[there], late_count[there], owed_count[there])
    numbers, acknowledged = np.arange(len(last_ns)), sent.answered_ns != ABSENT
    is_away = is_missed | (~acknowledged & (copy_count == 0))
    delivered = np.repeat(numbers, np.where(is_away, 0, np.maximum(most, 1)))
    return rows, account(numbers, np.flatnonzero(sent.sent_ns != ABSENT), np.flatnonzero(acknowledged), delivered)


def of_topic(fates: Iterable[Fate]) -> Fate:
    """Those of a topic's producers as one, in the order of ``born_ns``."""
    columns = [np.concatenate([_NONE, *parts]) for parts in zip(*fates, strict=True)] or [_NONE] * len(Fate._fields)
    order = np.argsort(columns[0], kind="stable")
    return Fate(*(column[order] for column in columns))
