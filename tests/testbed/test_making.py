"""What is made once is whole or not there, whoever else makes it, and however the last one ended."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testbed.making import made_once


def test_a_folder_is_made_once_and_by_one_of_several(tmp_path: Path) -> None:
    folder, calls = tmp_path / "cache" / "program", []

    def make(made: Path) -> None:
        calls.append(made)
        time.sleep(0.05)  # the others come meanwhile
        (made / "file").write_text("whole")

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: made_once(folder, make), range(8))) == {folder}
    assert len(calls) == 1
    assert [path.name for path in folder.parent.iterdir()] == ["program"]
    assert (folder / "file").read_text() == "whole"


def test_of_what_failed_and_of_what_was_killed_nothing_stays(tmp_path: Path) -> None:
    folder, killed = tmp_path / "program", tmp_path / ".making-killed" / "program"
    killed.mkdir(parents=True)
    (killed / "half").touch()

    def fail(made: Path) -> None:
        (made / "half").touch()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        made_once(folder, fail)
    assert not list(tmp_path.iterdir())
    made_once(folder, lambda made: (made / "file").touch())
    assert [path.name for path in folder.iterdir()] == ["file"]
