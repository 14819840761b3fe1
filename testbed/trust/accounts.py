"""The account of a load: what became of every message, from the records of senders, brokers and subscribers."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from core.records import Int64

_NONE = np.empty(0, np.int64)


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
        """The account of two loads together."""
        return DeliveryAccount(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))

    @property
    def accounted_count(self) -> int:
        """The sum of the five; equal to what was offered."""
        return (
            self.not_sent_count
            + self.unacknowledged_count
            + self.undelivered_count
            + self.delivered_count
            + self.duplicated_count
        )


def account(
    offered: Int64,
    sent: Int64,
    acknowledged: Int64,
    delivered: Int64,
    arrived: Int64 = _NONE,
    released: Int64 = _NONE,
) -> DeliveryAccount:
    """The account of one load, from message numbers.

    ``offered``: each number once.  ``sent``, ``acknowledged``: from senders' records (none, where a
    sender died with them).  ``delivered``: one entry a delivery, repeated where it was repeated.
    ``arrived``, ``released``: from brokers' records, where there are any.
    """
    numbers = np.unique(offered)
    assert len(numbers) == len(offered), "a message number was offered twice"
    deliveries = np.zeros(len(numbers), np.int64)
    places = _places(numbers, delivered)
    np.add.at(deliveries, places, 1)
    was_sent, was_acknowledged = _among(numbers, sent), _among(numbers, acknowledged)
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
        unacknowledged_at_broker_count=_count(unacknowledged & _among(numbers, arrived)),
        undelivered_released_count=_count(undelivered & _among(numbers, released)),
        delivered_unacknowledged_count=_count(came & ~was_acknowledged),
        surplus_count=int((deliveries[came] - 1).sum()),
        foreign_count=len(delivered) - len(places),
    )


@dataclass(frozen=True)
class SequenceAccount:
    """What one subscriber's rows say by themselves, without the sender's."""

    row_count: int
    distinct_count: int
    duplicate_count: int  # rows beyond each message's first
    gap_count: int  # numbers below the highest one that never came
    out_of_order_count: int  # first deliveries that came after a later message of the same publisher


def sequence(message: Int64, publisher: Int64) -> SequenceAccount:
    """The account of one window's rows in the order of their arrival; numbers start at 0."""
    distinct, first_row = np.unique(message, return_index=True)
    rows = np.sort(first_row)
    # Ranks instead of numbers: a stranger's message may have any number, and sums of those would overflow.
    numbers, senders = np.searchsorted(distinct, message[rows]), publisher[rows]
    order = np.argsort(senders, kind="stable")
    numbers, senders = numbers[order], senders[order]
    late = numbers < _highest_before(numbers, senders)
    return SequenceAccount(
        row_count=len(message),
        distinct_count=len(distinct),
        duplicate_count=len(message) - len(distinct),
        gap_count=int(distinct[-1]) + 1 - len(distinct) if len(distinct) else 0,
        out_of_order_count=_count(late),
    )


def _highest_before(numbers: Int64, senders: Int64) -> Int64:
    """For each row the highest number before it of its sender (-1 for the first); senders are contiguous."""
    if not len(numbers):
        return numbers
    # Each sender's numbers are lifted above all of the sender's before: then one running maximum does for all.
    span = len(numbers) + 1
    lift = np.cumsum(np.concatenate([[0], senders[1:] != senders[:-1]])) * span
    highest = np.maximum.accumulate(numbers + lift)
    before = np.concatenate([[-1], highest[:-1]]) - lift
    return np.maximum(before, -1)


def _places(numbers: Int64, found: Int64) -> NDArray[np.int64]:
    """Where each of ``found`` stands in the sorted ``numbers``; those that are not there are left out."""
    if not len(numbers):
        return _NONE
    places = np.minimum(np.searchsorted(numbers, found), len(numbers) - 1)
    return places[numbers[places] == found]


def _among(numbers: Int64, found: Int64) -> NDArray[np.bool_]:
    mask = np.zeros(len(numbers), bool)
    mask[_places(numbers, found)] = True
    return mask


def _count(mask: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(mask))
