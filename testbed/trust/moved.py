"""Publishers that move, and what became of their messages: the same account in virtual time and of real brokers."""

from dataclasses import dataclass

import numpy as np

from core.records import Int32, Int64
from testbed.trust.accounts import Bools


@dataclass
class PublisherMove:
    """A publisher's move: told when, from where to where, and when it is open again."""

    told_ns: int
    publisher: int
    source: int
    target: int
    opens_ns: int


@dataclass(frozen=True)
class MovedMessages:
    """What became of the messages: of each that came, in order of number, the first copy that did.

    ``arrived_ns``, ``released_ns``: ``ABSENT`` where the broker took its records along when it was killed.
    ``place``: of each in the order in which they came, where that is known better than by the instants.
    """

    number: Int64
    publisher: Int32
    broker: Int32
    intended_ns: Int64
    sent_ns: Int64
    arrived_ns: Int64
    released_ns: Int64
    received_ns: Int64
    held: Bools  # it waited at its publisher
    offered_count: int
    waiting_count: int  # still at their publishers
    resent_count: int  # offers after the first
    surplus_count: int  # copies that came after the first
    place: Int64 | None = None

    @property
    def lost_count(self) -> int:
        """Messages that never came, and wait nowhere."""
        return self.offered_count - len(self.number) - self.waiting_count

    @property
    def out_of_order_count(self) -> int:
        """Messages that came before an earlier one of their publisher."""
        came = self.received_ns if self.place is None else self.place
        order = np.lexsort((self.number, self.publisher))
        same = np.diff(self.publisher[order]) == 0
        return int((same & (np.diff(came[order]) < 0)).sum())
