"""Folders that are being written, ``<name>.partial-<host>-<boot>-<namespace>-<process>-<start>``, or were left so.

The name tells who writes: which host, since which start of it, in which namespace of process ids, which process, and
when that began.  Only what provably nobody writes any more is removed; other hosts' and containers' folders stay.
"""

import os
import platform
import re
import shutil
from functools import cache
from pathlib import Path

import psutil

PARTIAL = ".partial-"
_MARK = re.compile(rf"{re.escape(PARTIAL)}(.*)-(\w+)-(\d+)-(\d+)-(\d+)")


def partial_of(folder: Path) -> Path:
    """Where this process writes what will become ``folder``."""
    return folder.with_name(folder.name + own_mark())


def own_mark() -> str:
    """How the name of a folder that this process writes ends."""
    pid = os.getpid()
    return f"{PARTIAL}{platform.node()}-{_boot()}-{_namespace()}-{pid}-{_own_start(pid)}"


def is_partial(folder: Path) -> bool:
    """Whether somebody writes the folder, or did when that was killed."""
    return PARTIAL in folder.name


def remove_partials(root: Path) -> int:
    """Remove what killed processes left half-written in ``root``; returns how many folders.

    Call it before a campaign starts.
    """
    count = 0
    for partial in root.glob(f"*{PARTIAL}*"):
        if is_dead(partial.name):
            shutil.rmtree(partial, ignore_errors=True)
            count += 1
    return count


def left_partials(root: Path) -> list[Path]:
    """Half-written folders of processes that cannot be seen from here: somebody else knows whether they have ended."""
    own = f"-{_boot()}-{_namespace()}-"
    return sorted(path for path in root.glob(f"*{PARTIAL}*") if own not in path.name)


def is_dead(name: str) -> bool:
    """Whether the folder's writer is a process that could be seen from here, and is none."""
    mark = _MARK.search(name)
    if mark is None or (mark[2], int(mark[3])) != (_boot(), _namespace()):
        return False
    return _start(int(mark[4])) != int(mark[5])


@cache
def _boot() -> str:
    """This start of this machine: two machines, or two starts of one, do not share it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:  # no Linux
        return f"{int(psutil.boot_time()):x}"


def _namespace() -> int:
    """Inside of which process ids mean what they say."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


@cache
def _own_start(pid: int) -> int:
    """``_start`` of this process, by the id that it has: a forked one asks anew."""
    return _start(pid)


def _start(pid: int) -> int:
    """When a process began, in ticks since the boot; -1: it has ended, even where its parent has not noticed yet."""
    try:
        if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return -1
        stat = Path(f"/proc/{pid}/stat")
        return int(stat.read_text().rpartition(")")[2].split()[19]) if stat.exists() else 0
    except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError):
        return -1
