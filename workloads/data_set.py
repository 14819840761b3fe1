"""data-set: the thesis' request recordings A to D, as generators (sections 4.3.4 and 5.4).

The recordings are confidential; their totals, lengths and numbers of users are not, and hold here
exactly.  Sizes scale with the capacity c.  D and B-not-limited are fully described and come out as
they were.  In the others a user's requests are Poisson, conditioned on their number:

- A: 10 users, each above what a bucket can admit in the 5 minutes, so that the centralised limiter
  rejects each of them; what is beyond that is divided by Zipf's law (user k gets a share of 1/k).
- B: one user all through the minute.  The one that is barely limited sends one request more than a bucket can
  admit in it, the least number "above" c and a minute's refill (4.3.4), which 1.1 c is when rounded; or 1.1 c.
- C: each user comes once, for a session of 5 minutes (A's length) somewhere in the hour, so that the
  number of users seen so far grows steadily (Fig. 5.14).  Counts follow a broken power law: the
  limited users' is Pareto with tail index 3/2 above what a bucket admits in a session; the others'
  falls from c on, with the exponent that gives the wanted total.  A user of at most c requests is
  never limited, so exactly the wanted share of users is, whatever the draws.

A user of A or C may send a part of its requests within 20 s somewhere in its session (``bursts``).

Instants are whole milliseconds, as recorded.  Randomness is named by user.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from core.defaults import CAPACITY
from core.limits import GENERATORS
from core.records import Float64, Int64
from core.seeds import generator
from core.units import MILLISECOND_NS, SECOND_NS, rational
from workloads.api import Offer, Size, Workload, require, span_of
from workloads.placement import RULES, Columns, PlacedRequests, user_id

MINUTE_MS = 60_000
A_USERS, A_TOTAL = 10, Fraction("68.3")  # in units of c, as are the next
B_TOTALS = {"B-extreme": Fraction("21.5"), "B-substantial": Fraction("3.2"), "B-barely": Fraction("1.1")}
LEAST = "1.06c"  # of BARELY: one above c and a minute's refill, which that is at r = 0.001 c
BARELY = (LEAST, "1.1c")
BURST_MS = 20_000  # ours
BURSTS = {"A": 0.5}  # ours: the share of a user's requests in one, where the config does not say; of others 0
B_SPACING = Fraction("1.05")  # in units of 1/r; ours: the thesis says a rate below the refill rate
D_SPACING_MS, D_MS = 900, 100_000
SESSION_MS = 5 * MINUTE_MS  # ours
FINEST_RATE, LONGEST_LIFE = 10**6, 2**61  # of limits, as limiters take them: a test compares (systems.parts.limit)
MOST_REQUESTS = 5 * 10**6  # ours: of 68.3 c in A, 21.5 c in B
LIMITED_EXPONENT = 2 / 3  # ours: of the k-th most active limited user's count, k^(-2/3)


@dataclass(frozen=True)
class DataSetConfig:
    """Which recording, for which limit.  Raises SpecError when made."""

    set: str = "A"  # A | B-extreme | B-substantial | B-barely | B-not-limited | C | D (thesis 4.3.4)
    capacity: int = CAPACITY  # c, in requests
    rate: str = ""  # r, tokens a second; empty = 0.001 c (thesis Table 4.1)
    placement: str = "injector"  # injector (thesis 4.3.1) | user | random
    users: int = 5000  # C only: thesis 4.3.4
    requests: int = 500_000  # C only; ours
    limited_share: float = 0.05  # C only; ours: the share of users that the centralised limiter rejects sometimes
    duration: str = "1h"  # C only: thesis 4.3.4
    barely: str = LEAST  # B-barely only: how many requests (4.3.4)
    bursts: str = ""  # A and C only; ours: the share of a user's requests within 20 s; empty: 0.5 in A, 0 in C

    def __post_init__(self) -> None:
        require(self.set in SETS, "set", self.set, f"choose one of {', '.join(SETS)}")
        require(1 <= self.capacity <= 10**6, "capacity", self.capacity, "give 1 to 1,000,000 tokens")
        require(self.placement in RULES, "placement", self.placement, f"choose one of {', '.join(RULES)}")
        try:
            per_ns = self.rate_rps / SECOND_NS
        except ValueError:
            per_ns = Fraction(0)
        require(per_ns > 0, "rate", self.rate, 'give tokens a second, as in "0.3" or "1/3"')
        usable = per_ns.numerator <= FINEST_RATE and self.capacity * per_ns.denominator <= LONGEST_LIFE
        require(usable, "rate", self.rate, "give fewer digits or a smaller capacity: limiters take no such rate")
        require(1 <= self.users <= GENERATORS, "users", self.users, f"give 1 to {GENERATORS:,} users")
        count = self.requests
        require(1 <= count <= MOST_REQUESTS, "requests", count, f"give 1 to {MOST_REQUESTS:,} requests")
        require(0 <= self.limited_share < 1, "limited_share", self.limited_share, "give 0 or more, below 1")
        span_ns = span_of("duration", self.duration)
        require(
            span_ns > 0 and span_ns % MILLISECOND_NS == 0, "duration", self.duration, "give whole milliseconds, above 0"
        )
        require(self.barely in BARELY, "barely", self.barely, f"choose one of {', '.join(BARELY)}")
        require(0 <= self.burst_share <= 1, "bursts", self.bursts, 'give a share from 0 to 1, as in "0.5"')
        require(not self.bursts or self.set in ("A", "C"), "bursts", self.bursts, "leave it out: it is of A and C")
        count = int(self.plan().counts.sum())
        fix = f"give a smaller one: {count:,} requests, and at most {MOST_REQUESTS:,} may be"
        require(count <= MOST_REQUESTS, "capacity", self.capacity, fix)

    @property
    def burst_share(self) -> float:
        """The share of a user's requests that fall within a burst; -1 for text that is no number."""
        try:
            return float(self.bursts) if self.bursts else BURSTS.get(self.set, 0.0)
        except ValueError:
            return -1.0

    @property
    def rate_rps(self) -> Fraction:
        """r, tokens a second of each user."""
        return rational(self.rate) if self.rate else Fraction(self.capacity, 1000)

    def plan(self) -> "SessionPlan":
        """How many requests each user sends, and when they may fall; SpecError where the options allow none."""
        return SETS[self.set](self)

    def most_admitted(self, span_ms: int) -> int:
        """At most c + r t: what a bucket that was full admits within a span."""
        return math.floor(self.capacity + self.rate_rps * span_ms / 1000)


