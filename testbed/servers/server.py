"""A server of somebody else's, unmodified: what it needs, and how one is run beside a node of a live site.

Its process has no pipe that it listens to, as our own agents do (``testbed.hosts.agent``): it is ended by SIGTERM, and
dies with the harness.  Like them it is in the run's state file, in the site's list of processes and in the logs.
"""

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from secrets import randbelow
from shlex import quote
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from core.errors import MachineError
from testbed.hosts.agent import Agent
from testbed.hosts.capabilities import SBIN, Capability, find_capability, require, tool
from testbed.hosts.site import Program, Site
from testbed.nodes.planes import ServerAt

ANY_ADDRESS, LOOPBACK = "0.0.0.0", "127.0.0.1"
# Below those that Linux lends to whoever connects (ip_local_port_range): one of these is not taken by somebody's
# connection, a waiting client's of that very server even, between its being found free and its server's start.
_SERVERS_PORTS = range(16_384, 32_768)
ASK_S = 1.0
_PART_BYTES = 1 << 16
_turns = count(randbelow(len(_SERVERS_PORTS)))  # none twice in a process


class Server(ABC):
    """What a system declares, and what the registry ``SERVERS`` names: one object a program."""

    name: str  # by which nodes are told of it

    @property
    def programs(self) -> tuple[str, ...]:
        """What an image of this system must hold, so that it can be started there."""
        return ()

    @property
    def folders(self) -> Sequence[Path]:
        """What of this machine its programs and clients read beside the code: containers have it at the same path."""
        return ()

    @property
    def versions(self) -> Mapping[str, str]:
        """Program -> its version on this machine, of those that are here and say it."""
        return {}

    @property
    @abstractmethod
    def capability(self) -> Capability:
        """What a machine must have for it: what ``doctor`` lists, with the command that adds it."""

    @abstractmethod
    def deploy(self, site: Site, placing: "Placing") -> "ServerGroup":
        """Its processes for a run's nodes, not started yet."""


class SingleServer(Server):
    """A server of which a run has one."""

    @abstractmethod
    def beside(self, site: Site, node: str, secret: str) -> "RunningServer":
        """One on the host of ``node``, not started yet; ``secret``: a password, where it takes one."""

    def deploy(self, site: Site, placing: "Placing") -> "ServerGroup":
        """See ``Server``."""
        return _One(self.name, placing.main, self.beside(site, placing.main, placing.secret))


class Placing(NamedTuple):
    """What a server is told of the run that wants it: its nodes, the one beside which single servers stand, the run's
    secret, and the options of the system.
    """

    nodes: Sequence[str]
    main: str
    secret: str
    config: Any


class ServerGroup(ABC):
    """The processes of a server that a run has: one beside a node, or some beside each."""

    name: str  # by which nodes are told of it

    @property
    @abstractmethod
    def processes(self) -> list[tuple[str, "ServerProcess"]]:
        """Each with the node beside which it stands."""

    @abstractmethod
    def start(self, nodes: Sequence[str]) -> None:
        """Start those beside these nodes."""

    @abstractmethod
    def wait(self) -> None:
        """Until they answer, and know each other; MachineError where they do not."""

    def kill(self, node: str) -> None:
        """A crash of those beside a node."""
        for beside, process in self.processes:
            if beside == node:
                process.kill()

    def stop(self) -> None:
        """End all, in reverse; they are told before one is waited for."""
        for _, process in self.processes:
            process.terminate()
        for _, process in reversed(self.processes):
            process.stop()

    @abstractmethod
    def reached_from(self, node: str) -> ServerAt:
        """Where a node reaches what it is to ask, once that answers."""


class _One(ServerGroup):
    def __init__(self, name: str, node: str, server: "RunningServer"):
        self.name, self._node, self._server = name, node, server

    @property
    def processes(self) -> list[tuple[str, "ServerProcess"]]:
        return [(self._node, self._server.process)]

    def start(self, nodes: Sequence[str]) -> None:
        if self._node in nodes:
            self._server.start()

    def wait(self) -> None:
        self._server.wait()

    def kill(self, node: str) -> None:
        if node == self._node:
            self._server.kill()

    def stop(self) -> None:
        self._server.stop()

    def reached_from(self, node: str) -> ServerAt:
        return self._server.reached_at()


