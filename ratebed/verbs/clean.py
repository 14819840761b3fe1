"""``ratebed clean``: remove what is of no use any more."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from core.errors import HarnessError
from ratebed import options as o

Everything = Annotated[bool, typer.Option("--all", help="runs, tables, figures and report")]


def clean(out: o.Out = Path("out"), everything: Everything = False) -> int:
    """Remove failed and damaged runs, those of older code, what killed commands left, processes too; --all: all."""
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
    from collectors.partials import is_partial, left_partials, remove_partials

    runs = out / "runs"
    removed = remove_partials(runs)
    for folder in sorted(path for path in runs.glob("*") if path.is_dir() and not is_partial(path)):
        if everything or not _is_current(folder):
            shutil.rmtree(folder)
            removed += 1
    for partial in left_partials(runs):
        print(f"left alone: {partial}, of another host or container; remove it if nobody writes it any more")
    if everything:
        for name in ("tables", "figures", "report"):
            shutil.rmtree(out / name, ignore_errors=True)
    return removed


def _is_current(folder: Path) -> bool:
    """Whether it is a finished run, as it was written, that this code would make again under the same id."""
    import msgspec

    from collectors.integrity import verified
    from harness.code_version import id_of
    from studies.spec import RunSpec

    try:
        return id_of(msgspec.convert(verified(folder)["spec"], RunSpec)) == folder.name
    except (HarnessError, msgspec.ValidationError):
        return False
