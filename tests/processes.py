"""What is left of a group of processes, soon after its first was told to end."""

import os
import time

import psutil

WAIT_S = 30.0  # Java sees a moment later that nobody is there


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
