"""Processes that are stopped, and what is left of a group of them soon after its first was told to end."""

import os
import signal
import time
from pathlib import Path

import psutil

WAIT_S = 30.0  # Java sees a moment later that nobody is there


def freeze(pid: int) -> None:
    """Stop a process, and wait until each of its threads stands still: until then one of them may go on."""
    os.kill(pid, signal.SIGSTOP)
    until_s = time.monotonic() + WAIT_S
    while any(_state(thread) != "T" for thread in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < until_s, "it does not stop"
        time.sleep(0.01)


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


def still_there(group: int) -> list[psutil.Process]:
    """Processes of a group that do not end by themselves; one that has ended, unseen by its parent, is none."""
    until_s = time.monotonic() + WAIT_S
    while members := [one for one in psutil.process_iter() if _runs_in(group, one)]:
        if time.monotonic() > until_s:
            return members
        time.sleep(0.1)
    return []


def _runs_in(group: int, process: psutil.Process) -> bool:
    """Whether the process is of the group, and has not ended."""
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False
