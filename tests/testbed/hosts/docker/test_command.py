"""The testbed docker through the command line: figures beside others', limits in the runs, clear errors."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.live import needs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    needs(
        "root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue", "docker-sdk", "dockerd", "runc"
    ),
]


def ratebed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ratebed", *words], capture_output=True, text=True, timeout=300)


def test_a_figure_with_reserved_processors(tmp_path: Path) -> None:
    done = ratebed("run", "crdt-wan", "--testbed", "docker", "--docker-daemon", "private", "--scale", "tiny",
                   "--set", "testbed.cpus=0.5", "--set", "testbed.n3.kind=mininet", "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert (tmp_path / "figures" / "crdt-wan@docker.svg").is_file()
    section = json.loads((tmp_path / "tables" / "crdt-wan@docker" / "section.json").read_text())
    assert "--testbed docker --set testbed.cpus=0.5 --set testbed.n3.kind=mininet" in section["command"]
    manifests = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/manifest.json")]
    live = [found for found in manifests if found["spec"]["testbed"] == "docker"]
    assert len(manifests) == 5 and len(live) == 2
    for found in live:
        assert found["spec"]["testbed_options"] == {"cpus": 0.5, "n3.kind": "mininet"}
        assert not any("lost" in reason or "killed" in reason for reason in found["validity_reasons"])
        rows = pq.read_table(tmp_path / "runs" / found["run_id"] / "containers.parquet").to_pylist()
        assert {row["node"] for row in rows} == {"n1", "n2"}
        used = [row["container_cpu_ns"] for row in rows if row["node"] == "n1" and row["container_cpu_ns"] is not None]
        assert len(used) >= 4 and used == sorted(used) and used[0] < used[-1]
        assert ("n1", 0.5) in {(row["node"], row["container_cpu_limit"]) for row in rows}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--set", "testbed.cpu=1"], "no option 'cpu'"),
        (["--set", "testbed.memory=1kB"], "memory = '1kB'"),
        (["--set", "workload.publishers=3"], "have no such option"),
        (["--docker-daemon", "mine"], "unknown Docker daemon 'mine'"),
    ],
)
def test_garbage_is_one_line(tmp_path: Path, words: list[str], text: str) -> None:
    done = ratebed("run", "crdt-wan", "--testbed", "docker", "--scale", "tiny", *words, "--out", str(tmp_path))
    assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr
