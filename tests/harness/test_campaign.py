"""Campaigns: resume, determinism, failures."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from multiprocessing import active_children
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from collectors.partials import own_mark
from collectors.writer import record_failure, write_run
from core.errors import MachineError
from harness.campaign import Campaign, code_listing, in_order, note_code
from harness.code_version import code_hash, code_of, id_of
from harness.executors import local
from harness.executors.api import Finished, work
from harness.executors.local import LocalExecutor
from harness.experiment import SCALES, repeated
from paper_figs.drl import quota
from tests.harness.common import parquet_hashes, small

SPECS = [small(repetition, system=system) for repetition in range(3) for system in ("lb", "conc", "srtm")]


def run(folder: Path, specs, jobs: int = 1):
    campaign = Campaign(folder)
    campaign.add(specs)
    finished = []
    failures = campaign.run(LocalExecutor(jobs), finished.append)
    return campaign, finished, failures


def test_one_and_two_processes_write_the_same_bytes(tmp_path):
    for jobs in (1, 2):
        _, finished, failures = run(tmp_path / str(jobs), SPECS, jobs)
        assert len(finished) == len(SPECS) and not failures
    one, two = parquet_hashes(tmp_path / "1"), parquet_hashes(tmp_path / "2")
    assert one == two and len(one) == 3 * len(SPECS)


def test_finished_runs_are_not_repeated(tmp_path):
    run(tmp_path, SPECS[:4])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    _, finished, _ = run(tmp_path, SPECS)
    assert len(finished) == len(SPECS) - 4
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())


def test_of_other_code_the_listing_is_nobodys(tmp_path):
    one, other = small(system="lb"), small(system="srtm")
    note_code(tmp_path, [one, other])
    files = [tmp_path / ".code" / f"{code_hash(spec)[:16]}.json" for spec in (one, other)]
    assert code_listing(tmp_path, code_hash(one)) == code_of(one)
    shutil.copy(files[1], files[0])
    assert code_listing(tmp_path, code_hash(one)) is None
    note_code(tmp_path, [one])
    assert code_listing(tmp_path, code_hash(one)) == code_of(one), "it is noted anew"


def test_a_run_whose_code_or_input_is_another_by_now_is_not_made(tmp_path):
    finished = work(small(), "0" * 16, tmp_path)
    assert "was changed since it was planned" in finished.error and not finished.fatal
    assert not (tmp_path / finished.run_id).exists()


def test_equal_points_are_one_run(tmp_path):
    campaign = Campaign(tmp_path)
    ids = campaign.add([small(), small(1), small()])
    assert ids == list(campaign.wanted) and len(ids) == 2 and campaign.groups == [ids]


def test_only_what_has_a_manifest_is_finished(tmp_path):
    campaign = Campaign(tmp_path)
    whole, absent, empty, failed = campaign.add(small(n) for n in range(4))
    write_run(tmp_path / whole, {}, {"run_id": whole})
    (tmp_path / empty).mkdir()
    record_failure(tmp_path / failed, "{}", MachineError("no disk"))
    assert list(campaign.missing()) == [absent, empty, failed]


def test_a_damaged_run_is_named_set_aside_and_made_anew(tmp_path):
    run(tmp_path, SPECS[:2])
    before = parquet_hashes(tmp_path)
    damaged = id_of(SPECS[0])
    (tmp_path / damaged / "latency_histogram.parquet").unlink()
    campaign, finished, failures = run(tmp_path, SPECS[:2])
    assert [each.run_id for each in finished] == [damaged] and not failures
    assert (tmp_path / f"{damaged}.damaged").is_dir() and not campaign.damaged()
    shutil.rmtree(tmp_path / f"{damaged}.damaged")
    assert parquet_hashes(tmp_path) == before


def test_who_is_interrupted_as_a_run_is_told_of_leaves_no_worker(tmp_path):
    campaign = Campaign(tmp_path)
    campaign.add(SPECS)

    def interrupted(finished: Finished) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign.run(LocalExecutor(2), interrupted)
    assert not active_children() and not list(tmp_path.glob("*.partial-*"))
    assert len(campaign.missing()) < len(SPECS)


def test_another_runs_table_is_damage(tmp_path):
    run(tmp_path, SPECS[:2])
    first, second = (tmp_path / id_of(spec) / "latency_histogram.parquet" for spec in SPECS[:2])
    shutil.copy(first, second)
    campaign = Campaign(tmp_path)
    campaign.add(SPECS[:2])
    (what,) = campaign.damaged().items()
    assert what[0] == second.parent.name and what[1].startswith("latency_histogram.parquet ")


def of_a_dead_process() -> str:
    """How the name of a folder ends that a process was writing which is no more."""
    return own_mark().replace(f"-{os.getpid()}-", f"-{2**30}-")


class Told:
    """An executor whose runs end as it is told: with so many errors, the last of them the machine's."""

    def __init__(self, errors: list[str], fatal: bool = False):
        self.errors, self.fatal = errors, fatal

    def map(self, work_list):
        for (spec, run_id, runs), error in zip(work_list, self.errors, strict=True):
            (runs / f"{run_id}{of_a_dead_process()}").mkdir()
            last = error == self.errors[-1]
            yield Finished(spec, run_id, 1.0, error, fatal=self.fatal and last)


