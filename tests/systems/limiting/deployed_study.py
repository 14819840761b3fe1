"""One user of a limit of 20 a second, asked for evenly in five cities: what a limiter grants of it, and exceeds it by.

The same was asked of the real servers whose twins are tested against what they did then.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from core.records import Request
from core.seeds import generator
from core.units import SECOND_NS
from systems.loader import load_system
from testbed.topologies.topology import Topology, load_topology, mesh
from tests.studies.limiting.given import run_requests

CAPACITY, RATE_RPS, SPAN_NS = 20, 20, 20 * SECOND_NS
HERE = mesh("one place", [f"n{number}" for number in range(1, 6)], 0)


class Shown(NamedTuple):
    """``granted``: admitted, of what one bucket without delay admits; ``excess``: most above c + r t, in c."""

    granted: float
    excess: float
    seconds: tuple[int, ...]  # admitted in each


def study(key: str, offered_times: float, wan: bool = True, seed: int = 1, **options: Any) -> Shown:
    """Poisson requests at so many times the limit, over five continents or in one place."""
    admitted_ns = _admitted(key, offered_times, load_topology("wan", {}) if wan else HERE, seed, **options)
    fair_count = len(_fair(offered_times, seed))
    seconds = [0] * (SPAN_NS // SECOND_NS)
    excess = 0.0
    for count, at_ns in enumerate(admitted_ns, 1):
        seconds[at_ns // SECOND_NS] += 1
        excess = max(excess, count - CAPACITY - RATE_RPS * at_ns / SECOND_NS)
    return Shown(len(admitted_ns) / fair_count, excess / CAPACITY, tuple(seconds))


@cache
def _fair(offered_times: float, seed: int) -> list[int]:
    return _admitted("centralised", offered_times, HERE, seed)


def _admitted(key: str, offered_times: float, topology: Topology, seed: int, **options: Any) -> list[int]:
    rng, names = generator(seed, "deployed", str(offered_times)), topology.node_names()
    count = rng.poisson(offered_times * RATE_RPS * SPAN_NS / SECOND_NS)
    instants, places = np.sort(rng.integers(0, SPAN_NS, count)).tolist(), rng.integers(len(names), size=count).tolist()
    offered: dict[str, list[Request]] = {name: [] for name in names}
    for number, (at_ns, place) in enumerate(zip(instants, places, strict=True)):
        offered[names[place]].append(Request(number, "user", at_ns))
    system = load_system(key)
    config = system.config(capacity=CAPACITY, rate=str(RATE_RPS), **options)
    rows = run_requests(system, config, topology, offered, SPAN_NS, seed, drain_ns=5 * SECOND_NS).requests()
    asked = zip(rows["intended_at_ns"], rows["decision"], strict=True)
    return sorted(at_ns for at_ns, decision in asked if decision == "admit")
