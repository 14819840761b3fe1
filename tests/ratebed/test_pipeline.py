"""What lies in a folder of results, as commands that work side by side see it."""

import os
from pathlib import Path
from typing import Any

import pytest

from collectors.partials import PARTIAL
from ratebed.options import SEED, make_request
from ratebed.pipeline import SECTION, being_written, figure_folders, make_plan

FIGURE = "limiters-plane"


def test_a_mark_that_goes_while_another_looks_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / "tables" / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir(parents=True)
    (folders[0] / SECTION).touch()
    (folders[1] / "curves.parquet").touch()
    scandir = os.scandir

    def late(path: Any) -> Any:
        if PARTIAL in str(path):
            os.rmdir(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", late)
    with being_written(folders[2]):
        assert figure_folders(tmp_path) == folders[:2]


def test_points_that_another_system_shares_with_the_grid_are_one_run_each(tmp_path: Path) -> None:
    def ids(system: str) -> list[str]:
        request = make_request([FIGURE], False, "tiny", SEED, 1, tmp_path, (), extra_system=system)
        return make_plan(request).run_ids[FIGURE]

    its_own, joined = ids(""), ids("centralised")
    assert len(set(joined)) == len(joined) > len(its_own) and joined[: len(its_own)] == its_own
