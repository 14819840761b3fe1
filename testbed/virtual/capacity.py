"""mcap: the maximum message rate of one broker under the SLO, found by benchmarking (SRTM IV-B, footnote 6)."""

from functools import lru_cache

import numpy as np

from collectors.histogram import quantile
from core.records import Envelope
from core.seeds import child_seed
from core.units import SECOND_NS
from systems.parts import token_bucket
from testbed.brokers.model import BrokerModel
from testbed.virtual.fleet import Fleet
from workloads import load

SPAN_NS = 30 * SECOND_NS  # ours: one trial
STEP_RPS = 1_000  # ours: the answer is a multiple of it
PUBLISHER_RPS = 10.0  # SRTM VI


@lru_cache(maxsize=64)  # runs of one seed ask for the same
def benchmarked_capacity_rps(model: BrokerModel, slo_ns: int, batch: int, seed: int) -> float:
    """The largest rate of Poisson batches whose p99 meets the SLO on an idle broker without a rate limit.

    Binary search over multiples of ``STEP_RPS``, up to the largest rate that a token bucket can have.
    """
    low, high = 0, token_bucket.MAXIMUM_RATE // token_bucket.RATE_PER_RPS // STEP_RPS
    while high - low > 1:
        middle = (low + high) // 2
        if _p99_ns(model, middle * STEP_RPS, batch, child_seed(seed, "capacity", middle)) <= slo_ns:
            low = middle
        else:
            high = middle
    return float(max(1, low) * STEP_RPS)


def _p99_ns(model: BrokerModel, rate_rps: float, batch: int, seed: int) -> int:
    workload = load("poisson")
    options = {"publishers": round(rate_rps / PUBLISHER_RPS), "rate_rps": PUBLISHER_RPS, "batch": batch}
    fleet = Fleet(model, "benchmark", workload.make(workload.configure(options), seed), [None])
    fleet.move(np.zeros(fleet.schedule.population.count, np.int32))
    unlimited = Envelope(token_bucket.MAXIMUM_RATE / token_bucket.RATE_PER_RPS, 1e6)
    fleet.set_bucket(0, unlimited, full=True)
    fleet.record(SPAN_NS // 6, SPAN_NS)
    fleet.advance(SPAN_NS)
    fleet.finish()
    return quantile(fleet.state.latency[0], 0.99)
