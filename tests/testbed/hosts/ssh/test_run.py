"""Whole runs on machines with real sshds: SRTM's Fig. 4 in small, and what goes wrong in the middle of one."""

import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from core.errors import MachineError
from core.units import MILLISECOND_NS, SECOND_NS
from harness.code_version import id_of
from harness.executors.api import work
from harness.experiment import RunSpec
from harness.run import carried_out, resolve
from studies.distribution.asked import DeploymentConfig
from systems.loader import load_system
from testbed.faults import Crash, Restart
from testbed.hosts.ssh import keeping
from testbed.hosts.ssh.site import SshSite
from testbed.topologies.topology import load_topology
from tests.harness.common import small
from tests.live import needs
from tests.studies.distribution.test_live import moved_to_first
from tests.studies.distribution.up import up
from tests.studies.limiting.given import run_requests_live
from tests.testbed.hosts.ssh.lab import DISK, Lab
from workloads.requests import poisson_requests

pytestmark = [needs("root", "namespaces", "ip", "sshd", "paramiko", "go"), pytest.mark.slow]
PUBLISHERS = 20
LOST_S = 8.0  # instead of ten: the keepers say something every second


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a lost machine leaves on record is nobody else's business."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("RATEBED_STATE", str(state))


def spec(lab: Lab, folder: Path, *numbers: int, **changes) -> RunSpec:
    """200 msg/s on two brokers."""
    inventory = str(lab.inventory(folder / "hosts.toml", *(numbers or (1, 2))))
    return small(
        testbed="ssh",
        testbed_options={"inventory": inventory},
        workload_options={"publishers": PUBLISHERS},
        topology_options={"brokers": 2},
        calibration="small",
        slo="calibrated",
        round="2s",
        **changes,
    )


def test_a_run_comes_home_whole(machines: Lab, tmp_path: Path) -> None:
    wanted = spec(machines, tmp_path, system="lb", keep=("messages",))
    run_id = id_of(wanted)
    finished = work(wanted, run_id, tmp_path / "runs")
    assert finished.error == ""
    folder = tmp_path / "runs" / run_id
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["inputs"].keys() == {manifest["spec"]["testbed_options"]["inventory"]}
    assert any("share the machine h1" in note for note in manifest["testbed_notes"])
    assert {"broker-broker1.log", "publish-publishers1.log"} <= {path.name for path in (folder / "logs").iterdir()}
    rows, processes = (pq.read_table(folder / f"{name}.parquet").to_pandas() for name in ("samples", "processes"))
    nodes = {
        "rss_bytes": set(processes[processes.rss_bytes.notna()].node),
        "clock_doubt_ns": set(rows[rows.metric == "clock_doubt_ns"].node),
    }
    assert {"broker-broker1", "publish-publishers2", "keeper-h2"} <= nodes["rss_bytes"]
    assert nodes["clock_doubt_ns"] == {"h1", "h2"}
    paths = pq.read_table(folder / "paths.parquet").to_pandas()
    assert len(paths) > 0 and (paths.lost_count < paths.probe_count).all()
    latency = pq.read_table(folder / "latency_histogram.parquet").to_pandas()
    found = latency[latency.metric == "end_to_end_latency"]
    soon_count = found[found.low_ns < 3 * SECOND_NS]["count"].sum()  # clocks that differ would be told as far more
    assert soon_count > 200 and soon_count > 0.8 * found["count"].sum()
    doubted = manifest["fidelity"]["clock_doubt_ns"] > manifest["fidelity"]["scale_ns"] / 4
    assert doubted == any("clocks" in reason for reason in manifest["validity_reasons"])


def deployed(lab: Lab, folder: Path):
    """The topic on its brokers."""
    point = resolve(spec(lab, folder))
    config = DeploymentConfig(profile="5s")
    return up(point, config)


def play(live, assignment) -> None:
    """Rounds, one after another, until one fails."""
    for _ in range(20):
        live.next_round(assignment, 2 * SECOND_NS)


def test_a_link_that_is_cut_in_the_middle(machines: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "LOST_S", LOST_S)
    live = deployed(machines, tmp_path)
    both = (np.arange(PUBLISHERS) % 2).astype(np.int32)
    try:
        live.next_round(both, SECOND_NS)
        threading.Timer(1.5, machines.cut, (2,)).start()
        began_s = time.monotonic()
        with pytest.raises(MachineError, match=r"no answer of h2 any more: "):
            play(live, both)
        assert time.monotonic() - began_s < 180
        until_s = time.monotonic() + LOST_S + 60
        while not live.site.remote("publishers2").keeping.lost and time.monotonic() < until_s:
            time.sleep(0.1)
        evidence = live.evidence()
        assert evidence.fidelity.validity == "invalid"
        assert any("agent h2 was lost" in reason for reason in evidence.fidelity.reasons)
        assert any(b"host h2 is lost" in text for text in evidence.logs.values())
        assert any(node == "publish-publishers1" for _, node, _, _ in evidence.samples)
    finally:
        live.close()
        machines.cut(2, on=False)


