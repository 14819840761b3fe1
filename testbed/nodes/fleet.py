"""The nodes of a live run, as processes: started, introduced to each other, crashed, restarted, asked."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import NamedTuple

import msgspec

from core.codec import Codec
from core.errors import MachineError, SpecError
from core.records import Json, Request, Sample
from systems.api import System
from systems.loader import name_of
from testbed.faults import Restart, ServerCrash
from testbed.hosts.agent import Agent, AgentGone
from testbed.hosts.site import Program, Site, told_beside
from testbed.nodes.member import node_seed
from testbed.nodes.planes import Surroundings
from testbed.nodes.records import NodeRecords, read_records
from testbed.servers.found import check_servers, servers_of
from testbed.servers.server import Placing

LOAD_S = 120.0  # many processes start at once, on few cores, and may have to compile
_CONNECT_S = 30.0
_REAP_S = 0.1  # a process that is killed closes its sockets before one sees that it has ended
_COMMAND = (sys.executable, "-m", "testbed.nodes.host")


class _Life(NamedTuple):
    """One process of a node: the first (0), or the one that waits for the run's n-th restart."""

    node: str
    number: int
    agent: Agent
    records: Path


@dataclass
class _Place:
    """A node's place in the run.  ``agent`` is None while it is down."""

    agent: Agent | None
    port: int
    records: list[Path]  # of its processes


