"""``ratebed clean``: remove what is of no use any more."""

import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from core.errors import HarnessError, SpecError
from ratebed import interrupts
from ratebed import options as o

RUNS = "runs"
MADE = (f"{RUNS}/.code", "store", "tables", "figures", "report", interrupts.AT_COMMITS)  # from runs, and beside them

Everything = Annotated[
    bool, typer.Option("--all", help="runs, store, tables, figures, report, and what diff made of commits")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="say what would go; nothing does")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask")]
LISTED = 10  # folders at most


def clean(out: o.Out = Path("out"), everything: Everything = False, dry_run: DryRun = False, yes: Yes = False) -> int:
    """Remove failed and damaged runs, those of older code, what killed commands left, processes too; --all: all.

    What killed commands left goes at once; results go once that is agreed to.
    """
    interrupts.writes_to(out)
    doomed = _doomed(out, everything)
    for line in _told(doomed):
        print(line)
    if dry_run:
        print("nothing is removed; what killed commands left would be, too")
        return 0
    from collectors.store.keeping import Store

    stuck = _clean_machine()
    removed = _remove_left(out)
    if doomed and not yes:
        if not sys.stdin.isatty():
            raise SpecError(f"{len(doomed)} results to remove, and nobody to ask", "say --yes, or --dry-run")
        if not _is_agreed_to():
            doomed = {}
    for folder in doomed:
        _remove(folder)
    Store.of(out).tidy(forget=True)
    removed += sum(folder.parent.name == RUNS and folder.name[0] != "." for folder in doomed)
    print(f"removed {removed} run folders")
    return int(stuck)


def _is_agreed_to() -> bool:
    """Ctrl-D is a no.  The command-line library makes one error of that and of Ctrl-C."""
    try:
        return input("remove them? [y/N]: ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False
    except KeyboardInterrupt:
        print()
        raise


def _remove(folder: Path) -> None:
    """Under the name of a half-written folder: what is left where this is killed is no damaged result."""
    from collectors.partials import partial_of

    shutil.rmtree(folder.rename(partial_of(folder)))


def _doomed(out: Path, everything: bool) -> dict[Path, str]:
    """What is to go, and why."""
    from collectors.partials import is_partial

    folders = sorted(path for path in (out / RUNS).glob("[!.]*") if path.is_dir() and not is_partial(path))
    if everything:
        made = [path for name in MADE if (path := out / name).is_dir()]
        return dict.fromkeys([*folders, *made], "everything")
    return {folder: why for folder in folders if (why := _uselessness(folder))}


def _told(doomed: Mapping[Path, str]) -> list[str]:
    """Folders and their sizes, the first few of them."""
    if not doomed:
        return []
    lines = [f"{folder}: {why}" for folder, why in list(doomed.items())[:LISTED]]
    more = [f"and {len(doomed) - LISTED} more"] if len(doomed) > LISTED else []
    size = sum(file.stat().st_size for folder in doomed for file in folder.rglob("*") if file.is_file())
    reasons = ", ".join(f"{count} {why}" for why, count in Counter(doomed.values()).most_common())
    return [*lines, *more, f"to remove: {len(doomed)} folders ({reasons}), {size / 1e6:,.1f} MB"]


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


def _remove_left(out: Path) -> int:
    """What commands were writing when they died; how many folders that was."""
    from collectors.partials import left_partials, remove_partials

    roots = interrupts.places(out)
    removed, *_ = map(remove_partials, roots)
    for partial in chain.from_iterable(map(left_partials, roots)):
        print(f"left alone: {partial}, of another host or container; remove it if nobody writes it any more")
    return removed


def _uselessness(folder: Path) -> str:
    """Why a run is of no use; "" for a finished one, as it was written, that this code would make again so."""
    import msgspec

    from collectors.integrity import OtherVersion, verified
    from collectors.writer import DAMAGED, FAILED
    from harness.code_version import id_of
    from studies.spec import RunSpec

    if FAILED in folder.name:
        return "failed"
    try:
        manifest = verified(folder)
        spec = msgspec.convert(manifest["spec"], RunSpec)
    except OtherVersion:
        return "of another schema version"
    except (HarnessError, msgspec.ValidationError):
        return "damaged"
    if DAMAGED in folder.name:
        return "damaged"
    try:
        return "" if id_of(spec) == folder.name else "of older code"
    except HarnessError:
        # What is not in this folder may be in the one where the run was made.
        return "of files that are gone" if all(Path(name).is_absolute() for name in manifest["inputs"]) else ""
