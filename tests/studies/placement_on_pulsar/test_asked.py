"""What is asked of Pulsar: who stands where, and what is refused before anything starts."""

from itertools import product
from typing import Any

import msgspec
import pytest

from core.errors import SpecError
from core.records import Json
from harness.experiment import SCALES
from harness.run import check_all
from paper_figs import load_figure
from paper_figs.epulsar import fig7
from studies import load_study
from studies.placement_on_pulsar.asked import ClientCrew, Config, PulsarRequest
from studies.spec import RunSpec
from systems.loader import load_system
from testbed.topologies.topology import load_topology
from tests.live import needs
from workloads import load as load_workload
from workloads.static_topics import StaticTopics, StaticTopicsConfig

CHURN: Json = {
    "workload": "topic-churn",
    "workload_options": {"topics": 2, "consumers": 1},
    "topology_options": {"sites": 4},
}


def faults(testbed: str, node: str) -> Json:
    crash = {"kind": "crash", "at": "1s", "node": node}
    return {"testbed": testbed, "study_options": {"faults": (crash,)}}


def request(**load: Any) -> PulsarRequest:
    system = load_system("epulsar")
    topology = load_topology("city-mec", {"sites": 2})
    return PulsarRequest(system, system.config(), topology, StaticTopics(StaticTopicsConfig(**load), 1), 1, Config())


def asked_of(workload: str, options: Json, duration: str) -> PulsarRequest:
    system, made = load_system("epulsar"), load_workload(workload)
    load = made.make(made.configure(options), 1)
    return PulsarRequest(system, system.config(), load_topology("city-mec", {}), load, 1, Config(duration=duration))


def spec(**changes: Json) -> RunSpec:
    chosen = fig7.points(SCALES["small"], {"broker": "pulsar"})[0]
    return msgspec.structs.replace(chosen, **{"testbed": "local", **changes})


def test_a_process_stands_for_the_clients_of_a_role_at_a_site() -> None:
    asked, topics = request(topics=3, sites=2), ("topic-1", "topic-2", "topic-3")
    assert asked.crews == [
        ClientCrew("clients2", "clients2-consumers", topics, consuming=(0, 1, 2)),
        ClientCrew("clients1", "clients1-producers", topics, producing=(0, 1, 2)),
    ]
    assert asked.whereabouts == {"clients1": [(0, "proxy1")], "clients2": [(0, "proxy2")]}
    hosts = {host.name for host in asked.topology.hosts if host.role == "client"}
    assert hosts == {"clients1", "clients2"}
    assert asked.topology.path("clients2", "site2").one_way_delay_ns == 8_000_000


@pytest.mark.parametrize("load", [{"producers": 2, "sites": 2}, {"consumers": 3, "sites": 2}])
def test_clients_that_share_a_topic_are_a_process_each(load: Json) -> None:
    asked = request(topics=1, **load)
    assert asked.each_alone and {crew.node for crew in asked.crews} == {*asked.load.homes} == {*asked.whereabouts}
    assert [host.name for host in asked.topology.hosts if host.role == "client"] == list(asked.load.homes)


def test_clients_that_move_or_come_and_go_are_a_process_each() -> None:
    swarms = asked_of("uav-swarms", {"swarms": 2, "members": 3, "zones": 4, "city_km": 8.0}, "180s")
    leader = next(crew for crew in swarms.crews if crew.node == "uav-1-1")
    assert leader.topics == ("follow-leader-1", "sensor-data-1") and (leader.producing, leader.consuming) == (
        (0,),
        (1,),
    )
    moves = swarms.handovers()
    assert moves and {move.host for move in moves} <= set(swarms.load.homes)
    begins = [(0, swarms.places[swarms.load.homes["uav-1-1"]].proxy)]
    proxies = {place.name: place.proxy for place in swarms.places}
    assert swarms.whereabouts["uav-1-1"] == begins + [
        (move.at_ns, proxies[move.point]) for move in moves if move.host == "uav-1-1"
    ]
    game = asked_of("mmog", {"avatars": 4, "groups": 2, "sites": 4, "stay": "uniform:3s:5s"}, "30s")
    one = game.crews[0]
    assert one.producing == (0,) and one.changes and not game.handovers()
    spans = [span for number in range(len(one.topics)) for span in one.spans_ns(number, game.duration_ns)]
    assert all(start_ns < end_ns <= game.duration_ns for start_ns, end_ns in spans)
    assert len(spans) == len(one.consuming) + sum(change.wanted for change in one.changes)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (("static-topics", {"producers": 0, "sites": 4}), "nobody sends to topic-1"),
        (("uav-swarms", {"swarms": 33, "members": 2, "zones": 4}), "66 clients, a process each.*give at most 64"),
        (
            ("topic-churn", {"consumers": 1, "sites": 4, "topics": 2}),
            "on Pulsar producers come at 0 and stay",
        ),
    ],
)
def test_clients_that_no_process_can_stand_for_are_refused(asked: tuple[str, Json], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        _ = asked_of(*asked, "60s").crews


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"testbed": "virtual", "system": "gossip-placer", "system_options": {}}, "was not made to drive Pulsar"),
        ({"system_options": {"bundles": 8}}, "a topic lies alone in its bundle; give bundles = 0"),
        (faults("virtual", "broker1"), "of the modelled Pulsar only managers crash; use --testbed mininet"),
        (faults("local", "nobody"), "nobody"),
        (CHURN, "on Pulsar producers come at 0 and stay"),
        ({"study_options": {"warm_up_moves": -1}}, "warm_up_moves"),
        ({"study_options": {"bookies": "all"}}, "bookies"),
        ({"study_options": {"namespaces": "none"}}, "namespaces"),
        ({"study_options": {"bookies": "each", "namespaces": "one"}}, "give each a namespace of its own"),
        ({"study_options": {"broker_session": "500ms"}}, "broker_session = '500ms'; give a span of at least '1s'"),
        ({"study_options": {"broker_session": "30s"}}, "broker_session = '30s'; give at most '10s'"),
        ({"testbed": "virtual", "study_options": {"shedding": True}}, "no balancer of its own; use --testbed mininet"),
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


FIGURES = {
    "epulsar-fig6": {"epulsar", "all-pairs"},
    **{key: {"epulsar", "pulsar"} for key in ("epulsar-fig2", "epulsar-fig7", "epulsar-fig8", "epulsar-fig9")},
    "placement-failure": {"epulsar"},
}


def points(figure: str, scale: str, broker: str) -> list[RunSpec]:
    experiment = load_figure(figure).experiment
    options = {option.name: option.default for option in experiment.options} | {"broker": broker}
    return experiment.points(SCALES[scale], options)


@needs("pulsar", "serf")
@pytest.mark.parametrize(("figure", "scale"), [*product(FIGURES, SCALES)])
def test_the_points_of_figures_fit_together(figure: str, scale: str) -> None:
    specs = points(figure, scale, "pulsar")
    check_all([msgspec.structs.replace(one, testbed="mininet") for one in specs])
    assert len({one.to_json() for one in specs}) == len(specs) and {one.system for one in specs} == FIGURES[figure]
    study = load_study("placement-on-pulsar")
    assert all(study.expected_seconds(one, True) > 150 for one in specs)


@pytest.mark.parametrize("figure", FIGURES)
def test_other_brokers_are_not_known(figure: str) -> None:
    with pytest.raises(SpecError, match="--broker kafka; choose ours or pulsar"):
        points(figure, "quick", "kafka")