@dataclass(frozen=True)
class SessionPlan:
    """``counts``: requests of each user; each comes in a session of ``session_ms`` somewhere in ``span_ms``.

    With a ``spacing_ms`` above 0 they are that far apart instead, from the start on.
    """

    span_ms: int
    counts: Int64
    session_ms: int
    spacing_ms: int = 0


def _rounded(size: Fraction) -> int:
    return math.floor(size + Fraction(1, 2))


def _apportion(total: int, shares: Float64) -> Int64:
    """``total`` in whole numbers, as near to ``shares`` (sum about ``total``) as can be: largest remainders."""
    whole = np.floor(shares).astype(np.int64)
    missing = total - int(whole.sum())
    assert 0 <= missing <= len(shares)
    whole[np.argsort(whole - shares, kind="stable")[:missing]] += 1
    return whole


def _set_a(config: DataSetConfig) -> SessionPlan:
    span_ms, total = 5 * MINUTE_MS, _rounded(A_TOTAL * config.capacity)
    least = config.most_admitted(span_ms) + 1
    over = total - A_USERS * least
    fix = "give a lower rate: each of A's 10 users is to send more than c + 5 min x r"
    require(over >= 0, "rate", config.rate, fix)
    weights = 1 / np.arange(1, A_USERS + 1)
    return SessionPlan(span_ms, least + _apportion(over, over * weights / weights.sum()), span_ms)


def _set_b(config: DataSetConfig) -> SessionPlan:
    total = _rounded(B_TOTALS[config.set] * config.capacity)
    if config.set == "B-barely" and config.barely == LEAST:
        total = config.most_admitted(MINUTE_MS) + 1
    return SessionPlan(MINUTE_MS, np.array([total]), MINUTE_MS)


