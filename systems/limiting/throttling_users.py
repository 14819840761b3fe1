"""What the throttlers, distributed and centralised, have in common: demands of cycles, and users' buckets.

A throttler's limits are per cycle, without a burst memory (D6).  To limit users, each of whom has a token
bucket of c tokens and rate r, a node gives each a bucket of its own: with a share f of the limit it has the
rate f r and a burst of f c, at least ``minimum`` tokens m (ours); below 0, where nothing clamps the law, f r
counts as 0.

Everything in a bucket is an exact integer (``systems.parts.portion``): a share is so many of the limit's
parts, a million for each node, and tokens are counted in grains.  Floats are only what the law computes from
them.  A flow of the law is cut to whole parts, and both of its ends cut alike, so rounding neither makes nor
loses anything: the n nodes' parts are all there are at any instant at which no flow is applied at one end
only.  (A message that is lost, a crash, and the pairing ``latest`` make ends differ.)  Hence

* one node decides as ``systems.parts.limit.gcra`` does, request by request, where m is at most c;
* nodes that apply flows at the very same instant, as a throttler's do with aligned cycles and no delay, never
  admit more than max(c, m) + (n - 1) m + r t in a span t, with m = 0 no more than c + r t, as long as no
  share is below 0 and no request comes at that very instant;
* otherwise there may be on top of that what a node spends, or is refilled with, of a share that it has given
  away and does not know of yet.  Tokens spent so are a debt, paid back before the node admits again.

A user whom nobody asked for during c/r is forgotten: a bucket of its limit would be full again, and its
shares are then 1/n each at every node, as in the beginning.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import exp, isfinite
from typing import TypeVar

from core.defaults import CAPACITY, RATE
from core.errors import SpecError
from core.seeds import generator
from core.units import SECOND_NS, duration_ns
from systems.api import Effect, Message, Sample
from systems.parts import portion
from systems.parts.limit import Limit, limit_of
from systems.parts.options import choice, span_ns
from systems.parts.portion import MILLION
from systems.parts.water_filling import RULES, divide

PHASES = ("random", "aligned")
PIECE_BYTES = 60_000  # ours: of a message about users; a datagram takes 65,507
_ROW_BYTES, _LETTER_BYTES = 48, 4  # at most, encoded: four numbers, and each letter of a name
_Said = TypeVar("_Said")
INTEGERS_BYTES = 5 * 32 + 24  # of a bucket, in CPython: whole numbers, the largest of some 20 digits; its demand


@dataclass(frozen=True)
class Demand:
    """What a server was asked for in a cycle that ends now, in total and, if given, by each client.

    ``total`` is the sum over the clients.
    """

    cycle: int
    total: float
    clients: tuple[float, ...] = ()


class KnownUsers(Message, frozen=True):
    """A snapshot: the users and when each was last asked for.  Shares cannot be copied, they are parts of a whole."""

    users: dict[str, int]


def account(x: float, demand: Demand, rule: str) -> list[Effect]:
    """The samples of one server's cycle: min(max(0, x), r) is admitted; with clients, what each of them is."""
    admitted = min(max(0.0, x), demand.total)
    effects: list[Effect] = [Sample("limit", x), Sample("demand", demand.total), Sample("admitted", admitted)]
    if x < 0.0:
        effects.append(Sample("negative_limit_count", 1.0))
    if demand.clients:
        shares = divide(rule, demand.clients, x)
        for asked, given in zip(demand.clients, shares.tolist(), strict=True):  # in the clients' order
            effects += [Sample("client_demand", asked), Sample("client_admitted", given)]
    return effects


