"""Conc: concentrate the topic on as few brokers as meet the SLO, with equal *total* loads.

SRTM VI-B and VI-C: the number of brokers is first estimated from the residual capacities, then
validated by measurement: one more broker after each round that violates the SLO.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.records import Int32
from systems.api import Distribution, Measured, Outcome, Problem, Search, System, Trial
from systems.parts.assignment import blind
from systems.parts.concentration import by_capacity, equal_total_quotas, smallest_prefix


@dataclass(frozen=True)
class Config:
    """Conc has nothing to tune."""


def distribute(problem: Problem, config: Config, rng: np.random.Generator) -> Search:
    """Equal total loads on the smallest number of brokers that meets the SLO."""

    def assign(k: int) -> Int32:
        chosen = by_capacity([broker.rcap_rps for broker in problem.brokers])[:k]
        loads = [problem.brokers[i].load_rps for i in chosen]
        return blind(problem.publishers, chosen, equal_total_quotas(loads, problem.publishers.total_rps), rng)

    return (yield from smallest_number_of_brokers(problem, assign))


def smallest_number_of_brokers(problem: Problem, assign: Callable[[int], Int32]) -> Search:
    """Try ``assign(k)`` for growing k, from the estimate on, until a round meets the SLO.

    Where no k does, the configuration with the lowest p99 is the answer (SRTM VI: "when the SLO
    cannot be met, we report the best configuration").
    """
    rcap_rps = sorted((broker.rcap_rps for broker in problem.brokers), reverse=True)
    first = smallest_prefix(rcap_rps, problem.publishers.total_rps)
    best: tuple[int, Int32] | None = None
    for iteration, k in enumerate(range(first, len(rcap_rps) + 1), start=1):
        assignment = assign(k)
        measured: Measured = yield Trial(assignment, problem.round_ns, iteration)
        if measured.p99_ns <= problem.slo_ns:
            return Distribution(assignment)
        if best is None or measured.p99_ns < best[0]:
            best = (measured.p99_ns, assignment)
    assert best is not None
    return Distribution(best[1], Outcome.OUT_OF_BROKERS)


SYSTEM = System(
    "conc", "as few brokers as meet the SLO, equal total loads", config=Config, distribute=distribute, round_count=4
)
