"""One live campaign a machine: two at once would measure each other.

The lock is the kernel's (flock), so it is free at once when its holder dies, however that happens.  Its file says who
holds it, and stays.
"""

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from core.errors import MachineError
from testbed.hosts.state import own_command

LOOK_EVERY_S = 0.2
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_SOMEBODY = "another live campaign"


def lock_path() -> Path:
    """The same file for all users of the machine."""
    folder = Path("/run/lock")
    return (folder if os.access(folder, os.W_OK) else Path("/tmp")) / "ratebed.lock"


@contextmanager
def machine_lock(path: Path | None = None) -> Iterator[None]:
    """Hold the machine's lock.  While another campaign holds it, wait and say for whom.

    MachineError where the file cannot be opened.
    """
    handle = _open(path or lock_path())
    try:
        _wait(handle)
        who = {"pid": os.getpid(), "command": own_command(), "since_ns": time.time_ns()}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(who).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def holder(path: Path | None = None) -> str | None:
    """Who holds the lock, in words; None where nobody does."""
    try:
        handle = os.open(path or lock_path(), _FLAGS)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _read(handle)
    finally:
        os.close(handle)


def _wait(handle: int) -> None:
    began_s, said = time.monotonic(), ""
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        who = _read(handle)
        if who != said and (who != _SOMEBODY or time.monotonic() - began_s > 1.0):  # it writes its name a moment later
            print(f"ratebed: waiting for {who}", file=sys.stderr, flush=True)
            said = who
        time.sleep(LOOK_EVERY_S)


def _open(path: Path) -> int:
    """Made only where it is not there: the kernel refuses O_CREAT alone for files of others in shared folders."""
    try:
        try:
            handle = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return os.open(path, _FLAGS)
        os.fchmod(handle, 0o666)  # whatever the umask is: the lock is everybody's
        return handle
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}", "remove it, or ask whoever owns it") from None


def _read(handle: int) -> str:
    try:
        who = json.loads(os.pread(handle, 4096, 0))
        since = time.strftime("%H:%M:%S", time.localtime(who["since_ns"] / 1e9))
        return f"process {who['pid']} ({who['command']}), which holds this machine since {since}"
    except (ValueError, TypeError, KeyError):
        return _SOMEBODY