def in_parts(total: int, weights: Sequence[int]) -> list[int]:
    """``total``, of either sign, in whole parts proportional to ``weights`` up to less than one; evenly if all are 0.

    The parts add up to ``total`` exactly.
    """
    if not any(weights):
        weights = [1] * len(weights)
    edges = list(accumulate(weights, initial=0))
    return [total * end // edges[-1] - total * begin // edges[-1] for begin, end in pairwise(edges)]


def in_pieces(users: Mapping[str, _Said]) -> Iterator[dict[str, _Said]]:
    """What is said of users, in their order, in pieces that go into a datagram each, as one does if it can."""
    piece, size_bytes = dict[str, _Said](), 0
    for user, said in users.items():
        needs_bytes = _ROW_BYTES + _LETTER_BYTES * len(user)
        if piece and size_bytes + needs_bytes > PIECE_BYTES:
            yield piece
            piece, size_bytes = {}, 0
        piece[user] = said
        size_bytes += needs_bytes
    if piece:
        yield piece


class UserBucket:
    """A user's token bucket at one node, and what it was asked for.

    ``parts``: of the user's limit.  ``grains``: its tokens as of ``filled_at_ns``; below 0 a debt.  ``demand``:
    requests a second, averaged.  ``asked_cycle``: the last cycle in which anybody is known to have asked for
    the user.
    """

    __slots__ = ("asked", "asked_cycle", "counted_cycle", "demand", "filled_at_ns", "grains", "parts")

    def __init__(self, parts: int, grains: int, cycle: int, now_ns: int):
        self.parts, self.grains, self.filled_at_ns = parts, grains, now_ns
        self.asked, self.demand = 0, 0.0
        self.asked_cycle, self.counted_cycle = cycle, cycle - 1


class UserBuckets:
    """The buckets of one node's users: how they fill, how demand is counted in cycles, who is forgotten.

    ``phase`` ``random``: this node's cycles begin at an instant of its own; ``aligned``: at multiples of the
    cycle on its clock.  ``average``: the time constant of demand, "0s" = the last cycle alone (the paper's
    r_i(k)).  ``linger``: how long after its last request, at any node, a user is active, that is, spoken of.
    ``made`` is told of each user that gets a bucket, the first one or anew.
    """

    def __init__(
        self,
        node_id: str,
        count: int,
        config: "UserOptions",
        seed: int,
        made: Callable[[str], None] = lambda user: None,
    ):
        self.made = made
        self.limit = config.limit
        self.whole = portion.Bucket(self.limit, count)
        self.most_per_part = self.limit.capacity * self.limit.token_ticks  # grains
        self.least_burst = config.minimum * self.whole.token  # grains
        self.cycle_ns = duration_ns(config.cycle)
        average_ns = duration_ns(config.average)
        self.fading = exp(-self.cycle_ns / average_ns) if average_ns else 0.0
        self.linger = -(-duration_ns(config.linger) // self.cycle_ns)  # cycles
        refill_ns = self.limit.instant_ns(self.most_per_part)
        self.refill_s = refill_ns / SECOND_NS  # c/r
        self.forget = max(-(-refill_ns // self.cycle_ns), self.linger) + 1  # cycles
        self.phase_ns = 0
        if config.phase == "random":
            self.phase_ns = int(generator(seed, "cycle", node_id).integers(self.cycle_ns))
        self.users: dict[str, UserBucket] = {}
        self.active: dict[str, None] = {}

    def cycle_at(self, now_ns: int) -> int:
        """The number of the cycle that ``now_ns`` falls into."""
        return (now_ns - self.phase_ns) // self.cycle_ns

    def ends_at_ns(self, cycle: int) -> int:
        """When a cycle ends."""
        return (cycle + 1) * self.cycle_ns + self.phase_ns

    def ask(self, user: str, cost: int, now_ns: int) -> bool:
        """A request arrives: counted, and admitted if its tokens are there."""
        bucket = self.touch(user, self.cycle_at(now_ns), now_ns)
        bucket.asked += cost
        self.fill(bucket, now_ns)
        needed = cost * self.whole.token
        if bucket.grains < needed:
            return False
        bucket.grains -= needed
        return True

    def touch(self, user: str, cycle: int, now_ns: int) -> UserBucket:
        """The bucket of a user whom somebody asked for in ``cycle``; a full one for a user unknown or forgotten."""
        bucket, current = self.users.get(user), self.cycle_at(now_ns)
        if bucket is None or current - bucket.asked_cycle > self.forget:
            bucket = self.users[user] = UserBucket(MILLION, self.burst(MILLION), cycle, now_ns)
            self.made(user)
        if cycle > bucket.asked_cycle:
            bucket.asked_cycle = cycle
        if current - bucket.asked_cycle <= self.linger:
            self.active[user] = None
        return bucket

    def burst(self, parts: int) -> int:
        """The grains that a bucket of so many parts holds."""
        grains = self.most_per_part * parts
        return grains if grains > self.least_burst else self.least_burst

    def fill(self, bucket: UserBucket, now_ns: int) -> None:
        """The tokens of now; a clock that was set back adds none until it is where it was."""
        if now_ns > bucket.filled_at_ns:
            if bucket.parts > 0:
                bucket.grains += self.limit.ticks_per_ns * bucket.parts * (now_ns - bucket.filled_at_ns)
            bucket.filled_at_ns = now_ns
        most = self.burst(bucket.parts)
        if bucket.grains > most:
            bucket.grains = most

    def reshare(self, bucket: UserBucket, parts: int, grains: int, now_ns: int) -> None:
        """So many parts from now on, and the ``grains`` that come or go with them; what does not fit spills.

        Grains may fall below 0: those that went had been spent meanwhile.
        """
        self.fill(bucket, now_ns)
        bucket.parts = parts
        bucket.grains = min(bucket.grains + grains, self.burst(parts))

    def tokens_of(self, parts: int) -> float:
        """The tokens per c/r that so many parts stand for: the limit x of the law (c for all parts)."""
        return parts * self.limit.capacity / self.whole.parts

    def fullness(self, bucket: UserBucket) -> int:
        """How full a bucket is, in millionths of its burst, rounded down."""
        return max(0, bucket.grains) * MILLION // max(1, self.burst(bucket.parts))

    def flow(self, tokens: float, fullness: int) -> tuple[int, int]:
        """A flow of the law, in tokens per c/r, as parts and the grains that go with them, out of a bucket so full.

        Cut towards 0, so that for the other end, where the sign is the opposite, the numbers are just the opposite.
        """
        parts = int(tokens * self.whole.parts / self.limit.capacity)
        grains = abs(parts) * self.most_per_part * fullness // MILLION
        return parts, grains if parts > 0 else -grains

    def count(self, bucket: UserBucket, cycle: int) -> float:
        """``cycle`` ends: the bucket's demand, requests a second."""
        gap = max(1, cycle - bucket.counted_cycle)
        bucket.demand *= self.fading**gap
        bucket.demand += (1.0 - self.fading) * bucket.asked * (SECOND_NS / self.cycle_ns)
        bucket.asked, bucket.counted_cycle = 0, cycle
        return bucket.demand

    def rest(self, cycle: int) -> None:
        """Users whom nobody asked for lately are active no longer."""
        for user in [user for user in self.active if cycle - self.users[user].asked_cycle >= self.linger]:
            del self.active[user]

    def snapshot(self) -> KnownUsers:
        """For a node that re-joins."""
        return KnownUsers({user: bucket.asked_cycle for user, bucket in self.users.items()})

    def holds(self) -> dict[str, int]:
        """The parts of each user."""
        return {user: bucket.parts for user, bucket in self.users.items()}

    def restore(self, snapshot: KnownUsers, now_ns: int) -> None:
        """A peer's users: with even shares, and with empty buckets, since they may have spent what they had."""
        for user, cycle in snapshot.users.items():
            bucket = self.touch(user, cycle, now_ns)
            bucket.grains, bucket.filled_at_ns = 0, now_ns

    def sweep(self, cycle: int) -> list[str]:
        """Forget whom nobody asked for during c/r; returns them."""
        gone = [user for user, bucket in self.users.items() if cycle - bucket.asked_cycle > self.forget]
        for user in gone:
            del self.users[user]
            self.active.pop(user, None)  # the clock has gone ahead of the end of a cycle
        return gone


@dataclass(frozen=True)
class UserOptions:
    """Options that both throttlers have; a base of their configs."""

    capacity: int = CAPACITY  # c, tokens of a user
    rate: str = RATE  # r, tokens a second
    total: float = 0.0  # DST (5): l_total of demands by cycle, requests a cycle; 0 = rate times cycle
    cycle: str = "300ms"  # one cycle = one gossip round (D6)
    rule: str = "equal-ratio"  # DST Section 7, Algorithm 1: among the clients of a server
    minimum: int = 1  # ours: tokens that a user's bucket holds at least; may over-admit by so many a node, n - 1 nodes
    average: str = "0s"  # ours: time constant of a user's demand at a node; "0s" = the last cycle alone, the paper's
    linger: str = "10s"  # ours: users not asked for lately are not spoken of
    phase: str = "random"  # ours: of the nodes' cycles; "aligned" is the paper's

    def check(self, system: str) -> None:
        """SpecError naming the system and the first option that makes no sense."""
        choice(system, "rule", self.rule, RULES)
        choice(system, "phase", self.phase, PHASES)
        limit_of(self.capacity, self.rate)
        if self.minimum < 0:
            raise SpecError(f"{system}: minimum = {self.minimum}", "give 0 or more tokens")
        if not (isfinite(self.total) and self.total >= 0.0):
            raise SpecError(f"{system}: total = {self.total}", "give requests a cycle, or 0 for rate times cycle")
        for name, least in (("cycle", "1ns"), ("average", "0"), ("linger", "1ns")):
            span_ns(system, name, getattr(self, name), least)

    @property
    def limit(self) -> Limit:
        """(c, r) of each user."""
        return limit_of(self.capacity, self.rate)

    @property
    def l_total(self) -> float:
        """The limit of all servers together (5), in requests a cycle."""
        return self.total or float(self.limit.rate_rps) * duration_ns(self.cycle) / SECOND_NS
