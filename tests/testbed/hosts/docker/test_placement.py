"""The placement family with brokers in containers: what they keep in memory is seen by both sides."""

import pytest

from core.units import SECOND_NS
from testbed.hosts.places import DOCKER
from tests.live import needs
from tests.testbed.brokers.pair import Pair, placed, sums

pytestmark = [
    pytest.mark.slow,
    needs(
        *("root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue", "docker-sdk", "dockerd"),
        *("runc", "go", "serf", "java", "zookeeper"),
    ),
]

MOVE_NS, SPAN_NS = 8 * SECOND_NS, 17 * SECOND_NS  # at first a busy machine's round trips may speak for the other site


def test_a_topic_follows_its_clients_from_container_to_container() -> None:
    journal = placed(DOCKER, 2, Pair(MOVE_NS, site_count=2), SPAN_NS, 10)
    counts = sums(journal)
    assert counts["gap_count"] == counts["duplicate_count"] == counts["reordered_count"] == 0
    assert [spell.broker for spell in journal.spells][-2:] == ["broker1", "broker2"]
    assert any(metric == "container_cpu_ns" for _, _, metric, _ in [*journal.samples, *journal.evidence.samples])
