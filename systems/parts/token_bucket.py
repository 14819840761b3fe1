"""The token bucket (r, b) as one integer step, and its split into sub-buckets.

SRTM report, appendix A.1: starts full; a message leaves at max(its arrival, the instant at which a
full token exists), first in first out.

Integer units, so that every body (node, kernel, Go) computes the same: a token is ``TOKEN``
= 10^12 units, and a rate of one thousandth of a token a second adds one unit a nanosecond.
A negative level is a debt: messages that wait have already taken their tokens.
"""

from collections.abc import Sequence

from core.records import Envelope

TOKEN = 10**12
RATE_PER_RPS = 1_000  # units a nanosecond for one token a second
MAXIMUM_RATE = 4 * 10**8  # 400,000 tokens a second; the step stays inside 64 bits
MAXIMUM_CAPACITY = 4 * 10**18  # 4 million tokens
_LONG_NS = 10**10  # refill in steps of at most this, for the same reason
MICRO = 10**6  # bursts are split in millionths of a token


class InfeasibleSplit(ValueError):
    """The burst is smaller than the number of parts: some part could never form a full token (footnote 2)."""


def units(envelope: Envelope) -> tuple[int, int]:
    """(rate, capacity) of an envelope in integer units.  Raises ValueError outside the supported range."""
    rate = round(envelope.rate_rps * RATE_PER_RPS)
    capacity = round(envelope.burst_count * MICRO) * (TOKEN // MICRO)
    if not 0 < rate <= MAXIMUM_RATE or not TOKEN <= capacity <= MAXIMUM_CAPACITY:
        raise ValueError(
            f"token bucket out of range: {envelope} (rate 0.001 to 400,000 a second, burst 1 to 4 million)"
        )
    return rate, capacity


def refill(level: int, elapsed_ns: int, rate: int, capacity: int) -> int:
    """The level after ``elapsed_ns``, at most ``capacity``."""
    while elapsed_ns > _LONG_NS:
        level = min(capacity, level + _LONG_NS * rate)
        elapsed_ns -= _LONG_NS
    return min(capacity, level + elapsed_ns * rate)


def wait_ns(level: int, rate: int) -> int:
    """How long until a debt is repaid: 0 for a level that is not negative."""
    return 0 if level >= 0 else (rate - 1 - level) // rate


def rounded_debt(level: int, quantum: int) -> int:
    """The debt rounded up to a multiple of ``quantum`` units: messages are released a quantum at a time."""
    return level if quantum <= 1 else level // quantum * quantum


def take(level: int, elapsed_ns: int, rate: int, capacity: int) -> tuple[int, int]:
    """One message takes one token ``elapsed_ns`` after the last step.

    Returns the level after it and how long the message waits for its token.  (Kernels call
    ``refill`` and ``wait_ns`` themselves, once for a batch.)
    """
    level = refill(level, elapsed_ns, rate, capacity) - TOKEN
    return level, wait_ns(level, rate)


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Split ``total`` in proportion to ``weights``; the sum is exact (largest remainder, ties to the first)."""
    weight_sum = float(sum(weights))
    assert weight_sum > 0 and min(weights) >= 0
    exact = [total * (weight / weight_sum) for weight in weights]
    parts = [int(share) for share in exact]
    order = sorted(range(len(parts)), key=lambda i: parts[i] - exact[i])
    rest = total - sum(parts)
    step = 1 if rest > 0 else -1
    for n in range(abs(rest)):
        parts[order[n % len(order)]] += step
    return parts


def raise_to_floor(parts: list[int], floor: int) -> list[int]:
    """Raise every part below ``floor`` to it, at the expense of the largest; the sum stays."""
    if sum(parts) < floor * len(parts):
        raise InfeasibleSplit(f"a burst of {sum(parts) / MICRO:g} cannot give {len(parts)} parts of at least 1")
    parts = list(parts)
    for i, part in enumerate(parts):
        missing = floor - part
        while missing > 0:
            largest = max(range(len(parts)), key=parts.__getitem__)
            moved = min(missing, parts[largest] - floor)
            parts[largest] -= moved
            parts[i] += moved
            missing -= moved
    return parts


def split_bucket(
    envelope: Envelope,
    rate_weights: Sequence[float],
    burst_weights: Sequence[float] | None = None,
    quantum: int = 1,
) -> list[Envelope]:
    """Sub-buckets (r_l, b_l) with sum r_l = r and sum b_l = b, in proportion to the weights (SRTM VI).

    No sub-bucket holds less than ``quantum`` tokens (1; more only with the artifact's release
    quantum) or has a rate below 0.001 tokens a second.  Raises InfeasibleSplit if b is too small.
    """
    rates = apportion(round(envelope.rate_rps * RATE_PER_RPS), rate_weights)
    rates = raise_to_floor(rates, 1)
    bursts = apportion(round(envelope.burst_count * MICRO), burst_weights or rate_weights)
    bursts = raise_to_floor(bursts, quantum * MICRO)
    return [Envelope(rate / RATE_PER_RPS, burst / MICRO) for rate, burst in zip(rates, bursts, strict=True)]


def release_quantum(burst_count: float) -> int:
    """Messages released at once by the public artifact: clamp(floor(b/6), 1, 10).  An option, off by default."""
    return max(1, min(10, int(burst_count // 6)))
