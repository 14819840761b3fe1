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
