"""Many drawn loads at once, by the law in matrices: that against which the nodes of the throttler are tested."""

import numpy as np

from core.seeds import child_seed
from paper_figs.dst.published import CYCLE, CYCLES, SERVERS
from systems.parts.throttling import Array, trajectory
from systems.parts.throttling_graphs import graph_named, laplacian

DRAWS = 40  # loads a repetition: the mean of 1,000 cycles of one varies by a fifth


def loads(seed: int, draws: int = DRAWS, cycles: int = CYCLES, **curve: object) -> Array:
    """Demands, float64 (cycles, draws, servers); draw 0 is what a run of that seed is offered."""
    from workloads.load_curve import WORKLOAD

    config = WORKLOAD.configure(curve)
    seeds = [seed, *(child_seed(seed, "draw", draw) >> 1 for draw in range(1, draws))]
    return np.stack([WORKLOAD.make(config, one).demands(SERVERS, cycles) for one in seeds], axis=1)


def limits_of(graph: str, demands: Array, measure: str = "throttled", g: float = CYCLE, clamp: bool = False) -> Array:
    """The limits in those cycles, as ``demands``: l_total is a load's mean total, evenly split at first."""
    matrix = laplacian(graph_named(graph, SERVERS))
    even = np.broadcast_to(demands.sum(axis=2).mean(axis=0)[:, None] / SERVERS, demands.shape[1:])
    return trajectory(matrix, even, demands[:-1], measure, g, clamp=clamp)


def overthrottling_percent(demands: Array, limits: Array) -> Array:
    """Of each load (Example 2), with l_total the sum of the first limits: float64 (draws,)."""
    admitted = np.clip(limits, 0.0, demands).sum(axis=2)
    ideal = np.minimum(demands.sum(axis=2), limits[0].sum(axis=1))
    percent: Array = 100.0 * (ideal - admitted).sum(axis=0) / ideal.sum(axis=0)
    return percent
