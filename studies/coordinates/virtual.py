"""Coordinate agents in virtual time: the kernel's rounds, over the trips that hold when each round begins.

All of a round's probes count as made at its beginning, each with its peer's coordinate of that instant.
"""

import numpy as np

from core.seeds import generator
from core.units import SECOND_NS
from studies.coordinates.asked import PROBE_TIMEOUT_NS, Located, Locating, Trips, TripTable
from studies.coordinates.plan import Plan
from systems.parts.vivaldi_kernel import ClusterState, begin, coordinates, run_rounds
from testbed.topologies.topology import Topology


def located(topology: Topology, seed: int, locating: Locating) -> Located:
    """The agents' own coordinates at every read."""
    rng = generator(seed, "coordinates")
    state = begin(len(locating.nodes), rng)
    table = TripTable(topology, locating.nodes, locating.handovers)
    read, done = [], 0
    for until in sorted({*_rounds_of(locating), *locating.reads, locating.rounds}):
        _advance(state, table.before(done * locating.interval_ns + 1), until - done, rng)
        done = until
        if until in locating.reads:
            read.append(coordinates(state))
    return Located(locating.nodes, tuple(k * locating.interval_ns for k in locating.reads), tuple(read))


def _rounds_of(locating: Locating) -> set[int]:
    """The first round's beginning at or after each handover."""
    begins = {-(-move.at_ns // locating.interval_ns) for move in locating.handovers}
    return {k for k in begins if k <= locating.rounds}


def _advance(state: ClusterState, now: Trips, rounds: int, rng: np.random.Generator) -> None:
    lost = np.where(now.rtt_ns > PROBE_TIMEOUT_NS, 1.0, now.loss_probability)
    run_rounds(state, now.rtt_ns / SECOND_NS, rounds, rng, now.jitter_ns / SECOND_NS, lost)


def run(plan: Plan) -> Located:
    """See ``located``."""
    return located(plan.topology, plan.seed, plan.locating)
