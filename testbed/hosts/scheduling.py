"""How a command gets its cores and its priority."""

import os
from functools import cache

from testbed.hosts.capabilities import find_capability, tool


@cache
def scheduling(cores: tuple[int, ...], fifo_priority: int) -> tuple[list[str], list[str]]:
    """The words that pin a command and raise its priority, and what the machine refuses.

    Words before the command, so that every thread has it from its first moment.
    """
    words: list[str] = []
    refused: list[str] = []
    if cores:
        usable = sorted(set(cores) & os.sched_getaffinity(0))
        if usable and find_capability("pinning"):
            words += [tool("taskset") or "taskset", "-c", ",".join(map(str, usable))]
        if not words or len(usable) < len(set(cores)):
            refused.append(f"wants cores {', '.join(map(str, cores))}, gets {', '.join(map(str, usable)) or 'any'}")
    if fifo_priority:
        if find_capability("realtime"):
            words += [tool("chrt") or "chrt", "-f", str(fifo_priority)]
        else:
            refused.append(f"SCHED_FIFO {fifo_priority} is not permitted: the usual scheduler")
    return words, refused
