"""Zones of a plane: a point is in that of the nearest centre.  Centres by k-means; borders crossed by straight legs."""

from dataclasses import dataclass

import numpy as np

from core.errors import SpecError
from core.limits import DISTANCES, check_product
from core.records import Float64, Int64

RESTARTS = 10  # ours: k-means ends in a local optimum; the best of so many is taken
ROUNDS = 300  # ours: more than it ever took


def k_means(points: Float64, count: int, rng: np.random.Generator) -> Float64:
    """``count`` centres of ``points``, float64 (count, 2), from west to east.

    Lloyd's algorithm from seeds by k-means++ (Arthur and Vassilvitskii, SODA 2007).  SpecError where fewer than
    ``count`` points differ, or both are many.
    """
    check_product("zones of places", DISTANCES, places=len(points), zones=count)
    different = len(np.unique(points, axis=0))
    if different < count:
        raise SpecError(f"{count} zones of {different} places", "ask for fewer zones, or give more towers")
    attempts = [_lloyd(points, _far_apart(points, count, rng)) for _ in range(RESTARTS)]
    costs = [float(_squares(points, centres).min(axis=1).sum()) for centres in attempts]
    best = attempts[int(np.argmin(costs))]
    return best[np.lexsort((best[:, 1], best[:, 0]))]


def _far_apart(points: Float64, count: int, rng: np.random.Generator) -> Float64:
    """Points drawn in turn, each in proportion to its squared distance from those before it."""
    centres = points[rng.integers(len(points), size=1)]
    nearest = _squares(points, centres)[:, 0]
    while len(centres) < count:
        weight = np.cumsum(nearest)
        drawn = int(np.searchsorted(weight, rng.random() * weight[-1], side="right"))
        centres = np.vstack([centres, points[min(drawn, len(points) - 1)]])
        nearest = np.minimum(nearest, _squares(points, centres[-1:])[:, 0])
    return centres


def _lloyd(points: Float64, centres: Float64) -> Float64:
    for _ in range(ROUNDS):
        squares = _squares(points, centres)
        nearest = np.argmin(squares, axis=1)
        sizes = np.bincount(nearest, minlength=len(centres))
        moved = centres.copy()
        for zone in range(len(centres)):
            if sizes[zone]:
                moved[zone] = points[nearest == zone].mean(axis=0)
            else:  # nobody's: to the point that is worst off
                moved[zone] = points[np.argmax(squares.min(axis=1))]
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres


def _squares(points: Float64, centres: Float64) -> Float64:
    """Squared distance of each point from each centre, float64 (points, centres)."""
    east, north = (points[:, None, axis] - centres[None, :, axis] for axis in (0, 1))
    squares: Float64 = east**2 + north**2
    return squares


@dataclass(frozen=True)
class Zones:
    """The zones of ``centres``, float64 (zones, 2)."""

    centres: Float64

    def of(self, points: Float64) -> Int64:
        """The zone of each point, int64 (points,); the lower number on a border."""
        nearest: Int64 = np.argmin(_squares(np.atleast_2d(points), self.centres), axis=1)
        return nearest

    def along(self, start: Float64, end: Float64) -> list[tuple[float, int]]:
        """The zones of a straight leg: share of it at which each begins, 0 to 1, and its number; the first at 0.

        With p(s) = start + s (end - start), |p(s) - c|^2 less |p(s)|^2 is a line in s for each centre c: the zones
        of the leg are the lower envelope of these lines, walked from its beginning.
        """
        at_start = (self.centres**2).sum(axis=1) - 2 * self.centres @ start
        slope = -2 * self.centres @ (end - start)
        here = int(np.lexsort((slope, at_start))[0])
        stretches = [(0.0, here)]
        while True:
            steeper = np.flatnonzero(slope < slope[here])
            shares = (at_start[steeper] - at_start[here]) / (slope[here] - slope[steeper])
            if not len(steeper) or shares.min() > 1:
                return stretches
            first = np.lexsort((slope[steeper], shares))[0]
            here = int(steeper[first])
            stretches.append((max(float(shares[first]), stretches[-1][0]), here))
