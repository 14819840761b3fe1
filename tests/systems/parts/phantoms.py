"""Phantoms: round-trip times of networks that are as simple as can be, to see what network coordinates make of them.

Each is a symmetric matrix of seconds with zeros on the diagonal, for so many ``nodes``.  All but ``star`` are those
that Serf judges its own coordinates by.
"""

from math import isqrt

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def star(nodes: int, rtt_s: float) -> Matrix:
    """All equally far from each other: each on a link of its own to one switch (ePulsar, Fig. 3a)."""
    return rtt_s * (1.0 - np.eye(nodes))


def line(nodes: int, spacing_s: float) -> Matrix:
    """In a row."""
    return _between(np.arange(nodes)[:, None] * spacing_s)


def grid(nodes: int, spacing_s: float) -> Matrix:
    """In rows of the square root of ``nodes``, rounded down."""
    width = isqrt(nodes)
    places = np.arange(nodes)
    return _between(np.stack([places % width, places // width], axis=1) * spacing_s)


def split(nodes: int, lan_s: float, wan_s: float) -> Matrix:
    """In two places: ``lan_s`` within each, ``wan_s`` more between them; of an even number the first has one more."""
    here = np.arange(nodes) <= nodes // 2
    rtt_s: Matrix = lan_s + wan_s * (here[:, None] != here[None, :])
    return rtt_s * (1.0 - np.eye(nodes))


def circle(nodes: int, radius_s: float) -> Matrix:
    """On a circle; the first node is above its centre, twice the radius from all others."""
    angles = 2.0 * np.pi * np.arange(nodes) / nodes
    rtt_s = _between(np.stack([np.cos(angles), np.sin(angles)], axis=1) * radius_s)
    rtt_s[0, 1:] = rtt_s[1:, 0] = 2.0 * radius_s
    return rtt_s


def random(nodes: int, mean_s: float, deviation_s: float, rng: np.random.Generator) -> Matrix:
    """Every pair drawn by itself from a normal distribution, cut at 0: no space at all."""
    rtt_s = np.triu(np.maximum(0.0, rng.normal(mean_s, deviation_s, (nodes, nodes))), 1)
    return rtt_s + rtt_s.T


def _between(places: NDArray[np.floating]) -> Matrix:
    """The distance of each point, a row, from each."""
    distances: Matrix = np.linalg.norm(places[:, None, :] - places[None, :, :], axis=2)
    return distances