class NodeFleet:
    """One process a node; one more, loaded and waiting, for each restart that is planned; the servers that they ask.

    ``surroundings``: what all nodes are told of them but for the servers, which stand beside one of the nodes and go
    down with it.  ``names``: the nodes, where they are not all of the topology's.
    """

    def __init__(self, site: Site, system: System, config: object, seed: int, names: Sequence[str] = ()):
        check_servers(system, "with hosts")
        self.token, self.surroundings = token_hex(16), Surroundings()
        self.script: Path | None = None  # what a study's planes read: brought to every node's host
        self._site, self._system, self._seed = site, system, seed
        self.transport = system.transport
        self.names = list(names) or site.topology.node_names()
        options = msgspec.to_builtins(config)
        self._loading = {"system": name_of(system), "options": options, "names": self.names}
        self._places: dict[str, _Place] = {}
        self._waiting: dict[Restart, _Life] = {}
        self._coming: dict[str, Agent] = {}  # of nodes that were restarted, and for which nobody has waited yet
        self._came: dict[str, int | MachineError] = {}  # what became of those among them that were crashed since
        self._processes: list[str] = []  # names of the agents that were started and not forgotten
        self._epoch_ns = 0
        self._offsets_ns: Mapping[str, int] = {}
        placing = Placing(self.names, system.beside(config) or self.names[0], self.token, config)
        self._servers = [server.deploy(site, placing) for server in servers_of(system)]
        self._without_servers, self._lost_servers = set[str](), set[str]()  # nodes; processes
        self.folder = site.folder / "nodes"
        self.folder.mkdir(parents=True, exist_ok=True)

    def start(self, restarts: Sequence[Restart] = ()) -> None:
        """Start all processes, load the system in them, and connect those that run from the beginning."""
        self._start_servers(self.names)
        lives = [self._begin(name, 0) for name in self.names]
        lives += [self._begin(restart.node, number) for number, restart in enumerate(restarts, 1)]
        for life in lives:
            life.agent.ready(LOAD_S)
        # The first one alone: what it compiles, the others find compiled.
        for group in (lives[:1], lives[1:]):
            for node, number, agent, records in group:
                seed, path = node_seed(self._seed, number), self._site.place(node, records)
                agent.post("configure", **self._loading, name=node, seed=seed, records=path)
            for life in group:
                life.agent.answer(LOAD_S)
        for node, _, agent, records in lives[: len(self.names)]:
            self._places[node] = _Place(agent, agent.ask("listen")["port"], [records])
        self._waiting = dict(zip(restarts, lives[len(self.names) :], strict=True))

    def connect(self) -> None:
        """Tell all nodes where the others and the services are; returns when everybody can reach everybody."""
        for name, place in self._places.items():
            assert place.agent is not None
            place.agent.ask("connect", **self._introduction(name))
        until_s, others = monotonic() + _CONNECT_S, len(self.names) - 1
        while True:
            statuses = self.statuses().items()
            alone = [name for name, its in statuses if its["connected_count"] < others or not its["ready"]]
            if not alone:
                return
            if monotonic() > until_s:
                raise MachineError(f"{', '.join(alone)} cannot reach the other nodes", f"see {self._site.folder}/logs")
            sleep(0.02)

    def go(self, epoch_ns: int, offsets_ns: Mapping[str, int]) -> None:
        """Let the nodes begin at the epoch, their clocks ahead by the offsets."""
        self._epoch_ns, self._offsets_ns = epoch_ns, dict(offsets_ns)
        for name, agent in self._running():
            agent.post("go", **self._clock_of(name))
        for _, agent in self._running():
            agent.answer()

    def crash(self, name: str) -> None:
        """Kill the node's process."""
        self._end(name)
        self.crash_servers(name)

    def check_server_crash(self, fault: ServerCrash) -> None:
        """SpecError where no server stands beside its node: it would kill nothing, and excuse all that goes wrong."""
        there = sorted({node for server in self._servers for node, _ in server.processes})
        if fault.node not in there:
            fix = f"they stand beside {', '.join(there)}: crash those of one of these nodes"
            raise SpecError(f"{fault}: no process of a server stands beside {fault.node}", fix)

    def crash_servers(self, name: str) -> None:
        """Kill what servers stand beside a node, and not the node."""
        self.lost_servers()
        self._without_servers.add(name)
        for server in self._servers:
            server.kill(name)

    def restart(self, restart: Restart, waits: bool = True) -> None:
        """Let the process that waits for this restart take the node's place; it keeps address and clock.

        ``waits``: until it is there.  Where its planes connect to servers over links that are disturbed, that may take
        until a later fault ends it; who waits then never lets that happen, and asks ``begun_ns`` later.
        """
        place = self._places[restart.node]
        agent, records = self._waiting.pop(restart)[2:]
        path, snapshot = self.folder / f"{restart.node}.copied.{restart.at_ns}", ""
        if restart.copy_from and self._snapshot(restart.copy_from, path, counted=True):
            snapshot = self._site.put(restart.node, path)
        self._start_servers([restart.node])
        agent.post("listen", port=place.port)
        agent.post("connect", **self._introduction(restart.node))
        agent.post("go", **self._clock_of(restart.node), snapshot=snapshot, again=True)
        if waits:
            agent.settle()
        else:
            self._coming[restart.node] = agent
        place.agent = agent
        place.records.append(records)

    @property
    def coming(self) -> dict[str, str]:
        """The nodes that were restarted without waiting for them, until ``begun_ns`` has, and their processes."""
        return {name: agent.name for name, agent in self._coming.items()}

    def begun_ns(self, name: str) -> int:
        """When one of ``coming`` began, by the run's time; waits until it has.

        AgentGone where it was crashed before that; any other MachineError: it does not come up, and is down.
        """
        agent = self._coming.pop(name)
        came = self._came.pop(name, None)
        if came is None:
            came = _begun(agent)
            if isinstance(came, MachineError) and not isinstance(came, AgentGone):
                self._end(name)
        if isinstance(came, MachineError):
            raise came
        return came

    def skew(self, name: str, offset_ns: int) -> None:
        """Set the node's clock; one that is down wakes up with it."""
        self._offsets_ns = {**self._offsets_ns, name: offset_ns}
        agent = self._places[name].agent
        if agent is not None:
            agent.ask("skew", offset_ns=offset_ns)

    def address_of(self, name: str) -> tuple[str, int]:
        """Where a node listens."""
        return self._site.address(name), self._places[name].port

    @property
    def processes(self) -> tuple[str, ...]:
        """The names of the nodes' processes, those that wait for a restart, too."""
        return tuple(self._processes)

    def check(self) -> None:
        """Raise what ended a node that should run: its fault, or MachineError."""
        for name, agent in self._running():
            if not agent.alive:
                raise self.records(name).fault or MachineError(
                    f"the process of node {name} has ended (code {agent.exit_code})", f"see {agent.log}"
                )

    def lost_servers(self) -> tuple[str, ...]:
        """The processes of servers that have ended, by now or before a crash of their node, which took none along."""
        wanted = [pair for server in self._servers for pair in server.processes if pair[0] not in self._without_servers]
        self._lost_servers |= {process.name for _, process in wanted if not process.alive}
        return tuple(sorted(self._lost_servers))

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Whoever fails inside because a node has ended, that node's end is what is raised."""
        try:
            yield
        except MachineError:
            sleep(_REAP_S)
            self.check()
            raise

    def statuses(self, command: str = "status") -> dict[str, Json]:
        """What each node that runs says of itself; HarnessError where one has ended."""
        with self.blamed():
            for _, agent in self._running():
                agent.post(command)
            return {name: agent.answer() for name, agent in self._running()}

    def states(self) -> dict[str, object]:
        """The snapshot of each node that runs and gives one."""
        codec = Codec((Request, *self._system.messages))
        states = {}
        for name in self.names:
            path = self.folder / f"{name}.state"
            if self._snapshot(name, path, counted=False):
                states[name] = codec.decode(path.read_bytes())
        return states

    def records(self, name: str) -> NodeRecords:
        """The rows of all the node's processes; MachineError where those of one that runs cannot be brought home."""
        place = self._places[name]
        runs = place.agent is not None and place.agent.alive  # else its host may be lost, which is told elsewhere
        for path in place.records:
            if not path.exists():
                with nullcontext() if runs else suppress(MachineError):
                    self._site.fetch(name, path)
        return read_records(place.records)

    def samples(self) -> list[Sample]:
        """What all nodes have told, one node after the other."""
        return [
            (at_ns, name, metric, value) for name in self.names for at_ns, metric, value in self.records(name).samples
        ]

    def lives_count(self, name: str) -> int:
        """How many processes the node has had."""
        return len(self._places[name].records)

    def stop(self) -> None:
        """End all processes; what goes wrong is told only, where an error in flight is the reason."""
        with told_beside(sys.exception()), ExitStack() as ends:  # all of them, whatever goes wrong with one
            for server in self._servers:
                ends.callback(server.stop)
            for name in self._processes:
                ends.callback(self._site.forget, name)
            self._processes = []
            for place in self._places.values():
                place.agent = None

    def _end(self, name: str) -> None:
        place = self._places[name]
        assert place.agent is not None
        place.agent.process.kill()
        if name in self._coming:
            self._came[name] = _begun(place.agent)  # before its output is closed
        self._processes.remove(place.agent.name)
        self._site.forget(place.agent.name)
        place.agent = None

    def _begin(self, name: str, number: int) -> _Life:
        program = Program(f"node-{name}.{number}" if number else f"node-{name}", [*_COMMAND, self._site.address(name)])
        agent = self._site.start(self._site.topology.host_of(name), program)
        self._processes.append(agent.name)
        records = self.folder / f"{name}.{number}.jsonl"
        records.unlink(missing_ok=True)  # of an earlier fleet on this site
        return _Life(name, number, agent, records)

    def _start_servers(self, nodes: Sequence[str]) -> None:
        there = [server for server in self._servers if not {node for node, _ in server.processes}.isdisjoint(nodes)]
        for server in there:
            server.start(nodes)
        for server in there:
            server.wait()
        self._without_servers.difference_update(nodes)

    def _running(self) -> list[tuple[str, Agent]]:
        return [(name, place.agent) for name, place in self._places.items() if place.agent is not None]

    def _clock_of(self, name: str) -> Json:
        """The epoch by the clock of a node's host, and how far the node's own is ahead."""
        return {
            "epoch_ns": self._epoch_ns + self._site.clock_offset_ns(name),
            "offset_ns": self._offsets_ns.get(name, 0),
        }

    def _introduction(self, name: str) -> Json:
        addresses = {name: list(self.address_of(name)) for name in self.names}
        around = msgspec.structs.replace(
            self.surroundings,
            node=name,
            servers={server.name: server.reached_from(name) for server in self._servers},
            script=self._site.put(name, self.script) if self.script else "",
        )
        return {"token": self.token, "addresses": addresses, "around": msgspec.to_builtins(around)}

    def _snapshot(self, name: str, path: Path, counted: bool) -> bool:
        """Bring a node's state home, if it runs and gives it; ``counted`` as sent by the node."""
        agent = self._places[name].agent
        if agent is None or name in self._coming:
            return False
        if not agent.ask("snapshot", path=self._site.place(name, path), counted=counted)["known"]:
            return False
        self._site.fetch(name, path)
        return True


def _begun(agent: Agent) -> int | MachineError:
    """When a node began, or why it does not."""
    try:
        return int(agent.settle()["begun_ns"])
    except MachineError as error:
        return error
