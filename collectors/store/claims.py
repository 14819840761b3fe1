"""Who works with the store just now: a folder each in ``store/claims``, of which a dead process's counts no more.

Who writes a part claims it before its first file and until it is in the log; who reads claims before reading the log.
So what nobody claims and the log does not name is garbage.  Claims of other hosts and containers count for a week: no
command lasts longer, and nobody here can see whether theirs has ended.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from uuid import uuid4

from collectors.partials import PARTIAL, own_mark, remove_partials
from collectors.schema import TABLES
from collectors.store.hadoop import HadoopPath, Place
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
    claim.mkdir(parents=True)
    try:
        yield
    finally:
        with suppress(OSError):
            claim.rmdir()


def _writers(root: Place) -> set[str]:
    return {name.removeprefix(_WRITES).partition(PARTIAL)[0] for name in _living(root, _WRITES)}


def _living(root: Place, kind: str) -> list[str]:
    """The claims of this kind of processes that live, or may."""
    if not isinstance(root, HadoopPath):
        remove_partials(root / CLAIMS)
    now, names = time.time(), []
    for claim in (root / CLAIMS).glob(f"{kind}*"):
        with suppress(OSError):
            if now - claim.stat().st_mtime < FOREIGN_S:
                names.append(claim.name)
    return names
