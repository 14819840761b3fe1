"""Network coordinates of many nodes at once, as arrays.  The rules by which they move are in ``vivaldi``."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from systems.parts.vivaldi import Coordinate

Array = NDArray[np.float64]


class Coordinates(NamedTuple):
    """The coordinates of n nodes: float64 arrays, ``vivaldi.Coordinate`` with a row for each."""

    vec: Array  # (n, dimensions) seconds
    height: Array  # (n,) seconds
    adjustment: Array  # (n,) seconds
    error: Array  # (n,) a share of the estimates


def stacked(coordinates: Sequence[Coordinate]) -> Coordinates:
    """The coordinates of single nodes, row by row."""
    vec = np.array([one.vec for one in coordinates], float)
    rest = np.array([(one.height, one.adjustment, one.error) for one in coordinates], float).reshape(-1, 3)
    return Coordinates(vec.reshape(len(rest), -1), *(np.ascontiguousarray(column) for column in rest.T))


def one_of(coordinates: Coordinates, i: int) -> Coordinate:
    """The coordinate in row ``i``."""
    vec = tuple(coordinates.vec[i].tolist())
    return Coordinate(vec, float(coordinates.error[i]), float(coordinates.adjustment[i]), float(coordinates.height[i]))


def distances_s(one: Coordinates, other: Coordinates) -> Array:
    """The estimated round-trip times, float64 (n_one, n_other), as ``vivaldi.distance_s`` gives them pair by pair.

    A node is not at distance 0 of itself: its height counts twice, as in Serf.
    """
    between = np.sqrt(((one.vec[:, None, :] - other.vec[None, :, :]) ** 2).sum(axis=2))
    raw = between + one.height[:, None] + other.height[None, :]
    adjusted = raw + one.adjustment[:, None] + other.adjustment[None, :]
    found: Array = np.where(adjusted > 0.0, adjusted, raw)
    return found
