"""Limiters as real processes on loopback, beside the virtual run of the same schedule."""

import time
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from operator import sub
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

from core.errors import MachineError, SpecError, SystemFault
from core.records import Request
from core.units import MILLISECOND_NS, SECOND_NS
from studies.limiting.asked import RequestJournal
from systems import SYSTEMS
from systems.api import Arrival
from systems.limiting.crdt_counter_literal import unpacked
from systems.limiting.queue_common import unpack
from systems.loader import load_system, name_of
from systems.parts.limit import limit_of
from testbed.faults import ClockSkew, Crash, Fault, Partition, Restart, ServerCrash
from testbed.hosts.local import LocalSite
from testbed.topologies.topology import Host, Link, Topology
from tests.studies.limiting.admissions import least_and_most, of_nodes, of_users
from tests.studies.limiting.given import run_requests, run_requests_live
from workloads.requests import poisson_requests

pytestmark = [pytest.mark.slow, pytest.mark.live]  # users, nodes and gossip keep their real pace

HERE = Path(__file__).parent
TOPOLOGY = Topology("three", (Host("a", nodes=("n1", "n2")), Host("b", nodes=("n3",))), (Link("a", "b"),))
LOAD_NS = 1_200 * MILLISECOND_NS


def requests_of(load_ns: int) -> dict[str, list[Request]]:
    return poisson_requests(TOPOLOGY.node_names(), 8, 15.0, load_ns, 1, sticky=False)


REQUESTS = requests_of(LOAD_NS)
COUNT = sum(map(len, REQUESTS.values()))
CAPACITY = 8
OPTIONS = {"capacity": CAPACITY, "rate": "0.05"}  # nothing comes back while a test runs
REPLICAS = ("crdt-counter", "crdt-queue", "sliding-log")
TOLD_LATER = (*REPLICAS, "overwrite", "owner-global")  # what they decide depends on how soon they hear of each other
THROTTLERS = ("throttler", "centralised-throttler")  # likewise, but they move shares of one bucket
LIMITERS = [
    key
    for key in SYSTEMS
    if (found := load_system(key)).nodes is not None and Arrival in found.inputs and not found.servers
]


def live(
    folder: Path, name: str, faults: Collection[Fault] = (), load_ns: int = LOAD_NS, **options: Any
) -> RequestJournal:
    """Without faults nothing is lost but what this machine drops: all namespaces have one queue, a storm fills it."""
    system = load_system(name)
    config, dropped = system.config(**options), dropped_count()
    with LocalSite(TOPOLOGY, folder, folder) as site:
        journal = run_requests_live(
            site, system, config, TOPOLOGY, requests_of(load_ns), load_ns, 1, faults, 3 * SECOND_NS, clock_skew_ns=0
        )
    assert faults or total(journal, "lost_count") <= dropped_count() - dropped
    return journal


def dropped_count() -> int:
    """Of packets from here."""
    return psutil.net_io_counters(pernic=True)["lo"].dropin


def virtual(name: str, load_ns: int = LOAD_NS, **options: Any) -> RequestJournal:
    system, requests = load_system(name), requests_of(load_ns)
    return run_requests(system, system.config(**options), TOPOLOGY, requests, load_ns, 1, drain_ns=SECOND_NS)


def decisions(journal: RequestJournal) -> Counter[str]:
    return Counter(journal.requests()["decision"])


def total(journal: RequestJournal, metric: str, node: str | None = None) -> float:
    samples = journal.samples()
    rows = zip(samples["node"], samples["metric"], samples["value"], strict=True)
    return sum(value for where, what, value in rows if what == metric and node in (None, where))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RequestJournal]:
    """Every limiter at work, a few at a time: they mostly wait."""

    folder = tmp_path_factory.mktemp("runs")

    def run(name: str) -> RequestJournal:
        (folder / name).mkdir()
        return live(folder / name, name, **OPTIONS)

    with ThreadPoolExecutor(4) as pool:
        return dict(zip(LIMITERS, pool.map(run, LIMITERS), strict=True))


