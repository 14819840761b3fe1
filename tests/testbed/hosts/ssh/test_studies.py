"""A small placement and a small profile on machines with real sshds: files go there, records come home."""

from pathlib import Path

import numpy as np
import pytest

from core.units import MILLISECOND_NS, SECOND_NS
from studies.placement.asked import Config, PlacementRequest
from studies.placement.live import run as run_placement
from studies.profile.asked import ProfileRequest
from studies.profile.live import run as run_profile
from systems.loader import load_system
from testbed.faults import Crash, Restart
from testbed.hosts.ssh.site import SshSite
from testbed.topologies.topology import load_topology
from tests.live import needs
from tests.testbed.brokers.pair import QUICK, RATE_RPS, Pair, sums
from tests.testbed.hosts.ssh.lab import Lab
from workloads import load as load_workload

pytestmark = [needs("root", "namespaces", "ip", "sshd", "paramiko", "go"), pytest.mark.slow]


@needs("serf", "java", "zookeeper")
def test_a_placement_whose_broker_crashes_there(machines: Lab, tmp_path: Path) -> None:
    load, span_ns = Pair(), 22 * SECOND_NS
    faults = (Crash(7 * SECOND_NS, "broker1"), Restart(12 * SECOND_NS, "broker1"))  # its session is over by then
    topology = load_topology("city-mec", {"sites": 1, "site_rtt": "70ms", "cloud_delay": "20ms"})
    system = load_system("epulsar")
    config = system.config(**QUICK, access="1ms", bounds={"orders": "40ms"})
    inventory = str(machines.inventory(tmp_path / "hosts.toml", 1, 2))
    rule = Config(duration="22s", access="1ms", warm_up_rounds=0)
    asked = PlacementRequest(system, config, topology, load, 1, rule, faults)
    with SshSite(asked.topology, tmp_path / "run", tmp_path, inventory=inventory) as site:
        journal = run_placement(site, asked)
    assert [fault for _, fault in journal.faults] == list(faults)
    (died_ns,) = (at_ns for at_ns, fault in journal.faults if fault == faults[0])
    assert died_ns in [spell.end_ns for spell in journal.spells] and journal.spells[-1].end_ns == span_ns
    fate, counts = journal.fates["orders"], sums(journal)
    last = fate.born_ns > span_ns - SECOND_NS
    assert last.sum() == RATE_RPS and (fate.latency_ns[last] >= 0).all(), "all is well at the end"
    assert counts["owed_count"] == len(fate.born_ns) > 4 * RATE_RPS
    assert any(name.startswith("zookeeper") for name in journal.evidence.logs)
    assert {"clock_doubt_ns", "rss_bytes"} <= {metric for _, _, metric, _ in journal.evidence.samples}
    assert any("share the machine" in note for note in journal.evidence.notes)
    assert not {name for number in (1, 2) for name in machines.files(number) if name.startswith(("run-", "."))}


def test_a_profile_there(machines: Lab, tmp_path: Path) -> None:
    options = {"topics": 2, "producers": 2, "consumers": 2, "rate_rps": 20.0, "size_bytes": 200, "sites": 1}
    workload = load_workload("static-topics")
    load = workload.make(workload.configure(options), 1)
    topology = load_topology("srtm-lan", {"brokers": 1})
    inventory = str(machines.inventory(tmp_path / "hosts.toml", 1, 2))
    with SshSite(topology, tmp_path / "run", tmp_path, inventory=inventory) as site:
        asked = ProfileRequest(topology, load, 7 * SECOND_NS, SECOND_NS, 1, 20 * MILLISECOND_NS, 0.5)
        profiled = run_profile(site, asked)
    values = {(node, metric): value for _, node, metric, value in profiled.samples}
    due = 2 * 2 * 20.0 * 6  # topics, producers, messages a second, seconds
    assert values["broker1", "span_offered_count"] == pytest.approx(2 * due, abs=8)
    assert values["broker1", "span_in_count"] == pytest.approx(due, rel=0.3)  # a busy machine takes some after it
    assert values["broker1", "span_lost_count"] == 0
    assert len(profiled.latency_ns) == values["broker1", "span_offered_count"]
    assert 0 < np.median(profiled.latency_ns) < SECOND_NS
    assert values["broker1", "span_cpu_ns"] > 0 and values["clients", "span_cpu_ns"] > 0
    assert any("not pinned" in note and "confined to 0.5" in note for note in profiled.evidence.notes)
