"""What the trial of virtual machines makes of runs, and that it notices what is left."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collectors.schema import MANIFEST, TABLES
from core.digests import sealed
from core.errors import MachineError
from core.units import MILLISECOND_NS
from testbed.hosts.private import host_settings
from testbed.hosts.vm import trial
from testbed.hosts.vm.hypervisor import run_logged


def write_paths(folder, *rows):
    folder.mkdir(parents=True)
    names = ("source", "target", "requested_delay_ns", "measured_delay_ns")
    base = {"run_id": folder.name, "requested_jitter_ns": 0, "requested_loss_probability": 0.0}
    table = pa.Table.from_pylist([{**base, **dict(zip(names, row, strict=True))} for row in rows], TABLES["paths"])
    pq.write_table(table, folder / "paths.parquet")


def test_a_round_trip_is_both_ways_together(tmp_path):
    ms = MILLISECOND_NS
    write_paths(tmp_path / "runs" / "a1", ("n1", "n2", 5 * ms, 6 * ms), ("n2", "n1", 5 * ms, int(5.5 * ms)),
                ("n1", "n3", ms, ms))  # fmt: skip
    (found,) = trial.round_trips(tmp_path)
    assert (found["source"], found["target"], found["requested_ms"], found["measured_ms"]) == ("n1", "n2", 10.0, 11.5)


def test_what_becomes_of_each_step_is_written_at_once(tmp_path):
    its = trial.MachineTrial(tmp_path)
    with pytest.raises(MachineError), its._step("up"):
        raise MachineError("no disk", "free some")
    text = its.file.read_text()
    assert '"up"' in text and "no disk; free some" in text


def test_a_run_on_the_machine_may_call_itself_invalid_but_has_to_come_home(tmp_path, monkeypatch):
    its = trial.MachineTrial(tmp_path)

    def fails(words, timeout_s):
        raise MachineError("invalid: half of the load was sent 4 ms late", "see log")

    monkeypatch.setattr(its, "_ratebed", fails)
    with pytest.raises(MachineError, match="half of the load"):
        its._run_outside(tmp_path / "hosts.toml")
    run = its.results / "runs" / "a1"
    run.mkdir(parents=True)
    told = {"run_id": "a1", "validity": "invalid", "validity_reasons": ["late"], "spec": {"testbed": "ssh"}}
    (run / MANIFEST).write_text(json.dumps(sealed(told)))
    its._run_outside(tmp_path / "hosts.toml")
    assert its.result["outside"] == {"a1": ["invalid", "late"]}


def test_a_changed_host_is_noticed(tmp_path):
    before = {**host_settings(), "forwarding": ["other"]}
    with pytest.raises(MachineError, match="forwarding is"):
        trial.MachineTrial(tmp_path)._check_nothing_left(before)


def test_a_box_is_old_once_what_is_in_it_changes(tmp_path):
    box = tmp_path / "ratebed.box"
    assert not trial._is_current(box)
    box.touch()
    assert trial._is_current(box)
    os.utime(box, (0, 0))
    assert not trial._is_current(box)


def test_what_a_command_prints_is_told_and_logged_and_a_failure_is_named(tmp_path):
    log = tmp_path / "log"
    assert run_logged(["echo", "fine"], log, 60, ["env"]) == "fine\n"
    with pytest.raises(MachineError, match=r"sh -c .*: ratebed: no disk; see "):
        run_logged(["sh", "-c", "echo 'ratebed: no disk' >&2; echo bye; exit 3"], log, 60)
    with pytest.raises(MachineError, match="sleep 60 did not end within"):
        run_logged(["sleep", "60"], log, 0.1)
    assert log.read_text() == "fine\nratebed: no disk\nbye\n"
