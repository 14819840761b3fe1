"""Shifting traffic: the topic stays the same, the publishers change."""

import numpy as np
import pytest
from scipy import stats

from core.errors import SpecError
from tests.workloads.common import SECOND, schedule
from workloads.shifting import ShiftingConfig


def test_topic_does_not_depend_on_the_shares():
    steady = schedule("shifting", publishers=101, share_after=0.5).block(0, 60 * SECOND)
    shifted = schedule("shifting", publishers=101, share_after=0.9).block(0, 60 * SECOND)
    np.testing.assert_array_equal(steady.at_ns, shifted.at_ns)
    np.testing.assert_array_equal(steady.count, shifted.count)
    before = steady.at_ns < 20 * SECOND
    np.testing.assert_array_equal(steady.publisher[before], shifted.publisher[before])
    moved = steady.publisher[~before] != shifted.publisher[~before]
    assert 0.3 < moved.mean() < 0.5  # only those that changed sides: 0.4 of the traffic


def test_shares_before_and_after():
    asked = schedule("shifting", publishers=11, rate_rps=100.0, share_before=0.3, share_after=0.75)
    block = asked.block(0, 40 * SECOND)
    for start, end, share in ((0, 20, 0.3), (20, 40, 0.75)):
        publisher = block.publisher[(block.at_ns >= start * SECOND) & (block.at_ns < end * SECOND)]
        assert stats.binomtest(int((publisher < 5).sum()), len(publisher), share).pvalue > 1e-4
        for part in (publisher[publisher < 5], publisher[publisher >= 5]):
            _, counts = np.unique(part, return_counts=True)
            assert stats.chisquare(counts).pvalue > 1e-4  # evenly within a set
    assert set(block.publisher) == set(range(11))


def test_ramp_is_linear():
    asked = schedule("shifting", shift_at="10s", ramp="20s", share_before=0.2, share_after=0.6)
    at_ns = np.array([0, 10, 15, 20, 30, 99]) * SECOND
    np.testing.assert_allclose(asked.share_at(at_ns), [0.2, 0.2, 0.3, 0.4, 0.6, 0.6])
    block = asked.block(19 * SECOND, 21 * SECOND)
    assert stats.binomtest(int((block.publisher < 500).sum()), len(block.publisher), 0.4).pvalue > 1e-4


def test_population_has_the_rates_before_and_after():
    asked = schedule("shifting", publishers=10, rate_rps=10.0, share_before=0.5, share_after=0.8)
    np.testing.assert_allclose(asked.population.rate_rps, 10.0)
    after = asked.population_at(20 * SECOND)
    np.testing.assert_allclose(after.rate_rps, [16.0] * 5 + [4.0] * 5)
    assert after.total_rps == pytest.approx(asked.population.total_rps)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("publishers", 1),
        ("rate_rps", -3.0),
        ("share_after", 1.5),
        ("share_before", -0.1),
        ("shift_at", "soon"),
        ("ramp", "1"),
    ],
)
def test_impossible_field_is_named(field, value):
    with pytest.raises(SpecError, match=field):
        ShiftingConfig(**{field: value})
