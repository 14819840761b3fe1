"""The command line with limiters that are unmodified servers: of the tree, of a file, and with servers nobody has."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live import needs

ROOT = Path(__file__).parents[2]
GCRA = ROOT / "systems" / "limiting" / "drivers" / "redis_gcra.py"
EXAMPLE = ROOT / "docs" / "examples" / "redis_window.py"
TOY = ROOT / "docs" / "examples" / "toy_limiter.py"
TALLY = ROOT / "docs" / "examples" / "tally.py"
POINT = ("--workload", "requests", "--topology", "full-mesh", "--set", "study.duration=2s")
LIMIT = ("--set", "system.capacity=10", "--set", "system.rate=1")
PATIENT = "3s"  # before a node decides alone: a busy machine's server may stand still for longer than a second
STALLED = 0.05  # of the decisions, on a busy machine: what an invalid run may not exceed either


def ratebed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ratebed", *words], capture_output=True, text=True, timeout=300)


def manifests(out: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in (out / "runs").glob("*/manifest.json")]


def changed(folder: Path, old: str, new: str) -> str:
    """redis-gcra in a file of its own, under another key, and with something else instead."""
    text = GCRA.read_text().replace('"redis-gcra"', '"my-redis"')
    assert old in text
    path = folder / "my_redis.py"
    path.write_text(text.replace(old, new))
    return str(path)


@needs("redis-gcra")
@pytest.mark.slow
def test_a_limiter_of_the_tree_runs_on_a_testbed_that_only_an_option_names(tmp_path: Path) -> None:
    words = ("--system", "redis-gcra", "--testbed", "local", *POINT, *LIMIT, "--set", f"system.timeout={PATIENT}")
    done = ratebed("run", *words, "--json", "--out", str(tmp_path))
    (row,), (told,) = json.loads(done.stdout), manifests(tmp_path)
    assert done.returncode == (told["validity"] == "invalid"), done.stderr  # a busy machine is late with requests
    assert told["spec"]["testbed"] == "local" and told["fidelity"]["decided_count"] > 100
    assert told["fidelity"]["unanswered_share"] < STALLED and row["validity"] == told["validity"]


@pytest.mark.live
@pytest.mark.slow
def test_the_limiter_of_the_tutorial_runs_and_limits(tmp_path: Path) -> None:
    assert (
        len(TOY.read_text().splitlines()) <= 60 and len((TOY.parent / "toy_server.py").read_text().splitlines()) <= 30
    )
    hot_keys = ("--workload", "hot-keys", "--set", "workload.duration=3s", "--set", "workload.shapes=even")
    words = ("--system", f"{TOY}:SYSTEM", *hot_keys, "--topology", "full-mesh", "--testbed", "local")
    more = ("--set", "study.duration=3s", "--set", f"system.timeout={PATIENT}")
    done = ratebed("run", *words, *more, "--json", "--out", str(tmp_path))
    (row,), (told,) = json.loads(done.stdout), manifests(tmp_path)
    assert row["system"] == "toy" and row["lost"] == 0 and told["fidelity"]["unanswered_share"] < STALLED, done.stderr
    assert row["admit"] > 50 and row["reject"] > 50


@needs("redis-gcra")
@pytest.mark.slow
def test_an_example_brings_its_own_server_and_one_that_takes_no_questions_is_invalid(tmp_path: Path) -> None:
    """A copy of redis-gcra asks for a script that Redis does not have: every answer is an error, and fails open."""
    assert len(EXAMPLE.read_text().splitlines()) <= 180, "with its server"
    broken = changed(tmp_path, "sha1(SCRIPT.encode())", "sha1(b'another')")
    matrix = tmp_path / "both.toml"
    matrix.write_text(
        f"[[grid]]\nsystem = ['{EXAMPLE}', '{broken}']\nworkload = 'requests'\ntopology = 'full-mesh'\n"
        f"testbed = 'local'\nstudy_options = {{ duration = '2s' }}\nsystem_options = {{ timeout = '{PATIENT}' }}\n"
    )
    done = ratebed("run", str(matrix), "--json", "--out", str(tmp_path / "out"))
    assert done.returncode in (0, 1), done.stderr  # 1: a busy machine was late with the example's requests, too
    rows = {row["system"]: row for row in json.loads(done.stdout)}
    told = {Path(found["spec"]["system"]).name: found for found in manifests(tmp_path / "out")}

    example = rows["redis-window"]
    assert example["lost"] == 0 and example["admit"] > 0 and example["reject"] > 0
    assert told["redis_window.py"]["fidelity"]["unanswered_share"] < STALLED

    assert rows["my-redis"]["reject"] == 0 and rows["my-redis"]["validity"] == "invalid"
    assert told["my_redis.py"]["fidelity"]["unanswered_share"] == 1
    reasons = " ".join(told["my_redis.py"]["validity_reasons"])
    assert "100.0% of the decisions outside of faults were taken without the answer" in reasons


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize(("never_asked", "least"), [("True", 1.0), ("command.request_id % 5 == 0", 0.1)])
def test_a_limiter_that_fails_open_and_does_not_say_so_is_invalid(
    tmp_path: Path, never_asked: str, least: float
) -> None:
    """An author's omission: on a time-out the example admits, without the flag; all or some questions get lost."""
    text = TALLY.read_text()
    silent = "[Decide(e.request_id, e.verdict) if isinstance(e, Decide) else e for e in self.questions.rung(now_ns)]"
    for old, new in (
        ("    Arrival,\n", "    Arrival,\n    Decide,\n"),
        ("self.questions.rung(now_ns)", silent),
        ("        self.asked.append", f'        if {never_asked}:\n            return b""\n        self.asked.append'),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "tally.py").write_text(text)
    (tmp_path / "tally_server.py").write_text((TALLY.parent / "tally_server.py").read_text())
    words = ("--system", f"{tmp_path}/tally.py:SYSTEM", "--testbed", "local", *POINT, *LIMIT)
    done = ratebed("run", *words, "--set", "topology.nodes=2", "--json", "--out", str(tmp_path / "out"))
    (row,), (told,) = json.loads(done.stdout), manifests(tmp_path / "out")
    assert (done.returncode, row["validity"], told["validity"]) == (1, "invalid", "invalid"), done.stderr
    assert least <= told["fidelity"]["unanswered_share"] and row["admit"] > 100
    assert "of the decisions outside of faults were taken without the answer" in " ".join(told["validity_reasons"])


@pytest.mark.parametrize(
    ("declared", "testbed", "what", "fix"),
    [
        ('servers=("etcd",)', "local", "asks a server 'etcd', which nobody has", "known: bucket4j, haproxy"),
        (
            'servers=("radis-gcra",)',
            "local",
            "asks a server 'radis-gcra', which nobody has",
            "did you mean 'redis-gcra'?",
        ),
        ('plane="no.testbed:plane"', "local", "No module named 'no'", "my-redis declares it"),
        ('servers=("redis-gcra",)', "virtual", "asks a real server (redis-gcra)", "--testbed local"),
        ("", "virtual", "asks a real server (my-redis)", "--testbed local"),
    ],
)
def test_what_nobody_has_is_refused_before_anything_runs(
    tmp_path: Path, declared: str, testbed: str, what: str, fix: str
) -> None:
    replaced = f"import dataclasses\nSYSTEM = dataclasses.replace(deployed(DRIVER), {declared})"
    system = changed(tmp_path, "SYSTEM = deployed(DRIVER)", replaced)
    done = ratebed("run", "--system", system, "--testbed", testbed, *POINT, "--out", str(tmp_path / "out"))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert what in said and fix in said
    assert not (tmp_path / "out").exists()
