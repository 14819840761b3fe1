"""Brokers that are full: what they shed goes where there is room, as far as anybody can know."""

from collections import Counter

import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from harness.experiment import RunSpec
from harness.run import carried_out, resolve
from systems.placement import pulsar
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


def test_pulsar_places_by_hash_alone() -> None:
    with pytest.raises(SpecError, match="pulsar: first = 'near'"):
        pulsar.Config(first="near")


def test_a_broker_that_is_not_overloaded_keeps_its_topics() -> None:
    assert owners("pulsar", "5s") == owners("pulsar", "1s")


# Of 18 topics of 60 messages of 1,000 bytes a second, four take 80 % of a machine, and five all of it.
MANY = 18
FULL = {"processor": {"out_rps": 300.0}, "memory": {"memory_bytes": 5.0 * 2**20}, "network": {"network_bytes": 300e3}}


def moved(system: str, machine: dict[str, float]) -> tuple[int, Counter[str], float]:
    """Migrations, topics of each broker at the end, and the highest utilisation at the end; no limit on rates."""
    load = {"topics": MANY, "sites": 5, "placement": "home", "bound": "100ms", "rate_rps": 60.0}
    late = [{"kind": "crash", "at": "1ms", "node": "manager1"}, {"kind": "restart", "at": "1600ms", "node": "manager1"}]
    spec = RunSpec(
        system=system,
        system_options={"report": "1s", "place": "2s"},
        workload="static-topics",
        workload_options=load,
        topology="us-cities",
        topology_options={"cities": "New York, Chicago, Atlanta, Dallas, Los Angeles"},
        study="placement",
        study_options={"duration": "60s", "faults": late, **machine},
    )
    tables = carried_out(resolve(spec)).tables
    own, told = tables["ownership"], tables["samples"]
    last = Counter(
        broker for broker, end_ns in zip(own["broker"], own["end_ns"], strict=True) if end_ns == 60 * SECOND_NS
    )
    samples = list(zip(told["at_ns"], told["metric"], told["value"], strict=True))
    late_ns = 57 * SECOND_NS
    used = max(value for at_ns, metric, value in samples if metric == "utilisation_ratio" and at_ns > late_ns)
    return sum(metric == "migration_ns" for _, metric, _ in samples), last, used


@pytest.mark.parametrize("resource", FULL)
def test_a_broker_whose_machine_is_full_gives_topics_up(resource: str) -> None:
    """Section 3.4.2 (1): each resource for itself, rates being far below what is overload by rate.

    Pulsar's hash gives a broker six, and those that are too many go to the least loaded.  ePulsar begins with all at
    the first one; the nearest take what fills them, too, as the rule does not say what a broker would be with more.
    """
    moves, last, used = moved("pulsar", FULL[resource])
    assert moves == 2 and sum(last.values()) == MANY and max(last.values()) == 4 and used == pytest.approx(0.8)
    moves, last, used = moved("epulsar", FULL[resource])
    assert moves >= 10 and sum(last.values()) == MANY and last["broker1"] < MANY / 2


@pytest.mark.parametrize("system", ["pulsar", "epulsar"])
def test_a_broker_with_room_gives_nothing_up(system: str) -> None:
    roomy = {name: 100.0 * value for options in FULL.values() for name, value in options.items()}
    moves, _, used = moved(system, roomy)
    assert moves == 0 and 0.0 < used < 0.05


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
