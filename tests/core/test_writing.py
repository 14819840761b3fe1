"""Files that are there whole or not at all, whoever else writes them."""

import os
from pathlib import Path

import pytest

from core.writing import replace_file


def test_two_of_one_process_id_write_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on two hosts, or in two containers: the other writes all of it just before we rename."""
    path, rename = tmp_path / "listing.json", Path.replace

    def late(partial: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", rename)
        replace_file(path, b"the other's, and longer")
        return rename(partial, target)

    monkeypatch.setattr(os, "getpid", lambda: 7)
    monkeypatch.setattr(Path, "replace", late)
    replace_file(path, b"ours")
    assert path.read_bytes() == b"ours" and [*tmp_path.iterdir()] == [path]
