"""Many runs are verified in several processes: what is whole is not read again, what is damaged is named."""

import pytest

from collectors import integrity
from collectors.integrity import Damage, verified
from harness import verifying
from harness.campaign import Campaign
from harness.verifying import verifying_ahead
from tests.runs import write_small_run


@pytest.fixture
def eager(monkeypatch):
    """A few runs are many."""
    monkeypatch.setattr(verifying, "WORTHWHILE", 2)
    monkeypatch.setattr(verifying, "AT_A_TIME", 2)
    integrity.forget()


def verify_ahead(folders, jobs):
    campaign = Campaign(folders[0].parent)
    with verifying_ahead(campaign, jobs) as want:
        for folder in folders:
            want(folder.name)
    return campaign.whole


def spoil(folder):
    table = folder / "samples.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"?")


def test_what_processes_found_whole_is_not_read_again(tmp_path, eager):
    folders = [write_small_run(tmp_path, seed) for seed in range(5)]
    spoil(folders[3])
    absent = tmp_path / "0123456789abcdef"
    assert verify_ahead([*folders, absent], 2) == {folder.name for folder in folders if folder != folders[3]}
    for folder in folders:
        spoil(folder)  # nobody looks
    for folder in folders[:3]:
        assert verified(folder)["run_id"] == folder.name
    with pytest.raises(Damage, match=r"samples\.parquet is not as it was written"):
        verified(folders[3])
    with pytest.raises(integrity.MachineError, match="run the experiment"):
        verified(absent)


def test_a_run_that_was_written_again_is_verified_again(tmp_path, eager):
    folders = [write_small_run(tmp_path, seed) for seed in range(2)]
    verify_ahead(folders, 2)
    manifest = folders[0] / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"seed": 0', b'"seed": 9'))
    with pytest.raises(Damage):
        verified(folders[0])
    assert verified(folders[1])


def test_a_run_that_is_wanted_twice_or_is_not_there_costs_nothing(tmp_path, eager):
    folders = [write_small_run(tmp_path, seed) for seed in range(3)]
    verify_ahead([*folders, *folders, tmp_path / "0123456789abcdef"], 2)
    for folder in folders:
        spoil(folder)
        assert verified(folder)["run_id"] == folder.name


def test_a_folder_that_is_not_there_holds_no_runs(tmp_path, eager):
    assert verify_ahead([tmp_path / "absent" / "0123456789abcdef"] * 3, 2) == set()


def test_few_runs_or_one_process_are_left_to_who_asks(tmp_path, eager, monkeypatch):
    folders = [write_small_run(tmp_path, seed) for seed in range(3)]
    verify_ahead(folders, 1)
    monkeypatch.setattr(verifying, "WORTHWHILE", 4)
    verify_ahead(folders, 2)
    spoil(folders[0])
    with pytest.raises(Damage):
        verified(folders[0])
