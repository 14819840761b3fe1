"""Every workload: any window, asked for twice or split anywhere, gives the same rows in canonical order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.common import SECOND, assert_canonical, assert_same, schedule
from workloads.chunks import join

POISSON_OR_PERIODIC = [
    dict(publishers=50),
    dict(publishers=23, batch=10),
    dict(publishers=53, group_size=5),
    dict(publishers=53, group_size=5, spread="16ms"),
    dict(publishers=53, group_size=53, spread="700ms", spread_kind="uniform"),
    dict(publishers=41, group_size=4, rates="zipf", spread="16ms"),
    dict(publishers=1_000, rates="pareto", rates_shape=1.1),
    dict(publishers=3, rate_rps=2e8),  # ties: a few nanoseconds between emissions
    dict(publishers=9, group_size=3, rate_rps=2e8),
    dict(publishers=9, group_size=3, rate_rps=2e8, spread="50ns", spread_kind="uniform"),
]
CASES = [(key, options) for key in ("poisson", "periodic") for options in POISSON_OR_PERIODIC]
CASES += [
    ("keyed", dict(publishers=53, group_size=5, spread="16ms", wrong=0.5, missing=0.1, noisy=0.2)),
    ("shifting", dict(publishers=21, shift_at="2s", share_after=0.9)),
    ("shifting", dict(publishers=21, shift_at="1s", ramp="3s", batch=10)),
    ("shifting", dict(publishers=5, rate_rps=2e8, shift_at="5us")),
    ("trace", dict(replicas=3, speed=2.0)),
    ("trace", dict(replicas=40, speed=1e6)),  # many rows at one instant
]


@pytest.fixture(scope="module")
def trace_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.csv"
    draws = np.random.default_rng(5)
    instants = np.sort(draws.integers(0, 4_000, 500))
    rows = [f"{draws.integers(0, 12)},{at},{size}" for size, at in enumerate(instants)]
    path.write_text("publisher,instant,size\n" + "\n".join(rows) + "\n")
    return str(path)


@pytest.mark.parametrize(("key", "options"), CASES, ids=str)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_windows_join(key, options, trace_path, data):
    if key == "trace":
        options = {"path": trace_path, "instant_unit": "ms", **options}
    asked = schedule(key, seed=3, **options)
    # About 20,000 rows at most, wherever in time: around 0, and far from it.
    longest_ns = int(20_000 / asked.population.total_rps * SECOND)
    origin_ns = data.draw(st.sampled_from([0, -longest_ns // 2, 3_600 * SECOND + 17]))
    a, b, c = sorted(data.draw(st.lists(st.integers(0, longest_ns), min_size=3, max_size=3)))
    a, b, c = a + origin_ns, b + origin_ns, c + origin_ns
    whole = asked.block(a, c)
    assert_canonical(whole, a, c)
    assert_same(whole, join([asked.block(a, b), asked.block(b, c)]))
    # Another object, asked backwards, agrees: nothing depends on what was asked before.
    fresh = schedule(key, seed=3, **options)
    right = fresh.block(b, c)
    assert_same(whole, join([fresh.block(a, b), right]))


@pytest.mark.parametrize("key", ["poisson", "periodic", "shifting"])
def test_seeds_differ_and_repeat(key):
    first, again, other = (schedule(key, seed=seed, publishers=20).block(0, SECOND) for seed in (1, 1, 2))
    assert_same(first, again)
    assert not np.array_equal(first.at_ns, other.at_ns)


def test_blocks_belong_to_the_caller():
    asked = schedule("poisson", publishers=20)
    first = asked.block(0, 20 * SECOND)
    kept = first.at_ns.copy()
    first.at_ns[:] = 0
    np.testing.assert_array_equal(asked.block(0, 20 * SECOND).at_ns, kept)


def test_empty_window_has_typed_empty_arrays():
    assert_canonical(schedule("poisson", publishers=20).block(5, 5), 5, 5)


def test_memory_is_bounded_by_the_chunks_kept():
    asked = schedule("poisson", publishers=100, group_size=10, spread="10ms")
    for second in range(0, 500, 5):
        asked.block(second * SECOND, (second + 5) * SECOND)
    assert len(asked._kept) <= 3 and len(asked._late) <= 2
