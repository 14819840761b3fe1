"""Coordinates in arrays: there and back, and the distances of single ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems.parts.coordinates import Coordinates, distances_s, one_of, stacked
from systems.parts.vivaldi import Coordinate, distance_s

PART = st.floats(-0.3, 0.3)
COORDINATES = st.builds(
    Coordinate,
    vec=st.tuples(*[PART] * 8),
    error=st.floats(0.0, 1.5),
    adjustment=PART,  # far larger than any node's, so that sums below 0 occur
    height=st.floats(1e-5, 0.1),
)


@given(st.lists(COORDINATES, min_size=1, max_size=4), st.lists(COORDINATES, min_size=1, max_size=4))
def test_distances_are_those_of_single_coordinates(ones: list[Coordinate], others: list[Coordinate]) -> None:
    found = distances_s(stacked(ones), stacked(others))
    assert found.shape == (len(ones), len(others))
    wanted = np.array([[distance_s(one, other) for other in others] for one in ones])
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-15)


@given(st.lists(COORDINATES, min_size=1, max_size=4))
def test_stacked_coordinates_come_back(ones: list[Coordinate]) -> None:
    assert [one_of(stacked(ones), i) for i in range(len(ones))] == ones


def test_of_no_nodes_there_are_no_distances() -> None:
    none = stacked([])
    assert isinstance(none, Coordinates) and [len(part) for part in none] == [0, 0, 0, 0]
