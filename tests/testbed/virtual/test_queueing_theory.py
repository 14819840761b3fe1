"""The virtual testbed against queueing theory, where theory is exact."""

import math

import numpy as np
import pytest

from collectors.histogram import bucket_bounds, quantile
from core.records import Envelope
from core.units import SECOND_NS
from systems.parts import md1
from testbed.brokers.model import BrokerModel, load_calibration
from testbed.virtual.capacity import benchmarked_capacity_rps
from testbed.virtual.fleet import Fleet
from tests.analysis.twins import mean
from workloads import load

SPAN_NS = 120 * SECOND_NS
UNLIMITED = Envelope(400_000.0, 1_000_000.0)


def carried(model: BrokerModel, workload: str, options: dict, bucket: Envelope, span_ns: int = SPAN_NS) -> Fleet:
    """One broker that carries the whole topic; the first ten seconds are not counted."""
    fleet = Fleet(model, "topic", load(workload).make(load(workload).configure(options), 5), [None])
    fleet.move(np.zeros(fleet.schedule.population.count, np.int32))
    fleet.set_bucket(0, bucket, full=True)
    fleet.record(10 * SECOND_NS, span_ns)
    fleet.advance(span_ns)
    return fleet


def model_of(cores: int, message_ns: int, pump_ns: int = 0) -> BrokerModel:
    return BrokerModel("theory", 0, 0, message_ns, pump_ns, cores, 1.0, False, (), "")


@pytest.mark.parametrize("utilisation", [0.5, 0.8, 0.9])
def test_one_core_is_an_m_d_1_queue(utilisation):
    service_ns = 50_000
    rate = utilisation * SECOND_NS / service_ns
    fleet = carried(model_of(1, service_ns), "poisson", {"publishers": 1000, "rate_rps": rate / 1000}, UNLIMITED)
    counts = fleet.state.latency[0]
    # Pollaczek-Khinchine: the mean wait is s rho / (2 (1 - rho)).
    assert mean(counts) == pytest.approx(service_ns * (1 + utilisation / (2 * (1 - utilisation))), rel=0.04)
    low_ns, _ = bucket_bounds()
    for work in (1.0, 3.0, 6.0):
        longer = counts[low_ns > service_ns * (1 + work)].sum() / counts.sum()
        assert longer == pytest.approx(md1.workload_exceeds(utilisation, work), rel=0.15, abs=2e-3)


def test_pump_is_an_m_d_1_queue_behind_free_ingress():
    fleet = carried(model_of(2, 0, 50_000), "poisson", {"publishers": 1000, "rate_rps": 16.0}, UNLIMITED)
    assert mean(fleet.state.latency[0]) == pytest.approx(50_000 * (1 + 0.8 / (2 * 0.2)), rel=0.04)


def test_two_cores_lie_between_the_limits_of_m_d_c():
    service_ns, utilisation = 50_000, 0.8
    rate = 2 * utilisation * SECOND_NS / service_ns
    fleet = carried(model_of(2, service_ns), "poisson", {"publishers": 1000, "rate_rps": rate / 1000}, UNLIMITED)
    wait_ns = mean(fleet.state.latency[0]) - service_ns
    # Erlang C, M/M/2: s rho^2 / (1 - rho^2).  M/D/c waits at least half of M/M/c and less than it;
    # a single core of twice the speed (M/D/1 with s/2) has no less work in the system.
    markov_ns = service_ns * utilisation**2 / (1 - utilisation**2)
    fast_ns = service_ns / 2 * utilisation / (2 * (1 - utilisation))
    assert 0.5 * markov_ns < wait_ns < 0.6 * markov_ns
    assert wait_ns < fast_ns


def test_light_load_pays_the_service_time_alone():
    fleet = carried(load_calibration("srtm-paper"), "poisson", {"publishers": 10, "rate_rps": 1.0}, UNLIMITED)
    model = load_calibration("srtm-paper")
    alone_ns = 2 * model.network_ns + model.wakeup_ns + model.message_ns + model.pump_ns
    assert quantile(fleet.state.latency[0], 0.5) == pytest.approx(alone_ns, rel=0.01)


def test_overload_grows_with_the_excess():
    """Half as much again as one core can do: after t seconds the backlog is t/2 seconds of arrivals old."""
    fleet = carried(model_of(1, 100_000), "poisson", {"publishers": 1000, "rate_rps": 15.0}, UNLIMITED)
    assert quantile(fleet.state.latency[0], 0.999) == pytest.approx(SPAN_NS / 2, rel=0.05)


@pytest.mark.parametrize("burst", [1, 5, 20])
def test_token_bucket_is_a_modified_m_d_1_queue(burst):
    rate = 10_000.0
    options = {"publishers": 1000, "rate_rps": rate / 1000}
    fleet = carried(
        load_calibration("bucket-only"), "poisson", options, Envelope(1.1 * rate, float(burst)), 10 * SPAN_NS
    )
    counts, utilisation = fleet.state.access_delay[0], 1 / 1.1
    waiting = 1 - counts[0] / counts.sum()
    assert waiting == pytest.approx(md1.workload_exceeds(utilisation, burst - 1), rel=0.08)
    assert mean(counts) == pytest.approx(md1.mean_delay_s(rate, 1.1 * rate, burst) * 1e9, rel=0.15)


def test_token_bucket_of_a_batch_by_hand():
    """Batches of 10 once a second into (r = 5/s, b = 4): 4 pass, the others wait 0.2, 0.4 ... 1.2 s, and again."""
    options = {"publishers": 1, "rate_rps": 5.0, "batch": 5}
    fleet = carried(load_calibration("bucket-only"), "periodic", options, Envelope(5.0, 4.0))
    low_ns, _ = bucket_bounds()
    counts = fleet.state.access_delay[0]
    found = {round(low / SECOND_NS, 2) for low in low_ns[counts > 0]}
    # 5 messages a second leave one short of what the bucket holds: every second one waits 1/r.
    assert found == {0.0, 0.2} and counts[0] == pytest.approx(0.8 * counts.sum(), rel=0.02)


def test_latency_is_access_delay_without_costs():
    fleet = carried(load_calibration("bucket-only"), "poisson", {"publishers": 500}, Envelope(5_500.0, 6.0))
    assert (fleet.state.latency == fleet.state.access_delay).all()
    assert math.isclose(fleet.state.latency.sum(), 5_000 * 110, rel_tol=0.02)


def test_benchmarked_capacity_is_where_the_slo_is_met_and_just_beyond_not():
    """One core, no network: M/D/1 whose p99 is known exactly, so the capacity follows from theory."""
    model = model_of(1, 20_000)
    capacity = benchmarked_capacity_rps(model, 200_000, 1, seed=3)
    # The sojourn time is (U + 1) services: the SLO of 10 services is met while P(U > 9) <= 1 %.
    exact = max(rate for rate in range(1_000, 50_000, 1_000) if md1.workload_exceeds(rate * 2e-5, 9.0) <= 0.01)
    assert abs(capacity - exact) <= 1_000


def test_the_calibration_s_capacity_is_that_of_batches_and_not_of_single_messages():
    model = load_calibration("srtm-paper")
    single, batches = (benchmarked_capacity_rps(model, 1_000_000, batch, seed=1) for batch in (1, 10))
    assert single < 60_000 < model.mcap_rps == pytest.approx(batches, rel=0.15)
