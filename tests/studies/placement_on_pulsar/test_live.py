"""The control plane beside a real Pulsar, in namespaces: topics go to the broker where their clients are."""

from collections import Counter

import pytest

from core.clients import Happening, Joined, Moved, Role
from core.units import SECOND_NS
from studies.placement_on_pulsar.asked import Config, PulsarRequest
from studies.placement_on_pulsar.live import SCALE_NS, check, run_on
from systems.loader import load_system
from testbed import load_testbed
from testbed.play import Observer
from testbed.servers.pulsar.cluster import PulsarCluster
from tests.live import needs
from tests.pulsar_cluster import NETWORK, SITES, placed_topology
from workloads.client_load import in_order, interval, topic
from workloads.static_topics import StaticTopics, StaticTopicsConfig

QUICK = {"locate": "500ms", "report": "1s", "place": "1s", "guard": "4s", "session": "3s"}

pytestmark = [needs("pulsar", "serf", *NETWORK), pytest.mark.long, pytest.mark.slow]


class Movers:
    """A producer and a consumer of all topics, at one site, leave for another; the first listens for a while, too."""

    site_count, homes = SITES, {"clients1": 1, "clients2": 1}
    topics = tuple(topic(f"topic-{number}", 20, 100, "15ms") for number in range(1, 5))
    moved_s, listens_s = 10, (7, 9)

    def happenings(self, until_ns: int) -> list[Happening]:
        """See ``core.clients.ClientLoad``."""
        start_ns, end_ns = (second * SECOND_NS for second in self.listens_s)
        found: list[Happening] = [Joined(0, "clients1", one.name, Role.PRODUCER) for one in self.topics]
        found += [Joined(0, "clients2", one.name, Role.CONSUMER) for one in self.topics]
        found += interval(start_ns, end_ns, "clients1", "topic-1", Role.CONSUMER)
        found += [Moved(self.moved_s * SECOND_NS, client, 2) for client in self.homes]
        return in_order(found, self.homes, self.topics, until_ns)


def test_topics_follow_their_clients_and_nothing_is_lost(pulsar_cluster: PulsarCluster) -> None:
    load, system = Movers(), load_system("epulsar")
    rule = Config(duration="20s", access="0ms", warm_up_rounds=6, warm_up_moves=0)
    bounds = {topic.name: "15ms" for topic in load.topics}
    asked = PulsarRequest(system, system.config(**QUICK, bounds=bounds), placed_topology(), load, 1, rule)
    check(load_testbed("mininet"), asked)
    journal = run_on(pulsar_cluster, asked, Observer(pulsar_cluster.site, SCALE_NS))
    owners: dict[str, list[str]] = {name: [] for name in bounds}
    for spell in journal.spells:
        owners[spell.topic].append(spell.broker)
        has_left = spell.start_ns > load.moved_s * SECOND_NS
        assert not has_left or spell.broker == "broker3", "their clients are all there by then"
    assert {tuple(names[-2:]) for names in owners.values()} == {("broker2", "broker3")}
    moves = sum(len(names) - 1 for names in owners.values())
    found: Counter[str] = Counter()
    for _, _, metric, value in journal.samples:
        found[metric] += int(value)
    assert found["migration_count"] == moves and found["elected_count"] == 1
    assert found["undelivered_count"] == found["unacknowledged_count"] == 0 and not journal.evidence.notes
    assert found["out_of_order_count"] == 0
    assert found["offered_count"] == len(bounds) * 20 * asked.duration_ns / SECOND_NS
    away = Counter((one.client, one.role) for one in journal.downtimes)
    assert away == {("clients1", Role.PRODUCER): moves, ("clients2", Role.CONSUMER): moves}
    took = Counter(step.step for step in journal.steps)
    assert took["request"] == moves == took["unload"] and {step.topic for step in journal.steps} == set(bounds)
    assert sum(metric == "migration_ns" for _, _, metric, _ in journal.samples) == moves
    for name, fate in journal.fates.items():
        assert len(fate.born_ns) == 20 * asked.duration_ns / SECOND_NS and (fate.latency_ns > 0).all()
        both = fate.born_ns[fate.consumer_count == 2] / SECOND_NS
        assert not len(both) if name != "topic-1" else 7 <= both.min() < both.max() < 9


