"""The automatic limit, and that its kernel is the limiters' own rule."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import SECOND_NS
from systems.parts.limit import gcra, limit_of
from tests.workloads.common import schedule
from workloads.auto_limit import auto_limit, centrally_admitted, rate_text

NASA = Path(__file__).parents[3] / "shared" / "data" / "nasa-http-1995" / "nasa_19950801.tsv.gz"
ROWS = st.lists(st.tuples(st.integers(0, 4 * SECOND_NS), st.integers(0, 3), st.integers(1, 4)), max_size=60)
BEGINS = st.sampled_from([0, 10**9, 2**60])


def columns(rows, begin_ns=0):
    """Gaps, users and costs as columns."""
    gaps, users, costs = zip(*rows, strict=True) if rows else ((), (), ())
    at_ns = begin_ns + np.cumsum(np.array(gaps, np.int64))
    return at_ns, np.array(users, np.int32), np.array(costs, np.int32)


@given(ROWS, st.integers(1, 5), st.sampled_from(["1", "0.3", "1/3", "2.5", "7/11"]), BEGINS)
def test_the_kernel_is_gcra(rows, capacity, rate, begin_ns):
    at_ns, user, cost = columns(rows, begin_ns)
    limit, full_at, expected = limit_of(capacity, rate), [-(2**80)] * 4, []
    for instant, who, tokens in zip(at_ns.tolist(), user.tolist(), cost.tolist(), strict=True):
        after = gcra(limit.ticks(instant), full_at[who], limit, tokens)
        expected.append(after is not None)
        full_at[who] = full_at[who] if after is None else after
    assert centrally_admitted(at_ns, user, cost, capacity, rate).tolist() == expected


def test_ties_are_ties():
    at_ns = np.array([0, 0, 10 * SECOND_NS // 3, 10 * SECOND_NS // 3 + 1])  # 1/r = 10/3 s
    found = centrally_admitted(at_ns, np.zeros(4, np.int32), np.ones(4, np.int32), 1, "0.3")
    assert found.tolist() == [True, False, False, True]


@given(ROWS.filter(bool), st.floats(0.01, 0.6))
def test_no_other_capacity_comes_nearer(rows, share):
    at_ns, user, _ = columns(rows)
    cost = np.ones(len(at_ns), np.int32)
    found = auto_limit(at_ns, user, cost, share)
    shares = [1 - centrally_admitted(at_ns, user, cost, c, rate_text(c)).mean() for c in range(1, len(rows) + 1)]
    assert abs(found.rejected_share - share) == min(abs(value - share) for value in shares)
    assert found.rejected_share == shares[found.capacity - 1]
    assert limit_of(found.capacity, found.rate).rate_rps * 1000 == found.capacity


def test_rates_are_short_rationals():
    assert [rate_text(c) for c in (1, 19, 300, 1000, 2500, 10_000)] == ["0.001", "0.019", "0.3", "1", "2.5", "10"]


def test_a_tenth_of_a_steady_user_is_rejected():
    # One user, a request a second for 1000 s, after which r = 0.001 c has given back another c: 2c of 1000 pass.
    at_ns = np.arange(1000) * SECOND_NS
    found = auto_limit(at_ns, np.zeros(1000, np.int32), np.ones(1000, np.int32), 0.1)
    assert found.capacity in (450, 451) and found.rejected_share == pytest.approx(0.1, abs=0.002)


def test_large_costs_and_empty_logs_are_named():
    at_ns, users = np.arange(3), np.zeros(3, np.int32)
    with pytest.raises(SpecError, match="cost_per"):
        auto_limit(at_ns, users, np.full(3, 2_000_000, np.int32))
    with pytest.raises(SpecError, match="no requests"):
        auto_limit(at_ns[:0], users[:0], users[:0])


@pytest.mark.skipif(not NASA.exists(), reason="NASA's log is not beside the checkout")
def test_nasas_limit_rejects_about_five_percent():
    at_ns, user, cost, _ = schedule("request-log", path=str(NASA)).columns()
    found = auto_limit(at_ns, user, cost)
    assert found == auto_limit(at_ns, user, cost) and abs(found.rejected_share - 0.05) < 0.005
