from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from collectors.schema import TABLES
from core.errors import SpecError
from core.records import Request
from core.units import MILLISECOND_NS, SECOND_NS
from studies.limiting.asked import RequestJournal
from systems.api import (
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Message,
    Node,
    Send,
    SetTimer,
    Start,
    System,
    Timer,
    Verdict,
)
from systems.loader import load_system
from testbed.faults import ClockSkew, Crash, Fault, LinkLoss, Partition, Restart
from testbed.topologies.topology import load_topology
from tests.studies.limiting.given import decisions, run_requests
from workloads.requests import poisson_requests

SYSTEM = load_system(str(Path(__file__).parents[3] / "docs" / "examples" / "my_limiter.py"))
TOPOLOGY = load_topology("full-mesh", {"nodes": 3, "delay": "5ms", "jitter": "1ms", "loss_probability": 0.1})
REQUESTED = poisson_requests(TOPOLOGY.node_names(), users_count=12, rate_rps=10.0, duration_ns=10 * SECOND_NS, seed=1)


def run(seed: int = 1, faults: tuple[Fault, ...] = ()) -> RequestJournal:
    return run_requests(SYSTEM, SYSTEM.config(), TOPOLOGY, REQUESTED, 11 * SECOND_NS, seed, faults)


def test_every_request_is_a_row_and_the_limit_is_kept() -> None:
    found = run()
    rows = found.requests()
    assert {"run_id", "sent_at_ns", "received_at_ns", *rows} == set(TABLES["requests"].names), (
        "users' instants are live only"
    )
    assert sorted(rows["request_id"]) == list(range(sum(map(len, REQUESTED.values()))))
    decisions = Counter(rows["decision"])
    assert decisions["lost"] == 0
    # 12 users have 5 a second each and ask for 10: 600 in 10 s and their bursts; a little stays with nodes not asked
    assert 500 <= decisions["admit"] <= 636
    assert rows["decided_at_ns"] == rows["intended_at_ns"]  # decided on the spot


def test_samples_are_rows_of_their_table() -> None:
    samples = run().samples()
    assert ["run_id", *samples] == TABLES["samples"].names
    sent = sum(v for m, v in zip(samples["metric"], samples["value"], strict=True) if m == "sent_count")
    assert sent == 3 * 2 * 11  # each node tells two others every second, for 11 s
    assert {"sent_bytes", "sent_count", "lost_count", "load_end_ns"} >= set(samples["metric"])


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
    assert decisions(found)["n2", "lost"] == len(offered)
    assert decisions(found)["n1", "lost"] == 0


