"""Batches hold every run once, in the order of the campaign, and no more than a task should take."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.campaign import in_order
from harness.estimate import expected_seconds
from harness.executors.batches import BATCH_S, LEAST, PARTS, batched
from tests.harness.common import small

SECONDS = st.lists(st.floats(0.001, 1_000.0), max_size=300)


@given(SECONDS, st.integers(1, 64))
def test_every_run_is_in_one_batch_and_none_of_several_is_long(seconds, cores):
    items = list(enumerate(seconds))
    batches = batched(items, lambda item: item[1], cores)
    assert [item for batch in batches for item in batch] == items
    most_s = min(BATCH_S, sum(seconds) / max(PARTS * cores, LEAST))
    for batch in batches:
        assert len(batch) == 1 or sum(item[1] for item in batch) <= most_s * (1 + 1e-9)
    for one, next_ in pairwise(batches):  # no batch is cut without need
        assert sum(item[1] for item in one) + next_[0][1] > most_s * (1 - 1e-9)


@given(st.integers(1, 5_000), st.integers(1, 64))
def test_short_runs_are_spread_over_all_cores(count, cores):
    batches = batched(range(count), lambda item: 0.1, cores)
    assert len(batches) >= min(count, PARTS * cores, LEAST)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40))
def test_the_longest_runs_of_a_campaign_begin_first(hundreds):
    runs = {str(n): small(n, workload_options={"publishers": 100 * h}) for n, h in enumerate(hundreds)}
    order = in_order(runs, [list(runs)])
    taken = [
        expected_seconds(runs[i]) for batch in batched(order, lambda i: expected_seconds(runs[i]), 2) for i in batch
    ]
    assert taken == sorted(taken, reverse=True)


@pytest.mark.parametrize("seconds", [[], [BATCH_S * 3]])
def test_nothing_and_one_long_run(seconds):
    assert batched(seconds, float, 4) == [[second] for second in seconds]
