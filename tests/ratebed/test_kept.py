"""A figure's tables are kept while code, libraries and runs are those that made them, and not a moment longer."""

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd
import pytest

from collectors.integrity import verified
from collectors.writer import set_aside
from core.digests import DIGEST, digest_of, sealed
from harness import code_version
from ratebed import kept
from ratebed.kept import DRAWING, LOOK, ORIGIN, kept_drawing, kept_tables, look_of
from ratebed.pipeline import SECTION, TABLES
from tests.runs import write_small_run


def origin_of(runs: Iterable[Path]) -> str:
    return kept.origin_of({folder.name: verified(folder)[DIGEST] for folder in runs}, "srtm-fig5")


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [write_small_run(tmp_path / "runs", seed) for seed in (1, 2)]


def write_tables(out: Path, origin: str, skipped: str = "") -> Path:
    folder = out / "tables" / "fig"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "p99.parquet").write_bytes(pd.DataFrame({"x": [1, 2], "name": ["a", None]}).to_parquet(index=False))
    digests = {"p99.parquet": digest_of((folder / "p99.parquet").read_bytes())}
    section = {"name": "fig", "command": "ratebed run fig", "skipped": skipped, ORIGIN: origin, TABLES: digests}
    (folder / SECTION).write_text(json.dumps(sealed(section)))
    return folder


def test_tables_of_the_same_origin_are_kept(runs: list[Path], tmp_path: Path) -> None:
    origin = origin_of(runs)
    assert kept_tables(tmp_path, "fig", origin) is None
    write_tables(tmp_path, origin)
    found = kept_tables(tmp_path, "fig", origin_of(list(reversed(runs))))
    assert found is not None and list(found["p99"]["x"]) == [1, 2]


def test_other_runs_and_runs_made_anew_are_of_another_origin(runs: list[Path], tmp_path: Path) -> None:
    write_tables(tmp_path, origin_of(runs))
    assert kept_tables(tmp_path, "fig", origin_of(runs[:1])) is None
    set_aside(runs[1])
    write_small_run(tmp_path / "runs", 2, host="another")
    assert kept_tables(tmp_path, "fig", origin_of(runs)) is None


def test_other_code_and_other_libraries_are_of_another_origin(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    for name in (*kept._TREE, "paper_figs"):
        shutil.copytree(kept.ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(kept, "ROOT", tree)

    def origin_after(change: Callable[[], object]) -> str:
        change()
        for remembered in (kept._code, kept._tree, code_version._source, code_version._paths):
            remembered.cache_clear()
        return origin_of(runs)

    def written_to(path: str) -> Callable[[], object]:
        return lambda: (tree / path).write_bytes((tree / path).read_bytes() + b"\nCHANGED = True\n")

    origins = [origin_after(lambda: None)]
    for path in ("paper_figs/srtm/sweep.py", "paper_figs/crdt/runs.py", "paper_figs/README.md"):  # other figures'
        assert origin_after(written_to(path)) == origins[0], path
    for path in (
        "paper_figs/srtm/concentration.py",  # the figure
        "paper_figs/series.py",
        "paper_figs/saving.py",
        "analysis/stored.py",
        "systems/distribution/srtm.py",
        "testbed/topologies/latencies/README.md",
    ):
        origins.append(origin_after(written_to(path)))
    origins.append(origin_after(lambda: monkeypatch.setattr(kept, "version", lambda name: "0.0")))
    assert len(set(origins)) == len(origins)
    origin_after(monkeypatch.undo)


def test_damaged_and_skipped_ones_are_made_again(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origin = origin_of(runs)
    folder = write_tables(tmp_path, origin, skipped="it could not be drawn")
    assert kept_tables(tmp_path, "fig", origin) is None
    write_tables(tmp_path, origin)
    assert kept_tables(tmp_path, "fig", origin) is not None and not capsys.readouterr().out
    (folder / "p99.parquet").write_bytes(b"damaged")
    assert kept_tables(tmp_path, "fig", origin) is None
    assert capsys.readouterr().out == f"damaged: {folder}: p99.parquet is not as it was written; made anew\n"
    write_tables(tmp_path, origin)
    (folder / SECTION).unlink()
    assert kept_tables(tmp_path, "fig", origin) is None
    assert capsys.readouterr().out == f"damaged: {folder}: {SECTION} is not as it was written; made anew\n"


def test_a_drawing_is_kept_while_its_files_and_its_look_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "figures").mkdir()
    files = {f"fig.{suffix}": suffix.encode() for suffix in ("svg", "png")}
    for name, content in files.items():
        (tmp_path / "figures" / name).write_bytes(content)
    look = look_of(["on two hosts"])
    folder = write_tables(tmp_path, "origin")
    section = json.loads((folder / SECTION).read_bytes())
    assert kept_drawing(tmp_path, "fig", look) is None  # of an older command, which noted none
    section[DRAWING] = {**{name: digest_of(content) for name, content in files.items()}, LOOK: look}
    (folder / SECTION).write_text(json.dumps(sealed(section)))
    assert kept_drawing(tmp_path, "fig", look)
    assert kept_drawing(tmp_path, "fig", look_of(["on three hosts"])) is None
    monkeypatch.setattr(kept, "version", lambda name: "0.0")
    assert look_of(["on two hosts"]) != look
    for name, content in files.items():
        path = tmp_path / "figures" / name
        for harm in (path.unlink, lambda path=path: path.write_bytes(b"another")):
            harm()
            assert kept_drawing(tmp_path, "fig", look) is None
            path.write_bytes(content)
    assert kept_drawing(tmp_path, "fig", look)
