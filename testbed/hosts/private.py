"""Servers of our own that a whole machine usually shares (Docker, libvirt), private to a process of the harness.

A folder for all that they keep, and namespaces: the host's firewall, forwarding and mounts stay as they are, and what
they made goes when the last process in there goes.  Each thing is on record before it is made, so ``ratebed clean``
removes that of a harness which was killed.
"""

import os
import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

from collectors.procfs import read
from core.errors import MachineError
from testbed.hosts.agent import last_line
from testbed.hosts.capabilities import SBIN, require, tool
from testbed.hosts.cleaning import kill_marked
from testbed.hosts.state import RunState, start_time

START_S, STOP_S, POLL_S = 60.0, 20.0, 0.02


class PrivateServer(ABC):
    """Answers when this returns; ``close`` ends it and all that lives in it, and removes all that it had.

    A subclass says what it is, how it is started and when it answers; ``folder`` is its own, ``process`` its first.
    MachineError where this machine lacks something, or where it does not start.
    """

    name: ClassVar[str]
    needed: ClassVar[Sequence[str]]  # capabilities
    ends_by_itself: ClassVar[bool]  # when asked to, within STOP_S

    def __init__(self, state_folder: Path | None = None):
        require(*self.needed)
        self.state = RunState(state_folder)
        self.folder = Path(tempfile.mkdtemp(prefix=f"ratebed-{self.name}-"))
        self._undo = ExitStack()
        self._undo.callback(self.state.close)
        try:
            self._make("folder", partial(shutil.rmtree, self.folder), path=str(self.folder), whole=True)
            self._prepare()
            number = self.state.making("process", name=self.name)
            self.process = self._start()
            self._undo.callback(self._end, number)
            self.state.made(number, pid=self.process.pid, started=start_time(self.process.pid))
            self._await()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, and what is left in it; a second call does nothing."""
        self._undo.close()

    # --- what a subclass has ----------------------------------------------------------------------------

    @abstractmethod
    def _prepare(self) -> None:
        """Make what it finds when it starts: files in its folder, other things by ``_make``."""

    @abstractmethod
    def _command(self) -> list[str]:
        """How it is started, with namespaces of its own."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it is up; asked until it is."""

    def _make(self, kind: str, remove: Callable[[], object], **what: object) -> None:
        """Put on record what is about to be made, and how that goes."""
        number = self.state.making(kind, **what)

        def take_away() -> None:
            remove()
            self.state.gone(number)  # what cannot be removed stays on record

        self._undo.callback(take_away)

    # --- its process --------------------------------------------------------------------------------------

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([os.environ.get("PATH", ""), SBIN])
        environment = {**os.environ, **self.state.environment, "PATH": path}
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def _await(self) -> None:
        until_s = time.monotonic() + START_S
        while self.process.poll() is None and time.monotonic() < until_s:
            if self._answers():
                return
            time.sleep(POLL_S)
        why = last_line(self.folder / "log")[:300] or "it says nothing"
        raise MachineError(f"the private {self.name} does not start: {why}", "run as root")

    def _end(self, number: int) -> None:
        if self.ends_by_itself:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_S)
        self.process.kill()
        kill_marked(self.state.token)
        self.process.wait(STOP_S)
        self.state.gone(number)


def host_settings() -> dict[str, list[str]]:
    """What such servers might change of this machine: its forwarding, firewall, interfaces and mounts."""
    forwarding = [Path("/proc/sys/net/ipv4/ip_forward"), *Path("/proc/sys/net/ipv4/conf").glob("*/forwarding")]
    programs = [program for name in ("iptables-legacy-save", "iptables-nft-save") if (program := tool(name))]
    tables = [subprocess.run([program], capture_output=True, text=True).stdout for program in programs]
    return {
        "forwarding": sorted(f"{path}: {read(str(path)).strip()}" for path in forwarding),
        "firewall": [line.partition(" [")[0] for text in tables for line in text.splitlines() if line[:1] != "#"],
        "interfaces": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "mounts": sorted(line.split()[4] for line in read("/proc/self/mountinfo").splitlines()),
    }
