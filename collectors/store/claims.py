"""Who works with the store just now: an empty file each in ``store/claims``; a dead process's counts no more.

Who writes a part claims it before its first file and until it is in the log; who reads claims before reading the log.
So what nobody claims and the log does not name is garbage.  Claims of other hosts and containers count for a week: no
command lasts longer, and nobody here can see whether theirs has ended.  They are files because object stores keep no
age of folders: S3A says of each that it was written just now.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from uuid import uuid4

from collectors.partials import PARTIAL, is_dead, own_mark
from collectors.schema import TABLES
from collectors.store.hadoop import Place
from collectors.store.log import read_log

CLAIMS = "claims"
FOREIGN_S = 7 * 86_400.0
_READS, _WRITES = "reads-", "writes-"


@contextmanager
def writing(root: Place, part: str) -> Iterator[None]:
    """The files of this part are no garbage while inside."""
    with _claimed(root, _WRITES + part):
        yield


@contextmanager
def reading(root: Place) -> Iterator[None]:
    """What the log names while inside stays, even if others have merged it meanwhile."""
    with _claimed(root, _READS + uuid4().hex):
        yield


def files_there(root: Place) -> list[str]:
    """The paths below ``root`` of all files of tables, garbage too."""
    return sorted(f"{name}/{path.name}" for name in TABLES for path in (root / name).glob("*.parquet"))


def remove_garbage(root: Place) -> int:
    """Remove the files that neither the log names nor anybody needs; returns how many.

    The order makes it safe: what is written meanwhile is not listed, or claimed, or in the log; who begins to read
    after the log was read here finds no more in it.
    """
    there = files_there(root)
    written = _writers(root)
    state = read_log(root)
    named = {file.path for part in state.parts.values() for file in part.files}
    garbage = [path for path in there if path not in named]
    if not garbage or _living(root, _READS):
        return 0
    written |= _writers(root)
    removed = 0
    for path in garbage:
        if part_of(path) not in written:
            with suppress(OSError):
                (root / path).unlink()
                removed += 1
    return removed


def part_of(path: str) -> str:
    """The name of the part that a file belongs to."""
    return PurePosixPath(path).stem.rpartition("-")[0]


@contextmanager
def _claimed(root: Place, what: str) -> Iterator[None]:
    claim = root / CLAIMS / (what + own_mark())
    claim.parent.mkdir(parents=True, exist_ok=True)
    claim.open("xb").close()
    try:
        yield
    finally:
        with suppress(OSError):
            claim.unlink()


def _writers(root: Place) -> set[str]:
    return {name.removeprefix(_WRITES).partition(PARTIAL)[0] for name in _living(root, _WRITES)}


def _living(root: Place, kind: str) -> list[str]:
    """The claims of this kind of processes that live, or may; those of all others are removed.

    OSError where a claim's age cannot be asked for just now: its process may live.
    """
    names = []
    for claim in (root / CLAIMS).glob(f"*{PARTIAL}*"):
        with suppress(FileNotFoundError):  # its process has ended meanwhile
            if is_dead(claim.name) or time.time() - claim.stat().st_mtime >= FOREIGN_S:
                with suppress(OSError):  # what we may not remove counts no more, either
                    claim.unlink()
            elif claim.name.startswith(kind):
                names.append(claim.name)
    return names
