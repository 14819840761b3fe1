"""What the throttlers, distributed and centralised, have in common: demands of cycles, and users' buckets.

A throttler's limits are per cycle, without a burst memory (D6).  To limit users, each of whom has a token
bucket of c tokens and rate r, a node gives each a bucket of its own: with a share f of the limit it has the
rate f r and a burst of f c, at least ``minimum`` tokens (ours).  The shares of all nodes add up to 1, so
together they never admit more than max(c, n minimum) + r t in a span t, whatever way the shares wander.

A user whom nobody asked for during c/r is forgotten: its bucket would be full again anywhere, and its
shares are then 1/n each at every node, as in the beginning.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp

from core.errors import SpecError
from core.seeds import generator
from core.units import duration_ns
from systems.api import Effect, Message, Sample
from systems.parts.water_filling import RULES, divide

ROUNDING = 1e-9  # tokens: a bucket filled in steps is not short of what it has on paper
PHASES = ("random", "aligned")


@dataclass(frozen=True)
class Demand:
    """What a server was asked for in a cycle that ends now, in total and, if given, by each client.

    ``total`` is the sum over the clients.
    """

    cycle: int
    total: float
    clients: tuple[float, ...] = ()


@dataclass(frozen=True)
class KnownUsers(Message):
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
        for place, (asked, given) in enumerate(zip(demand.clients, shares.tolist(), strict=True)):
            effects += [Sample(f"client_{place}_demand", asked), Sample(f"client_{place}_admitted", given)]
    return effects


class Bucket:
    """A user's token bucket at one node, and what it was asked for.

    ``share``: of the user's limit, 0 to 1.  ``demand``: requests a second, averaged.  ``asked_cycle``: the
    last cycle in which anybody is known to have asked for the user.
    """

    __slots__ = ("asked", "asked_cycle", "counted_cycle", "demand", "filled_at_ns", "share", "tokens")

    def __init__(self, share: float, tokens: float, cycle: int, now_ns: int):
        self.share, self.tokens, self.filled_at_ns = share, tokens, now_ns
        self.asked, self.demand = 0, 0.0
        self.asked_cycle, self.counted_cycle = cycle, cycle - 1


class Buckets:
    """The buckets of one node's users: how they fill, how demand is counted in cycles, who is forgotten.

    ``phase`` ``random``: this node's cycles begin at an instant of its own; ``aligned``: at multiples of the
    cycle on its clock.  ``average``: the time constant of demand, "0s" = the last cycle alone (the paper's
    r_i(k)).  ``linger``: how long after its last request, at any node, a user is active, that is, spoken of.
    """

    def __init__(self, node_id: str, count: int, config: "UserOptions", seed: int):
        self.capacity, self.minimum, self.even = config.capacity, config.minimum, 1.0 / count
        self.rate = rate_rps(config.rate) / 1e9  # tokens a ns
        self.cycle_ns = span_ns("cycle", config.cycle)
        average_ns = span_ns("average", config.average, least_ns=0)
        self.fading = exp(-self.cycle_ns / average_ns) if average_ns else 0.0
        self.linger = -(-span_ns("linger", config.linger) // self.cycle_ns)  # cycles
        refill = -(-int(self.capacity / self.rate) // self.cycle_ns)
        self.forget = max(refill, self.linger) + 1
        self.phase_ns = 0
        if config.phase == "random":
            self.phase_ns = int(generator(seed, "cycle", node_id).integers(self.cycle_ns))
        self.users: dict[str, Bucket] = {}
        self.active: dict[str, None] = {}

    def cycle_at(self, now_ns: int) -> int:
        """The number of the cycle that ``now_ns`` falls into."""
        return (now_ns - self.phase_ns) // self.cycle_ns

    def ends_at_ns(self, cycle: int) -> int:
        """When a cycle ends."""
        return (cycle + 1) * self.cycle_ns + self.phase_ns

    def ask(self, user: str, cost: int, now_ns: int) -> bool:
        """A request arrives: counted, and admitted if its tokens are there."""
        found = self.touch(user, self.cycle_at(now_ns), now_ns)
        found.asked += cost
        self.fill(found, now_ns)
        if found.tokens + ROUNDING < cost:
            return False
        found.tokens -= cost
        return True

    def touch(self, user: str, cycle: int, now_ns: int) -> Bucket:
        """The bucket of a user whom somebody asked for in ``cycle``; a full one for a user unknown or forgotten."""
        found = self.users.get(user)
        if found is None or self.cycle_at(now_ns) - found.asked_cycle > self.forget:
            found = self.users[user] = Bucket(self.even, self.burst(self.even), cycle, now_ns)
        found.asked_cycle = max(found.asked_cycle, cycle)
        if self.cycle_at(now_ns) - found.asked_cycle <= self.linger:
            self.active[user] = None
        return found

    def burst(self, share: float) -> float:
        """What a bucket of this share holds."""
        return max(float(self.minimum), self.capacity * max(0.0, share))

    def fill(self, bucket: Bucket, now_ns: int) -> None:
        """The tokens of now; a clock that was set back adds none."""
        grown = bucket.tokens + max(0.0, bucket.share) * self.rate * max(0, now_ns - bucket.filled_at_ns)
        bucket.tokens = min(grown, self.burst(bucket.share))
        bucket.filled_at_ns = now_ns

    def reshare(self, bucket: Bucket, share: float, tokens: float, now_ns: int) -> None:
        """A new share from now on, and the ``tokens`` that come or go with it; what does not fit spills.

        Tokens may fall below 0: those that went had been spent meanwhile.
        """
        self.fill(bucket, now_ns)
        bucket.share = share
        bucket.tokens = min(bucket.tokens + tokens, self.burst(share))

    def count(self, bucket: Bucket, cycle: int) -> float:
        """``cycle`` ends: the bucket's demand, requests a second."""
        gap = max(1, cycle - bucket.counted_cycle)
        bucket.demand *= self.fading**gap
        bucket.demand += (1.0 - self.fading) * bucket.asked * (1e9 / self.cycle_ns)
        bucket.asked, bucket.counted_cycle = 0, cycle
        return bucket.demand

    def rest(self, cycle: int) -> None:
        """Users whom nobody asked for lately are active no longer."""
        for user in [user for user in self.active if cycle - self.users[user].asked_cycle >= self.linger]:
            del self.active[user]

    def snapshot(self) -> KnownUsers:
        """For a node that re-joins."""
        return KnownUsers({user: found.asked_cycle for user, found in self.users.items()})

    def restore(self, snapshot: KnownUsers, now_ns: int) -> None:
        """A peer's users: with even shares, and with empty buckets, since they may have spent what they had."""
        for user, cycle in snapshot.users.items():
            bucket = self.touch(user, cycle, now_ns)
            bucket.tokens, bucket.filled_at_ns = 0.0, now_ns

    def sweep(self, cycle: int) -> list[str]:
        """Forget whom nobody asked for during c/r; returns them."""
        gone = [user for user, found in self.users.items() if cycle - found.asked_cycle > self.forget]
        for user in gone:
            del self.users[user]
        return gone


