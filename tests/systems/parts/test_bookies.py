"""What messages wait for until they are stored."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.seeds import generator
from systems.parts.bookies import persisted_after_ns

TRIPS = st.lists(st.integers(0, 10**8), min_size=1, max_size=5)


@given(TRIPS, st.integers(0, 3))
def test_more_acknowledgements_take_longer_and_none_less_than_the_way(trips: list[int], seed: int) -> None:
    trips_ns = np.array(trips)
    waits = [persisted_after_ns(trips_ns, quorum, 1e6, 50, generator(seed, "b")) for quorum in range(1, len(trips) + 1)]
    assert all((one <= more).all() for one, more in pairwise(waits))
    for quorum, wait_ns in enumerate(waits, 1):
        assert (wait_ns >= np.sort(trips_ns)[quorum - 1]).all()


@pytest.mark.parametrize(("bookies", "quorum"), [(2, 1), (2, 2), (3, 2)])
def test_the_mean_wait_is_that_of_an_order_statistic(bookies: int, quorum: int) -> None:
    waits_ns = persisted_after_ns(np.full(bookies, 1_000), quorum, 1e6, 200_000, generator(1, "b"))
    expected = 1e6 * sum(1 / (bookies - k) for k in range(quorum)) + 1_000
    assert waits_ns.mean() == pytest.approx(expected, rel=0.01)
