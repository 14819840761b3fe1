"""A small cluster of Pulsar on the hosts of a site: ZooKeeper, bookies, brokers, each a process of Java.

It takes half a minute to start, so points of a campaign that want the same one have it one after another: each run
makes tenants of its own, and leaves nothing loaded.  All that it writes is in the site's folder.
"""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType
from typing import NamedTuple, Self

from core.errors import MachineError, SpecError
from testbed.api import Testbed
from testbed.hosts.capabilities import Capability, find_capability, require
from testbed.hosts.site import Site
from testbed.nodes.planes import ServerAt
from testbed.servers.pulsar import settings
from testbed.servers.pulsar.admin import Admin, Topic
from testbed.servers.pulsar.build import CLIENT, FIX, HOME, VERSION, find_pulsar
from testbed.servers.server import (
    Placing,
    Server,
    ServerGroup,
    ServerProcess,
    ask_over,
    listening_address,
    port_on,
    program_of,
    write_secretly,
)

START_S = 240.0  # of all; a minute on two idle cores
PROBE = Topic("public", "default", "probe")  # whom a broker is asked for, to show that it finds owners
_LOOK_AGAIN_S = 0.2


class PulsarProcess:
    """One process of the cluster: where it is, and what it is told, written anew at each start."""

    def __init__(self, site: Site, node: str, name: str, words: Callable[["PulsarProcess"], list[str]]):
        self.site, self.node, self.address = site, node, site.address(node)
        self.process = ServerProcess(site, node, name, lambda: words(self))
        self._file = site.folder / name / "settings"

    @property
    def folder(self) -> str:
        """Its own, as its host calls it."""
        return str(Path(self.site.place(self.node, self._file)).parent)

    @property
    def scratch(self) -> str:
        """A folder for native libraries that it unpacks, else left in /tmp."""
        return str(Path(self.site.place(self.node, self._file.parent / "scratch" / "any")).parent)

    @property
    def hosts_file(self) -> str:
        """The names that it knows."""
        site, file = self.site, self._file.with_name("hosts")
        addresses = [site.address(node) for node in site.topology.node_names()]
        write_secretly(site, self.node, file, settings.hosts_text(addresses, [socket.gethostname()]))
        return site.place(self.node, file)

    @property
    def logging_file(self) -> str:
        """What it logs."""
        file = self._file.with_name("log4j2.properties")
        write_secretly(self.site, self.node, file, settings.properties_text(settings.LOGGING))
        return self.site.place(self.node, file)

    def written(self, values: dict[str, object]) -> str:
        """Bring its settings to its host; returns what that calls the file."""
        write_secretly(self.site, self.node, self._file, settings.properties_text(values))
        return f"{self.folder}/{self._file.name}"


