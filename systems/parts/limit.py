"""A rate limit (c, r) in exact integers: c tokens at most, r = p/q tokens a nanosecond.

Rates are rationals and balances integers, so that ties are ties.  Instants and lives are counted in
*ticks* of 1/p nanosecond, where one token takes exactly q ticks to come back: a token bucket, the
deaths of a queue's elements and GCRA's theoretical arrival time are then whole numbers of ticks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from core.errors import SpecError
from core.units import SECOND_NS, duration_ns, rational

_FINEST_RATE = 10**6  # p at most
_LONGEST_LIFE = 2**61  # c tokens' worth of ticks, at most
DIGITS = 18  # of a count of tokens, at most: 64 bits have them
PERIODS = {"second": "1s", "minute": "60s", "hour": "3600s", "day": "86400s"}


@dataclass(frozen=True)
class Limit:
    """``capacity`` tokens; a nanosecond is ``ticks_per_ns`` ticks, a token ``token_ticks`` ticks."""

    capacity: int
    ticks_per_ns: int
    token_ticks: int

    @property
    def rate_rps(self) -> Fraction:
        """Tokens a second."""
        return Fraction(self.ticks_per_ns * SECOND_NS, self.token_ticks)

    def ticks(self, at_ns: int) -> int:
        """An instant in ticks."""
        return at_ns * self.ticks_per_ns

    def instant_ns(self, ticks: int) -> int:
        """The first nanosecond at or after an instant in ticks."""
        return -(-ticks // self.ticks_per_ns)


def limit_of(capacity: int, rate: str) -> Limit:
    """The limit of ``capacity`` tokens and ``rate`` tokens a second, written ``"0.3"`` or ``"1/3"``.

    SpecError where there is less than one token, or the rate is no positive rational of at most
    six digits' precision.
    """
    if capacity < 1:
        raise SpecError(f"capacity = {capacity}", "give at least 1 token")
    try:
        per_ns = rational(rate) / SECOND_NS
    except ValueError:
        raise SpecError(f"rate = {rate!r}", 'give tokens a second, as in "0.3" or "1/3"') from None
    if not 0 < per_ns.numerator <= _FINEST_RATE or capacity * per_ns.denominator > _LONGEST_LIFE:
        raise SpecError(f"rate = {rate!r}", "give a positive rate of fewer digits, and a smaller capacity")
    return Limit(capacity, per_ns.numerator, per_ns.denominator)


@dataclass(frozen=True)
class Quota:
    """A limit as deployed limiters say it: ``count`` requests of a user in ``period``, in seconds."""

    count: int
    period: Fraction

    def __str__(self) -> str:
        return f"{self.count} in {float(self.period):g} s"


def whole(driver: str, quota: Quota, periods: Mapping[str, int]) -> str:
    """The name of the quota's period, of those that a limiter knows in whole seconds; SpecError with the nearest."""
    names = {seconds: name for name, seconds in periods.items()}
    if quota.period not in names:
        nearest = min(names, key=lambda seconds: max(seconds / quota.period, quota.period / seconds))
        fix = f"the nearest that it can: capacity = {quota.count}, rate = {Fraction(quota.count, nearest)}"
        raise SpecError(f"{driver} cannot say {quota}: it counts by {', '.join(periods)}", fix)
    return names[int(quota.period)]


def per_period(text: str) -> tuple[int, str]:
    """Capacity and rate of a limit said as N per period, ``"20/1s"`` or ``"100/minute"``: c = N, r = N / period.

    SpecError for what says no limit.
    """
    count, _, period = text.replace(" ", "").partition("/")
    try:
        if len(count) > DIGITS:
            raise ValueError
        span = Fraction(duration_ns(PERIODS.get(period, period)), SECOND_NS)
        rate = int(count) / span
    except (ValueError, ZeroDivisionError):
        raise SpecError(f"limit {text!r}", 'say N per period, as in "20/1s" or "100/minute"') from None
    limit_of(int(count), str(rate))
    return int(count), str(rate)


def gcra(arrival_ticks: int, full_at_ticks: int, limit: Limit, cost: int = 1) -> int | None:
    """One step of the token bucket as GCRA: the new instant at which it is full again, None = rejected.

    ``full_at_ticks``: when the bucket is full if nothing more is taken; any past instant means full.
    A request conforms if ``cost`` whole tokens are there at ``arrival_ticks``; a token is back exactly
    1/r after it was taken.
    """
    full_at = max(full_at_ticks, arrival_ticks) + cost * limit.token_ticks
    return full_at if full_at - arrival_ticks <= limit.capacity * limit.token_ticks else None
