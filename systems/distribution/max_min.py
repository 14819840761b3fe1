"""Max-Min: Conc with shares that maximise the smallest one, blind to correlation (SRTM VI-C)."""

from dataclasses import dataclass

import numpy as np

from core.records import Int32
from systems.api import Distribution, Problem, Search, System
from systems.distribution.conc import smallest_number_of_brokers
from systems.parts.assignment import blind
from systems.parts.concentration import by_capacity, max_min_quotas


@dataclass(frozen=True)
class Config:
    """Options of Max-Min."""

    brokers: int = 0  # SRTM Fig. 8: this many brokers without a search; 0 = search


def distribute(problem: Problem, config: Config, rng: np.random.Generator) -> Search:
    """Max-min shares on the smallest number of brokers that meets the SLO."""

    def assign(k: int) -> Int32:
        chosen = by_capacity([broker.rcap_rps for broker in problem.brokers])[:k]
        rcap_rps = [problem.brokers[i].rcap_rps for i in chosen]
        return blind(problem.publishers, chosen, max_min_quotas(rcap_rps, problem.publishers.total_rps), rng)

    if config.brokers:
        return Distribution(assign(min(config.brokers, len(problem.brokers))))
    return (yield from smallest_number_of_brokers(problem, assign))


SYSTEM = System("max-min", "Conc with the largest smallest share", config=Config, distribute=distribute)
