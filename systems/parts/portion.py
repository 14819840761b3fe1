"""A token bucket (c, r) in portions: whoever holds k of its parts holds c k/K tokens at most, refilled at r k/K.

Portions move between holders, and the tokens in them move along; so all portions together never hold
more tokens, and never gain them faster, than the whole bucket.  Exact integers: a nanosecond brings a
part one *grain* times ``Limit.ticks_per_ns``, and a token is as many grains as the K parts take for it.
On messages tokens travel in millionths, rounded down; what is cut off stays with the sender.

A portion of less than one token could never admit anything.  A ``minimum`` of tokens that a portion can
hold, whatever its parts, mends that; each holder may then have so many more, not faster.
"""

from dataclasses import dataclass

from systems.parts.limit import Limit

MILLION = 10**6  # parts a node: a rate is leased to a millionth of the node's equal share


class Bucket:
    """What one user's whole bucket is: ``limit`` in ``parts`` = a million for each of ``count`` holders.

    A portion with any parts holds at least ``minimum`` tokens.
    """

    def __init__(self, limit: Limit, count: int, minimum: int = 0):
        self.limit, self.parts = limit, MILLION * count
        self.token = limit.token_ticks * self.parts  # in grains
        self.millionth = limit.token_ticks * count
        self._least = minimum * self.token
        self._most_per_part = limit.capacity * limit.token_ticks

    def most(self, parts: int) -> int:
        """The grains that a portion of so many parts can hold."""
        return max(self._most_per_part * parts, self._least) if parts else 0

    def parts_of(self, cost: int, span_ns: int) -> int:
        """The parts whose rate is ``cost`` tokens in ``span_ns``, rounded up; it may be more than there are."""
        return -(-cost * self.token // (self.limit.ticks_per_ns * span_ns))


@dataclass(slots=True)
class Portion:
    """``parts`` of a bucket with ``grains`` in it as of ``at_ns``; less than none is a debt."""

    parts: int
    grains: int
    at_ns: int

    def refill(self, bucket: Bucket, now_ns: int) -> None:
        """What came in up to ``now_ns``."""
        if now_ns > self.at_ns:
            self.grains += bucket.limit.ticks_per_ns * self.parts * (now_ns - self.at_ns)
            self.at_ns = now_ns
        self.cut(bucket)

    def cut(self, bucket: Bucket) -> None:
        """Let go of what the portion cannot hold."""
        self.grains = min(self.grains, bucket.most(self.parts))

    def missing(self, bucket: Bucket) -> int:
        """Grains until it is full."""
        return bucket.most(self.parts) - self.grains

    def take(self, bucket: Bucket, cost: int) -> bool:
        """Take ``cost`` whole tokens, if they are there."""
        needed = cost * bucket.token
        if self.grains < needed:
            return False
        self.grains -= needed
        return True

    def give(self, bucket: Bucket, parts: int) -> int:
        """Split ``parts`` off, with the tokens in them: millionths of a token (of debt if below zero)."""
        assert 0 <= parts <= self.parts
        if parts == 0:
            return 0
        millionths = self.grains * parts // (self.parts * bucket.millionth)
        self.parts -= parts
        self.grains -= millionths * bucket.millionth
        self.cut(bucket)
        return millionths