@pytest.mark.parametrize("name", LIMITERS)
def test_a_limiter_runs_as_processes(runs: dict[str, RequestJournal], name: str) -> None:
    rows, expected = runs[name].requests(), virtual(name, **OPTIONS)
    assert sorted(rows["request_id"]) == list(range(COUNT))
    assert decisions(runs[name])["lost"] == 0
    columns = (rows[key] for key in ("intended_at_ns", "sent_at_ns", "decided_at_ns", "received_at_ns"))
    for intended, sent, decided, received in zip(*columns, strict=True):
        assert intended <= sent <= decided <= received
    admitted = decisions(runs[name])["admit"]
    if name in TOLD_LATER:  # at any pace of the gossip: as one bucket would, as buckets of their own would, or between
        least, most = least_and_most(REQUESTS, CAPACITY)
        assert least <= admitted <= most < COUNT
    elif name in THROTTLERS:  # late: as even shares that never move; soon: as one bucket, but for the minima of shares
        nodes, least_burst = len(REQUESTS), int(load_system(name).config().minimum)
        assert of_nodes(REQUESTS, CAPACITY // nodes) <= admitted
        assert admitted <= of_users(REQUESTS, CAPACITY + (nodes - 1) * least_burst) < COUNT
    else:
        assert abs(admitted - decisions(expected)["admit"]) <= 0.1 * admitted
    if total(expected, "sent_count"):
        # What waits for a timer goes together, and a busy machine rings late.
        assert total(runs[name], "sent_count") >= 0.2 * total(expected, "sent_count")
    assert total(runs[name], "garbage_count") == 0
    assert len(runs[name].lateness_ns()) == COUNT and min(runs[name].lateness_ns()) >= 0
    assert abs(runs[name].epoch_ns - time.time_ns()) < 600 * SECOND_NS


def test_replicas_are_equal_after_the_drain(runs: dict[str, RequestJournal]) -> None:
    limit = limit_of(8, "0.05")
    for name in REPLICAS:
        states = runs[name].states
        assert set(states) == {"n1", "n2", "n3"}
        if name == "crdt-counter":
            found = [{user: bucket.counts for user, bucket in unpacked(of, limit).items()} for of in states.values()]
            tokens = sum(sum(counts.values()) for counts in found[0].values())
        else:
            found = [unpack(of) for of in states.values()]
            tokens = sum(map(len, found[0].values()))
        assert found[0] == found[1] == found[2], name
        assert tokens == decisions(runs[name])["admit"]
        assert total(runs[name], "convergence_ns") > 0


def test_a_killed_node_loses_requests_and_comes_back_empty_or_with_a_copy(tmp_path: Path) -> None:
    down, up = SECOND_NS, 3 * SECOND_NS

    def run(copy_from: str) -> RequestJournal:
        folder, faults = tmp_path / (copy_from or "empty"), (Crash(down, "n2"), Restart(up, "n2", copy_from))
        return live(folder, "crdt-counter", faults, 6 * SECOND_NS, body="literal", **OPTIONS)

    with ThreadPoolExecutor(2) as pool:
        empty, copied = pool.map(run, ("", "n3"))
    for journal in (empty, copied):
        rows = journal.requests()
        every = sorted(zip(rows["intended_at_ns"], rows["node"], rows["decision"], strict=True))
        (crashed_ns, _), (restarted_ns, _) = journal.journal.faults
        assert down <= crashed_ns < restarted_ns and up <= restarted_ns  # either may come late
        lost = [at_ns for at_ns, _, decision in every if decision == "lost"]
        assert lost and {node for _, node, decision in every if decision == "lost"} == {"n2"}
        assert crashed_ns < lost[-1] <= restarted_ns
        # Of those before it only what a busy machine had not decided when the node died.
        before_it = [decision for at_ns, node, decision in every if node == "n2" and at_ns < down]
        assert before_it.count("lost") < len(before_it) / 2
        assert [at_ns for at_ns, node, _ in every if node == "n2" and at_ns > restarted_ns + 100 * MILLISECOND_NS]
    limit = limit_of(8, "0.05")
    before = {  # what n3 counted and never again: the copy has it
        user: bucket.counts for user, bucket in unpacked(copied.states["n3"], limit).items()
    }
    assert {user: bucket.counts for user, bucket in unpacked(copied.states["n2"], limit).items()} == before
    assert total(copied, "sent_bytes", "n3") > 0


def test_a_system_in_a_file_whose_requests_are_decided_elsewhere(tmp_path: Path) -> None:
    name = str(HERE / "forwarding_system.py")
    found = live(tmp_path, name)
    rows = found.requests()
    assert decisions(found) == {"admit": COUNT}
    for node, decided, received in zip(rows["node"], rows["decided_at_ns"], rows["received_at_ns"], strict=True):
        assert decided is not None and (received is None) == (node != "n1")  # users hear of their own node's only
    handed_on = len(REQUESTS["n2"]) + len(REQUESTS["n3"])
    assert total(found, "handed_on_count") == total(found, "sent_count") == handed_on
    assert name_of(load_system(name)).endswith("forwarding_system.py:SYSTEM")


def test_a_user_file_over_datagrams(tmp_path: Path) -> None:
    name = str(HERE.parents[2] / "docs" / "examples" / "my_limiter.py")
    options = {"load_ns": 5 * SECOND_NS, "period": "200ms"}
    found, expected = live(tmp_path, name, **options), virtual(name, **options)
    assert decisions(found)["lost"] == 0
    # Each second in which a busy machine decides nothing costs what buckets cannot hold meanwhile: some 24.
    rows = found.requests()
    late_ns = max(map(sub, rows["decided_at_ns"], rows["intended_at_ns"]))
    allowed = 0.1 * decisions(expected).total() + 24 * late_ns / SECOND_NS
    assert abs(decisions(found)["admit"] - decisions(expected)["admit"]) <= allowed
    assert total(found, "sent_count") > 10


def test_what_is_sent_while_nodes_are_counted_is_not_lost(tmp_path: Path) -> None:
    """They send on and on, and are counted one after another."""
    found = live(tmp_path, str(HERE.parents[2] / "docs" / "examples" / "my_limiter.py"), period="2ms")
    assert total(found, "sent_count") > 1000


@pytest.mark.parametrize(("broken", "words"), [("twice", "n1 decided request"), ("raises", "no such user")])
def test_a_node_that_breaks_a_rule_ends_the_run(tmp_path: Path, broken: str, words: str) -> None:
    system = load_system(str(HERE / "forwarding_system.py"))
    with pytest.raises(SystemFault, match=words), LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        run_requests_live(site, system, system.config(broken=broken), TOPOLOGY, REQUESTS, LOAD_NS, 1)


def test_what_cannot_be_run_is_said_before_the_load(tmp_path: Path) -> None:
    system = load_system("static-split")
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:

        def run(requests: dict[str, list[Request]], faults: tuple[Fault, ...] = ()) -> None:
            run_requests_live(site, system, system.config(), TOPOLOGY, requests, SECOND_NS, 1, faults)

        with pytest.raises(SpecError, match="requests for 'n9'"):
            run({"n9": []})
        with pytest.raises(SpecError, match="out of order"):
            run({"n1": [Request(1, "u", 5), Request(2, "u", 4)]})
        with pytest.raises(SpecError, match="offered twice"):
            run({"n1": [Request(1, "u", 5)], "n2": [Request(1, "u", 5)]})
        with pytest.raises(SpecError, match="no node 'n9'"):
            run({}, (Crash(1, "n9"),))
        with pytest.raises(SpecError, match="no links to change"):
            run({}, (Partition(1, ("n1",)),))
        assert site.processes == []  # all that was started is gone


def test_a_crash_of_servers_where_none_stands_is_refused_before_the_load(tmp_path: Path) -> None:
    system, crash = load_system("redis-gcra"), ServerCrash(SECOND_NS, "n1")
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        with pytest.raises(SpecError, match="no process of a server stands beside n1; they stand beside n3"):
            run_requests_live(site, system, system.config(server="n3"), TOPOLOGY, REQUESTS, LOAD_NS, 1, (crash,))
        assert site.processes == []


@pytest.mark.parametrize(
    ("victim", "seen", "after_s"),
    [
        ("node-n2", "node-n2", 0.5),
        ("node-n2", "users-a", 0.0),  # users come up to a node that is not there any more
        ("users-b", "users-b", 0.0),
        ("users-b", "users-b", 2.0),
    ],
)
def test_a_process_that_dies_unplanned_ends_the_run(tmp_path: Path, victim: str, seen: str, after_s: float) -> None:
    system = load_system("static-split")
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:

        def kill() -> None:
            until_s = time.monotonic() + 100
            while seen not in site.agents and time.monotonic() < until_s:
                time.sleep(0.01)
            time.sleep(after_s)
            site.agents[victim].process.kill()

        killer = Thread(target=kill)
        killer.start()
        began_s = time.monotonic()
        with pytest.raises(MachineError, match=victim.replace("node-", "node ").partition(" ")[2] or victim):
            run_requests_live(site, system, system.config(), TOPOLOGY, REQUESTS, 600 * SECOND_NS, 1)
        assert time.monotonic() - began_s < 300, "it does not wait for the end of the load"
        killer.join()
        assert site.processes == []


def test_skewed_clocks_are_the_nodes_own(tmp_path: Path) -> None:
    """A clock set far ahead refills the buckets of its node."""
    ahead = (ClockSkew(300 * MILLISECOND_NS, "n1", 600 * SECOND_NS),)
    found = live(tmp_path, "static-split", ahead, 4 * SECOND_NS, capacity=3, rate="0.05")
    rows = found.requests()
    admitted = Counter(
        node for node, decision in zip(rows["node"], rows["decision"], strict=True) if decision == "admit"
    )
    assert admitted["n1"] > admitted["n2"]
    assert max(at_ns for at_ns in rows["decided_at_ns"]) < 60 * SECOND_NS  # rows bear true time
