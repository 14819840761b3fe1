"""Runs of another machine are brought here, each whole or not at all."""

import json
from pathlib import Path

import pytest

from collectors.integrity import check_run, is_whole
from collectors.partials import own_mark
from collectors.writer import record_failure
from core.digests import sealed
from core.errors import MachineError
from testbed.hosts.ssh import fetching
from testbed.hosts.ssh.fetching import fetch_runs
from tests.live import needs
from tests.runs import write_small_run
from tests.testbed.hosts.ssh.lab import Lab

pytestmark = needs("root", "namespaces", "ip", "sshd", "paramiko")


def test_finished_runs_come_once(machines: Lab, tmp_path):
    there, here = tmp_path / "there it is", tmp_path / "here"
    one = write_small_run(there / "runs", 1)
    whole = (one / "samples.parquet").read_bytes()
    record_failure(there / "runs" / one.name, "{}", MachineError("no disk"))
    (there / "runs" / f"fedcba9876543210{own_mark()}").mkdir()
    (there / "runs" / "fedcba9876543210").mkdir()
    assert fetch_runs(machines.machine(1), str(there), here) == [one.name]
    assert [path.name for path in (here / "runs").iterdir()] == [one.name]
    assert (here / "runs" / one.name / "samples.parquet").read_bytes() == whole
    (one / "samples.parquet").write_text("others")
    two = write_small_run(there / "runs", 2)
    assert fetch_runs(machines.machine(1), str(there), here) == [two.name], "what is here stays"
    assert (here / "runs" / one.name / "samples.parquet").read_bytes() == whole


def test_a_run_that_is_damaged_here_is_set_aside_and_comes_again(machines: Lab, tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    one, two = (write_small_run(there / "runs", number) for number in (1, 2))
    is_damaged(write_small_run(here / "runs", 1))
    write_small_run(here / "runs", 2)
    assert fetch_runs(machines.machine(1), str(there), here) == [one.name]
    assert {path.name for path in (here / "runs").iterdir()} == {one.name, two.name, f"{one.name}.damaged"}
    assert check_run(here / "runs" / one.name) and is_whole(here / "runs" / one.name)


def test_no_results_there_is_an_error(machines: Lab, tmp_path):
    with pytest.raises(MachineError, match=r"h1: .*nothing"):
        fetch_runs(machines.machine(1), str(tmp_path / "nothing"), tmp_path / "here")
    assert not (tmp_path / "here").exists()


def leads_out(run: Path) -> None:
    (run / "runs.parquet").unlink()
    (run / "runs.parquet").symlink_to("/etc/passwd")  # nothing that leads out of the folder is taken


def is_damaged(run: Path) -> None:
    (run / "runs.parquet").write_bytes((run / "runs.parquet").read_bytes()[:-1] + b"X")


def has_another_id(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_bytes())
    (run / "manifest.json").write_text(json.dumps(sealed({**manifest, "code_hash": "of another code"})))


def is_large(run: Path) -> None:
    with (run / "large.parquet").open("wb") as file:
        file.truncate(fetching.RUN_BYTES + 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (leads_out, "did not come whole"),
        (is_damaged, "runs.parquet is not as it was written"),
        (has_another_id, "its id is not that of its spec"),
        (is_large, "more than 0 GiB"),
    ],
)
def test_runs_that_are_not_what_they_should_be_do_not_come(machines: Lab, tmp_path, monkeypatch, change, says):
    monkeypatch.setattr(fetching, "RUN_BYTES", 1 << 20)
    there, here = tmp_path / "there", tmp_path / "here"
    write_small_run(there / "runs", 1)
    change(write_small_run(there / "runs", 2))
    with pytest.raises(MachineError, match=says):
        fetch_runs(machines.machine(1), str(there), here)
    assert not list((here / "runs").iterdir())