def test_when_its_load_manager_is_killed_another_moves_topics_and_nothing_is_lost(
    pulsar_cluster: PulsarCluster,
) -> None:
    # The second candidate is away at first, so that the first one leads, until it is killed.
    killed_s, period_s = 11, 4
    faults = (
        {"kind": "crash", "at": "200ms", "node": "manager2"},
        {"kind": "restart", "at": "6s", "node": "manager2"},
        {"kind": "crash", "at": f"{killed_s}s", "node": "manager1"},
    )
    load = StaticTopics(StaticTopicsConfig(4, rate_rps=20, bound="10s", sites=SITES, placement="home", home=1), 1)
    system = load_system("epulsar")
    rule = Config(duration="21s", access="0ms", warm_up_rounds=3, warm_up_moves=0, namespaces="one", faults=faults)
    config = system.config(**QUICK, periodic=f"{period_s}s", executors=4)
    asked = PulsarRequest(system, config, placed_topology(), load, 1, rule)
    check(load_testbed("mininet"), asked)
    journal = run_on(pulsar_cluster, asked, Observer(pulsar_cluster.site, SCALE_NS))
    elected = [(at_ns / SECOND_NS, name) for at_ns, name, metric, _ in journal.samples if metric == "elected_count"]
    (before_s, before), (after_s, after) = elected[-2:]
    assert (before, after) == ("manager1", "manager2") and before_s < killed_s < after_s
    landed_s = [
        at_ns / SECOND_NS for at_ns, _, metric, value in journal.samples if metric == "migration_count" and value
    ]
    assert [at_s for at_s in landed_s if at_s < killed_s] and [at_s for at_s in landed_s if at_s > after_s]
    assert not [at_s for at_s in landed_s if killed_s + 1 < at_s < after_s], "nobody asks for moves"
    lost = sum(
        value for _, _, metric, value in journal.samples if metric in ("undelivered_count", "out_of_order_count")
    )
    assert lost == 0 and len(journal.faults) == len(faults)


@pytest.mark.night
def test_while_the_store_is_cut_off_nothing_moves_and_nothing_is_lost(pulsar_cluster: PulsarCluster) -> None:
    """Some of Pulsar's brokers lose their sessions by it, and have new ones when it is back."""
    cut_s, healed_s = 11, 14
    faults = (
        {"kind": "partition", "at": f"{cut_s}s", "side": ["store"]},
        {"kind": "heal", "at": f"{healed_s}s", "side": ["store"]},
    )
    load = StaticTopics(StaticTopicsConfig(4, rate_rps=20, bound="10s", sites=SITES, placement="home", home=1), 1)
    rule = Config(duration="26s", access="0ms", warm_up_rounds=3, warm_up_moves=0, faults=faults)
    system = load_system("epulsar")
    config = system.config(**QUICK | {"session": "6s"}, periodic="2s", executors=4)
    asked = PulsarRequest(system, config, placed_topology(), load, 1, rule)
    check(load_testbed("mininet"), asked)
    journal = run_on(pulsar_cluster, asked, Observer(pulsar_cluster.site, SCALE_NS))
    ended_s = [at_ns / SECOND_NS for at_ns, _, metric, _ in journal.samples if metric == "migration_ns"]
    assert [at_s for at_s in ended_s if at_s < cut_s] and [at_s for at_s in ended_s if at_s > healed_s]
    assert not [at_s for at_s in ended_s if cut_s + 1 < at_s < healed_s], "no broker can become an owner"
    lost = sum(
        value for _, _, metric, value in journal.samples if metric in ("undelivered_count", "out_of_order_count")
    )
    assert lost == 0 and len(journal.faults) == len(faults)
