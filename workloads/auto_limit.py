"""``--limit auto``: the limit (c, r) under which the centralised limiter rejects 5 % of a log's requests.

Two numbers and one condition, so the shape is fixed as in the thesis (Table 4.1): r = 0.001 c, an
empty bucket is full again after 1000 s.  c is the whole number that comes closest.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from core.errors import SpecError
from core.records import Int32, Int64

SHARE = 0.05
REFILL_S = 1000  # c / r, thesis Table 4.1
_MOST_TOKENS = 10**6  # of a bucket: systems take rates of up to six digits


class AutoLimit(NamedTuple):
    """``capacity`` tokens, ``rate`` tokens a second as text, and the share of requests that it rejects."""

    capacity: int
    rate: str
    rejected_share: float


def auto_limit(at_ns: Int64, user: Int32, cost: Int32, share: float = SHARE) -> AutoLimit:
    """The limit that rejects ``share`` of the requests most nearly; of two as near, the one that rejects less.

    Takes the columns of requests in order of time (``user``: an index).  Small logs jump past the share:
    the one that is reached is reported.  Raises SpecError without requests, or if c is beyond a million.
    """
    if len(at_ns) == 0:
        raise SpecError("an automatic limit for no requests at all", "give a log, or a later end of it")

    def rejected(capacity: int) -> float:
        return 1 - float(centrally_admitted(at_ns, user, cost, capacity, rate_text(capacity)).mean())

    # Where costs are all 1, the share falls as c grows; where not, nearly so: then this finds one crossing.
    low, high = 0, 1  # rejects more than the share; at most the share
    while rejected(high) > share:
        low, high = high, min(high * 2, _MOST_TOKENS)
        if low == _MOST_TOKENS:
            raise SpecError(
                f"no limit of up to {_MOST_TOKENS:,} tokens fits this log", "divide costs by more (cost_per)"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rejected(middle) > share else (low, middle)
    nearest = min((capacity for capacity in (high, low) if capacity), key=lambda c: abs(rejected(c) - share))
    return AutoLimit(nearest, rate_text(nearest), rejected(nearest))


def rate_text(capacity: int) -> str:
    """Tokens a second that fill a bucket of ``capacity`` in 1000 s, as in "0.3"."""
    whole, rest = divmod(capacity, REFILL_S)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".")


def centrally_admitted(
    at_ns: Int64, user: Int32, cost: Int32, capacity: int, rate: str
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the centralised limiter of ``capacity`` tokens and ``rate`` a second admits each request, bool (n,)."""
    from workloads.gcra_kernel import admitted

    per_ns = Fraction(rate) / 10**9
    users = int(user.max()) + 1 if len(user) else 0
    decisions: np.ndarray[tuple[int], np.dtype[np.bool_]] = admitted(
        at_ns, user, cost, users, capacity, per_ns.numerator, per_ns.denominator
    )
    return decisions
