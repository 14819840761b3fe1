"""The control plane beside Pulsar, with the family's own managers and strategies: elected, it decides and has moved.

Pulsar is what answers commands to unload here: it takes 100 ms, and its entries say who owns what.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from studies.placement_on_pulsar.nodes import Served, ServedTopic, Unload, Unloaded
from studies.placement_on_pulsar.planes import PulsarBrokerPlane, PulsarScript
from studies.placement_on_pulsar.systems import ALL_PAIRS, EPULSAR, PULSAR, deployed
from systems.api import Delivery, Effect, Event, Report, Send, System
from systems.limiting.leases import SYSTEM as LEASES
from systems.parts.vivaldi import Coordinate
from systems.placement import all_pairs, epulsar, pulsar
from systems.placement.all_pairs import AllPairs
from systems.placement.epulsar import EPulsar
from systems.placement.messages import AtSite, Create, Delete, Here, WhereAmI
from systems.placement.monitoring import OWNERS, Rates
from systems.placement.pulsar import Pulsar
from testbed.hosts.loop import Loop
from testbed.nodes.member import Group
from testbed.nodes.planes import ServerAt
from testbed.nodes.rehearsal import Stage

NAMES = ["manager1", "manager2", "broker1", "broker2", "store", "broker1-agent", "broker2-agent", "proxy1", "clients1"]
UNLOAD_NS = 100 * MILLISECOND_NS


class Settled:
    """An agent that knows where it is: so many milliseconds from the origin."""

    def __init__(self, at_ms: float):
        self._here = Coordinate((at_ms / 1000, *[0.0] * 7), 0.1, 0.0, 0.001)

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        match event:
            case Delivery(source, WhereAmI()):
                return [Send(source, Here(self._here))]
        return []


class Deployment(Stage):
    """Nodes of a system beside two brokers; all topics are at ``broker1``, their clients near the other."""

    def __init__(self, system: System, topics: int = 1, **options: Any):
        assert system.nodes is not None
        nodes = system.nodes(NAMES, system.config(**options), 1)
        nodes |= {"broker1-agent": Settled(0), "broker2-agent": Settled(30), "proxy1": Settled(30)}
        super().__init__(nodes, Group(frozenset(nodes), system.messages, system.transport))
        self.topics = [f"topic-{number}" for number in range(topics)]
        self.owners = dict.fromkeys(self.topics, "broker1")
        self.unloads: list[tuple[int, str, Unload]] = []
        self.busy = self.most_busy = 0
        self.call_at(0, self.occur, self.members["clients1"], Report(AtSite("proxy1")))
        for topic in self.topics:
            self.call_at(10 * MILLISECOND_NS, self.send_to_store, "broker1", Create(0, OWNERS + topic, "broker1"))
        for second in range(1, 60):
            self.call_at(second * SECOND_NS, self._serve)

    def send_to_store(self, source: str, message: object) -> None:
        self.occur(self.members["store"], Delivery(source, message))  # type: ignore[arg-type]

    def actuate(self, node: str, command: object) -> None:
        assert isinstance(command, Unload) and self.owners[command.unit] == node, "its owner is asked"
        self.unloads.append((self.now_ns, node, command))
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        self.call_at(self.now_ns + UNLOAD_NS, self._unloaded, node, command)

    def _unloaded(self, node: str, command: Unload) -> None:
        target = command.target or ("broker2" if node == "broker1" else "broker1")
        self.owners[command.unit] = target
        self.busy -= 1
        self.send_to_store(node, Delete(0, OWNERS + command.unit))
        self.send_to_store(target, Create(0, OWNERS + command.unit, target))
        self.occur(self.members[node], Report(Unloaded(command.unit)))

    def _serve(self) -> None:
        for broker in ("broker1", "broker2"):
            topics = {
                topic: ServedTopic(Rates(10.0, 10.0), ["clients1.0"], ["clients1.1"])
                for topic, owner in self.owners.items()
                if owner == broker
            }
            self.occur(self.members[broker], Report(Served(topics)))

    def leaders(self) -> list[str]:
        return [name for name in ("manager1", "manager2") if self.members[name].node.leads]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("system", "original", "strategy"),
    [(EPULSAR, epulsar.SYSTEM, EPulsar), (ALL_PAIRS, all_pairs.SYSTEM, AllPairs), (PULSAR, pulsar.SYSTEM, Pulsar)],
)
def test_managers_and_strategies_are_those_of_the_family(system: System, original: System, strategy: type) -> None:
    assert deployed(original) is system and system.nodes is not None and original.nodes is not None
    for make in (original.nodes, system.nodes):
        nodes: dict[str, Any] = make(NAMES, system.config(), 1)
        assert type(nodes["manager1"].strategy) is strategy
        assert nodes["broker1"].strategy is nodes["manager1"].strategy
    with pytest.raises(SpecError, match="leases was not made to drive Pulsar"):
        deployed(LEASES)


@pytest.mark.parametrize("system", [EPULSAR, ALL_PAIRS])
def test_a_topic_goes_where_its_clients_are_and_stays(system: System) -> None:
    stage = Deployment(system, bound="20ms")
    stage.run(40 * SECOND_NS)
    assert stage.leaders() == ["manager1"] and stage.owners == {"topic-0": "broker2"}
    assert [command for _, _, command in stage.unloads] == [Unload("topic-0", "broker2")]


def test_within_its_bound_nothing_moves() -> None:
    stage = Deployment(EPULSAR, bound="200ms")
    stage.run(40 * SECOND_NS)
    assert stage.unloads == [] and stage.leaders() == ["manager1"]


def test_pulsar_gives_up_what_is_too_much_one_at_a_time_and_names_nobody() -> None:
    stage = Deployment(PULSAR, topics=4, bundles=0, out_maximum_rps=25.0)
    stage.run(20 * SECOND_NS)
    assert stage.unloads and {command.target for _, _, command in stage.unloads} == {""}
    assert stage.most_busy == 1 and list(stage.owners.values()).count("broker2") == 2


@pytest.mark.parametrize(("system", "options", "executors"), [(EPULSAR, {}, 16), (PULSAR, {"bundles": 0}, 1)])
def test_all_topics_move_on_as_many_at_a_time_as_there_are_executors(
    system: System, options: dict[str, Any], executors: int
) -> None:
    stage = Deployment(system, topics=40, periodic="10s", bound="10s", **options)
    stage.run(19 * SECOND_NS)
    assert sorted(command.unit for _, _, command in stage.unloads) == sorted(stage.topics)
    assert stage.most_busy == executors and set(stage.owners.values()) == {"broker2"}
    assert {command.target for _, _, command in stage.unloads} == ({"broker2"} if system is EPULSAR else {""})


def test_when_the_load_manager_dies_the_other_is_elected_and_moves_topics() -> None:
    stage = Deployment(EPULSAR, bound="20ms", place="15s")
    stage.call_at(10 * SECOND_NS, stage.members["manager1"].crash)
    stage.run(12 * SECOND_NS)
    assert stage.unloads == []
    stage.run(50 * SECOND_NS)
    assert stage.members["manager2"].node.leads  # type: ignore[attr-defined]
    assert stage.owners == {"topic-0": "broker2"} and len(stage.unloads) == 1


def test_an_answer_that_nobody_waits_for_is_no_message() -> None:
    stage = Deployment(EPULSAR, bound="200ms")
    stage.run(SECOND_NS)
    assert stage.members["broker1"].node.handle(Report(Unloaded("topic-0")), stage.now_ns) == []


def test_options_are_those_of_the_system() -> None:
    config = replace(epulsar.Config(), hysteresis_s=0.5)
    assert vars(EPULSAR.config(**vars(config))) == vars(config)


def test_a_move_that_is_asked_for_after_the_run_is_nobodys(tmp_path: Path) -> None:
    """The load manager's question may come to a node that has been told to finish."""
    brokers = {"broker1": "127.0.0.1:1", "broker2": "127.0.0.1:2"}
    script = PulsarScript("run", ("topic",), brokers, "store", ServerAt("127.0.0.1", 3), 1, {}, {}, 1)
    plane = PulsarBrokerPlane(Loop(), "broker1", script, lambda measurement: None, tmp_path / "events")
    plane.finish()
    plane.actuate(Unload("topic", "broker2"))
    assert (tmp_path / "events").read_text() == ""
