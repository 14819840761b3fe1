"""The nodes of a live run, as processes: started, introduced to each other, crashed, restarted, asked."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import Any

import msgspec

from core.codec import Codec
from core.errors import HarnessError, MachineError
from core.records import Request
from systems.api import System
from systems.loader import name_of
from testbed.faults import Restart
from testbed.hosts.agent import Agent
from testbed.hosts.site import Program, Site
from testbed.nodes.member import node_seed
from testbed.nodes.planes import Surroundings
from testbed.nodes.records import NodeRecords, read_records
from testbed.servers.server import RunningServer, check_servers, servers_of

LOAD_S = 120.0  # many processes start at once, on few cores, and may have to compile
_CONNECT_S = 30.0
_REAP_S = 0.1  # a process that is killed closes its sockets before one sees that it has ended
_COMMAND = (sys.executable, "-m", "testbed.nodes.host")


@dataclass
class _Place:
    """A node's place in the run.  ``agent`` is None while it is down."""

    agent: Agent | None = None
    port: int = 0
    lives: list[Path] = field(default_factory=list)  # the records of its processes
    status: dict[str, Any] = field(default_factory=dict)  # the last one


class NodeFleet:
    """One process a node; one more, loaded and waiting, for each restart that is planned; the servers that they ask.

    ``surroundings``: what all nodes are told of them but for the servers, which stand beside one of the nodes and go
    down with it.  ``names``: the nodes, where they are not all of the topology's.
    """

    def __init__(self, site: Site, system: System, config: Any, seed: int, names: Sequence[str] = ()):
        check_servers(system, "with hosts", is_real=True)
        self.token, self.surroundings = token_hex(16), Surroundings()
        self.script: Path | None = None  # what a study's planes read: brought to every node's host
        self._site, self._system, self._seed = site, system, seed
        self._loading = {"system": name_of(system), "options": msgspec.to_builtins(config)}
        self.transport = system.transport
        self.names = list(names) or site.topology.node_names()
        self._places = {name: _Place() for name in self.names}
        self._waiting: dict[Restart, tuple[Agent, Path]] = {}
        self._processes: list[str] = []  # names of the agents that were started and not forgotten
        self._epoch_ns = 0
        self._offsets_ns: Mapping[str, int] = {}
        self._server_node, self._servers_wanted = system.beside(config) or self.names[0], True
        self._servers: dict[str, RunningServer] = {
            server.name: server.beside(site, self._server_node, self.token) for server in servers_of(system)
        }
        self.folder = site.folder / "nodes"
        self.folder.mkdir(parents=True, exist_ok=True)

    # --- the start -----------------------------------------------------------------------------------

    def start(self, restarts: Sequence[Restart] = ()) -> None:
        """Start all processes, load the system in them, and connect those that run from the beginning."""
        lives = [(name, 0) for name in self.names]
        lives += [(restart.node, number) for number, restart in enumerate(restarts, 1)]
        self._start_servers()
        agents = [(name, number, self._begin(name, number)) for name, number in lives]
        for _, _, agent in agents:
            agent.ready(LOAD_S)
        files = [self.folder / f"{name}.{number}.jsonl" for name, number, _ in agents]
        for file in files:
            file.unlink(missing_ok=True)  # of an earlier fleet on this site
        # The first one alone: what it compiles, the others find compiled.
        for group in (slice(0, 1), slice(1, None)):
            for (name, number, agent), file in zip(agents[group], files[group], strict=True):
                agent.post("configure", **self._loading, names=self.names, name=name,
                           seed=node_seed(self._seed, number), records=self._site.place(name, file))  # fmt: skip
            for _, _, agent in agents[group]:
                agent.answer(LOAD_S)
        for (name, number, agent), file in zip(agents, files, strict=True):
            if number == 0:
                self._places[name] = _Place(agent, agent.ask("listen")["port"], [file])
            else:
                self._waiting[restarts[number - 1]] = agent, file

    def connect(self) -> None:
        """Tell all nodes where the others and the services are; returns when everybody can reach everybody."""
        for name, place in self._places.items():
            assert place.agent is not None
            place.agent.ask("connect", **self._introduction(name))
        until_s, others = monotonic() + _CONNECT_S, len(self.names) - 1
        while True:
            alone = [
                name
                for name, status in self.statuses().items()
                if status["connected_count"] < others or not status["ready"]
            ]
            if not alone:
                return
            if monotonic() > until_s:
                raise MachineError(f"{', '.join(alone)} cannot reach the other nodes", f"see {self._site.folder}/logs")
            sleep(0.02)

    def go(self, epoch_ns: int, offsets_ns: Mapping[str, int]) -> None:
        """Let the nodes begin at the epoch, their clocks ahead by the offsets."""
        self._epoch_ns, self._offsets_ns = epoch_ns, dict(offsets_ns)
        for name, agent in self._running():
            agent.post("go", epoch_ns=self._its_epoch_ns(name), offset_ns=self._offsets_ns.get(name, 0))
        for _, agent in self._running():
            agent.answer()

    # --- what goes wrong -------------------------------------------------------------------------------

    def crash(self, name: str) -> None:
        """Kill the node's process."""
        place = self._places[name]
        assert place.agent is not None
        place.agent.process.kill()
        place.status = {}
        self._processes.remove(place.agent.name)
        self._site.forget(place.agent.name)
        place.agent = None
        if name == self._server_node:
            self._servers_wanted = False
            for server in self._servers.values():
                server.kill()

    def restart(self, restart: Restart) -> None:
        """Let the process that waits for this restart take the node's place; it keeps address and clock."""
        place = self._places[restart.node]
        agent, file = self._waiting.pop(restart)
        snapshot = self._copy(restart)
        if restart.node == self._server_node:
            self._start_servers()
        agent.ask("listen", port=place.port)
        agent.ask("connect", **self._introduction(restart.node))
        offset_ns = self._offsets_ns.get(restart.node, 0)
        agent.ask("go", epoch_ns=self._its_epoch_ns(restart.node), offset_ns=offset_ns, snapshot=snapshot)
        place.agent = agent
        place.lives.append(file)

    def skew(self, name: str, offset_ns: int) -> None:
        """Set the node's clock; one that is down wakes up with it."""
        self._offsets_ns = {**self._offsets_ns, name: offset_ns}
        agent = self._places[name].agent
        if agent is not None:
            agent.ask("skew", offset_ns=offset_ns)

    # --- questions -------------------------------------------------------------------------------------

    def address_of(self, name: str) -> tuple[str, int]:
        """Where a node listens."""
        return self._site.address(name), self._places[name].port

    def check(self) -> None:
        """Raise what ended a node that should run: its fault, or MachineError."""
        for name, agent in self._running():
            if not agent.alive:
                raise self.records(name).fault or MachineError(
                    f"the process of node {name} has ended (code {agent.exit_code})", f"see {agent.log}"
                )

    def lost_servers(self) -> tuple[str, ...]:
        """The processes of servers that have ended, and that no crash of their node has taken along."""
        servers = self._servers.values() if self._servers_wanted else ()
        return tuple(server.process.name for server in servers if not server.process.alive)

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Whoever fails inside because a node has ended, that node's end is what is raised."""
        try:
            yield
        except MachineError:
            sleep(_REAP_S)
            self.check()
            raise

    def statuses(self, command: str = "status") -> dict[str, dict[str, Any]]:
        """What each node that runs says of itself; HarnessError where one has ended."""
        with self.blamed():
            for _, agent in self._running():
                agent.post(command)
            for name, agent in self._running():
                self._places[name].status = agent.answer()
        return {name: self._places[name].status for name, _ in self._running()}

    def states(self) -> dict[str, Any]:
        """The snapshot of each node that runs and gives one."""
        codec = Codec((Request, *self._system.messages))
        states = {}
        for name, agent in self._running():
            path = self.folder / f"{name}.state"
            if agent.ask("snapshot", path=self._site.place(name, path), counted=False)["known"]:
                self._site.fetch(name, path)
                states[name] = codec.decode(path.read_bytes())
        return states

    def records(self, name: str) -> NodeRecords:
        """The rows of all the node's processes."""
        records = NodeRecords()
        for file in self._places[name].lives:
            if not file.exists():
                with suppress(MachineError):  # it has none, or its host is lost
                    self._site.fetch(name, file)
            life = read_records(file)
            records.samples += life.samples
            records.verdicts += life.verdicts
            records.commands += life.commands
            records.fault = records.fault or life.fault
        return records

    def lives_count(self, name: str) -> int:
        """How many processes the node has had."""
        return len(self._places[name].lives)

    def stop(self) -> None:
        """End all processes."""
        problems: list[HarnessError] = []
        while self._processes:
            try:
                self._site.forget(self._processes.pop())
            except HarnessError as error:
                problems.append(error)
        for server in self._servers.values():
            try:
                server.stop()
            except HarnessError as error:
                problems.append(error)
        for place in self._places.values():
            place.agent = None
        self._waiting.clear()
        if problems:
            raise problems[0]

    def _begin(self, name: str, number: int) -> Agent:
        agent = f"node-{name}.{number}" if number else f"node-{name}"
        host = self._site.topology.host_of(name)
        process = self._site.start(host, Program(agent, [*_COMMAND, self._site.address(name)]))
        self._processes.append(agent)
        return process

    def _start_servers(self) -> None:
        for server in self._servers.values():
            server.start()
        for server in self._servers.values():
            server.wait()
        self._servers_wanted = True

    def _running(self) -> list[tuple[str, Agent]]:
        return [(name, place.agent) for name, place in self._places.items() if place.agent is not None]

    def _its_epoch_ns(self, name: str) -> int:
        """The epoch by the clock of a node's host."""
        return self._epoch_ns + self._site.clock_offset_ns(name)

    def _introduction(self, name: str) -> dict[str, Any]:
        """What a node is told of the others and of its surroundings."""
        addresses = {name: list(self.address_of(name)) for name in self.names}
        around = msgspec.structs.replace(
            self.surroundings,
            node=name,
            servers={name: server.reached_at() for name, server in self._servers.items()},
            script=self._site.put(name, self.script) if self.script else "",
        )
        return {"token": self.token, "addresses": addresses, "around": msgspec.to_builtins(around)}

    def _copy(self, restart: Restart) -> str:
        """The file with the state of the peer to copy from; "" where there is none, or it is down."""
        peer = self._places[restart.copy_from].agent if restart.copy_from else None
        if peer is None:
            return ""
        path = self.folder / f"{restart.node}.copied.{restart.at_ns}"
        if not peer.ask("snapshot", path=self._site.place(restart.copy_from, path))["known"]:
            return ""
        self._site.fetch(restart.copy_from, path)
        return self._site.put(restart.node, path)
