"""The histogram's index, bounds and quantiles against direct computation on the values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.histogram import BUCKET_COUNT, bucket_bounds, bucket_index, bucket_values, quantile

VALUES_NS = st.one_of(
    st.integers(0, 300),
    st.integers(0, 2**62 - 1),
    st.builds(lambda power, offset: max(0, min(2**62 - 1, 2**power + offset)), st.integers(0, 62), st.integers(-2, 2)),
)
SAMPLES_NS = st.lists(VALUES_NS, min_size=1, max_size=200)


def counts_of(values):
    return np.bincount(bucket_index(values), minlength=BUCKET_COUNT)


def test_buckets_tile_the_range_without_gaps():
    low_ns, high_ns = bucket_bounds()
    assert low_ns[0] == 0 and high_ns[-1] == 2**62
    assert (high_ns[:-1] == low_ns[1:]).all()


def test_buckets_are_exact_below_256_and_at_most_one_percent_wide_above():
    low_ns, high_ns = bucket_bounds()
    width_ns = high_ns - low_ns
    assert (width_ns[:256] == 1).all() and (bucket_values()[:256] == np.arange(256)).all()
    assert (width_ns[256:] <= 0.01 * low_ns[256:]).all()


@given(VALUES_NS)
def test_a_value_lies_in_its_bucket(value):
    low_ns, high_ns = bucket_bounds()
    index = int(bucket_index(value))
    assert low_ns[index] <= value < high_ns[index]


@given(VALUES_NS)
def test_the_index_is_the_documented_formula(value):
    shift = max(value.bit_length() - 1 - 7, 0)
    assert bucket_index(value) == (shift << 7) + (value >> shift)


@given(SAMPLES_NS)
def test_larger_values_never_fall_into_smaller_buckets(values):
    ordered = np.sort(np.array(values, np.int64))
    assert (np.diff(bucket_index(ordered)) >= 0).all()


def test_the_shape_is_kept():
    assert bucket_index(np.zeros((2, 3), np.int64)).shape == (2, 3)
    assert bucket_index([]).shape == (0,)


@pytest.mark.parametrize("value", [-1, 2**62])
def test_values_outside_the_range_are_bugs(value):
    with pytest.raises(AssertionError):
        bucket_index(value)


@given(SAMPLES_NS, st.sampled_from([0.001, 0.5, 0.9, 0.95, 0.99, 1.0]))
def test_quantiles_are_within_one_percent_of_the_inverted_cdf(values, q):
    ordered = sorted(values)
    exact = next(v for rank, v in enumerate(ordered, start=1) if rank >= q * len(ordered))
    assert abs(quantile(counts_of(values), q) - exact) <= 0.01 * exact


def test_known_quantiles():
    counts = counts_of(np.arange(1, 101))
    assert [quantile(counts, q) for q in (0.01, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert quantile(counts_of([7]), 0.99) == 7


def test_nothing_has_no_quantile():
    with pytest.raises(AssertionError, match="a quantile of nothing"):
        quantile(np.zeros(BUCKET_COUNT, np.int64), 0.5)