def test_failures_are_told_and_returned_and_nothing_half_written_stays(tmp_path):
    campaign, told = Campaign(tmp_path), []
    campaign.add(small(n) for n in range(3))
    failures = campaign.run(Told(["", "bad", ""]), told.append)
    assert [failure.error for failure in failures] == ["bad"] and len(told) == 3
    assert list(tmp_path.glob("[!.]*")) == []


def test_an_error_of_the_machine_ends_a_campaign(tmp_path):
    campaign, told = Campaign(tmp_path), []
    campaign.add(small(n) for n in range(2))
    with pytest.raises(MachineError, match="disk is full"):
        campaign.run(Told(["", "disk is full"], fatal=True), told.append)
    assert [finished.error for finished in told] == [""]
    assert list(tmp_path.glob("[!.]*")) == []


_KILLED = """
import sys
from pathlib import Path
import psutil
from harness.campaign import Campaign
from harness.executors.local import LocalExecutor
from tests.harness.test_campaign import LONGER
done = []
def told(finished):
    done.append(finished)
    if len(done) == 3:  # whenever the kill comes, it is in the middle of others
        for child in psutil.Process().children():
            child.suspend()
    print("done", flush=True)
if __name__ == "__main__":
    campaign = Campaign(Path(sys.argv[1]))
    campaign.add(LONGER)
    campaign.run(LocalExecutor(2), told)
"""
# Some 300 ms each: of those that wait some are not begun while it is seen that three are done.
LONGER = [small(n, round="60s", workload_options={"publishers": 2000, "group_size": 5}) for n in range(12)]


def test_kill_in_the_middle_and_restart(tmp_path):
    """Two workers: they die with the command, and nothing finished is run again."""
    folder, script = tmp_path / "killed", tmp_path / "script.py"
    script.write_text(_KILLED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), str(folder)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    for _ in range(3):
        assert child.stdout.readline() == "done\n"
    workers = psutil.Process(child.pid).children(recursive=True)
    assert len(workers) >= 2
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    for worker in workers:
        worker.resume()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive, "a worker outlived the command"
    left = [path.name for path in folder.iterdir() if path.is_dir() and "." not in path.name]
    assert 3 <= len(left) < len(LONGER)
    _, finished, failures = run(folder, LONGER)
    assert not failures and {done.run_id for done in finished}.isdisjoint(left)
    run(tmp_path / "whole", LONGER)
    assert parquet_hashes(folder) == parquet_hashes(tmp_path / "whole")
    assert not list(folder.glob("*partial*"))


def test_a_partial_folder_of_a_dead_process_is_cleared(tmp_path):
    left = tmp_path / f"abc{of_a_dead_process()}"
    left.mkdir()
    (left / "runs.parquet").write_bytes(b"half")
    run(tmp_path, SPECS[:1])
    assert not left.exists()


def test_a_failed_run_is_recorded_and_the_others_go_on(tmp_path):
    bad = small(system_options={"nonsense": 1})
    campaign, finished, failures = run(tmp_path, [bad, *SPECS[:2]])
    assert [failure.spec for failure in failures] == [bad] and len(finished) == 3
    assert "nonsense" in failures[0].error
    (record,) = tmp_path.glob("*.failed/manifest.json")
    assert "nonsense" in json.loads(record.read_text())["error"]
    assert list(campaign.missing()) == [failures[0].run_id]