class RunningServer(ABC):
    """One server on a host; killed and started again, it keeps its address.  A context manager that starts it."""

    process: "ServerProcess"

    def start(self) -> None:
        """Start it."""
        self.process.start()

    @abstractmethod
    def wait(self) -> None:
        """Until it answers; MachineError where it does not."""

    @abstractmethod
    def reached_at(self) -> ServerAt:
        """Where nodes reach it, once it answers."""

    def stop(self) -> None:
        """End it."""
        self.process.stop()

    def kill(self) -> None:
        """A crash."""
        self.process.kill()

    def __enter__(self) -> Self:
        self.start()
        self.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class ServerProcess:
    """One server: started, killed and started again under one name.

    ``command`` is asked for at every start; ``fixes``: program -> what brings it, where the host has none.  What the
    program prints goes to the log of that name.  The thread that
    starts it must live as long: to the kernel, that is the parent with which it dies.
    """

    NO_PROGRAM = 127  # the exit code where the host has no such program

    def __init__(
        self,
        site: Site,
        host: str,
        name: str,
        command: Callable[[], Sequence[str]],
        environment: Mapping[str, str] = MappingProxyType({}),
        fixes: Mapping[str, str] = MappingProxyType({}),
    ):
        self.site, self.host, self.name = site, host, name
        self._command, self._environment, self._fixes = command, environment, fixes
        self._program = ""
        self._agent: Agent | None = None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._agent is not None and self._agent.alive

    @property
    def exit_code(self) -> int | None:
        """Of one that has ended by itself; None otherwise."""
        return None if self._agent is None else self._agent.exit_code

    @property
    def see_log(self) -> str:
        """What to do about its errors."""
        return f"see {self.site.folder}/logs/{self.name}.log"

    @property
    def pid(self) -> int:
        """Of the program itself; MachineError where it does not run."""
        if self._agent is None or not self._agent.alive:
            raise MachineError(f"{self.name} does not run", self.see_log)
        return self._agent.pid

    def start(self) -> None:
        """Start it; when it answers is for its owner to find out."""
        assert not self.alive, f"{self.name} runs"
        setpriv = tool("setpriv")  # the kernel ends it when the harness dies: it has no pipe that would tell it
        dying_with_us = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        # A shell that becomes the program: standard output is the log, and the process keeps its id.  It looks first
        # where the program is on this machine; on others there may be no such folder.
        command = self._command()
        self._program, here = command[0], tool(command[0])
        first = f"{quote(str(Path(here).parent))}:" if here else ""
        words = ["/bin/sh", "-c", f'PATH={first}$PATH:{SBIN}; exec "$@" >&2', self.name, *dying_with_us, *command]
        self._agent = self.site.start(self.host, Program(self.name, words, self._environment))

    def terminate(self) -> None:
        """Tell it to end, without waiting."""
        if self._agent is not None and self._agent.alive:
            with suppress(ProcessLookupError):
                self._agent.process.terminate()

    def stop(self) -> None:
        """End it by SIGTERM, and by SIGKILL where that does not help.  A second call does nothing."""
        self.terminate()
        self._forget()

    def kill(self) -> None:
        """End it by SIGKILL: it cannot put anything in order."""
        if self._agent is not None and self._agent.alive:
            with suppress(ProcessLookupError):
                self._agent.process.kill()
        self._forget()

    def wait_for(self, answers: Callable[[], bool], timeout_s: float) -> None:
        """Until it ``answers``; MachineError where it ends before, or takes longer."""
        until_s, pause_s = time.monotonic() + timeout_s, 0.01
        while True:
            with suppress(OSError, MachineError):
                if answers():
                    return
            if self.exit_code == self.NO_PROGRAM:
                fix = self._fixes.get(self._program, "install it")
                raise MachineError(f"{self.host} has no {self._program}", fix)
            if not self.alive:
                raise MachineError(f"{self.name} has ended (code {self.exit_code}) before it answered", self.see_log)
            if time.monotonic() > until_s:
                raise MachineError(f"{self.name} does not answer within {timeout_s:g} s", self.see_log)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.1)

    def _forget(self) -> None:
        if self._agent is not None:
            self._agent = None
            self.site.forget(self.name)


def ask_over(site: Site, host: str, port: int, question: bytes, until: bytes) -> bytes:
    """What answers over a host's own loopback, until that contains ``until`` or nothing more comes."""
    content = b""
    with site.connect(host, port, ASK_S) as connection, suppress(socket.timeout):
        connection.sendall(question)
        while until not in content and (part := connection.recv(_PART_BYTES)):
            content += part
    return content


def write_secretly(site: Site, node: str, file: Path, text: str) -> None:
    """Bring a file to a node's host, for its user alone: there may be the run's secret in it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(text)
    site.put(node, file)


def program_of(capability: str) -> str:
    """Where a server program is; MachineError with the command that installs it."""
    require(capability)
    return str(find_capability(capability))


def listening_address(address: str) -> str:
    """Where a server on a host is to listen, so that the harness reaches it too.

    In a namespace of its own everywhere: the harness comes over its loopback, others by ``address``.  Where hosts
    share this machine's loopback, only there.
    """
    return LOOPBACK if address == LOOPBACK else ANY_ADDRESS


def port_on(address: str, usual: int) -> int:
    """The usual port, or on the loopback that all hosts share a free one; MachineError where none is."""
    if address != LOOPBACK:
        return usual
    for turn in islice(_turns, len(_SERVERS_PORTS)):
        port = _SERVERS_PORTS[turn % len(_SERVERS_PORTS)]
        with suppress(OSError), socket.socket() as sock:
            sock.bind((address, port))
            return port
    span = f"{_SERVERS_PORTS[0]} to {_SERVERS_PORTS[-1]}"
    raise MachineError(f"no port from {span} of {address} is free", "end what listens there")
