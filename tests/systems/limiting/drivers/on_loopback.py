"""What tests of drivers share: a cluster on paper, and one with the real servers, on loopback."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

from core.records import Request
from core.units import MILLISECOND_NS, SECOND_NS
from systems.limiting.deployed import Cluster, Driver
from systems.loader import load_system
from testbed.faults import ServerCrash
from testbed.hosts.local import LocalSite
from testbed.servers.driver_check import check_driver
from testbed.topologies.topology import mesh
from tests.studies.limiting.given import run_requests_live

NAMES = ["n1", "n2", "n3"]
CRASH_NS, EVERY_NS = 3 * SECOND_NS, 50 * MILLISECOND_NS
DRAIN_NS = 5 * SECOND_NS  # longer than any time-out here


def on_paper(*names: str) -> Cluster:
    """Nodes at 10.0.0.1, 10.0.0.2 …, all ports the usual ones."""
    return Cluster({name: f"10.0.0.{i}" for i, name in enumerate(names or NAMES, 1)}, "n1", "word")


def keeps_its_word(driver: Driver, folder: Path, **options: Any) -> None:
    """It admits N of 2N at once and N again a period later, …; and no process is left."""
    with LocalSite(mesh("three", NAMES, 0), folder, folder) as site:
        check_driver(driver, site, NAMES, driver.config(**options))
    assert not of_folder(folder)


def of_folder(folder: Path) -> list[str]:
    """The names of processes of this machine that have something to do with a folder."""
    found = psutil.process_iter(["name", "cmdline"])
    return [each.info["name"] for each in found if any(str(folder) in word for word in each.info["cmdline"] or ())]


@dataclass(frozen=True)
class Told:
    """A request of n1 that was told its verdict."""

    at_ns: int
    wait_ns: int
    decision: str


class AroundCrash(NamedTuple):
    """What was decided before servers were killed, and what was asked after they had been."""

    before: list[Told]
    after: list[Told]


def around_a_crash(
    key: str, folder: Path, crashed: str, users: Sequence[str], seconds: int = 6, **options: Any
) -> AroundCrash:
    """Requests at n1 every 50 ms, of one user after another; at ``CRASH_NS`` servers beside ``crashed`` are killed."""
    system, topology = load_system(key), mesh("three", NAMES, 0)
    load = [Request(i, users[i % len(users)], i * EVERY_NS) for i in range(seconds * SECOND_NS // EVERY_NS)]
    with LocalSite(topology, folder, folder) as site:
        journal = run_requests_live(
            site, system, system.config(**options), topology, {"n1": load}, seconds * SECOND_NS, 1,
            (ServerCrash(CRASH_NS, crashed),), drain_ns=DRAIN_NS,
        )  # fmt: skip
    assert not of_folder(folder)
    rows = journal.requests()
    ((crashed_ns, _),) = journal.journal.faults  # on a busy machine the kill itself comes late
    around, columns = AroundCrash([], []), ("intended_at_ns", "sent_at_ns", "decided_at_ns", "decision")
    for at_ns, sent_ns, decided_ns, decision in zip(*(rows[name] for name in columns), strict=True):
        assert decision != "lost"
        if decided_ns < CRASH_NS:
            around.before.append(Told(at_ns, decided_ns - sent_ns, decision))
        elif sent_ns > crashed_ns:
            around.after.append(Told(at_ns, decided_ns - sent_ns, decision))
    assert len(around.before) > 3 < len(around.after)
    return around


def median_wait_ns(told: Sequence[Told]) -> float:
    """What a busy machine does to some says nothing of a node."""
    return median(each.wait_ns for each in told)