def _evenly(span_ms: int, spacing_ms: int) -> SessionPlan:
    return SessionPlan(span_ms, np.array([-(-span_ms // spacing_ms)]), span_ms, spacing_ms)


def _set_not_limited(config: DataSetConfig) -> SessionPlan:
    return _evenly(2 * MINUTE_MS, math.ceil(B_SPACING * 1000 / config.rate_rps))


def _set_c(config: DataSetConfig) -> SessionPlan:
    span_ms = span_of("duration", config.duration) // MILLISECOND_NS
    session_ms = min(SESSION_MS, span_ms)
    limited = _rounded(Fraction(config.limited_share) * config.users)
    least = config.most_admitted(session_ms) + 1
    fix = "give a lower rate, or a smaller capacity: each limited user is to send more than c + r x 5 min"
    require(limited * least <= MOST_REQUESTS, "rate", config.rate, fix)
    rank = np.arange(config.users) + 0.5
    heavy = np.maximum(least, np.floor(least * (limited / rank[:limited]) ** LIMITED_EXPONENT)).astype(np.int64)
    light_total, light_users = config.requests - int(heavy.sum()), config.users - limited
    low, high = int(heavy.sum()) + light_users, int(heavy.sum()) + light_users * config.capacity
    what = f"with {config.users} users, {limited} of them limited, give {low:,} to {high:,} requests"
    require(low <= config.requests <= high, "requests", config.requests, what)
    beyond = 1 + (rank[limited:] - limited) / max(1, limited)  # rank in units of the last limited one's
    light = _apportion(light_total, _falling(light_total, beyond, config.capacity)) if light_users else rank[:0]
    return SessionPlan(span_ms, np.concatenate([heavy, light]).astype(np.int64), session_ms)


def _falling(total: int, rank: Float64, most: int) -> Float64:
    """Counts ``most`` x rank^-b between 1 and ``most``, with the b that makes their sum ``total``."""

    def counts(exponent: float) -> Float64:
        sizes: Float64 = np.maximum(1.0, most * rank**-exponent)
        return sizes

    low, high = 0.0, 1.0
    while counts(high).sum() > max(total, len(rank) + 1e-6):
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if counts(middle).sum() > total else (low, middle)
    return counts(low)


def _set_d(config: DataSetConfig) -> SessionPlan:
    return _evenly(D_MS, D_SPACING_MS)


SETS: dict[str, Callable[[DataSetConfig], SessionPlan]] = {
    "A": _set_a,
    **dict.fromkeys(B_TOTALS, _set_b),
    "B-not-limited": _set_not_limited,
    "C": _set_c,
    "D": _set_d,
}


def _columns(config: DataSetConfig, plan: SessionPlan, seed: int) -> Columns:
    """The requests of every user, in order of time, then of user."""
    names, instants = [], []
    for user, count in enumerate(plan.counts.tolist()):
        rng = generator(seed, "data-set", config.set, user)
        names.append(user_id(rng))
        if plan.spacing_ms:
            instants.append(np.arange(count) * plan.spacing_ms)
            continue
        start_ms = rng.integers(plan.span_ms - plan.session_ms + 1)
        burst = round(config.burst_share * count)
        instants.append(start_ms + rng.integers(plan.session_ms, size=count - burst))
        if burst:
            length_ms = min(BURST_MS, plan.session_ms)
            burst_ms = start_ms + rng.integers(plan.session_ms - length_ms + 1)
            instants.append(burst_ms + rng.integers(length_ms, size=burst))
    at_ms = np.concatenate(instants)
    users = np.repeat(np.arange(len(names), dtype=np.int32), plan.counts)
    order = np.lexsort((users, at_ms))
    return Columns(at_ms[order] * MILLISECOND_NS, users[order], np.ones(len(order), np.int32), tuple(names))


class DataSet(PlacedRequests):
    """The requests of one recording."""

    def __init__(self, config: DataSetConfig, seed: int):
        plan = config.plan()
        super().__init__(_columns(config, plan, seed), plan.span_ms * MILLISECOND_NS, config.placement, seed)


def size(config: DataSetConfig) -> Size:
    """Its plan's."""
    plan = config.plan()
    return Size(float(plan.counts.sum()), plan.span_ms * MILLISECOND_NS)


WORKLOAD = Workload(
    "data-set",
    "the thesis' request recordings A to D, generated",
    DataSetConfig,
    DataSet,
    Offer.REQUESTS,
    size,
)