@dataclass(frozen=True)
class UserOptions:
    """Options that both throttlers have; a base of their configs."""

    capacity: int = 300  # thesis Table 4.1: c, a secret there; 300 is ours
    rate: str = "0.3"  # thesis Table 4.1: 0.001 c tokens a second; over a cycle: l_total (5)
    cycle: str = "300ms"  # one cycle = one gossip round (D6)
    rule: str = "equal-ratio"  # DST Section 7, Algorithm 1: among the clients of a server
    minimum: int = 1  # ours: tokens that a user's bucket holds at least; over-admits by n - c where c < n
    average: str = "0s"  # ours: time constant of a user's demand at a node; "0s" = the last cycle alone, the paper's
    linger: str = "10s"  # ours: users not asked for lately are not spoken of
    phase: str = "random"  # ours: of the nodes' cycles; "aligned" is the paper's

    def check(self) -> None:
        """SpecError naming the first option that makes no sense."""
        for name, known in (("rule", tuple(RULES)), ("phase", PHASES)):
            one_of(name, getattr(self, name), known)
        if self.capacity < 1:
            raise SpecError(f"capacity = {self.capacity}", "give at least 1 token")
        if self.minimum < 0:
            raise SpecError(f"minimum = {self.minimum}", "give 0 or more tokens")
        rate_rps(self.rate)
        for name, least in (("cycle", 1), ("average", 0), ("linger", 1)):
            span_ns(name, getattr(self, name), least)

    @property
    def total(self) -> float:
        """l_total (5): the limit of all servers together, in requests a cycle."""
        return rate_rps(self.rate) * span_ns("cycle", self.cycle) / 1e9


def rate_rps(text: str) -> float:
    """A rate in tokens a second, ``"0.3"`` or ``"1/3"``; SpecError where it is none."""
    from fractions import Fraction

    try:
        found = float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        found = 0.0
    if not found > 0.0:
        raise SpecError(f"rate = {text!r}", 'give tokens a second, as in "0.3" or "1/3"')
    return found


def span_ns(name: str, text: str, least_ns: int = 1) -> int:
    """An option that is a span; SpecError names it."""
    try:
        found = duration_ns(text)
    except ValueError as error:
        raise SpecError(f"{name} = {text!r}: {error}") from None
    if found < least_ns:
        raise SpecError(f"{name} = {text!r}", "give a longer span")
    return found


def one_of(name: str, value: str, known: Iterable[str]) -> None:
    """SpecError unless ``value`` is one of those known."""
    from core.registry import hint

    if value not in set(known):
        raise SpecError(f"{name} = {value!r}", hint(value, known))
