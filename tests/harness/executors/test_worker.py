"""What a worker does with a batch: it refuses other code, passes over what is done, and finds who ends processes."""

import os
import shutil
from pathlib import Path

import pytest

from collectors.integrity import is_whole
from collectors.packs import RunPacks
from collectors.partials import own_mark
from collectors.store.hadoop import place_of
from harness.code_version import ROOT, code_hash, id_of
from harness.executors import worker
from tests.harness.common import small

ENDING = Path(__file__).with_name("ending.py")


@pytest.fixture
def order(tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    return {
        "archive": "", "digest": "", "versions": {}, "runs": str(runs), "packs": "", "hadoop": {},
        "strikes": str(runs / f".strikes{own_mark()}"), "folder": os.getcwd(),
    }  # fmt: skip


@pytest.fixture
def far_order(order, tmp_path):
    """Of hosts that share no folder."""
    there = f"file://{tmp_path / 'there'}"
    return {**order, "runs": "", "packs": there, "strikes": f"{there}/.strikes"}


def errand(spec):
    return {"spec": spec.to_json().decode(), "run_id": id_of(spec), "code": code_hash(spec)}


def ending(folder):
    shutil.copy(ENDING, folder)
    return errand(small(system=f"{folder / 'ending.py'}:SYSTEM", system_options={"ends": "signal"}))


def test_a_batch_is_carried_out_once(order, tmp_path):
    batch = [errand(small(n)) for n in range(2)]
    told = worker.carry_out(ROOT, order, batch, False)
    assert [(one["run_id"], one["error"]) for one in told] == [(one["run_id"], "") for one in batch]
    before = [path.stat().st_ino for path in sorted((tmp_path / "runs").iterdir())]
    again = worker.carry_out(ROOT, order, batch, False)
    assert [one["run_id"] for one in again] == [one["run_id"] for one in batch]
    assert [path.stat().st_ino for path in sorted((tmp_path / "runs").iterdir())] == before


def test_other_code_other_files_and_other_modules_are_refused_and_nothing_is_begun(order, tmp_path):
    table = tmp_path / "input.csv"
    table.write_text("1\n")
    of_a_file = errand(small(1, inputs=(str(table),)))
    (told,) = worker.carry_out(ROOT, order, [errand(small()), {**errand(small(2)), "code": "f" * 64}], False)
    assert f"hash {code_hash(small())[:16]} there, here it is {'f' * 16}" in told["refused"]
    table.write_text("2\n")
    (told,) = worker.carry_out(ROOT, order, [errand(small()), of_a_file], False)
    assert f"{table} is another there" in told["refused"]
    table.unlink()
    (told,) = worker.carry_out(ROOT, order, [of_a_file], False)
    assert f"{table}: No such file" in told["refused"]
    (told,) = worker.carry_out(tmp_path, order, [errand(small())], False)
    assert f"{ROOT} was imported there, not the archive" in told["refused"]
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_that_fails_is_recorded_and_told(order, tmp_path):
    spec = small(3, system_options={"no_such": 1})
    told = worker.carry_out(ROOT, order, [errand(spec), errand(small())], False)
    assert "no_such" in told[0]["error"] and not told[0]["fatal"] and not told[1]["error"]
    assert (tmp_path / "runs" / f"{id_of(spec)}.failed" / "manifest.json").is_file()


@pytest.mark.slow
def test_of_a_suspect_batch_one_run_fails_and_its_companions_finish(order, tmp_path):
    guilty, said = ending(tmp_path), "by signal 9"
    batch = [errand(small(0)), guilty, errand(small(1))]
    told = worker.carry_out(ROOT, order, batch, True)
    assert [one["run_id"] for one in told] == [one["run_id"] for one in batch]
    assert [bool(one["error"]) for one in told] == [False, True, False] and said in told[1]["error"]
    assert (tmp_path / "met").read_text().count("\n") == 1, "it is tried once"
    runs = tmp_path / "runs"
    assert is_whole(runs / batch[0]["run_id"]) and is_whole(runs / batch[2]["run_id"])
    assert said in (runs / f"{guilty['run_id']}.failed" / "manifest.json").read_text()


@pytest.mark.slow
def test_a_run_over_which_two_executors_ended_is_not_begun_a_third_time(order, tmp_path):
    guilty, once = ending(tmp_path), errand(small())
    strikes = tmp_path / "runs" / f".strikes{own_mark()}"
    strikes.mkdir()
    for strike in (f"{guilty['run_id']}-1", f"{guilty['run_id']}-2", f"{once['run_id']}-1"):
        (strikes / strike).touch()
    told = {one["run_id"]: one["error"] for one in worker.carry_out(ROOT, order, [guilty, once], True)}
    assert "executor ended with it" in told[guilty["run_id"]] and told[once["run_id"]] == ""
    assert not (tmp_path / "met").exists()


@pytest.fixture
def unpacked(tmp_path, monkeypatch):
    """The folder of an executor, with our code below it."""
    root = tmp_path / "executor" / "code"
    root.parent.mkdir()
    root.symlink_to(ROOT)
    monkeypatch.setattr(worker, "__file__", str(root / "harness" / "executors" / "worker.py"))
    return root


def there(order):
    return RunPacks(place_of(order["packs"])).state()


@pytest.mark.slow
def test_where_hosts_share_no_folder_what_finished_is_in_packs_and_nothing_stays_behind(far_order, unpacked, tmp_path):
    fails = errand(small(3, system_options={"no_such": 1}))
    batch = [errand(small(0)), fails, errand(small(1))]
    told = worker.carry_out(unpacked, far_order, batch, False)
    assert [bool(one["error"]) for one in told] == [False, True, False] and not told[1]["fatal"]
    finished = {batch[0]["run_id"], batch[2]["run_id"]}
    assert there(far_order).of_run.keys() == finished and len(there(far_order).parts) == 1
    again = worker.carry_out(unpacked, far_order, [batch[0], errand(small(2))], False)
    assert not any(one["error"] for one in again) and len(there(far_order).of_run) == 3
    assert not list(Path(tmp_path, "executor", "runs").iterdir())
    RunPacks(place_of(far_order["packs"])).fetch(finished, tmp_path / "here")
    assert all(is_whole(tmp_path / "here" / run_id) for run_id in finished)


@pytest.mark.slow
def test_suspects_that_finish_are_brought_one_by_one_and_strikes_are_where_all_see_them(far_order, unpacked, tmp_path):
    guilty, batch = ending(tmp_path), [errand(small(0)), errand(small(1))]
    told = worker.carry_out(unpacked, far_order, [*batch, guilty], True)
    assert [bool(one["error"]) for one in told] == [False, False, True]
    assert len(there(far_order).parts) == 2 and guilty["run_id"] not in there(far_order).of_run
    strikes = place_of(far_order["strikes"])
    assert [path.name.partition("-")[0] for path in strikes.iterdir()] == [guilty["run_id"]]
    (strikes / f"{guilty['run_id']}-other").open("xb").close()
    (told,) = worker.carry_out(unpacked, far_order, [guilty], True)
    assert "executor ended with it" in told["error"] and (tmp_path / "met").read_text().count("\n") == 1


def test_packs_that_cannot_be_written_end_the_campaign(order, unpacked, tmp_path):
    (tmp_path / "there").touch()
    far = {**order, "runs": "", "packs": str(tmp_path / "there"), "strikes": str(tmp_path / "there" / ".strikes")}
    for is_suspect in (False, True):
        (told,) = worker.carry_out(unpacked, far, [errand(small())], is_suspect)
        assert told["fatal"] and "Not a directory" in told["error"]
