"""``ratebed clean``: remove what is of no use any more."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from core.errors import MachineError
from ratebed import options as o

Everything = Annotated[bool, typer.Option("--all", help="runs, tables, figures and report")]


def clean(out: o.Out = Path("out"), everything: Everything = False) -> int:
    """Remove failed runs, runs of older code, and what killed commands left, processes too; --all: all results."""
    stuck = _clean_machine()
    print(f"removed {_clean_folders(out, everything)} run folders")
    return int(stuck)


def _clean_machine() -> bool:
    """Processes, interfaces and files of live runs that were killed; returns whether some could not be removed."""
    from testbed.hosts.cleaning import remove_left

    cleaned = remove_left()
    for what in cleaned.removed:
        print(f"removed {what}")
    for what in cleaned.running:
        print(f"left alone: {what}")
    for what in cleaned.stuck:
        print(f"could not remove {what}")
    return bool(cleaned.stuck)


def _clean_folders(out: Path, everything: bool) -> int:
    from collectors.schema import MANIFEST
    from collectors.writer import FAILED, remove_partials
    from harness.code_version import code_hash

    runs = out / "runs"
    removed = remove_partials(runs)
    for folder in sorted(path for path in runs.glob("*") if (path / MANIFEST).is_file()):
        if everything or folder.name.endswith(FAILED) or _code_of(folder) != code_hash():
            shutil.rmtree(folder)
            removed += 1
    if everything:
        for name in ("tables", "figures", "report"):
            shutil.rmtree(out / name, ignore_errors=True)
    return removed


def _code_of(folder: Path) -> object:
    """The code that made a run; None where its manifest cannot be read any more."""
    from collectors.writer import read_manifest

    try:
        return read_manifest(folder).get("code_hash")
    except MachineError:
        return None
