"""The control plane beside a real Pulsar, in namespaces: topics go to the broker where their clients are."""

from collections import Counter

import pytest

from core.units import SECOND_NS
from studies.placement_on_pulsar.asked import Config, PulsarRequest
from studies.placement_on_pulsar.live import SCALE_NS, check, run_on
from systems.loader import load_system
from testbed import load_testbed
from testbed.play import Observer
from testbed.servers.pulsar.cluster import PulsarCluster
from tests.live import needs
from tests.pulsar_cluster import NETWORK, SITES, placed_topology
from workloads.static_topics import StaticTopics, StaticTopicsConfig

QUICK = {"locate": "500ms", "report": "1s", "place": "1s", "guard": "4s", "session": "3s"}

pytestmark = [needs("pulsar", "serf", *NETWORK), pytest.mark.long, pytest.mark.slow]


def test_topics_go_where_their_clients_are_and_nothing_is_lost(pulsar_cluster: PulsarCluster) -> None:
    load = StaticTopics(StaticTopicsConfig(4, rate_rps=20, bound="15ms", sites=SITES, placement="home", home=1), 1)
    system, rule = load_system("epulsar"), Config(duration="14s", access="0ms", warm_up_rounds=8, warm_up_moves=0)
    bounds = {topic.name: "15ms" for topic in load.topics}
    config = system.config(**QUICK, bounds=bounds)
    asked = PulsarRequest(system, config, placed_topology(), load, 1, rule)
    check(load_testbed("mininet"), asked)
    journal = run_on(pulsar_cluster, asked, Observer(pulsar_cluster.site, SCALE_NS))
    ends = {spell.topic: spell.broker for spell in journal.spells if spell.end_ns == asked.duration_ns}
    assert ends == dict.fromkeys(bounds, "broker2"), "their clients are all there"
    found: Counter[str] = Counter()
    for _, _, metric, value in journal.samples:
        found[metric] += int(value)
    begun = {spell.topic: spell.broker for spell in reversed(journal.spells)}
    moves = sum(broker != "broker2" for broker in begun.values())
    assert found["landed_count"] == moves and found["elected_count"] == 1
    assert found["undelivered_count"] == found["unacknowledged_count"] == 0 and not journal.evidence.notes
    assert found["out_of_order_count"] == 0
    assert found["offered_count"] > 0.9 * len(bounds) * 20 * asked.duration_ns / SECOND_NS
    assert sum(metric == "client_downtime_ns" for _, _, metric, _ in journal.samples) == 2 * moves
    assert sum(metric == "migration_ns" for _, _, metric, _ in journal.samples) == moves


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
    rule = Config(duration="26s", access="0ms", warm_up_rounds=3, warm_up_moves=0, faults=faults)
    config = system.config(**QUICK, periodic=f"{period_s}s", executors=4)
    asked = PulsarRequest(system, config, placed_topology(), load, 1, rule)
    check(load_testbed("mininet"), asked)
    journal = run_on(pulsar_cluster, asked, Observer(pulsar_cluster.site, SCALE_NS))
    elected = [(at_ns / SECOND_NS, name) for at_ns, name, metric, _ in journal.samples if metric == "elected_count"]
    (before_s, before), (after_s, after) = elected[-2:]
    assert (before, after) == ("manager1", "manager2") and before_s < killed_s < after_s
    landed_s = [at_ns / SECOND_NS for at_ns, _, metric, value in journal.samples if metric == "landed_count" and value]
    assert [at_s for at_s in landed_s if at_s < killed_s] and [at_s for at_s in landed_s if at_s > after_s]
    assert not [at_s for at_s in landed_s if killed_s + 1 < at_s < after_s], "nobody asks for moves"
    lost = sum(
        value for _, _, metric, value in journal.samples if metric in ("undelivered_count", "out_of_order_count")
    )
    assert lost == 0 and len(journal.faults) == len(faults)


@pytest.mark.night
def test_while_the_store_is_cut_off_nothing_moves_and_nothing_is_lost(pulsar_cluster: PulsarCluster) -> None:
    """For less than the brokers' sessions: Pulsar's brokers end when theirs is lost."""
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
