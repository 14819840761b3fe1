"""Proposition 1 and the output bound of a token bucket, for any arrivals and any split (SRTM II-A; report A.1)."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from core.records import Envelope
from systems.parts import token_bucket
from systems.parts.token_bucket import MICRO, TOKEN

gaps_ns = st.lists(
    st.one_of(st.just(0), st.integers(0, 3_000_000), st.integers(0, 200_000_000)), min_size=1, max_size=60
)


def released_ns(arrivals_ns: list[int], bucket: Envelope) -> list[int]:
    """When each message leaves, first in first out, from a bucket that is full at 0."""
    rate, capacity = token_bucket.units(bucket)
    level, last_ns, found = capacity, 0, []
    for at_ns in arrivals_ns:
        level, wait_ns = token_bucket.take(level, at_ns - last_ns, rate, capacity)
        last_ns = at_ns
        found.append(at_ns + wait_ns)
    return found


def running_sum_ns(arrivals_ns: list[int], left_ns: list[int], t_ns: int) -> int:
    """S(t): what all messages have waited by ``t_ns``."""
    return sum(min(left, t_ns) - at for at, left in zip(arrivals_ns, left_ns, strict=True) if at <= t_ns)


@given(
    gaps=gaps_ns,
    rate_rps=st.floats(10, 5_000),
    extra_burst=st.floats(0, 20),
    shares=st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=2, max_size=6),
    data=st.data(),
)
def test_splitting_never_improves_the_running_sum(
    gaps: list[int], rate_rps: float, extra_burst: float, shares: list[tuple[float, float]], data: st.DataObject
) -> None:
    arrivals = list(accumulate(gaps))
    whole = Envelope(round(rate_rps, 3), round(len(shares) + extra_burst, 6))
    parts = token_bucket.split_bucket(whole, [rate for rate, _ in shares], [burst for _, burst in shares])
    to = data.draw(st.lists(st.integers(0, len(parts) - 1), min_size=len(arrivals), max_size=len(arrivals)))

    one = released_ns(arrivals, whole)
    split = [0] * len(arrivals)
    for part, bucket in enumerate(parts):
        mine = [i for i, chosen in enumerate(to) if chosen == part]
        for i, left in zip(mine, released_ns([arrivals[i] for i in mine], bucket), strict=True):
            split[i] = left

    rounding_ns = len(arrivals)  # waits are rounded up to whole nanoseconds
    for t_ns in sorted({*arrivals, *one, *split}):
        assert running_sum_ns(arrivals, split, t_ns) >= running_sum_ns(arrivals, one, t_ns) - rounding_ns


@given(gaps=gaps_ns, rate_rps=st.floats(10, 5_000), burst=st.floats(1, 20))
def test_output_of_any_interval_is_bounded(gaps: list[int], rate_rps: float, burst: float) -> None:
    bucket = Envelope(round(rate_rps, 3), round(burst, 6))
    left = released_ns(list(accumulate(gaps)), bucket)
    assert left == sorted(left)
    rate, _ = token_bucket.units(bucket)
    capacity = round(bucket.burst_count * MICRO) * (TOKEN // MICRO)
    for i, start in enumerate(left):
        for j in range(i, len(left)):
            rounded = 1  # a release waits for the next whole nanosecond
            assert (j - i + 1) * TOKEN <= capacity + (left[j] - start + rounded) * rate


def test_a_split_does_cost_something() -> None:
    """The comparison above is no comparison of zeros: a burst that one bucket takes waits in half of one."""
    arrivals = [0, 0, 0, 0]
    assert released_ns(arrivals, Envelope(100, 4)) == arrivals
    assert released_ns(arrivals, Envelope(50, 2)) == [0, 0, 20_000_000, 40_000_000]
