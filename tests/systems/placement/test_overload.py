"""Brokers that are full: what they shed goes where there is room, as far as anybody can know."""

from collections import Counter

import pytest

from harness.experiment import RunSpec
from harness.run import carried_out, resolve
from systems.placement.monitoring import BrokerReport, Rates, UnitRecord, View

TOPICS, MARK_RPS, RATE_RPS = 16, 320.0, 75.0  # of a topic: four fit


def owners(system: str, loop: str, bound: str = "100ms") -> Counter[str]:
    """How many topics each broker has at the end, if all clients are near the first one."""
    load = {"topics": TOPICS, "sites": 5, "placement": "home", "bound": bound, "rate_rps": RATE_RPS}
    late = [{"kind": "crash", "at": "1ms", "node": "manager1"}, {"kind": "restart", "at": "6s", "node": "manager1"}]
    spec = RunSpec(
        system=system,
        system_options={"out_maximum_rps": MARK_RPS, "place": loop, "guard": "0s"},
        workload="static-topics",
        workload_options=load,
        topology="us-cities",
        topology_options={"cities": "New York, Chicago, Atlanta, Dallas, Los Angeles"},
        study="placement",
        study_options={"duration": "40s", "faults": late},
    )
    rows = carried_out(resolve(spec)).tables["ownership"]
    return Counter(
        broker for broker, end_ns in zip(rows["broker"], rows["end_ns"], strict=True) if end_ns == 40 * 10**9
    )


@pytest.mark.parametrize("loop", ["1s", "5s"])
@pytest.mark.parametrize("system", ["all-pairs", "epulsar"])
def test_the_next_best_get_no_more_than_they_can_take(system: str, loop: str) -> None:
    """Also while the brokers to which topics were just moved have not reported them yet."""
    found = owners(system, loop)
    assert sum(found.values()) == TOPICS
    assert found["broker2"] == found["broker3"] == 4  # Chicago, Atlanta
    assert found["broker4"] <= 4


def test_a_broker_that_is_not_overloaded_keeps_its_topics() -> None:
    assert owners("pulsar", "5s") == owners("pulsar", "1s")


def test_rates_of_a_unit_outlive_its_move() -> None:
    def report(*rates: float) -> BrokerReport:
        units = {f"unit-{n}": UnitRecord(rate, 2 * rate) for n, rate in enumerate(rates)}
        return BrokerReport(None, 0.0, units)

    view = View()
    view.reported("old", report(10.0))
    view.reported("new", report())
    view.reported("old", BrokerReport(None, 0.0, {}))
    assert view.rates["unit-0"] == Rates(10.0, 20.0)
    view.reported("new", report(0.0))  # not measured yet
    assert view.rates["unit-0"] == Rates(10.0, 20.0)
    view.reported("new", report(0.0))  # silent
    assert view.rates["unit-0"] == Rates(0.0, 0.0)
