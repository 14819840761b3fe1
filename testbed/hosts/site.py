"""A site: a topology made real, with agents on its hosts."""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Self

from collectors.probes import Probes, Seen, Together
from core.errors import HarnessError, MachineError
from core.records import Options
from testbed.faults import Fault
from testbed.hosts.agent import COMMENT, Agent
from testbed.hosts.cleaning import kill_marked
from testbed.hosts.pipes import AgentProcess, PipedProcess
from testbed.hosts.scheduling import scheduling
from testbed.hosts.state import RunState, start_time
from testbed.topologies.topology import Topology

MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Program:
    """What an agent is: its name, unique on a site, and its command line.

    ``cores``: those it is pinned to; ``fifo_priority``: of SCHED_FIFO, 0 = the usual scheduler (both are best effort: a
    machine that refuses is noted in the log).  Where ``sys.executable`` or the broker's program begins the command, it
    is the host's own that is meant.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    cores: Sequence[int] = ()
    fifo_priority: int = 0


def python_agent(module: str, *words: str) -> list[str]:
    """The command of an agent that is a module of ours."""
    return [sys.executable, "-m", module, *words]


@dataclass(frozen=True)
class PathMeasure:
    """One direction of a path between two hosts, as the topology wants it and as it was found before the load."""

    source: str
    target: str
    requested_delay_ns: int
    measured_delay_ns: int  # median, one way: hosts share a clock
    requested_loss_probability: float
    lost_count: int
    probe_count: int
    requested_jitter_ns: int = 0
    measured_p05_ns: int = 0
    measured_p95_ns: int = 0
    problem: str = ""  # why the run cannot go on; empty = inside the tolerance


class SiteWatch(Probes):
    """Samples of this machine while a run goes on; ``elsewhere``: what other machines have seen of themselves."""

    def __init__(
        self,
        processes: Callable[[], Iterable[tuple[str, int]]] = tuple,
        namespaces: Callable[[], Mapping[str, int]] = dict,
        usage: Callable[[], Iterable[tuple[str, str, float]]] = tuple,
        elsewhere: Callable[[], Sequence[Seen]] = tuple,
    ):
        super().__init__(processes, namespaces, usage=usage)
        self._elsewhere = elsewhere

    def seen(self) -> Seen:
        """All that was seen, as one; asked when the run is over."""
        return Together(self, self._elsewhere())


class Site(ABC):
    """Hosts on which agents run, and the links between them; a context manager.

    ``folder`` is the run's: logs/<agent>.log and what agents write; MachineError where it cannot be written.
    ``owns_folder``: it goes with the site, and with ``ratebed clean`` where the harness was killed.  ``seed``: of what
    the links draw.  ``options``: the testbed's own.  Where a method says no more, hosts are this machine's processes.
    """

    def __init__(
        self,
        topology: Topology,
        folder: Path,
        state_folder: Path | None = None,
        *,
        seed: int = 0,
        owns_folder: bool = False,
        **options: object,
    ):
        self.topology, self.folder, self.seed = topology, folder, seed
        self.options: Options = options
        self.witness: Callable[[Path], None] = lambda path: None  # is shown the actors' files as they come home
        self.epoch_ns: int | None = None  # CLOCK_REALTIME at which the load begins, once that is agreed
        self.servers: object = None  # what a run asked for that takes long to start
        self.is_worn = False  # a fault was here, or worse: no other run's (``testbed.hosts.kept``)
        self.delays_late: Sequence[tuple[int, int]] = ()  # in user space: (ns, packets), when last counted
        self.notes: list[str] = []  # what of the topology, or of the wishes, the hosts do not give
        self.agents: dict[str, Agent] = {}  # in the order of their start
        self._records: dict[str, int] = {}  # agent -> its number in the state file
        try:
            (folder / "logs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(f"{folder / 'logs'}: {error.strerror}", "choose another folder with --out") from None
        self.state = RunState(state_folder)  # what ``ratebed clean`` must remove where the harness was killed
        self._undo = ExitStack()  # what ``close`` does after the agents' end, the last first
        self._undo.callback(self._end)
        if owns_folder:
            self._own(folder)
        try:
            self._set_up()
        except BaseException as error:
            with told_beside(error):
                self.close()
            raise

    @abstractmethod
    def _set_up(self) -> None:
        """Make the hosts and the links; ``close`` follows where it fails."""

    def _prefix(self, host: str, is_limited: bool = True) -> Sequence[str]:
        """The words before a command that put it onto a host, as in ``mnexec -a PID``; they must end in an exec.

        ``is_limited``: what limits the host holds for the command, too.
        """
        return ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        with told_beside(error):
            self.close()

    # --- hosts -------------------------------------------------------------------------------------------

    @cached_property
    def memory(self) -> Path:
        """A folder of the run's in memory, where there is such a place, which the hosts on this machine see as well.

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

    @abstractmethod
    def address(self, host: str) -> str:
        """The IPv4 address of a host (or of a node's host) on the network between the hosts."""

    def start(self, host: str, program: Program) -> Agent:
        """Start a process on a host; its standard error goes to ``folder/logs/<name>.log``."""
        host, name = self.topology.host_of(host), program.name
        if name in self.agents:
            self.forget(name)
        log = self.folder / "logs" / f"{name}.log"
        process, refused = self._process(host, program, log)
        self.notes += [f"{name}: {text}" for text in refused if f"{name}: {text}" not in self.notes]
        self.agents[name] = Agent(name, process, log, host)
        return self.agents[name]

    def _process(self, host: str, program: Program, log: Path) -> tuple[AgentProcess, list[str]]:
        """Start a program's process; also returns which of its wishes are refused."""
        name, fifo_priority = program.name, program.fifo_priority
        wishes, refused = scheduling(tuple(program.cores), fifo_priority)
        # What has real-time priority offers the load: it is not what is measured, and no limited group permits it.
        words = [*self._prefix(host, not fifo_priority), *wishes, *program.command]
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
        self._records[name] = number
        self.state.made(number, pid=process.pid, started=start_time(process.pid))
        return process, refused

    def forget(self, name: str) -> int:
        """Stop an agent, if it has not ended, so that another may take its name; returns its exit code."""
        agent = self.agents.pop(name)
        code = agent.stop()
        if name in self._records:
            self.state.gone(self._records.pop(name))
        return code

    @property
    def processes(self) -> list[tuple[str, int]]:
        """(name, pid) of the agents that live."""
        return [(name, agent.pid) for name, agent in list(self.agents.items()) if agent.alive]

    def connect(self, host: str, port: int, timeout_s: float = 5.0) -> socket.socket:
        """A TCP connection to the host's own loopback, its management address; MachineError where nobody listens."""
        self.topology.host_of(host)
        try:
            return socket.create_connection(("127.0.0.1", port), timeout_s)
        except OSError as error:
            raise MachineError(f"nothing answers on port {port} of {host}: {error}", "see the logs") from None

    def place(self, host: str, path: Path) -> str:
        """What a host calls a path of the run's folder; the folder that it is in is there afterwards."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return str(path.resolve())

    def put(self, host: str, path: Path) -> str:
        """Bring a file of the run's folder to a host; returns what the host calls it."""
        return self.place(host, path)

    def fetch(self, host: str, path: Path) -> None:
        """Bring home what an agent on a host has written to ``place(host, path)``; ``witness`` sees it first."""
        self._bring(host, path)
        self.witness(path)

    def _bring(self, host: str, path: Path) -> None:
        return  # it is here already

    def clock_offset_ns(self, host: str) -> int:
        """By how much a host's CLOCK_REALTIME is ahead of ours; all instants of a run are by ours."""
        return 0

    def watched(self) -> SiteWatch:
        """Samples of agents, hosts and machines, from when the watch is entered."""
        return SiteWatch(lambda: self.processes, self._namespaces)

    def _namespaces(self) -> dict[str, int]:
        """Host -> pid of an agent on it."""
        return {agent.host: agent.pid for agent in list(self.agents.values()) if agent.alive}

    def explained(self, error: HarnessError) -> HarnessError:
        """The error itself, or one that says why: its host was killed, or does not answer any more."""
        return error

    # --- links -------------------------------------------------------------------------------------------

    @abstractmethod
    def verify(self) -> list[PathMeasure]:
        """Measure every path between machines against the topology; LinkError names those out of tolerance.

        MachineError names agents that have ended on their own.
        """

    @abstractmethod
    def apply(self, fault: Fault) -> None:
        """Change the links as a fault says (Partition, Handover, LinkLoss, …); crashes are not the site's business.

        A site without links has nothing to hand over, and refuses the other faults: SpecError.
        """

    @abstractmethod
    def counters(self) -> list[tuple[str, str, float]]:
        """Counters of links, delays and interfaces now: (host, metric, value)."""

    def _check_alive(self) -> None:
        ended = [agent for agent in self.agents.values() if not agent.alive]
        if ended:
            names = ", ".join(f"{agent.name} (code {agent.exit_code})" for agent in ended)
            raise MachineError(f"ended on their own: {names}", f"see {ended[0].log}")

    # --- the end -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Remove exactly what the site started, in reverse order: the agents, then the rest.

        What fails is raised at the end, and stays on record.
        """
        problems: list[Exception] = []
        steps: list[Callable[[], object]] = [partial(self.forget, name) for name in reversed(self.agents)]
        for step in [*steps, self._undo.close]:
            try:
                step()
            except (OSError, HarnessError, subprocess.SubprocessError) as error:
                problems.append(error)
        if problems:
            raise MachineError(f"the run's end is not clean: {problems[0]}", "ratebed clean removes what is left")

    def _own(self, folder: Path) -> None:
        number = self.state.making("folder", path=str(folder.resolve()), whole=True)

        def take_away() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():  # else it is left to ``ratebed clean``: no reason to fail a run that is over
                self.state.gone(number)

        self._undo.callback(take_away)

    def _end(self) -> None:
        """The last step: what agents have let loose in sessions of their own ends, too."""
        kill_marked(self.state.token)
        self.state.close()


@contextmanager
def told_beside(first: BaseException | None) -> Iterator[None]:
    """What goes wrong at an end that ``first`` has brought about is told, and no more: ``first`` is what is raised."""
    try:
        yield
    except (OSError, HarnessError, subprocess.SubprocessError) as error:
        if first is None:
            raise
        print(f"ratebed: {error}", file=sys.stderr, flush=True)


@contextmanager
def explained(site: Site) -> Iterator[None]:
    """An error in here says what the site knows of its cause."""
    try:
        yield
    except HarnessError as error:
        told = site.explained(error)
        if told is error:
            raise
        raise told from error
