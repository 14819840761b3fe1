"""Data set D of the thesis (5.4): a request every 0.9 s against one token a second, capacity 5, for 100 s.

The only input of the thesis that is exactly known and limits anybody: decided by hand, and by real nodes.
"""

from fractions import Fraction
from statistics import fmean

import pytest

from analysis.verdicts import t_interval
from systems.limiting import centralised, crdt_counter, crdt_queue, sliding_log
from systems.limiting.crdt_queue_literal import Element, merge
from testbed.topologies.topology import load_topology
from tests.studies.limiting.given import run_requests
from workloads.data_set import DataSet, DataSetConfig

CAPACITY, SPACING = 5, Fraction(9, 10)  # tokens; seconds between requests, with a token back each second
SEEDS = 100
REJECTED = [41, 51, 61, 71, 81, 91, 101, 111]  # by hand, counted from 0: see the first test


def decisions(system, seed=1, nodes=30, **options):
    """Every decision on data set D, in order; True = admitted."""
    topology = load_topology("full-mesh", {"nodes": nodes, "delay": "0ms"})
    load = DataSet(DataSetConfig(set="D", capacity=CAPACITY, rate="1"), seed)
    span_ns = load.duration_ns
    config = system.config(capacity=CAPACITY, rate="1", **options)
    rows = run_requests(system, config, topology, load.requests(topology.node_names(), span_ns), span_ns, seed)
    by_id = dict(zip(rows.requests()["request_id"], rows.requests()["decision"], strict=True))
    return [by_id[number] == "admit" for number in range(len(by_id))]


def by_hand():
    """Each request finds a tenth of a token less than the one before: 0.9 come back and 1 goes.

    So request i finds 5 - 0.1 i, up to request 40 which finds 1.0 and takes it.  Request 41 finds 0.9: rejected.
    It takes nothing, so that 42 finds 1.8, and again each finds a tenth less than the one before: 50
    finds 1.0, 51 finds 0.9, and so every tenth.
    """
    tenths = [50 - i if i <= 41 else 18 - (i - 42) % 10 for i in range(112)]
    return [found >= 10 for found in tenths]


def test_the_sequence_by_hand_rejects_the_42nd_request_and_then_every_tenth():
    found = by_hand()
    assert len(found) == 112 and [i for i, admitted in enumerate(found) if not admitted] == REJECTED


def test_a_bucket_in_rationals_agrees():
    level, found = Fraction(CAPACITY), []
    for request in range(112):
        level = min(Fraction(CAPACITY), level + (SPACING if request else 0))
        found.append(level >= 1)
        level -= found[-1]
    assert found == by_hand()


@pytest.mark.parametrize("nodes", [1, 30])
def test_the_centralised_limiter_decides_as_by_hand(nodes):
    assert decisions(centralised.SYSTEM, nodes=nodes) == by_hand()


@pytest.mark.parametrize("system", [crdt_counter.SYSTEM, crdt_queue.SYSTEM], ids=["counter", "queue"])
def test_counter_and_queue_on_one_node_decide_as_by_hand(system):
    assert decisions(system, nodes=1) == by_hand()


def test_the_sliding_log_rejects_a_sixth_request_within_five_seconds():
    """Requests 0 to 4 fill the log until 5.0 s; the sixth, at 4.5 s, is one too many; then the first has gone."""
    found = decisions(sliding_log.SYSTEM, nodes=1)
    assert [i for i, admitted in enumerate(found) if not admitted] == list(range(5, 112, 6))


def test_three_collisions_in_a_row_extend_a_life_by_300_ms():
    """5.4: each element that meets its predecessor dies 100 ms later than Eq. (4.2)'s first clause has it."""
    second = 1_000
    queue = []
    for birth in (0, 900, 1_800, 2_700):
        queue, _ = merge(queue, [Element(birth, birth + second)], second)
    assert [element.death - element.birth - second for element in queue] == [0, 100, 200, 300]


@pytest.mark.parametrize("gossip_ms", [300, 450, 900])
def test_an_element_is_told_to_at_most_2_to_the_k_nodes_in_k_aligned_rounds(gossip_ms):
    """T20's best case is a bound: of 30 nodes at most 2^k know of the first request when the second comes."""
    from workloads.probes import ProbesConfig, ProbeTrials

    topology = load_topology("full-mesh", {"nodes": 30, "delay": "0ms"})
    load = ProbeTrials(ProbesConfig(trials=3, spacing=f"{90 * gossip_ms}ms"), 1)
    config = crdt_queue.Config(capacity=1, rate="0.8", gossip=f"{gossip_ms}ms", phase="aligned")
    offered = load.requests(topology.node_names(), load.duration_ns)
    rows = run_requests(crdt_queue.SYSTEM, config, topology, offered, load.duration_ns, 1).requests()
    for user in set(rows["user"]):
        known = 1 + sum(u == user and d == "reject" for u, d in zip(rows["user"], rows["decision"], strict=True))
        rounds = 900 // gossip_ms
        assert 2 ** (rounds - 1) < known <= 2**rounds


@pytest.mark.long
def test_the_longer_the_gossip_interval_the_fewer_rejections():
    """T19 over many seeds: means do not increase, and 900 ms lies below 300 ms with its 95 % interval."""
    found = {
        gossip_ms: [
            decisions(crdt_queue.SYSTEM, seed, gossip=f"{gossip_ms}ms").count(False) for seed in range(SEEDS)
        ]
        for gossip_ms in (300, 450, 900)
    }  # fmt: skip
    assert fmean(found[300]) >= fmean(found[450]) >= fmean(found[900])
    assert t_interval(found[900]).high < t_interval(found[300]).low
    assert fmean(found[300]) > 0, "it does reject"
    assert max(found[300]) <= len(REJECTED), "clocks are equal: it rejects nothing that one queue would not"
