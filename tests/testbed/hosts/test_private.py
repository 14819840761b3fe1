"""Servers of our own: what of theirs cannot be removed stays on record."""

import shutil
from pathlib import Path

import pytest

from testbed.hosts.private import PrivateServer
from testbed.hosts.state import all_states
from tests.live import needs

pytestmark = needs("linux")


class _Sleeper(PrivateServer):
    name = "sleeper"
    needed = ()
    ends_by_itself = False

    def _prepare(self) -> None:
        """It finds nothing."""

    def _command(self) -> list[str]:
        return ["sleep", "60"]

    def _answers(self) -> bool:
        return True


def test_nothing_is_left_of_one_that_is_closed(tmp_path: Path) -> None:
    with _Sleeper(tmp_path) as server:
        (left,) = all_states(tmp_path)
        assert [thing["kind"] for thing in left.things.values()] == ["folder", "process"]
    assert server.process.returncode is not None and not server.folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_removed_stays_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise OSError("somebody writes there")

    with monkeypatch.context() as patch:
        patch.setattr("testbed.hosts.private.shutil.rmtree", refuse)
        server = _Sleeper(tmp_path)
        with pytest.raises(OSError, match="somebody writes there"):
            server.close()
    (left,) = all_states(tmp_path)
    assert [(thing["kind"], thing.get("path")) for thing in left.things.values()] == [("folder", str(server.folder))]
    assert server.process.returncode is not None
    shutil.rmtree(server.folder)
