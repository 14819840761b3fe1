import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.seeds import generator
from workloads.zones import Zones, k_means

PLACE = st.tuples(st.floats(-20, 20), st.floats(-20, 20))


def array(*places: tuple[float, float]) -> np.ndarray:
    return np.array(places, np.float64)


def test_centres_of_clear_clusters_are_their_middles() -> None:
    rng = generator(1, "clusters")
    middles = array((0, 0), (10, 0), (10, 10), (30, -5))
    points = (middles[:, None, :] + rng.normal(0, 0.2, (4, 100, 2))).reshape(-1, 2)
    centres = k_means(points, 4, generator(2, "k"))
    order = np.lexsort((middles[:, 1], middles[:, 0]))
    for centre, of in zip(centres, sorted(centres.tolist()), strict=True):
        assert centre.tolist() == of  # from west to east
    found = sorted(int(np.argmin(((middles - centre) ** 2).sum(axis=1))) for centre in centres)
    assert found == sorted(order.tolist()) == [0, 1, 2, 3]
    np.testing.assert_allclose(centres[0], points[:100].mean(axis=0), atol=1e-12)


def test_centres_are_a_fixed_point_and_repeatable() -> None:
    points = generator(5, "p").random((60, 2))
    centres = k_means(points, 5, generator(1, "k"))
    nearest = Zones(centres).of(points)
    for zone in range(5):
        np.testing.assert_allclose(points[nearest == zone].mean(axis=0), centres[zone])
    np.testing.assert_array_equal(centres, k_means(points, 5, generator(1, "k")))


def test_as_many_zones_as_places_and_no_more() -> None:
    points = array((0, 0), (1, 0), (1, 0), (5, 5))
    assert k_means(points, 3, generator(1, "k")).tolist() == [[0, 0], [1, 0], [5, 5]]
    with pytest.raises(SpecError, match="4 zones of 3 places"):
        k_means(points, 4, generator(1, "k"))


def test_a_leg_through_three_zones_by_hand() -> None:
    zones = Zones(array((0, 0), (4, 0), (6, 0), (3, 50)))
    assert zones.along(np.array([0.0, 1.0]), np.array([10.0, 1.0])) == [(0.0, 0), (0.2, 1), (0.5, 2)]
    assert zones.along(np.array([10.0, 0.0]), np.array([0.0, 0.0])) == [(0.0, 2), (0.5, 1), (0.8, 0)]
    assert zones.along(np.array([1.0, 1.0]), np.array([1.0, 1.0])) == [(0.0, 0)]
    assert zones.along(np.array([2.0, 0.0]), np.array([9.0, 0.0]))[0] == (0.0, 1)  # begins on a border, and leaves


@given(st.lists(PLACE, min_size=1, max_size=6, unique=True), PLACE, PLACE)
def test_the_zone_on_a_leg_is_always_the_nearest(
    centres: list[tuple[float, float]], start: tuple[float, float], end: tuple[float, float]
) -> None:
    zones, begin, stop = Zones(array(*centres)), np.array(start), np.array(end)
    found = zones.along(begin, stop)
    shares = [share for share, _ in found]
    assert shares[0] == 0.0 and shares == sorted(shares) and shares[-1] <= 1.0
    assert len({zone for _, zone in found}) == len(found)  # cells are convex
    for (low, zone), high in zip(found, [*shares[1:], 1.0], strict=True):
        for share in (low, (low + high) / 2, high):
            squares = ((begin + share * (stop - begin) - zones.centres) ** 2).sum(axis=1)
            assert squares[zone] <= squares.min() + 1e-6