class PulsarCluster(ServerGroup):
    """A broker beside each of ``nodes``, ZooKeeper beside ``main``, a bookie beside each of ``bookies``.

    ``broker_options``: settings of brokers, beside ours.  ``grouped``: each bookie is a group, which is called as its
    node (``Admin.keep_on``), and there is one replica.  A context manager that starts all of it.  MachineError where
    this machine has no Pulsar.
    """

    name = "pulsar"

    def __init__(
        self,
        site: Site,
        nodes: Sequence[str],
        main: str,
        bookies: Sequence[str] = (),
        broker_options: Mapping[str, object] = MappingProxyType({}),
        grouped: bool = False,
    ):
        require("pulsar", "java")
        if not nodes:
            raise SpecError("a Pulsar cluster of no brokers", "name a node")
        self.site, self._secret = site, token_hex(16)
        self._broker_options, self.grouped = broker_options, grouped
        bookie_nodes = bookies or (main,)
        port = partial(_port, site)
        self._ports = {node: (port(node, settings.BROKER_PORT), port(node, settings.WEB_PORT)) for node in nodes}
        self._bookie_ports = {node: port(node, settings.BOOKIE_PORT) for node in bookie_nodes}
        self.store_port = port(main, settings.ZOOKEEPER_PORT)
        self._is_set_up = False
        replicas = 1 if grouped else min(2, len(bookie_nodes))
        self._ensemble = settings.Ensemble(f"{site.address(main)}:{self.store_port}", replicas)
        self._zookeeper = PulsarProcess(site, main, "pulsar-zookeeper", self._zookeeper_words)
        self._setup = PulsarProcess(site, main, "pulsar-setup", self._setup_words)
        self._bookies = [
            PulsarProcess(site, node, f"pulsar-bookie-{node}", self._bookie_words) for node in bookie_nodes
        ]
        self._brokers = {node: PulsarProcess(site, node, f"pulsar-broker-{node}", self._broker_words) for node in nodes}
        self.admin = Admin({self.id_of(node): partial(site.connect, node, self._ports[node][1]) for node in nodes})

    def __enter__(self) -> Self:
        try:
            self.start([node for node, _ in self.processes])
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def processes(self) -> list[tuple[str, ServerProcess]]:
        """See ``ServerGroup``: in the order in which they are started."""
        parts = [self._zookeeper, *self._bookies, *self._brokers.values()]
        return [(part.node, part.process) for part in parts]

    @property
    def brokers(self) -> list[str]:
        """The ids of all brokers, in the order of their nodes."""
        return [self.id_of(node) for node in self._brokers]

    @property
    def service(self) -> str:
        """What clients are told: all brokers."""
        return "pulsar://" + ",".join(f"{self.site.address(node)}:{ports[0]}" for node, ports in self._ports.items())

    @property
    def store(self) -> ServerAt:
        """Its ZooKeeper.  Pulsar's entries are anybody's there; what we make there beside them has a secret."""
        return ServerAt(self.site.address(self._zookeeper.node), self.store_port, self._secret)

    def id_of(self, node: str) -> str:
        """What Pulsar calls the broker beside a node."""
        return f"{self.site.address(node)}:{self._ports[node][1]}"

    def node_of(self, broker: str) -> str:
        """The node beside the broker of that id."""
        return next(node for node in self._brokers if self.id_of(node) == broker)

    def start(self, nodes: Sequence[str]) -> None:
        """See ``ServerGroup``.  ZooKeeper first; a cluster that has never been is set up; then all others at once."""
        if self._zookeeper.node in nodes and not self._zookeeper.process.alive:
            self._zookeeper.process.start()
            self._zookeeper.process.wait_for(self._zookeeper_answers, START_S)
            if not self._is_set_up:
                self._set_up()
        for part in [*self._bookies, *self._brokers.values()]:
            if part.node in nodes and not part.process.alive:
                part.process.start()

    def _set_up(self) -> None:
        """The entries of a new cluster, by Pulsar's own tool."""
        process, until_s = self._setup.process, time.monotonic() + START_S
        process.start()
        while process.alive and time.monotonic() < until_s:
            time.sleep(_LOOK_AGAIN_S)
        code = process.exit_code
        process.stop()
        if code != 0:
            raise MachineError(f"Pulsar's metadata could not be set up (code {code})", process.see_log)
        self._is_set_up = True

    def wait(self) -> None:
        """See ``ServerGroup``: until each bookie listens, and each living broker finds an owner.

        A broker calls itself ready before that, and without a bookie never finds one.
        """
        until_s = time.monotonic() + START_S
        for part in filter(_is_expected, self._bookies):
            part.process.wait_for(partial(self._listens, part.node), until_s - time.monotonic())
        for node, part in self._brokers.items():
            if _is_expected(part):
                part.process.wait_for(partial(self._finds_owners, self.id_of(node)), until_s - time.monotonic())
        if self.grouped:
            for node, port in self._bookie_ports.items():
                self.admin.group_bookie(f"{self.site.address(node)}:{port}", node)

    def log_of(self, node: str) -> str:
        """What the broker beside a node has printed."""
        path = self.site.folder / "logs" / f"{self._brokers[node].process.name}.log"
        return path.read_text(errors="replace")

    def pid_of(self, node: str) -> int:
        """The process of the broker beside a node; MachineError where it does not run."""
        return self._brokers[node].process.pid

    def has(self, node: str) -> bool:
        """Whether a broker is beside it."""
        return node in self._brokers

    def kill_broker(self, node: str) -> ServerProcess:
        """A crash of the broker beside a node, and of nothing else; ``start`` brings it back."""
        self._brokers[node].process.kill()
        return self._brokers[node].process

    def stop(self) -> None:
        """See ``ServerGroup``: brokers, then bookies, then ZooKeeper; each waits for those before."""
        for parts in ([*self._brokers.values()], self._bookies, [self._zookeeper]):
            for part in parts:
                part.process.terminate()
            for part in parts:
                part.process.stop()

    def reached_from(self, node: str) -> ServerAt:
        """See ``ServerGroup``: the broker beside it."""
        return ServerAt(self.site.address(node), self._ports[node][0])

    # --- what each is told -------------------------------------------------------------------------------

    def _java(self, part: PulsarProcess, memory: settings.Memory, main: str, *words: str) -> list[str]:
        java = settings.Java(program_of("java"), HOME, part.scratch, part.hosts_file, part.logging_file)
        return settings.java_words(java, memory, main, *words)

    def _zookeeper_words(self, part: PulsarProcess) -> list[str]:
        listening = listening_address(part.address)
        file = part.written(settings.zookeeper_settings(self.store_port, listening, part.folder))
        return self._java(part, settings.ZOOKEEPER, "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)

    def _setup_words(self, part: PulsarProcess) -> list[str]:
        node = next(iter(self._brokers))
        service, web = (f"{self.site.address(node)}:{port}" for port in self._ports[node])
        main = "org.apache.pulsar.PulsarClusterMetadataSetup"
        return self._java(part, settings.SETUP, main, *settings.setup_words(self._ensemble, web, service))

    def _bookie_words(self, part: PulsarProcess) -> list[str]:
        port = self._bookie_ports[part.node]
        file = part.written(settings.bookie_settings(self._ensemble, part.address, port, part.folder))
        return self._java(part, settings.BOOKIE, "org.apache.bookkeeper.server.Main", "--conf", file)

    def _broker_words(self, part: PulsarProcess) -> list[str]:
        listening, ports = listening_address(part.address), self._ports[part.node]
        told = settings.broker_settings(self._ensemble, part.address, listening, ports, self._broker_options)
        file = part.written(told)
        return self._java(part, settings.BROKER, "org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", file)

    def _listens(self, node: str) -> bool:
        """Whether the bookie there does."""
        self.site.connect(node, self._bookie_ports[node]).close()
        return True

    def _finds_owners(self, broker: str) -> bool:
        return bool(self.admin.owner_of(PROBE, broker))

    def _zookeeper_answers(self) -> bool:
        return b"imok" in ask_over(self.site, self._zookeeper.node, self.store_port, b"ruok", b"imok")


def _is_expected(part: PulsarProcess) -> bool:
    """Whether it runs, or has ended without being told to."""
    return part.process.alive or part.process.exit_code is not None


def _port(site: Site, node: str, usual: int) -> int:
    """The usual one, or the next where nodes share a host."""
    address = site.address(node)
    number = [name for name in site.topology.node_names() if site.address(name) == address].index(node)
    return port_on(address, usual + number)


class PulsarWanted(NamedTuple):
    """Which cluster a run wants on its site (``testbed.api.SiteServers``); see ``PulsarCluster``."""

    nodes: tuple[str, ...]
    main: str
    bookies: tuple[str, ...] = ()
    broker_options: Mapping[str, object] = MappingProxyType({})
    grouped: bool = False

    def on(self, site: Site) -> PulsarCluster:
        """See ``testbed.api.SiteServers``."""
        return PulsarCluster(site, *self)


def check_place(testbed: Testbed) -> None:
    """SpecError on a testbed to whose machines Pulsar is not brought; MachineError where this one has none."""
    require("pulsar", "java")
    if not testbed.has_our_files:
        raise SpecError(
            f"Apache Pulsar is not brought to the machines of {testbed.name}", "use mininet, docker, or local"
        )


def cluster_on(site: Site) -> PulsarCluster:
    """The one that a run has on its site."""
    assert isinstance(site.servers, PulsarCluster)
    return site.servers


class PulsarServer(Server):
    """A broker beside each node of a run, and what they need beside its main one."""

    name, programs, folders = "pulsar", ("java",), (CLIENT,)
    capability = Capability("Pulsar", lambda: find_capability("java") and find_pulsar(), FIX, "java")

    @property
    def versions(self) -> dict[str, str]:
        """See ``Server``: of the distribution that is pinned."""
        return {"pulsar": VERSION}

    def deploy(self, site: Site, placing: Placing) -> PulsarCluster:
        """See ``Server``."""
        return PulsarCluster(site, placing.nodes, placing.main)


SERVER = PulsarServer()
