"""What is asked of Pulsar: who stands where, and what is refused before anything starts."""

from typing import Any

import msgspec
import pytest

from collectors.schema import COUNTERS
from core.clients import Role
from core.errors import SpecError
from core.records import Json
from harness.experiment import SCALES
from harness.run import check_all
from paper_figs.epulsar import fig7
from studies import load_study
from studies.placement_on_pulsar.asked import METRICS_HERE, ClientCrew, Config, PulsarRequest
from studies.spec import RunSpec
from systems.loader import load_system
from testbed.topologies.topology import load_topology
from tests.live import needs
from workloads.static_topics import StaticTopics, StaticTopicsConfig

CHURN: Json = {
    "workload": "topic-churn",
    "workload_options": {"consumers": 1},
    "topology_options": {"sites": 4},
}


def faults(testbed: str, node: str) -> Json:
    crash = {"kind": "crash", "at": "1s", "node": node}
    return {"testbed": testbed, "study_options": {"faults": (crash,)}}


def request(**load: Any) -> PulsarRequest:
    system = load_system("epulsar")
    topology = load_topology("city-mec", {"sites": 2})
    return PulsarRequest(system, system.config(), topology, StaticTopics(StaticTopicsConfig(**load), 1), 1, Config())


def spec(**changes: Json) -> RunSpec:
    chosen = fig7.points(SCALES["small"], {"broker": "pulsar"})[0]
    return msgspec.structs.replace(chosen, **{"testbed": "local", **changes})


def test_a_process_stands_for_the_clients_of_a_role_at_a_site() -> None:
    asked = request(topics=3, sites=2)
    assert asked.crews == [
        ClientCrew("clients2", "proxy2", Role.CONSUMER, ("topic-1", "topic-2", "topic-3")),
        ClientCrew("clients1", "proxy1", Role.PRODUCER, ("topic-1", "topic-2", "topic-3")),
    ]
    hosts = {host.name for host in asked.topology.hosts if host.role == "client"}
    assert hosts == {"clients1", "clients2"}
    assert asked.topology.path("clients2", "site2").one_way_delay_ns == 8_000_000


@pytest.mark.parametrize(
    ("load", "problem"),
    [
        ({"producers": 2, "sites": 2}, "several producers of topic-1"),
        ({"consumers": 3, "sites": 2}, "several consumers of topic-1"),
        ({"producers": 0, "sites": 2}, "nobody sends to topic-1"),
    ],
)
def test_clients_that_one_process_cannot_stand_for_are_refused(load: Json, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        _ = request(**load).crews


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"testbed": "virtual", "system": "gossip-placer", "system_options": {}}, "was not made to drive Pulsar"),
        ({"system_options": {"bundles": 8}}, "a topic lies alone in its bundle; give bundles = 0"),
        (faults("virtual", "broker1"), "of the modelled Pulsar only managers crash; use --testbed mininet"),
        (faults("local", "nobody"), "nobody"),
        (CHURN, "on Pulsar clients come at 0 and stay"),
        ({"study_options": {"warm_up_moves": -1}}, "warm_up_moves"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(changes: Json, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        check_all([spec(**changes)])


@needs("pulsar", "serf")
def test_beside_pulsar_the_store_and_agents_do_not_crash() -> None:
    for node in ("store", "proxy1"):
        with pytest.raises(SpecError, match="not beside Pulsar; crash a manager or a broker"):
            check_all([spec(**faults("local", node))])
    cut = {"kind": "partition", "at": "1s", "side": ["store"]}
    with pytest.raises(SpecError, match="there are no links to change; use --testbed mininet"):
        check_all([spec(study_options={"faults": (cut,)})])


@needs("pulsar", "serf")
@pytest.mark.parametrize("scale", SCALES)
def test_the_points_of_figure_7_fit_together(scale: str) -> None:
    specs = fig7.points(SCALES[scale], {"broker": "pulsar"})
    check_all([msgspec.structs.replace(one, testbed="mininet") for one in specs])
    assert len({one.to_json() for one in specs}) == len(specs) and {one.system for one in specs} == set(fig7.SYSTEMS)
    study = load_study("placement-on-pulsar")
    assert all(study.expected_seconds(one, True) > 150 for one in specs)


def test_other_brokers_are_not_known() -> None:
    with pytest.raises(SpecError, match="--broker kafka; choose ours or pulsar"):
        fig7.points(SCALES["quick"], {"broker": "kafka"})


def test_metrics_of_its_own_have_a_unit_and_no_other_place() -> None:
    columns = {column.name for table in COUNTERS.values() for column in table.columns}
    for name, metric in METRICS_HERE.items():
        assert name.endswith(f"_{metric.unit}") and metric.meaning and name not in columns
