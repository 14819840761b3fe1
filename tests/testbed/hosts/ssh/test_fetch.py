"""Runs of another machine are brought here, each whole or not at all."""

import json

import pytest

from core.errors import MachineError
from testbed.hosts.ssh.fetching import fetch_runs
from tests.live import needs
from tests.testbed.hosts.ssh.lab import Lab

pytestmark = needs("root", "namespaces", "ip", "sshd", "paramiko")
ONE, TWO = "0123456789abcdef", "fedcba9876543210"


def make_run(folder, name, text="tables"):
    its = folder / "runs" / name
    its.mkdir(parents=True)
    (its / "manifest.json").write_text(json.dumps({"run_id": name}))
    (its / "runs.parquet").write_text(text)


def test_finished_runs_come_once(machines: Lab, tmp_path):
    there, here = tmp_path / "there it is", tmp_path / "here"
    make_run(there, ONE)
    make_run(there, f"{ONE}.failed")
    make_run(there, f"{TWO}.partial-7")
    (there / "runs" / TWO).mkdir()
    assert fetch_runs(machines.machine(1), str(there), here) == [ONE]
    assert [path.name for path in (here / "runs").iterdir()] == [ONE]
    assert (here / "runs" / ONE / "runs.parquet").read_text() == "tables"
    (there / "runs" / ONE / "runs.parquet").write_text("others")
    make_run(there, "aaaaaaaaaaaaaaaa")
    assert fetch_runs(machines.machine(1), str(there), here) == ["aaaaaaaaaaaaaaaa"], "what is here stays"
    assert (here / "runs" / ONE / "runs.parquet").read_text() == "tables"


def test_no_results_there_is_an_error(machines: Lab, tmp_path):
    with pytest.raises(MachineError, match=r"h1: .*nothing"):
        fetch_runs(machines.machine(1), str(tmp_path / "nothing"), tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_a_run_that_does_not_come_whole_does_not_come(machines: Lab, tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    make_run(there, ONE)
    make_run(there, TWO)
    (there / "runs" / TWO / "runs.parquet").unlink()
    (there / "runs" / TWO / "runs.parquet").symlink_to("/etc/passwd")  # nothing that leads out of the folder is taken
    with pytest.raises(MachineError, match="did not come whole"):
        fetch_runs(machines.machine(1), str(there), here)
    assert not list((here / "runs").iterdir())
