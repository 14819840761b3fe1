"""The token bucket against its definition, and its split."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.records import Envelope
from systems.parts import token_bucket as tb

gaps = st.lists(st.integers(0, 3_000_000), min_size=1, max_size=200)
rates = st.integers(1, 400_000)
bursts = st.integers(1_000_000, 50_000_000).map(lambda micro: micro / 1_000_000)


def delays_by_definition(at_ns: list[int], rate_rps: int, burst: float) -> list[Fraction]:
    """max{0, U(a) + 1 - b} of the report's Eq. 2, in exact arithmetic, in seconds."""
    work, last, delays = Fraction(0), 0, []
    b = Fraction(round(burst * 10**6), 10**6)
    for now in at_ns:
        work = max(Fraction(0), work - Fraction(now - last, 10**9) * rate_rps)
        work, last = work + 1, now
        delays.append(max(Fraction(0), work - b) / rate_rps)
    return delays


@given(gaps, rates, bursts)
def test_delays_are_those_of_the_definition(gap_list, rate_rps, burst):
    at_ns = [sum(gap_list[: i + 1]) for i in range(len(gap_list))]
    rate, capacity = tb.units(Envelope(float(rate_rps), burst))
    level, last = capacity, 0
    for now, expected in zip(at_ns, delays_by_definition(at_ns, rate_rps, burst), strict=True):
        level, wait = tb.take(level, now - last, rate, capacity)
        last = now
        assert 0 <= wait - expected * 10**9 < 1


@given(gaps, rates, bursts, st.integers(0, 10_000_000))
def test_output_in_any_interval_is_at_most_b_plus_r_times_its_length(gap_list, rate_rps, burst, length_ns):
    rate, capacity = tb.units(Envelope(float(rate_rps), burst))
    level, now, released = capacity, 0, []
    for gap in gap_list:
        now += gap
        level, wait = tb.take(level, gap, rate, capacity)
        released.append(now + wait)
    assert released == sorted(released)
    for i, start in enumerate(released):
        count = sum(start <= at <= start + length_ns for at in released[i:])
        # A release is rounded up to a whole nanosecond, so an interval may be that much too short.
        assert count <= burst + rate_rps * (length_ns + 1) / 1e9 + 1e-6


def test_a_long_idle_time_fills_the_bucket_without_overflow():
    rate, capacity = tb.units(Envelope(400_000.0, 4_000_000.0))
    assert tb.refill(-capacity, 10**15, rate, capacity) == capacity


def test_values_out_of_range_are_named():
    for envelope in (Envelope(0.0, 5.0), Envelope(500_000.0, 5.0), Envelope(10.0, 0.5), Envelope(10.0, 5e6)):
        with pytest.raises(ValueError, match="out of range"):
            tb.units(envelope)


@given(st.integers(0, 10**12), st.lists(st.floats(0, 1e6), min_size=1, max_size=12).filter(lambda w: sum(w) > 0))
def test_apportioned_parts_add_up_and_are_off_by_less_than_one(total, weights):
    parts = tb.apportion(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - total * Fraction(weight) / Fraction(sum(weights))) < 2 + total * 1e-12


@given(st.integers(0, 10**9), st.lists(st.floats(0.001, 1e6), min_size=1, max_size=12))
def test_sub_buckets_keep_the_sums_and_the_floor(extra_micro, weights):
    envelope = Envelope(12_345.678, (len(weights) * tb.MICRO + extra_micro) / tb.MICRO)
    parts = tb.split_bucket(envelope, weights)
    assert sum(round(part.rate_rps * 1_000) for part in parts) == 12_345_678
    assert sum(round(part.burst_count * tb.MICRO) for part in parts) == len(weights) * tb.MICRO + extra_micro
    assert min(part.burst_count for part in parts) >= 1


def test_a_small_share_is_raised_at_the_expense_of_the_largest():
    bursts = [part.burst_count for part in tb.split_bucket(Envelope(100.0, 10.0), [1, 50, 49])]
    assert bursts == [1.0, pytest.approx(4.1), pytest.approx(4.9)]


def test_a_part_gives_only_what_it_has_above_the_floor():
    assert tb.raise_to_floor([0, 0, 12, 11], 5) == [5, 5, 7, 6]
    assert tb.raise_to_floor([5, 0, 4, 4], 3) == [3, 3, 3, 4]


def test_what_is_left_over_goes_to_the_largest_remainders():
    assert tb.apportion(10, [1, 1, 1]) == [4, 3, 3]  # ties to the first
    assert tb.apportion(10, [0.33, 0.38, 0.29]) == [3, 4, 3]
    assert tb.apportion(1, [0.2, 0.5, 0.3]) == [0, 1, 0]


def test_a_burst_below_the_number_of_parts_is_infeasible():
    with pytest.raises(tb.InfeasibleSplit, match="3 parts"):
        tb.split_bucket(Envelope(100.0, 2.9), [1, 1, 1])


def test_release_quantum_of_the_artifact():
    assert [tb.release_quantum(b) for b in (1, 11, 12, 59, 60, 1000)] == [1, 1, 2, 9, 10, 10]
