"""The placement family for real: brokers, Serf, ZooKeeper and clients in namespaces; a topic follows its clients."""

import numpy as np
import pytest

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.hosts.places import MININET
from tests.live import needs
from tests.testbed.brokers.pair import BOUND_NS, RATE_RPS, Pair, placed, sums

pytestmark = [
    pytest.mark.slow,
    needs(
        *("root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue"),
        *("go", "serf", "java", "zookeeper"),
    ),
]

MOVE_NS, SPAN_NS = 8 * SECOND_NS, 20 * SECOND_NS  # at first round trips may speak for the other site


def test_a_topic_follows_its_clients_and_nothing_is_lost() -> None:
    journal = placed(MININET, 2, Pair(MOVE_NS, site_count=2), SPAN_NS, 10)
    counts = sums(journal)
    assert counts["gap_count"] == counts["duplicate_count"] == counts["reordered_count"] == 0
    assert counts["owed_count"] > 0.6 * SPAN_NS * RATE_RPS / SECOND_NS
    assert journal.spells[-2].broker == "broker1" and journal.spells[-1].broker == "broker2"
    assert journal.spells[-1].start_ns > MOVE_NS
    # fenced, drained, and then handed over
    drains = [(at_ns, value) for at_ns, _, metric, value in journal.samples if metric == "drain_ns"]
    assert len(drains) == len(journal.spells) - 1 and counts["early_open_count"] == 0
    for (drained_ns, _), old, new in zip(drains, journal.spells[:-1], journal.spells[1:], strict=True):
        assert old.end_ns <= drained_ns <= new.start_ns
    fate = journal.fates["orders"]
    moved_ns = max(at_ns + value for at_ns, _, metric, value in journal.samples if metric == "handover_lateness_ns")
    far = (fate.born_ns > moved_ns) & (fate.born_ns < journal.spells[-2].end_ns - BOUND_NS)
    # medians: a second in which the machine itself stalls (the clients' processes share it) is not the broker's site
    assert np.median(fate.latency_ns[far]) > 60 * MILLISECOND_NS, "the old broker is far from the new site"
    near = fate.born_ns > journal.spells[-1].start_ns + SECOND_NS
    assert np.median(fate.latency_ns[near]) < BOUND_NS
    used = {node: value for _, node, metric, value in journal.samples if metric == "utilisation_ratio"}
    assert set(used) == {"broker1", "broker2"} and all(0.0 < value < 0.5 for value in used.values())
    assert any(metric == "client_downtime_ns" for _, _, metric, _ in journal.samples)
    # Of each that was due; those that a busy machine had not sent at the end have no fate.
    assert len(journal.evidence.paths) and journal.evidence.fidelity.numbers["lateness_count"] >= len(fate.born_ns)
