"""Workflows of continuous integration: every goal of make that they name is there, and nothing in them moves."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testbed.servers import SERVERS
from tests import live
from tests.command import process

ROOT = Path(__file__).parents[1]
OURS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATE = ROOT / "docs" / "examples" / "ci" / "ratebed.yml"
FILES = {path.name: path for path in [*OURS, TEMPLATE]}
GOALS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def triggers(workflow: dict) -> dict:
    """What starts it: YAML 1.1 reads the word "on" as true."""
    return workflow[True]


def steps(path: Path) -> Iterator[dict]:
    """Of all jobs of a workflow."""
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        yield from job["steps"]


def commands(path: Path) -> list[list[str]]:
    """What its steps run, as words."""
    return [shlex.split(step["run"]) for step in steps(path) if "run" in step]


@pytest.mark.parametrize("name", FILES)
def test_every_goal_of_make_is_there(name):
    named = [words[-1] for words in commands(FILES[name]) if words[0] == "make"]
    assert named and {*named} <= GOALS


@pytest.mark.parametrize("name", FILES)
def test_actions_are_pinned_and_jobs_end(name):
    used = [step["uses"] for step in steps(FILES[name]) if "uses" in step]
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used)
    workflow = yaml.safe_load(FILES[name].read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert all(0 < job["timeout-minutes"] <= 120 for job in workflow["jobs"].values())


def test_pushes_are_smoke_tested_and_tested_and_nights_are_long():
    runs = {name: {words[-1] for words in commands(path) if words[0] == "make"} for name, path in FILES.items()}
    started = {name: {*triggers(yaml.safe_load(path.read_text()))} for name, path in FILES.items()}
    assert runs["checks.yml"] == {"smoke", "test"} and {"push", "pull_request"} <= started["checks.yml"]
    assert runs["nightly.yml"] == {"setup", "test-long", "test-night", "figures"}
    assert "schedule" in started["nightly.yml"] and {"push", "schedule"} <= started["ratebed.yml"]


@pytest.mark.parametrize(("system", "more"), [("debian", {"browser"}), ("ubuntu", set())])
def test_root_has_all_that_live_tests_start(system, more, tmp_path, monkeypatch):
    (tmp_path / ".ci").mkdir()
    (tmp_path / "os-release").write_text(f"NAME=one\nID={system}\nID_LIKE=debian\n")
    for name, line in {"id": "echo 0", "apt-get": "exit 1", "make": 'echo "$RATEBED_NEEDS"'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    script = (ROOT / ".ci" / "run").read_text().replace("/etc/os-release", str(tmp_path / "os-release"))
    (tmp_path / ".ci" / "run").write_text(script)
    words, path = ["bash", str(tmp_path / ".ci" / "run")], {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    short, long = subprocess.run(words, env=path, capture_output=True, text=True, check=True).stdout.splitlines()
    brought = {"mininet", "mnexec", "erlang", "go", "brokerd", "sshd", "hdfs", "s3"}
    assert short == long and set(short.split()) == {*SERVERS, *brought, *more}
    monkeypatch.setenv("RATEBED_NEEDS", short)
    assert live.demanded() == set(short.split())


def test_hosted_jobs_have_the_broker():
    for name, job in (("checks.yml", "test"), ("nightly.yml", "test-long")):
        settings = yaml.safe_load(FILES[name].read_text())["jobs"][job]["env"]
        assert settings["RATEBED_NEEDS"] == "go brokerd"


def test_what_only_root_can_run_and_is_not_live_is_run_by_root():
    (words,) = (words for words in commands(FILES["nightly.yml"]) if words[0] == "sudo")
    folders = [ROOT / word for word in words if word.startswith("tests/")]
    texts = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    skipping = re.compile(r"skipif\(.*(geteuid\(\) != 0|why_not\(\))")
    wanting = [path for path, text in texts.items() if skipping.search(text) and "tests.live import needs" not in text]
    assert wanting and all(any(path.is_relative_to(folder) for folder in folders) for path in wanting), wanting


@pytest.mark.parametrize("name", FILES)
def test_what_the_command_line_is_told_it_knows(name, tmp_path):
    told = [words for words in commands(FILES[name]) if words[0].endswith("bin/ratebed")]
    assert told or name == "checks.yml"
    for _, verb, *words in told:
        words = [word.replace("$SYSTEM", "docs/examples/my_limiter.py:SYSTEM") for word in words]
        command = ["plan", *words] if verb == "run" else [verb, "--help"]
        done = process(*command)
        assert done.returncode == 0, done.stderr
        if verb == "run":
            assert re.search(r"\d+ of +\d+ runs to do", done.stdout)
        else:
            assert all(word in done.stdout for word in words if word.startswith("--"))