def test_every_request_has_a_row() -> None:
    asked = Counter(run().requests()["node"])
    assert asked == {node: len(requests) for node, requests in REQUESTED.items()}
    nothing = run_requests(SYSTEM, SYSTEM.config(), TOPOLOGY, {"n1": []}, SECOND_NS, 1)
    assert decisions(nothing) == {}
    one = run_requests(SYSTEM, SYSTEM.config(), TOPOLOGY, {"n1": [Request(1, "u", SECOND_NS // 2)]}, SECOND_NS, 1)
    assert decisions(one) == {("n1", "admit"): 1}


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


# --- draining, skewed clocks, re-joining by copying: a node that tells its peer what it has admitted -----------------


class Told(Message, frozen=True):
    users: tuple[str, ...]


class Teller:
    """Admits each user once, tells the other node 700 ms later."""

    def __init__(self, name: str, peer: str):
        self.name, self.peer = name, peer
        self.known: dict[str, bool] = {}  # user -> told?
        self.clock: list[int] = []

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        self.clock.append(now_ns)
        match event:
            case Start(snapshot):
                self.known = dict.fromkeys(snapshot.users, True) if snapshot else {}
            case Arrival(request):
                new = request.user not in self.known
                self.known.setdefault(request.user, False)
                timer = SetTimer("tell", now_ns + 700 * MILLISECOND_NS)
                return [Decide(request.id, Verdict.ADMIT if new else Verdict.REJECT), timer]
            case Timer("tell", due_at_ns):
                assert due_at_ns == now_ns
                fresh = tuple(user for user, told in self.known.items() if not told)
                self.known = dict.fromkeys(self.known, True)
                return [Send(self.peer, Told(fresh))] if fresh else []
            case Delivery(_, Told(users)):
                self.known |= dict.fromkeys(users, True)
        return []

    def idle(self) -> bool:
        return all(self.known.values())

    def snapshot(self) -> Told:
        return Told(tuple(self.known))


MADE: list[dict[str, Teller]] = []


def make_tellers(names: list[str], config: Any, seed: int) -> dict[str, Node]:
    MADE.append({name: Teller(name, next(other for other in names if other != name)) for name in names})
    return dict(MADE[-1])


@dataclass(frozen=True)
class NoConfig:
    pass


TELLERS = System("teller", "tells", NoConfig, nodes=make_tellers, messages=(Told,))
PAIR = load_topology("full-mesh", {"nodes": 2, "delay": "20ms"})


def tell(requests: dict[str, list[Request]], **options: Any) -> RequestJournal:
    MADE.clear()
    return run_requests(TELLERS, NoConfig(), PAIR, requests, SECOND_NS, 1, **options)


def sampled(found: RequestJournal, metric: str) -> list[float]:
    return [value for _, _, name, value in found.journal.samples if name == metric]


def test_a_run_is_drained_until_nothing_is_left_to_say() -> None:
    asked = {"n1": [Request(0, "ann", 900 * MILLISECOND_NS)]}
    found = tell(asked, drain_ns=60 * SECOND_NS)
    assert sampled(found, "load_end_ns") == [0.9e9]
    assert sampled(found, "convergence_ns") == [0.9e9 + 0.7e9 + 0.02e9]  # its one message has arrived
    assert MADE[0]["n2"].known == {"ann": True}
    assert sampled(tell(asked, drain_ns=0), "convergence_ns") == []  # cut off before


def test_a_drain_waits_for_the_last_fault_and_gives_up_in_time() -> None:
    asked = {"n1": [Request(0, "ann", 0)]}
    late = (LinkLoss(0, "*", "*", 1.0), Crash(3 * SECOND_NS, "n1"))
    found = tell(asked, faults=late, drain_ns=60 * SECOND_NS)
    assert sampled(found, "convergence_ns") == [0.7e9]  # the message that was lost was the last one
    assert [type(fault) for _, fault in found.journal.faults] == [LinkLoss, Crash]
    never = tell({"n1": [Request(0, "ann", 0)]}, faults=(Crash(1, "n2"), Restart(2, "n2")), drain_ns=0)
    assert sampled(never, "convergence_ns") == [0.72e9]


def test_clocks_are_skewed_by_at_most_the_bound_and_timers_keep_true_time() -> None:
    found = tell({"n1": [Request(0, "ann", 0)]}, clock_skew_ns=50 * MILLISECOND_NS, drain_ns=SECOND_NS)
    offsets = [node.clock[0] for node in MADE[0].values()]
    assert len(set(offsets)) == 2 and all(0 < abs(offset) <= 50 * MILLISECOND_NS for offset in offsets)
    assert sampled(found, "convergence_ns") == [0.72e9]
    assert found.requests()["decided_at_ns"] == [0]  # on the testbed's own clock


def test_a_node_rejoins_empty_or_with_a_copy_of_its_peer() -> None:
    asked = {"n1": [Request(0, "ann", 0)], "n2": [Request(1, "ann", 950 * MILLISECOND_NS)]}
    for peer, verdict in (("", "admit"), ("n1", "reject")):
        found = tell(asked, faults=(Crash(800 * MILLISECOND_NS, "n2"), Restart(900 * MILLISECOND_NS, "n2", peer)))
        assert found.requests()["decision"] == ["admit", verdict]
        sent = sum(sampled(found, "sent_count"))
        assert sent == (2 if peer else 1)  # what is copied counts as sent by the peer


def test_a_clock_that_steps_leaves_timers_where_they_were() -> None:
    step = ClockSkew(300 * MILLISECOND_NS, "n1", -40 * MILLISECOND_NS)
    found = tell({"n1": [Request(0, "ann", 0)]}, faults=(step,), drain_ns=SECOND_NS)
    assert sampled(found, "convergence_ns") == [0.72e9]
    assert MADE[0]["n1"].clock == [0, 0, 660 * MILLISECOND_NS]
