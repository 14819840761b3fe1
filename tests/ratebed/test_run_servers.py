"""The command line with limiters that are unmodified servers: of the tree, of a file, and with servers nobody has."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live import needs

ROOT = Path(__file__).parents[2]
GCRA = ROOT / "systems" / "limiting" / "redis_gcra.py"
EXAMPLE = ROOT / "docs" / "examples" / "redis_window.py"
POINT = ("--workload", "requests", "--topology", "full-mesh", "--set", "study.duration=2s")
LIMIT = ("--set", "system.capacity=10", "--set", "system.rate=1")


def ratebed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ratebed", *words], capture_output=True, text=True, timeout=300)


def manifest(out: Path) -> Any:
    (path,) = (out / "runs").glob("*/manifest.json")
    return json.loads(path.read_text())


def changed(folder: Path, old: str, new: str) -> str:
    """redis-gcra in a file of its own, under another key, and with something else instead."""
    text = GCRA.read_text().replace('"redis-gcra"', '"my-redis"')
    assert old in text
    path = folder / "my_redis.py"
    path.write_text(text.replace(old, new))
    return str(path)


@needs("redis")
@pytest.mark.slow
def test_a_limiter_of_the_tree_runs_on_a_testbed_that_only_an_option_names(tmp_path: Path) -> None:
    done = ratebed("run", "--system", "redis-gcra", "--testbed", "local", *POINT, *LIMIT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    told = manifest(tmp_path)
    assert told["spec"]["testbed"] == "local" and told["fidelity"]["unanswered_share"] == 0
    assert told["fidelity"]["decided_count"] > 100


@needs("redis")
@pytest.mark.slow
def test_an_example_brings_its_own_server(tmp_path: Path) -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 180, "with its server"
    done = ratebed("run", "--system", str(EXAMPLE), "--testbed", "local", *POINT, "--json", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["lost"] == 0 and row["admit"] > 0 and row["reject"] > 0
    assert manifest(tmp_path)["fidelity"]["unanswered_share"] == 0


@needs("redis")
@pytest.mark.slow
def test_a_limiter_whose_server_takes_no_questions_is_invalid(tmp_path: Path) -> None:
    """Its script is none: every question runs into its time-out and fails open."""
    broken = changed(tmp_path, "local ticks_per_us, token_ticks =", "local ticks_per_us token_ticks =")
    done = ratebed("run", "--system", broken, "--testbed", "local", *POINT, *LIMIT, "--out", str(tmp_path / "out"))
    told = manifest(tmp_path / "out")
    assert told["validity"] == "invalid" and told["fidelity"]["unanswered_share"] == 1, done.stderr
    assert "100.0% of the decisions outside of faults were taken without" in " ".join(told["validity_reasons"])


@pytest.mark.parametrize(
    ("old", "new", "testbed", "what", "fix"),
    [
        ('("redis",)', '("etcd",)', "local", "asks a server 'etcd', which nobody has", "known: redis, serf, zookeeper"),
        ('("redis",)', '("radis",)', "local", "asks a server 'radis', which nobody has", "did you mean 'redis'?"),
        ('plane="testbed', 'plane=""or"no.testbed', "local", "No module named 'no'", "my-redis declares it"),
        ('("redis",)', '("redis",)', "virtual", "asks a real server (redis)", "--testbed local"),
    ],
)
def test_what_nobody_has_is_refused_before_anything_runs(
    tmp_path: Path, old: str, new: str, testbed: str, what: str, fix: str
) -> None:
    system = changed(tmp_path, old, new)
    done = ratebed("run", "--system", system, "--testbed", testbed, *POINT, "--out", str(tmp_path / "out"))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert what in said and fix in said
    assert not (tmp_path / "out").exists()