def fill(lab: Lab, number: int, spare_bytes: int) -> None:
    """Leave only so much of a machine's disk."""
    disk = Path(f"/proc/{lab.sshd[number - 1].pid}/root{DISK}")
    found = os.statvfs(disk)
    with (disk / "ballast").open("wb") as file:
        file.truncate(0)
        left = found.f_bavail * found.f_frsize - spare_bytes
        while left > 0:
            file.write(bytes(min(left, 1 << 20)))
            left -= 1 << 20


def test_a_full_disk_there(machines: Lab, tmp_path: Path) -> None:
    live = deployed(machines, tmp_path)
    both = (np.arange(PUBLISHERS) % 2).astype(np.int32)
    ballast = Path(f"/proc/{machines.sshd[1].pid}/root{DISK}/ballast")
    try:
        live.next_round(both, SECOND_NS)
        fill(machines, 2, 0)
        with pytest.raises(MachineError, match=r"(?i)^h2: .*no space left"):
            live.next_round(both, SECOND_NS)
        ballast.unlink()
        assert live.evidence().logs
    finally:
        ballast.unlink(missing_ok=True)
        live.close()
    assert not {name for name in machines.files(2) if name.startswith(("run-", "."))}


def test_a_controller_moves_buckets_there(machines: Lab, tmp_path: Path) -> None:
    wanted = spec(machines, tmp_path, system="tb-adaptor", workload="shifting", study="control")
    changes = {
        "workload_options": {"publishers": PUBLISHERS, "shift_at": "1s", "share_after": 0.9},
        "study_options": {"duration": "6s", "window": "1s", "profile": "5s"},
    }
    point = resolve(replace(wanted, **changes))
    journal = carried_out(point)
    decisions = journal.tables["decisions"]
    assert moved_to_first(decisions["broker"], decisions["bucket_rate_rps"], journal.bucket_rate_rps)


def test_a_limiter_with_a_node_that_crashes_there(machines: Lab, tmp_path: Path) -> None:
    topology = load_topology("full-mesh", {"nodes": 3, "delay": "1ms"})
    load_ns, system = 3_500 * MILLISECOND_NS, load_system("crdt-counter")
    requests = poisson_requests(topology.node_names(), 6, 10.0, load_ns, 1, sticky=False)
    faults = (Crash(400 * MILLISECOND_NS, "n2"), Restart(2_400 * MILLISECOND_NS, "n2", "n3"))
    config = system.config(capacity=8, rate="0.05", body="literal")
    inventory = str(machines.inventory(tmp_path / "hosts.toml", 1, 2))
    with SshSite(topology, tmp_path / "run", tmp_path, inventory=inventory) as site:
        found = run_requests_live(site, system, config, topology, requests, load_ns, 1, faults, drain_ns=SECOND_NS)
    rows = found.requests()
    lost = {node for node, decision in zip(rows["node"], rows["decision"], strict=True) if decision == "lost"}
    assert lost == {"n2"} and set(found.states) == {"n1", "n2", "n3"}
    spans = sorted(at - sent for sent, at in zip(rows["sent_at_ns"], rows["received_at_ns"], strict=True) if at)
    assert len(spans) > 60 and 0 < spans[0] < spans[len(spans) // 2] < SECOND_NS


@needs("redis-gcra")
def test_a_limiters_server_runs_and_crashes_there(machines: Lab, tmp_path: Path) -> None:
    topology = load_topology("full-mesh", {"nodes": 2, "delay": "1ms"})
    load_ns, drain_ns, system = 9 * SECOND_NS, 4 * SECOND_NS, load_system("redis-gcra")
    requests = poisson_requests(topology.node_names(), 6, 15.0, load_ns, 1, sticky=False)
    faults = (Crash(2 * SECOND_NS, "n1"), Restart(4 * SECOND_NS, "n1"))
    config = system.config(capacity=8, rate="0.05", timeout="2500ms")
    inventory = str(machines.inventory(tmp_path / "hosts.toml", 1, 2))
    with SshSite(topology, tmp_path / "run", tmp_path, inventory=inventory) as site:
        journal = run_requests_live(site, system, config, topology, requests, load_ns, 1, faults, drain_ns=drain_ns)
    answers = journal.answers
    assert answers is not None and answers.unanswered_in_faults_count > 0
    assert answers.unanswered_count <= 0.05 * answers.decided_count
    assert set(journal.requests()["decision"]) == {"admit", "reject", "lost"} and journal.lost_servers == ()
