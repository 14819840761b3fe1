"""Concentration and assignment: generated ground truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.records import Population
from systems.parts.assignment import Pool, blind, rates_of
from systems.parts.concentration import by_capacity, equal_total_quotas, max_min_quotas, smallest_prefix

capacities = st.lists(st.floats(0, 1e5), min_size=1, max_size=8)


@given(capacities, st.floats(0, 4e5))
def test_smallest_prefix_is_smallest(rcap, rate):
    rcap = sorted(rcap, reverse=True)
    k = smallest_prefix(rcap, rate)
    assert sum(rcap[:k]) >= rate or k == len(rcap)
    assert k == 1 or sum(rcap[: k - 1]) < rate


def test_capacities_that_add_up_to_just_the_rate_are_enough():
    """Fig. 6, 10,000 publishers: broker 1 of 110,000 msg/s has 10,000 already."""
    rcap = [100_000, 70_000, 60_000, 50_000, 40_000, 30_000]
    assert [smallest_prefix(rcap, rate) for rate in (99_999, 100_000, 100_001, 170_000)] == [1, 1, 2, 2]


def test_capacity_order_keeps_ties():
    assert by_capacity([5, 9, 5, 9]) == [1, 3, 0, 2]


@given(capacities, st.floats(1, 1e5))
def test_max_min_quotas_maximise_the_smallest(rcap, rate):
    quotas = max_min_quotas(rcap, rate)
    assert sum(quotas) == pytest.approx(rate)
    assert sorted(quotas) == sorted(max_min_quotas(sorted(rcap), rate))
    if sum(rcap) >= rate:
        assert all(quota <= cap * (1 + 1e-9) + 1e-6 for quota, cap in zip(quotas, rcap, strict=True))
        # No feasible shares have a larger minimum: it is limited by the even share or by the fullest broker.
        assert min(quotas) == pytest.approx(min(rate / len(rcap), min(rcap)))


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=8), st.floats(1, 1e6))
def test_equal_total_quotas_level_the_loads(load, rate):
    quotas = equal_total_quotas(load, rate)
    totals = [a + b for a, b in zip(load, quotas, strict=True)]
    assert sum(quotas) == pytest.approx(rate)
    level = max(t for t, quota in zip(totals, quotas, strict=True) if quota > 0)
    for total, quota in zip(totals, quotas, strict=True):
        assert quota >= 0 and total >= level * (1 - 1e-9) - 1e-6
        assert quota == 0 or total == pytest.approx(level)


@given(st.integers(1, 400), st.lists(st.floats(0.01, 1), min_size=1, max_size=6), st.integers(0, 2**32))
def test_blind_assignment_meets_the_quotas_to_a_publisher(count, weights, seed):
    publishers = Population(np.full(count, 10.0), np.arange(count, dtype=np.int32))
    quotas = np.array(weights) / sum(weights) * publishers.total_rps
    brokers = list(range(len(weights)))[::-1]
    assignment = blind(publishers, brokers, quotas, np.random.default_rng(seed))
    found = rates_of(publishers, assignment, len(weights))
    assert found.sum() == pytest.approx(publishers.total_rps)
    assert np.abs(found[brokers] - quotas).max() <= 10.0 + 1e-6


@given(st.integers(1, 40), st.integers(2, 30), st.floats(0.05, 1))
def test_every_group_gives_its_share_rounded_down(groups, size, share):
    count = groups * size
    publishers = Population(np.full(count, 10.0), np.repeat(np.arange(groups, dtype=np.int32), size))
    pool = Pool(publishers, np.arange(count))
    chosen = pool.pick(share * pool.rate_rps, 0.0, np.random.default_rng(0))
    assert set(np.bincount(publishers.group[chosen], minlength=groups)) == {int(share * size + 1e-9)}


@given(st.integers(10, 300), st.floats(0.05, 1), st.integers(0, 2**32))
def test_independent_publishers_are_drawn_until_the_quota_is_met(count, share, seed):
    publishers = Population(np.full(count, 10.0), np.arange(count, dtype=np.int32))
    pool = Pool(publishers, np.arange(count))
    chosen = pool.pick(share * pool.rate_rps, 0.8, np.random.default_rng(seed))
    assert len(np.unique(chosen)) == len(chosen) == int(np.ceil(share * count - 1e-9))


def test_groups_of_unequal_publishers_contribute_by_rate_or_by_number():
    rates = np.array([40.0, 30.0, 20.0, 10.0])
    publishers = Population(rates, np.zeros(4, np.int32))
    by_rate = Pool(publishers, np.arange(4), "rate").pick(50.0, 0.0, np.random.default_rng(0))
    by_number = Pool(publishers, np.arange(4), "publishers").pick(50.0, 0.0, np.random.default_rng(0))
    assert (list(by_rate), list(by_number)) == ([0], [0, 1])
