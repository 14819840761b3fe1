"""What is left of a run on the machine: looked for without its own records of what it made.

Processes by the run's mark in their environment, interfaces and rules by its tag, folders, its state file, the
machine's lock where we hold it.  Of a command, whose runs are not known here: processes by a mark of ours, which hold
its network namespaces, and its state files; what else is new on the machine may be another's.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

import psutil

from harness.nemesis.disturber import Traces
from testbed.hosts.capabilities import tool
from testbed.hosts.cleaning import kill_left, remove_left
from testbed.hosts.lock import holders
from testbed.hosts.state import TOKEN, start_time

MARK = "RATEBED_NEMESIS"  # the environment variable that marks all processes of a command, whatever runs it made
PATIENCE_S = 5.0  # with what goes by itself when the command has ended, as Java does


def remains(traces: Traces) -> list[str]:
    """All that is still there, a sentence each."""
    left = [f"process {pid} ({name})" for pid, name in _marked(TOKEN, traces.token)]
    left += [f"interface {path.name}" for path in Path("/sys/class/net").iterdir() if traces.tag in path.name]
    for words in (["ip", "netns", "list"], ["iptables-save"]):
        if program := tool(words[0]):
            told = subprocess.run([program, *words[1:]], capture_output=True, text=True, timeout=20).stdout
            left += [f"{words[0]}: {line}" for line in told.splitlines() if traces.tag in line]
    left += [f"{path}" for path in (traces.folder, traces.memory, traces.state) if path is not None and path.exists()]
    if any(holder.pid == os.getpid() for holder in holders()):  # others may have it by now
        left.append("the machine's lock")
    return left


class CommandTraces:
    """By what a command can be known after its end, whatever runs it has made: make this before it begins.

    ``environment`` is what the command must have in its own: a mark, and ``state``, a folder for its state files alone.
    """

    def __init__(self, state: Path):
        self.state, self._token = state, token_hex(16)
        self.environment = {MARK: self._token, "RATEBED_STATE": str(state)}

    def left(self, patience_s: float = PATIENCE_S) -> list[str]:
        """All that is still there after so long, a sentence each."""
        until_s = time.monotonic() + patience_s
        while (left := self._there()) and time.monotonic() < until_s:
            time.sleep(0.1)
        return left

    def _there(self) -> list[str]:
        left = [f"process {pid} ({name})" for pid, name in _marked(MARK, self._token)]
        return left + [f"state file {path.name}" for path in sorted(self.state.glob("*"))]

    def remove(self) -> None:
        """End what bears the mark, and remove what the state files list."""
        for pid, _ in _marked(MARK, self._token):
            with suppress(OSError):
                kill_left(pid, start_time(pid))
        if self.state.is_dir():
            remove_left(self.state)


def _marked(name: str, token: str) -> Iterator[tuple[int, str]]:
    """Processes, id and name, that have the variable in their environment."""
    mark = f"{name}={token}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                yield int(path.parent.name), (path.parent / "comm").read_text().strip()


def resident_bytes() -> int:
    """Our own memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def beside_bytes() -> int:
    """The memory of all processes that we have started, and they, and that live on."""
    total = 0
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            total += child.memory_info().rss
    return total


def descriptor_count() -> int:
    """Our own open files."""
    return len(os.listdir("/proc/self/fd"))
