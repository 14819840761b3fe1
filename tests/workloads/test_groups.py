"""Poisson and periodic traffic: rates, dispersion, periods, and what members of a group share."""

import numpy as np
import pytest
from scipy import stats

from core.errors import SpecError
from tests.workloads.common import SECOND, schedule
from workloads.groups import GroupedConfig, group_rates
from workloads.poisson import alias_table

KINDS = ["poisson", "periodic"]


def counts_per_window(block, window_ns, windows):
    return np.bincount(block.at_ns // window_ns, minlength=windows)


@pytest.mark.parametrize("batch", [1, 10])
def test_poisson_topic_has_its_rate_and_dispersion_one(batch):
    block = schedule("poisson", publishers=100, rate_rps=10.0, batch=batch).block(0, 200 * SECOND)
    assert (block.count == batch).all()
    expected = 100 * 10 * 200 / batch  # emissions
    assert abs(len(block.at_ns) - expected) < 4 * np.sqrt(expected)
    assert block.message_count == batch * len(block.at_ns)
    counts = counts_per_window(block, SECOND // 10, 2_000)
    # Under Poisson, (n - 1) x variance / mean is chi-squared with n - 1 degrees.
    dispersion = counts.var(ddof=1) / counts.mean()
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 1_999) / 1_999
    assert low < dispersion < high


def test_poisson_publisher_is_poisson_itself():
    block = schedule("poisson", publishers=7, rate_rps=50.0).block(0, 100 * SECOND)
    for publisher in range(7):
        gaps = np.diff(block.at_ns[block.publisher == publisher]) / SECOND
        assert stats.kstest(gaps, "expon", args=(0, 1 / 50)).pvalue > 1e-4


def test_poisson_chunk_borders_leave_no_seam():
    asked = schedule("poisson", publishers=1_000, rate_rps=100.0)
    block = asked.block(0, 10 * asked.chunk_ns)
    gaps = np.diff(block.at_ns) / SECOND
    assert stats.kstest(gaps, "expon", args=(0, 1e-5)).pvalue > 1e-4
    by_chunk = counts_per_window(block, asked.chunk_ns, 10)
    assert len(set(by_chunk)) > 5  # the number of events is random, not fixed


@pytest.mark.parametrize("rates", ["homogeneous", "zipf", "pareto"])
def test_periodic_publisher_emits_once_a_period(rates):
    asked = schedule("periodic", publishers=60, rate_rps=10.0, batch=2, rates=rates)
    publisher_count = asked.population.count
    for publisher in range(publisher_count):
        period_ns = round(2 * SECOND / asked.population.rate_rps[publisher])
        for start_ns in (0, 123_456_789):
            block = asked.block(start_ns, start_ns + 3 * period_ns)
            own = block.at_ns[block.publisher == publisher]
            assert len(own) == 3 and (np.diff(own) == period_ns).all()


def test_periodic_phases_are_uniform_and_a_groups_own():
    few, many = (schedule("periodic", publishers=count).block(0, SECOND // 10) for count in (400, 900))
    assert stats.kstest(few.at_ns / (SECOND / 10), "uniform").pvalue > 1e-4
    both = many.publisher < 400
    np.testing.assert_array_equal(few.at_ns, many.at_ns[both])
    np.testing.assert_array_equal(few.publisher, many.publisher[both])


@pytest.mark.parametrize("key", KINDS)
def test_members_share_instants_without_spread(key):
    asked = schedule(key, publishers=23, group_size=5)
    np.testing.assert_array_equal(asked.population.group, np.repeat(range(5), [5, 5, 5, 5, 3]))
    block = asked.block(0, 20 * SECOND)
    for group in range(5):
        members = np.flatnonzero(asked.population.group == group)
        instants = [block.at_ns[block.publisher == member] for member in members]
        assert len(instants[0]) > 100
        for other in instants[1:]:
            np.testing.assert_array_equal(instants[0], other)


@pytest.mark.parametrize("key", KINDS)
def test_even_spread_shifts_member_i_by_its_share(key):
    spread_ns, options = 16_000_000, dict(publishers=23, group_size=5)
    together = schedule(key, **options).block(-SECOND, 30 * SECOND)
    apart = schedule(key, **options, spread="16ms").block(0, 20 * SECOND)
    for publisher in range(23):
        member, size = publisher % 5, 5 if publisher < 20 else 3
        moved = together.at_ns[together.publisher == publisher] + member * spread_ns // (size - 1)
        moved = moved[(moved >= 0) & (moved < 20 * SECOND)]
        np.testing.assert_array_equal(apart.at_ns[apart.publisher == publisher], moved)


@pytest.mark.parametrize("key", KINDS)
def test_uniform_spread_stays_within_the_interval(key):
    options = dict(publishers=40, group_size=8, rate_rps=1.0)
    together = schedule(key, **options).block(0, 60 * SECOND)
    apart = schedule(key, **options, spread="16ms", spread_kind="uniform").block(0, 61 * SECOND)
    events = {group: together.at_ns[together.publisher == group * 8] for group in range(5)}
    delays = []
    for at_ns, publisher in zip(apart.at_ns, apart.publisher, strict=True):
        before = events[publisher // 8]
        place = np.searchsorted(before, at_ns, side="right") - 1
        if place >= 0 and at_ns < 60 * SECOND:
            delays.append(at_ns - before[place])
    delays = np.array(delays)
    close = delays[delays <= 16_000_000]
    assert len(close) > 0.95 * len(delays)  # the rest: two events of a group, or one before the window
    assert stats.kstest(close / 16e6, "uniform").pvalue > 1e-4
    assert len(np.unique(close)) > 100  # drawn for each emission


@pytest.mark.parametrize("key", KINDS)
def test_spread_keeps_every_message(key):
    options = dict(publishers=30, group_size=10)
    asked = schedule(key, **options, spread="16ms", spread_kind="uniform")
    whole = asked.block(0, 60 * SECOND)
    expected = 60 * 30 * 10
    assert abs(len(whole.at_ns) - expected) < 4 * np.sqrt(expected * 10)
    per_publisher = np.bincount(whole.publisher, minlength=30)
    assert np.ptp(per_publisher[:10]) <= 3  # members differ only by what crosses the window's ends


@pytest.mark.parametrize("rates", ["zipf", "pareto"])
def test_heterogeneous_rates_keep_the_topics_mean(rates):
    config = GroupedConfig(publishers=95, group_size=10, rates=rates, rate_rps=20.0)
    rates_rps = group_rates(config, seed=4)
    assert rates_rps @ config.group_sizes == pytest.approx(95 * 20.0)
    assert rates_rps.max() > 2 * rates_rps.min() > 0
    assert (np.diff(rates_rps) > 0).any() and (np.diff(rates_rps) < 0).any()  # dealt at random


def test_zipf_rates_follow_the_exponent():
    rates_rps = np.sort(group_rates(GroupedConfig(publishers=50, rates="zipf", rates_shape=1.2), seed=4))[::-1]
    np.testing.assert_allclose(rates_rps / rates_rps[0], np.arange(1, 51) ** -1.2)


@pytest.mark.parametrize("rates", ["zipf", "pareto"])
def test_heterogeneous_poisson_publishers_have_their_rates(rates):
    asked = schedule("poisson", publishers=20, rates=rates, rate_rps=50.0)
    counts = np.bincount(asked.block(0, 100 * SECOND).publisher, minlength=20)
    expected = asked.population.rate_rps * 100
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < stats.chi2.ppf(1 - 1e-4, 20)


def test_alias_table_gives_the_weights_back():
    weight = np.array([0.0, 1.0, 2.0, 7.0, 0.5])
    keep, other = alias_table(weight)
    share = keep / 5
    np.add.at(share, other, (1 - keep) / 5)
    np.testing.assert_allclose(share, weight / weight.sum(), atol=1e-15)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("publishers", 0),
        ("rate_rps", -1.0),
        ("rate_rps", 0.0),
        ("rate_rps", float("nan")),
        ("rate_rps", float("inf")),
        ("batch", 0),
        ("rates", "gauss"),
        ("group_size", 0),
        ("group_size", 11),
        ("spread", "16"),
        ("spread", "2h"),
        ("spread_kind", "odd"),
        ("size_bytes", -1),
    ],
)
def test_impossible_field_is_named(field, value):
    with pytest.raises(SpecError, match=field):
        GroupedConfig(**{"publishers": 10, field: value})


def test_pareto_without_a_mean_is_refused():
    with pytest.raises(SpecError, match="rates_shape"):
        GroupedConfig(rates="pareto", rates_shape=1.0)
