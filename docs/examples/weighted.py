"""weighted: spread a topic's publishers over all brokers in proportion to their residual capacity.

An example of a distributor in one file: one validation round, no search.
"""

from dataclasses import dataclass

import numpy as np

from systems.api import Distribution, Outcome, Problem, Search, System, Trial


@dataclass(frozen=True)
class Config:
    """Options of weighted."""

    reserve: float = 0.0  # ours: share of every broker's capacity to leave alone


def distribute(problem: Problem, config: Config, rng: np.random.Generator) -> Search:
    """Deal the publishers out in random order, then validate with one round."""
    room_rps = np.array([max(0.0, broker.rcap_rps - config.reserve * broker.mcap_rps) for broker in problem.brokers])
    if room_rps.sum() == 0:
        room_rps[:] = 1.0  # every broker is full: evenly, and the round will tell
    shares = np.cumsum(room_rps) / room_rps.sum()  # broker i takes the stretch from shares[i-1] to shares[i]

    order = rng.permutation(problem.publishers.count)
    rate_rps = problem.publishers.rate_rps[order]
    middle = (np.cumsum(rate_rps) - rate_rps / 2) / rate_rps.sum()  # where each publisher lies on it, 0 to 1
    assignment = np.empty(problem.publishers.count, np.int32)
    assignment[order] = np.searchsorted(shares, middle)

    measured = yield Trial(assignment, problem.round_ns)
    met = measured.p99_ns <= problem.slo_ns
    return Distribution(assignment, Outcome.PLACED if met else Outcome.OUT_OF_BROKERS)


SYSTEM = System("weighted", "in proportion to residual capacity", config=Config, distribute=distribute)
