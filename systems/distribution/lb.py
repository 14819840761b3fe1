"""LB: standard load balancing, blind to everything but the publishers' message rates.

SRTM VI: spreads a topic's publishers evenly over *all* available brokers; sub-buckets follow the load.
"""

from dataclasses import dataclass

import numpy as np

from systems.api import Distribution, Problem, Search, System
from systems.parts.assignment import blind


@dataclass(frozen=True)
class Config:
    """LB has nothing to tune."""


def distribute(problem: Problem, config: Config, rng: np.random.Generator) -> Search:
    """Even shares of the topic for all brokers; nothing is measured."""
    brokers = range(len(problem.brokers))
    even = [problem.publishers.total_rps / len(brokers)] * len(brokers)
    return Distribution(blind(problem.publishers, brokers, even, rng))
    yield  # a search without trials


SYSTEM = System("lb", "even over all brokers", config=Config, distribute=distribute, round_count=2)
