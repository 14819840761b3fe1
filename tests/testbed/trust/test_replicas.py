"""What not all replicas hold is counted, of systems that replicate state, on the state that they shall agree on."""

from core.units import SECOND_NS
from systems.limiting import centralised, crdt_counter, crdt_queue
from testbed.topologies.topology import full_mesh
from testbed.trust.replicas import replica_rows
from tests.studies.limiting.given import run_requests
from workloads.requests import poisson_requests

LIMIT = {"capacity": 5, "rate": "0.5"}


def counts(system, config, drain_ns, duration_ns=4 * SECOND_NS):
    """The rows of a run of three users on four nodes, by metric."""
    topology = full_mesh(nodes=4, delay="20ms")
    requests = poisson_requests(topology.node_names(), 3, 8.0, duration_ns, seed=3, sticky=False)
    found = run_requests(system, config, topology, requests, duration_ns, 3, drain_ns=drain_ns, compare_replicas=True)
    rows = found.samples()
    return {metric: value for metric, value in zip(rows["metric"], rows["value"], strict=True) if "replica" in metric}


def test_replicas_are_equal_after_the_drain_and_not_before():
    for module in (crdt_counter, crdt_queue):
        config = module.Config(**LIMIT)
        after = counts(module.SYSTEM, config, 60 * SECOND_NS)
        assert after["replica_count"] == 4 and after["replica_entry_count"] >= 3
        assert after["replica_gap_count"] == 0
        assert counts(module.SYSTEM, config, 0, SECOND_NS // 2)["replica_gap_count"] > 0


def test_an_entry_that_one_replica_lacks_is_counted():
    config = crdt_counter.Config(**LIMIT)
    nodes = crdt_counter.nodes(["n1", "n2", "n3"], config, 1)
    for name in ("n1", "n2"):
        nodes[name].admit(bytes(16), 1, 0)
    states = {name: node.snapshot() for name, node in nodes.items()}
    rows = {metric: value for _, _, metric, value in replica_rows(crdt_counter.SYSTEM, config, states, 7)}
    assert rows == {"replica_count": 3, "replica_entry_count": 2, "replica_gap_count": 2}


def test_the_dead_do_not_count():
    config = crdt_queue.Config(**LIMIT)
    nodes = crdt_queue.nodes(["n1", "n2"], config, 1)
    assert run_queue(nodes["n1"])
    states = {name: node.snapshot() for name, node in nodes.items()}
    gaps = [replica_rows(crdt_queue.SYSTEM, config, states, at_ns)[2][3] for at_ns in (SECOND_NS, 3 * SECOND_NS)]
    assert gaps == [1, 0]  # a token is back after 2 s


def run_queue(node):
    """One request at 0."""
    from core.records import Request
    from systems.api import Arrival, Start

    node.handle(Start(None), 0)
    return node.handle(Arrival(Request(1, "a", 0, 1)), 0)


def test_systems_without_replicas_have_nothing_to_compare():
    assert not counts(centralised.SYSTEM, centralised.Config(), SECOND_NS)
