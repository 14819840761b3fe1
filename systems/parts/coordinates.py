"""Network coordinates of many nodes at once, as arrays.  The rules by which they move are in ``vivaldi``."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from systems.parts.vivaldi import SERF, Coordinate

Array = NDArray[np.float64]


class Coordinates(NamedTuple):
    """The coordinates of n nodes: float64 arrays, ``vivaldi.Coordinate`` with a row for each."""

    vec: Array  # (n, dimensions) seconds
    height: Array  # (n,) seconds
    adjustment: Array  # (n,) seconds
    error: Array  # (n,) a share of the estimates


def stacked(coordinates: Sequence[Coordinate]) -> Coordinates:
    """The coordinates of single nodes, row by row."""
    dimensions = len(coordinates[0].vec) if coordinates else SERF.dimensions
    vec = np.array([one.vec for one in coordinates], float).reshape(-1, dimensions)
    parts = [[getattr(one, name) for one in coordinates] for name in Coordinates._fields[1:]]
    return Coordinates(vec, *(np.array(part, float) for part in parts))


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
    distances: Array = np.where(adjusted > 0.0, adjusted, raw)
    return distances


def raised(coordinates: Coordinates, above_s: Array | float) -> Coordinates:
    """Of nodes that are ``above_s`` (n,) further from everybody: clients behind a proxy (ePulsar, Section 4)."""
    return coordinates._replace(height=coordinates.height + above_s)
