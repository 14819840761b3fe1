from collections import Counter
from pathlib import Path

import pytest

from collectors.schema import REQUESTS, SAMPLES
from core.errors import SpecError
from core.records import Request
from core.units import SECOND_NS
from systems.loader import load_system
from testbed.faults import Crash, Fault, Partition, Restart
from testbed.topology import load_topology
from testbed.virtual.request_run import NodeSummary, RequestJournal, run_requests
from workloads.requests import poisson_requests

SYSTEM = load_system(str(Path(__file__).parents[2] / "docs" / "examples" / "my_limiter.py"))
TOPOLOGY = load_topology("full-mesh", {"nodes": 3, "delay": "5ms", "jitter": "1ms", "loss_probability": 0.01})
REQUESTED = poisson_requests(TOPOLOGY.node_names(), users_count=12, rate_rps=10.0, duration_ns=10 * SECOND_NS, seed=1)


def run(seed: int = 1, faults: tuple[Fault, ...] = ()) -> RequestJournal:
    return run_requests(SYSTEM, SYSTEM.config(), TOPOLOGY, REQUESTED, 11 * SECOND_NS, seed, faults)


def test_every_request_is_a_row_and_the_limit_is_kept() -> None:
    found = run()
    rows = found.requests()
    assert ["run_id", *rows] == REQUESTS.names
    assert sorted(rows["request_id"]) == list(range(sum(map(len, REQUESTED.values()))))
    decisions = Counter(rows["decision"])
    assert decisions["lost"] == 0
    # 60 a second are allowed and 120 are asked: 600 in 10 s, and at most the bursts of 3 nodes on top
    assert 540 <= decisions["admit"] <= 660
    assert rows["decided_at_ns"] == rows["intended_at_ns"]  # decided on the spot


def test_samples_are_rows_of_their_table() -> None:
    samples = run().samples()
    assert ["run_id", *samples] == SAMPLES.names
    sent = sum(v for m, v in zip(samples["metric"], samples["value"], strict=True) if m == "sent_count")
    assert sent == 3 * 2 * 55  # each node tells two others every 200 ms, for 11 s
    assert {"sent_bytes", "sent_count", "lost_count"} >= set(samples["metric"])


def test_equal_seeds_give_equal_journals_and_others_do_not() -> None:
    assert run(1).journal == run(1).journal
    assert run(1).samples() != run(2).samples()  # other messages are lost


def test_a_crashed_node_loses_its_requests() -> None:
    found = run(faults=(Crash(2 * SECOND_NS, "n2"), Restart(4 * SECOND_NS, "n2"), Partition(5 * SECOND_NS, ("n1",))))
    lost = [
        at_ns
        for at_ns, node, decision in zip(
            found.requests()["intended_at_ns"], found.requests()["node"], found.requests()["decision"], strict=True
        )
        if decision == "lost" and node == "n2"
    ]
    offered = [request.at_ns for request in REQUESTED["n2"] if 2 * SECOND_NS <= request.at_ns < 4 * SECOND_NS]
    assert lost == offered
    assert found.summary()["n2"].lost_count == len(offered)
    assert found.summary()["n1"].lost_count == 0


def test_the_summary_adds_up() -> None:
    for node, summary in run().summary().items():
        assert summary.offered_count == len(REQUESTED[node])
        assert summary.offered_count == summary.admitted_count + summary.rejected_count + summary.lost_count
    nothing = run_requests(SYSTEM, SYSTEM.config(), TOPOLOGY, {"n1": []}, SECOND_NS, 1)
    assert nothing.summary() == {}
    one = run_requests(SYSTEM, SYSTEM.config(), TOPOLOGY, {"n1": [Request(1, "u", SECOND_NS // 2)]}, SECOND_NS, 1)
    assert one.summary() == {"n1": NodeSummary(1, 1, 0, 0)}


def test_what_does_not_fit_is_a_spec_error() -> None:
    with pytest.raises(SpecError, match="requests for 'n4'"):
        run_requests(SYSTEM, SYSTEM.config(), TOPOLOGY, {"n4": []}, SECOND_NS, 1)
    with pytest.raises(SpecError, match="no node 'n4'"):
        run(faults=(Crash(1, "n4"),))
    with pytest.raises(SpecError, match="lb has no nodes"):
        run_requests(load_system("lb"), None, TOPOLOGY, {}, SECOND_NS, 1)
    tb = load_system("tb-adaptor")
    with pytest.raises(SpecError, match="no node 'adaptor'"):
        run_requests(tb, tb.config(), TOPOLOGY, {}, SECOND_NS, 1)
