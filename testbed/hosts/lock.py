"""One live campaign a machine: two at once would measure each other.

The lock is the kernel's (flock), so it is free at once when its holder dies, however that happens.  Its file says who
holds it, and stays.
"""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from core.errors import MachineError
from testbed.hosts.state import own_command

LOOK_EVERY_S = 0.2


def lock_path() -> Path:
    """The same file for all users of the machine."""
    folder = Path("/run/lock")
    return (folder if os.access(folder, os.W_OK) else Path("/tmp")) / "ratebed.lock"


@contextmanager
def machine_lock(
    path: Path | None = None, timeout_s: float | None = None, say: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the machine's lock.  While another campaign holds it, wait and say for whom.

    MachineError after ``timeout_s`` seconds (None: wait for ever), or where the file cannot be opened.
    """
    path = path or lock_path()
    say = say or _say
    handle = _open(path)
    try:
        _wait(handle, path, timeout_s, say)
        _write(handle, {"pid": os.getpid(), "command": own_command(), "since_ns": time.time_ns()})
        try:
            yield
        finally:
            _write(handle, {})
    finally:
        os.close(handle)


def holder(path: Path | None = None) -> dict[str, Any] | None:
    """Who holds the lock: pid, command, since_ns; None where nobody does.  An unknown holder has no fields."""
    try:
        handle = _open(path or lock_path(), create=False)
    except MachineError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _read(handle)
    finally:
        os.close(handle)


def describe(who: dict[str, Any]) -> str:
    """The holder in words."""
    if not who:
        return "another live campaign"
    since = time.strftime("%H:%M:%S", time.localtime(who["since_ns"] / 1e9))
    return f"process {who['pid']} ({who['command']}), which holds this machine since {since}"


def _wait(handle: int, path: Path, timeout_s: float | None, say: Callable[[str], None]) -> None:
    began_s = time.monotonic()
    said: dict[str, Any] | None = None
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        who = _read(handle)
        if timeout_s is not None and time.monotonic() - began_s > timeout_s:
            raise MachineError(f"waited {timeout_s:g} s for {describe(who)}", "try again when it is done")
        if who != said and (who or time.monotonic() - began_s > 1.0):  # a holder writes its name a moment later
            say(f"waiting for {describe(who)}")
            said = who
        time.sleep(LOOK_EVERY_S)


def _say(text: str) -> None:
    print(f"ratebed: {text}", file=sys.stderr, flush=True)


def _open(path: Path, create: bool = True) -> int:
    """Without O_CREAT where it exists: the kernel refuses that in shared folders for files of other users."""
    try:
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not create:
            raise MachineError(f"{path} does not exist")
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except FileExistsError:  # another one was faster
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.fchmod(handle, 0o666)  # whatever the umask is: the lock is everybody's
        return handle
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}", "remove it, or ask whoever owns it") from None


def _write(handle: int, who: dict[str, Any]) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(who).encode(), 0)


def _read(handle: int) -> dict[str, Any]:
    try:
        who = json.loads(os.pread(handle, 4096, 0))
        return who if {"pid", "command", "since_ns"} <= who.keys() else {}
    except (ValueError, AttributeError):
        return {}
