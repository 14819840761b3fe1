"""Starts and stops the agents of a site: logs, cores, priority, and the record of what is to be cleaned up.

``ProcessSite`` is what all sites share that run agents on this machine; how a process gets onto a host is their own
business: a prefix of its command line.
"""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import cache, cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from collectors.probes import Probes, Seen
from core.errors import HarnessError, MachineError
from testbed.hosts.agent import COMMENT, Agent
from testbed.hosts.capabilities import find_capability, tool
from testbed.hosts.cleaning import kill_marked
from testbed.hosts.pipes import PipedProcess
from testbed.hosts.site import Program
from testbed.hosts.state import RunState, start_time
from testbed.hosts.watch import SiteWatch
from testbed.topologies.topology import Topology

MEMORY = Path("/dev/shm")


class ProcessSite:
    """Agents by name, each with a log; the record of the run; their end in reverse order.  A context manager.

    ``folder`` is the run's; MachineError where it cannot be written.  ``seed``: of what the links draw.
    ``owns_folder``: it goes with the site, and with ``ratebed clean`` where the harness was killed.
    """

    def __init__(
        self,
        topology: Topology,
        folder: Path,
        state_folder: Path | None = None,
        seed: int = 0,
        owns_folder: bool = False,
    ):
        self.topology, self.folder, self.seed = topology, folder, seed
        self.notes: list[str] = []  # what of the topology or of the wishes this machine does not give
        self.agents: dict[str, Agent] = {}  # in the order of their start
        self._host_of: dict[str, str] = {}  # agent -> host
        self._records: dict[str, int] = {}  # agent -> its number in the state file
        try:
            (folder / "logs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(f"{folder / 'logs'}: {error.strerror}", "choose another folder with --out") from None
        self.state = RunState(state_folder)
        self._undo = ExitStack()  # what ``close`` does after the agents' end, the last first
        self._undo.callback(self._end)
        if owns_folder:
            self._own(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def prefix(self, host: str, is_limited: bool = True) -> Sequence[str]:
        """The words before a command that put it onto a host, as in ``mnexec -a PID``; they must end in an exec.

        ``is_limited``: what limits the host holds for the command, too.
        """
        return ()

    def start(self, host: str, program: Program) -> Agent:
        """See ``testbed.hosts.site.Site.start``."""
        host, name, fifo_priority = self.topology.host_of(host), program.name, program.fifo_priority
        if name in self.agents:
            self.forget(name)
        wishes, refused = scheduling(tuple(program.cores), fifo_priority)
        self.notes += [f"{name}: {text}" for text in refused if f"{name}: {text}" not in self.notes]
        # What has real-time priority offers the load: it is not what is measured, and no limited group permits it.
        words = [*self.prefix(host, not fifo_priority), *wishes, *program.command]
        log = self.folder / "logs" / f"{name}.log"
        number = self.state.making("process", name=name)
        try:
            with log.open("a", buffering=1) as file:
                for line in [f"on {host}: {shlex.join(words)}", *refused]:
                    file.write(f"{COMMENT}{line}\n")
                process = PipedProcess(words, file, {**os.environ, **self.state.environment, **program.environment})
        except OSError as error:
            self.state.gone(number)
            fix = "free space there, or write elsewhere (--out)" if error.filename in (None, str(log)) else "install it"
            raise MachineError(f"cannot start {name}: {error.filename or log}: {error.strerror}", fix) from None
        agent = Agent(name, process, log, host)
        self.agents[name], self._host_of[name], self._records[name] = agent, host, number
        self.state.made(number, pid=process.pid, started=start_time(process.pid))
        return agent

    @cached_property
    def memory(self) -> Path:
        """A folder of the run's in memory, where there is such a place; on its disk elsewhere.

        nsqd writes its list of topics, synced, whenever one is opened.  Brokers have machines of their own; here they
        would wait for each other at one disk.
        """
        if not os.access(MEMORY, os.W_OK):
            folder = self.folder / "memory"
            folder.mkdir(exist_ok=True)
            return folder
        folder = Path(tempfile.mkdtemp(prefix="ratebed-", dir=MEMORY))
        self._own(folder)
        return folder

    def _own(self, folder: Path) -> None:
        """A folder that goes with the site."""
        number = self.state.making("folder", path=str(folder.resolve()), whole=True)

        def remove() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            self.state.gone(number)

        self._undo.callback(remove)

    def forget(self, name: str) -> int:
        """Stop an agent, if it has not ended, so that another may take its name; returns its exit code."""
        agent = self.agents.pop(name)
        code = agent.stop()
        if name in self._records:
            self.state.gone(self._records.pop(name))
        return code

    def watched(self) -> SiteWatch:
        """See ``testbed.hosts.site.Site.watched``."""
        return SiteWatch(Probes(self.processes, self.namespaces, usage=self.usage), self.probes)

    def usage(self) -> Iterable[tuple[str, str, float]]:
        """What each host uses, where somebody counts that: (host, metric, value); asked about once a second."""
        return ()

    def processes(self) -> list[tuple[str, int]]:
        """(name, pid) of the agents that live, for the probes of ``collectors``."""
        return [(name, agent.pid) for name, agent in list(self.agents.items()) if agent.alive]

    def namespaces(self) -> dict[str, int]:
        """Host -> pid of an agent on it, for the same."""
        return {self._host_of[name]: pid for name, pid in self.processes()}

    def connect(self, host: str, port: int, timeout_s: float = 5.0) -> socket.socket:
        """A TCP connection to a port of a host's loopback; MachineError where nobody listens."""
        self.topology.host_of(host)
        try:
            return socket.create_connection(("127.0.0.1", port), timeout_s)
        except OSError as error:
            raise MachineError(f"nothing answers on port {port} of {host}: {error}", "see the logs") from None

    def place(self, host: str, path: Path) -> str:
        """The same, for all hosts share our files; see ``testbed.hosts.site.Site``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return str(path.resolve())

    def put(self, host: str, path: Path) -> str:
        """It is there already."""
        return self.place(host, path)

    def fetch(self, host: str, path: Path) -> None:
        """It is here already."""

    def clock_offset_ns(self, host: str) -> int:
        """Hosts share our clock."""
        return 0

    def probes(self) -> Sequence[Seen]:
        """None but the harness' own, on this machine."""
        return ()

    def explained(self, error: HarnessError) -> HarnessError:
        """As it is: this machine answers."""
        return error

    def check_alive(self) -> None:
        """MachineError names the agents that have ended on their own."""
        ended = [agent for agent in self.agents.values() if not agent.alive]
        if ended:
            names = ", ".join(f"{agent.name} (code {agent.exit_code})" for agent in ended)
            raise MachineError(f"ended on their own: {names}", f"see {ended[0].log}")

    def close(self) -> None:
        """Stop all agents, the last first, then undo the rest; what fails is raised at the end, and stays on record."""
        problems: list[Exception] = []
        for name in reversed(list(self.agents)):
            try:
                self.forget(name)
            except (OSError, HarnessError, subprocess.SubprocessError) as error:
                problems.append(error)
        try:
            self._undo.close()
        except (OSError, HarnessError, subprocess.SubprocessError) as error:
            problems.append(error)
        if problems:
            raise MachineError(f"the run's end is not clean: {problems[0]}", "ratebed clean removes what is left")

    def _end(self) -> None:
        """The last step: what agents have let loose in sessions of their own ends, too."""
        kill_marked(self.state.token)
        self.state.close()


def python_agent(module: str, *words: str) -> list[str]:
    """The command of an agent that is a module of ours."""
    return [sys.executable, "-m", module, *words]


@cache
def scheduling(cores: tuple[int, ...], fifo_priority: int) -> tuple[list[str], list[str]]:
    """The words that pin a command and raise its priority, and what the machine refuses.

    Words before the command, so that every thread has it from its first moment.
    """
    words: list[str] = []
    refused: list[str] = []
    if cores:
        usable = sorted(set(cores) & _usable_cores())
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


def _usable_cores() -> set[int]:
    with suppress(AttributeError):
        return os.sched_getaffinity(0)
    return set()
