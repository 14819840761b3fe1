"""Claims on the store, wherever it is kept: a process that is provably dead hinders nobody."""

import os
import time
from pathlib import Path

import pytest

from collectors import partials
from collectors.store import claims
from collectors.store.hadoop import Place
from collectors.store.keeping import Store

GARBAGE = "runs/half-0.parquet"


def put(path: Place, content: bytes = b"") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(content)


def mark_of_the_dead() -> str:
    """That of a process which had our number and began when the machine did."""
    return f"{partials.own_mark().rpartition('-')[0]}-1"


def mark_of_another_host() -> str:
    return partials.own_mark().replace(partials._boot(), "00000000")


def claimed(root: Place) -> list[str]:
    return [path.name for path in (root / claims.CLAIMS).glob("*")]


def test_a_claim_is_a_file_and_goes_with_its_process(place: Place) -> None:
    """Of a folder S3A tells no age."""
    with claims.writing(place, "half"), claims.reading(place):
        assert len(claimed(place)) == 2
        assert not any((place / claims.CLAIMS / name).is_dir() for name in claimed(place))
    assert not claimed(place)


def test_who_lives_or_may_live_keeps_garbage_and_the_dead_do_not(place: Place) -> None:
    put(place / GARBAGE, b"half of it")
    for mark in (mark_of_the_dead(), mark_of_another_host()):
        for what in ("reads-1", "writes-half"):
            put(place / claims.CLAIMS / f"{what}{mark}")
    assert claims.remove_garbage(place) == 0
    assert len(claimed(place)) == 2 and all(mark_of_another_host() in name for name in claimed(place))
    for name in claimed(place):
        (place / claims.CLAIMS / name).unlink()
    assert claims.remove_garbage(place) == 1 and not claims.files_there(place)


def test_dead_readers_go_where_there_is_no_garbage_either(tmp_path: Path) -> None:
    put(tmp_path / claims.CLAIMS / f"reads-1{mark_of_the_dead()}")
    assert claims.remove_garbage(tmp_path) == 0 and not claimed(tmp_path)


def test_claims_of_other_hosts_go_when_they_are_a_week_old(tmp_path: Path) -> None:
    put(tmp_path / GARBAGE)
    claim = tmp_path / claims.CLAIMS / f"reads-1{mark_of_another_host()}"
    put(claim)
    os.utime(claim, (time.time() - claims.FOREIGN_S + 60,) * 2)
    assert claims.remove_garbage(tmp_path) == 0
    os.utime(claim, (time.time() - claims.FOREIGN_S - 60,) * 2)
    assert claims.remove_garbage(tmp_path) == 1 and not claimed(tmp_path)


def test_what_cannot_be_asked_about_just_now_may_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / GARBAGE)
    claim = tmp_path / claims.CLAIMS / f"reads-1{mark_of_another_host()}"
    put(claim)
    stat = Path.stat

    def refusing(path: Path, **more: bool) -> os.stat_result:
        if path == claim:
            raise OSError(5, "Input/output error")
        return stat(path, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", refusing)
        Store(tmp_path, tmp_path / "runs").tidy()
        with pytest.raises(OSError, match="Input"):
            claims.remove_garbage(tmp_path)
    assert claims.files_there(tmp_path) == [GARBAGE] and claim.exists()
