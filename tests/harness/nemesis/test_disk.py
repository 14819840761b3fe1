"""Trials on a small disk: a command that hangs is ended and told, what it leaves too, and its account is looked at."""

import os
import signal
import subprocess
import sys
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from collectors.partials import partial_of
from core.errors import MachineError
from core.units import SECOND_NS
from harness.nemesis import disk, trial
from harness.nemesis.__main__ import main
from harness.nemesis.audit import account_wrong
from harness.nemesis.disk import Ended, ended, judge, run_on_small_disk
from harness.nemesis.grounds import GROUNDS
from harness.nemesis.ledger import read_ledger
from harness.nemesis.remains import CommandTraces
from harness.nemesis.schedule import draw
from harness.nemesis.trial import NOT_PLAYED
from harness.run import resolve
from studies.distribution.asked import TRIALS_MAXIMUM
from tests.testbed.brokers.with_clients import until

LOAD_NS = 4 * SECOND_NS
HANGS = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, {at_its_end})
print('here', flush=True)
pathlib.Path(sys.argv[1]).touch()
time.sleep(900)
"""


def python(code, most_s, patience_s=60.0, *words):
    return ended([sys.executable, "-c", code, *words], dict(os.environ), most_s, patience_s)


@pytest.fixture
def hanging(monkeypatch, tmp_path):
    """Runs a command that hangs, whose time begins when it does: a busy machine may take long to start it."""
    hangs = tmp_path / "hangs"

    class Patient(subprocess.Popen):
        def wait(self, timeout=None):
            until(hangs.exists, "the command")
            return super().wait(timeout)

    monkeypatch.setattr(disk.subprocess, "Popen", Patient)
    return lambda at_its_end, patience_s: python(HANGS.format(at_its_end=at_its_end), 0.1, patience_s, str(hangs))


def test_a_command_that_ends_in_time_says_what_it_says():
    done = python("import sys; print('out'); sys.exit('err')", 60)
    assert done == Ended(1, "out\n", "err\n", False)


def test_a_command_that_hangs_may_take_down_what_it_made(hanging):
    assert hanging("lambda *_: sys.exit('taken down')", 60) == Ended(1, "here\n", "taken down\n", True)


def test_a_command_that_is_deaf_is_killed(hanging):
    assert hanging("signal.SIG_IGN", 0.2) == Ended(-signal.SIGKILL, "here\n", "", True)


def test_what_a_command_leaves_is_seen_and_removed(tmp_path):
    traces = CommandTraces(tmp_path / "state")
    assert traces.left(0) == []
    environment = {**os.environ, **traces.environment}
    command = [sys.executable, "-c", "print('here', flush=True); input()"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        traces.state.mkdir()
        (traces.state / "run-1-abc.jsonl").touch()
        there = traces.left(0)
        assert f"process {process.pid} (" in there[0] and there[1] == "state file run-1-abc.jsonl"
        traces.remove()
        assert process.wait(60) == -signal.SIGKILL
    assert not any(f"process {process.pid} " in what for what in traces.left(0))


@pytest.fixture
def mountable(monkeypatch):
    monkeypatch.setattr(disk, "require_small_disk", lambda mounted: None)


@pytest.mark.parametrize(
    ("done", "problem"),
    [
        (Ended(-15, "", "still waiting", True), "did not end within 600 s: still waiting"),
        (Ended(1, "", "Traceback", False), "the trial itself failed: Traceback"),
        (Ended(0, "{", "", False), "the trial itself failed: "),
    ],
)
def test_a_trial_that_fails_is_an_outcome(done, problem, mountable, monkeypatch, tmp_path):
    monkeypatch.setattr(disk, "ended", lambda *_: done)
    monkeypatch.setattr(CommandTraces, "left", lambda self: ["process 7 (brokerd)"])
    outcome = run_on_small_disk(GROUNDS["lb"].make("local", 1, LOAD_NS, ()), 1, 1, tmp_path)
    first, second = outcome.problems
    assert problem in first and second == "left: process 7 (brokerd)"


def test_what_is_half_written_by_the_command_itself_is_told(tmp_path):
    partial_of(tmp_path / "runs" / ("a" * 16)).mkdir(parents=True)
    said = "ratebed: runs: No space left on device; free some\n"
    (problem,) = judge(1, said, tmp_path).problems
    assert problem.startswith("half-written: ")


def test_a_trial_that_cannot_be_played_here_is_recorded_and_passed_over(monkeypatch, tmp_path, capsys):
    def refuse(mounted):
        raise MachineError("this machine has no root", "run as root")

    monkeypatch.setattr(disk, "require_small_disk", refuse)
    monkeypatch.setattr(trial, "machine_lock", nullcontext)
    seed = next(seed for seed in range(1, 200) if draw(seed, "local", LOAD_NS).full_disk)
    path = tmp_path / "ledger.json"
    assert main(["--first", str(seed), "--count", "1", "--testbed", "local", "--ledger", str(path)]) == 0
    assert "not played" in (said := capsys.readouterr().out) and "no root" in said
    ledger = read_ledger(path)
    assert ledger.played[0].outcome == NOT_PLAYED and "no root" in ledger.played[0].said[0]
    assert ledger.next_seed("local") == seed + 1 and ledger.deviations == ()
    assert ledger.summary().startswith("0 runs (0 valid, 0 degraded, 0 invalid); 0 have counted fates")
    assert "without: 1 could not be played;" in ledger.summary()


def test_a_limiters_rows_are_as_many_as_its_requests(tmp_path):
    point = resolve(GROUNDS["crdt-counter"].make("local", 1, LOAD_NS, ()))
    load = point.schedule.requests(point.topology.node_names(), LOAD_NS)
    due = sum(request.at_ns <= LOAD_NS for of in load.values() for request in of)
    for missing in (0, 1):
        decisions = pa.table({"decision": ["admit"] * (due - missing)})
        parquet.write_table(decisions, tmp_path / "requests.parquet")
        assert bool(account_wrong(point, tmp_path, {})) == bool(missing)


@pytest.mark.parametrize("ground", ["lb", "pulsar"])
def test_a_runs_account_holds_all_that_was_due_and_sums(ground, tmp_path):
    point = resolve(GROUNDS[ground].make("local", 1, LOAD_NS, ()))
    judge_at_ns = TRIALS_MAXIMUM * LOAD_NS
    due = 400  # two producers, 50 a second each, for 4 s
    if ground == "lb":
        due = point.schedule.block(judge_at_ns, judge_at_ns + LOAD_NS).message_count
    numbers = {"offered_count": due, "delivered_count": due - 1, "undelivered_count": 1}
    assert account_wrong(point, tmp_path, numbers) == []
    (problem,) = account_wrong(point, tmp_path, {**numbers, "undelivered_count": 0})
    assert "sum to" in problem
    (problem,) = account_wrong(point, tmp_path, {"offered_count": due - 9, "delivered_count": due - 9})
    assert "were due" in problem
