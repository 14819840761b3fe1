"""Other processes' network namespaces: sockets, which stay where they were made, and commands."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from core.errors import MachineError
from testbed.hosts.capabilities import tool

CLONE_NEWNET = 0x40000000
COMMAND_S = 20
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """This thread is in the network namespace of a process; other threads are where they were."""
    try:
        with open("/proc/thread-self/ns/net") as own:
            with open(f"/proc/{pid}/ns/net") as other:
                _enter(other.fileno())
            try:
                yield
            finally:
                _enter(own.fileno())
    except PermissionError:
        raise MachineError("may not enter a network namespace", "run as root") from None


def _enter(handle: int) -> None:
    if _LIBC.setns(handle, CLONE_NEWNET):  # os.setns is there from Python 3.12 on
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def entering(pid: int) -> list[str]:
    """The words before a command that put it into the network namespace of a process."""
    return [tool("nsenter") or "nsenter", "-t", str(pid), "-n"]


def run_in(pid: int, program: str, *words: str, text: str = "", fix: str = "") -> None:
    """Run a command in the network namespace of a process; MachineError with what it says if it fails."""
    command = [*entering(pid), tool(program) or program, *words]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=COMMAND_S)
    except subprocess.TimeoutExpired:
        said = "no answer in time"
    else:
        if not done.returncode:
            return
        said = ((done.stderr or done.stdout).strip() or f"code {done.returncode}").splitlines()[0]
    raise MachineError(f"{' '.join([program, *words])[:80]}: {said}", fix)