def test_an_unwritable_folder_is_one_clear_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(MachineError, match="--out"):
        run(file / "runs", SPECS[:1])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_ends_the_campaign_and_keeps_what_is_finished(tmp_path):
    """A file-size limit stands in for a full disk: the kernel refuses the write in the same place."""
    code = (
        "import resource, signal, sys; from pathlib import Path; from tests.harness.test_campaign import SPECS, run\n"
        "run(Path(sys.argv[1]), SPECS[:1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))\n"
        "run(Path(sys.argv[1]), SPECS)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode != 0 and "MachineError" in done.stderr
    folders = [path.name for path in tmp_path.glob("[!.]*") if path.is_dir()]
    assert len(folders) == 1 and "partial" not in folders[0]


def test_the_longest_runs_come_first(tmp_path):
    long = small(workload_options={"publishers": 3000, "batch": 10})
    _, finished, _ = run(tmp_path, [small(), long])
    assert finished[0].spec == long


def test_one_error_of_the_machine_in_real_time_is_a_failed_run_two_in_a_row_are_the_end(monkeypatch, tmp_path):
    errors = iter((True, False, True, True))
    monkeypatch.setattr(local, "machine_lock", nullcontext)  # nobody waits for those who are measuring
    monkeypatch.setattr(
        local, "work", lambda spec, run_id, runs, place: Finished(spec, run_id, 0.0, "gone", fatal=next(errors))
    )
    items = [(small(n, testbed="local"), str(n), tmp_path) for n in range(4)]
    assert [found.fatal for found in LocalExecutor(2).map(items)] == [False, False, False, True]


def test_runs_that_want_the_same_servers_follow_each_other(tmp_path):
    """Brokers of Pulsar are told their interval as they start; a repetition has its own, as its seed is another."""
    runs = repeated(quota.points(SCALES["tiny"], {}), 2, seed=1)
    bare = [small(repetition, testbed="local") for repetition in range(2)]
    items = [(spec, str(number), tmp_path) for number, spec in enumerate([bare[0], *runs, bare[1]])]
    groups = local.by_site(items)
    assert sorted((item for group in groups for item in group), key=lambda item: int(item[1])) == items
    assert groups[0] == items[:1] and groups[-1] == items[-1:], "who wants none is alone"
    wanted = [{(spec.seed, spec.study_options["interval"]) for spec, *_ in group} for group in groups[1:-1]]
    assert {len(each) for each in wanted} == {1} and len(set.union(*wanted)) == len(wanted) == 2 * 2 < len(runs)
    firsts = {replace(group[0][0], seed=0, repetition=0).to_json() for group in groups[1:-1]}
    assert len(firsts) == len(wanted), "another one has new servers in each repetition"


def test_what_is_wrong_with_a_live_run_is_told_when_it_is_its_turn(tmp_path):
    wrong = small(testbed="local", system="nobody"), "1", tmp_path
    assert local.by_site([wrong]) == [[wrong]]


def test_before_all_others_comes_one_run_of_each_system():
    longer = {"workload_options": {"publishers": 3000, "batch": 10}}
    runs = {"a": small(system="lb"), "b": small(system="lb", **longer), "c": small(1, system="lb", **longer),
            "d": small(system="conc")}  # fmt: skip
    assert in_order(runs) == ["b", "d", "c", "a"]


def test_those_runs_take_turns_between_studies():
    limiter = {"workload": "data-set", "workload_options": {}, "study": "limiting"}
    runs = {"a": small(system="lb"), "b": small(system="conc"), "c": small(system="crdt-queue", **limiter),
            "d": small(system="crdt-counter", **limiter), "e": small(1, system="lb")}  # fmt: skip
    studies = [runs[run_id].study for run_id in in_order(runs)]
    assert studies[0] != studies[1] and studies[2] != studies[3]


def test_groups_follow_each_other_the_shortest_first():
    longer = {"workload_options": {"publishers": 3000, "batch": 10}}
    runs = {"a": small(), "b": small(1, **longer), "c": small(1), "d": small(2), "e": small(3, **longer)}
    assert in_order(runs, [["a", "c"], ["d", "e"], ["b", "e"], []]) == ["b", "a", "c", "e", "d"]
