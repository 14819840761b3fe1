"""Limiters that are unmodified servers: decisions that the server never gave are counted, and judged."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from core.units import MILLISECOND_NS, SECOND_NS
from studies.limiting.asked import RequestJournal
from systems.loader import load_system
from testbed.faults import Crash, Fault, Heal, Partition, Restart
from testbed.hosts.local import LocalSite
from testbed.hosts.mininet.site import MininetSite
from testbed.hosts.site import Site
from testbed.topologies.topology import load_topology, mesh
from testbed.trust.fidelity import Observation, judge, spread_of
from tests.live import needs
from tests.studies.limiting.given import run_requests_live
from tests.testbed.brokers.with_clients import until
from workloads.requests import poisson_requests

pytestmark = [pytest.mark.slow, needs("redis-gcra")]

NETWORK = ("root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue")
TOPOLOGY = mesh("two", ["n1", "n2"], 0)
LOAD_NS = 3 * SECOND_NS
PLAYS = 5  # until a busy machine cuts for about as long as it is told: when TCP sends again depends on that
OPTIONS = {"capacity": 10, "rate": "1", "timeout": "500ms"}
ROOT = Path(__file__).parents[3]


def run(site: Site, name: str, faults: Sequence[Fault] = (), load_ns: int = LOAD_NS, **options: Any) -> RequestJournal:
    system, requests = load_system(name), poisson_requests(TOPOLOGY.node_names(), 6, 20.0, load_ns, 3, sticky=False)
    return run_requests_live(
        site, system, system.config(**OPTIONS | options), TOPOLOGY, requests, load_ns, 1, faults, drain_ns=2 * SECOND_NS
    )


def total(journal: RequestJournal, metric: str) -> float:
    samples = journal.samples()
    return sum(value for name, value in zip(samples["metric"], samples["value"], strict=True) if name == metric)


def verdict_on(journal: RequestJournal) -> tuple[str, tuple[str, ...]]:
    """Of a machine that is never late, so that answers alone count."""
    seen = Observation(lateness=spread_of([0] * 1_000), answers=journal.answers, lost_agents=journal.lost_servers)
    fidelity = judge(seen)
    return fidelity.validity, fidelity.reasons


@pytest.fixture
def copy(tmp_path: Path) -> str:
    """A copy of redis-gcra under another key, in a file outside the tree."""
    text = (ROOT / "systems" / "limiting" / "drivers" / "redis_gcra.py").read_text()
    path = tmp_path / "my_redis.py"
    path.write_text(text.replace('"redis-gcra"', '"my-redis"'))
    return f"{path}:SYSTEM"


def test_a_copy_under_another_key_asks_its_server(tmp_path: Path, copy: str) -> None:
    assert load_system(copy).key == "my-redis"
    with LocalSite(TOPOLOGY, tmp_path / "run", tmp_path) as site:
        journal = run(site, copy, timeout="1500ms")
    rows, answers = journal.requests(), journal.answers
    assert answers is not None
    decisions, seconds = Counter(rows["decision"]), max(rows["decided_at_ns"]) / SECOND_NS
    # Six users have ten tokens each and another one a second; who gets no answer is admitted.
    most = 60 + 6 * (seconds + 1) + answers.unanswered_count
    assert set(decisions) == {"admit", "reject"} and 60 <= decisions["admit"] <= most
    assert answers.unanswered_count <= 0.05 * answers.decided_count
    assert answers.decided_count == sum(decisions.values()) and journal.lost_servers == ()


def test_a_server_that_is_killed_by_nobody_makes_the_run_invalid(tmp_path: Path) -> None:
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:

        def kill() -> None:
            until(lambda: site.epoch_ns, "the load", 120)
            time.sleep(max(0, site.epoch_ns + SECOND_NS - time.time_ns()) / SECOND_NS)
            site.agents["redis-n1"].process.kill()

        killer = Thread(target=kill)
        killer.start()
        journal = run(site, "redis-gcra")
        killer.join()
    validity, reasons = verdict_on(journal)
    assert validity == "invalid" and journal.lost_servers == ("redis-n1",)
    assert any("of the decisions outside of faults were taken without the answer" in reason for reason in reasons)
    assert journal.answers is not None and journal.answers.unanswered_in_faults_count == 0
    assert total(journal, "unanswered_count") == journal.answers.unanswered_count > 0


def test_a_crash_of_the_server_that_was_declared_is_not_blamed(tmp_path: Path) -> None:
    faults = Crash(SECOND_NS, "n1"), Restart(1_800 * MILLISECOND_NS, "n1")
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        journal = run(site, "redis-gcra", faults, 6 * SECOND_NS, timeout="1500ms")
    check_excused(journal)


@needs(*NETWORK)
def test_a_partition_from_the_server_that_was_declared_is_not_blamed(tmp_path: Path) -> None:
    faults = Partition(SECOND_NS, ("n2",)), Heal(1_400 * MILLISECOND_NS, ("n2",))
    for number in range(PLAYS):
        folder, topology = tmp_path / str(number), load_topology("full-mesh", {"nodes": 2, "delay": "5ms"})
        with MininetSite(topology, folder / "run", folder) as site:
            journal = run(site, "redis-gcra", faults)
        (cut_ns, _), (healed_ns, _) = journal.journal.faults
        if SECOND_NS // 4 < healed_ns - cut_ns < 6 * SECOND_NS // 10:
            break
    check_excused(journal)


def check_excused(journal: RequestJournal) -> None:
    answers: Any = journal.answers
    assert answers.unanswered_in_faults_count > 0 and answers.unanswered_share <= 0.05
    assert total(journal, "unanswered_count") == answers.unanswered_count + answers.unanswered_in_faults_count
    validity, reasons = verdict_on(journal)
    assert validity != "invalid" and journal.lost_servers == (), reasons


def test_who_models_its_server_counts_as_well(tmp_path: Path) -> None:
    """centralised asks a node instead; while that is down, the others decide alone, and say so."""
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        journal = run(site, "centralised", (Crash(SECOND_NS, "n1"),), timeout="1s")  # none is over before the crash
    answers: Any = journal.answers
    assert answers.unanswered_in_faults_count > 0 and answers.unanswered_count == 0
    assert verdict_on(journal) == ("valid", ())
