"""What is left of a run on the machine: looked for without its own records of what it made.

Processes by the run's mark in their environment, interfaces and rules by its tag, folders, its state file, the
machine's lock where we hold it, and processes of ours that nobody waits for.
"""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from harness.nemesis.disturber import Traces
from testbed.hosts.capabilities import tool
from testbed.hosts.lock import holders


def remains(traces: Traces) -> list[str]:
    """All that is still there, a sentence each."""
    mark = f"RATEBED_RUN={traces.token}".encode()
    left = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                left.append(f"process {path.parent.name} ({(path.parent / 'comm').read_text().strip()})")
    left += [f"interface {path.name}" for path in Path("/sys/class/net").iterdir() if traces.tag in path.name]
    for words in (["ip", "netns", "list"], ["iptables-save"]):
        if program := tool(words[0]):
            told = subprocess.run([program, *words[1:]], capture_output=True, text=True, timeout=20).stdout
            left += [f"{words[0]}: {line}" for line in told.splitlines() if traces.tag in line]
    left += [f"{path}" for path in (traces.folder, traces.memory, traces.state) if path is not None and path.exists()]
    if any(holder.pid == os.getpid() for holder in holders()):  # others may have it by now
        left.append("the machine's lock")
    return left


def resident_bytes() -> int:
    """Our own memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def descriptor_count() -> int:
    """Our own open files."""
    return len(os.listdir("/proc/self/fd"))
