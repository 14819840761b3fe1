"""A placement and a profile over SSH as users start them: by the command line, on machines with real sshds."""

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.command import process
from tests.live import needs
from tests.testbed.hosts.ssh.lab import Lab

pytestmark = [needs("root", "namespaces", "ip", "sshd", "paramiko", "go"), pytest.mark.slow]
PROFILE = """
[[grid]]
study = "profile"
system = "pulsar"
workload = "static-topics"
topology = "srtm-lan"
workload_options = { topics = 1, consumers = 2, rate_rps = 20.0, size_bytes = 200, sites = 1 }
topology_options = { brokers = 1 }
study_options = { duration = "5s" }
"""
PLACEMENT = """
[[grid]]
study = "placement"
system = "epulsar"
workload = "static-topics"
topology = "city-mec"
workload_options = { topics = 1, rate_rps = 20.0, size_bytes = 200, sites = 1 }
topology_options = { sites = 1, site_rtt = "70ms", cloud_delay = "20ms" }
system_options = { locate = "500ms", report = "500ms", place = "500ms", session = "3s" }
study_options = { duration = "8s", warm_up_rounds = 0 }
"""


@pytest.mark.parametrize(
    ("matrix", "programs"),
    [
        pytest.param(PROFILE, {"broker-broker1.log"}, id="profile"),
        pytest.param(
            PLACEMENT,
            {"broker-broker1.log", "zookeeper-store.log"},
            id="placement",
            marks=needs("serf", "java", "zookeeper"),
        ),
    ],
)
def test_a_study_runs_on_machines_over_ssh(machines: Lab, tmp_path: Path, matrix: str, programs: set[str]) -> None:
    """Its tables come home, whole, with what its programs printed there; nothing of it stays on the machines."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    inventory = machines.inventory(tmp_path / "hosts.toml", 1, 2)
    wanted = tmp_path / "wanted.toml"
    wanted.write_text(matrix)
    where = ("--testbed", "ssh", "--inventory", str(inventory), "--out", str(tmp_path / "out"), "--json")
    env = {**os.environ, "RATEBED_STATE": str(state)}
    done = process("run", str(wanted), *where, env=env, timeout=300)
    assert done.returncode in (0, 1), done.stderr  # 1: a busy machine was late with the load
    (row,) = json.loads(done.stdout)
    folder = tmp_path / "out" / "runs" / row["run_id"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (row["outcome"], manifest["spec"]["testbed"]) == ("done", "ssh"), done.stderr
    assert done.returncode == (manifest["validity"] == "invalid")
    assert any("share the machine h1" in note for note in manifest["testbed_notes"])
    latency = pq.read_table(folder / "latency_histogram.parquet").to_pandas()
    assert latency["count"].sum() > 50, done.stderr
    assert programs <= {path.name for path in (folder / "logs").iterdir()}
    assert not {name for number in (1, 2) for name in machines.files(number) if name.startswith(("run-", "."))}
