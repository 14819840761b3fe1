"""The real servers of a live placement run: a ZooKeeper, a Serf agent for each coordinate agent, a broker process each.

They are started before the nodes, which stand beside them; with a node's crash its server is killed as well.
"""

import secrets
from contextlib import suppress
from pathlib import Path

from core.errors import MachineError
from core.units import SECOND_NS
from studies.placement.script import BrokerAt, read_script
from systems.api import Node
from systems.placement.cast import cast_of
from systems.placement.options import Options
from testbed.brokers.brokerd.build import brokerd_path
from testbed.brokers.brokerd.client import BrokerClient
from testbed.hosts.site import Program, Site
from testbed.nodes.planes import Surroundings
from testbed.servers.serf import PROBE_EVERY_S, SerfCluster
from testbed.servers.serf_agent import SerfAgent
from testbed.servers.zookeeper import ZooKeeperServer
from testbed.servers.zookeeper_store import ZooKeeperStore

READY_S = 30.0
JOIN_S = 60.0
ANY_PORT = 0


def stand_in(node: Node, around: Surroundings) -> Node:
    """See ``systems.api.StandIn``: the store is a ZooKeeper's, and agents are Serf's."""
    script, name = read_script(Path(around.script)), around.node
    if name == script.store:
        return ZooKeeperStore(name, script.store_at, script.session_ns)
    if name in script.serf:
        return SerfAgent(name, script.serf[name])
    return node


def profile_of(options: Options) -> str:
    """The profile of Serf that probes as often as the options say; the default one where none does."""
    every_s = options.span("probe") / SECOND_NS
    return next((profile for profile, span_s in PROBE_EVERY_S.items() if span_s == every_s), "")


class Brokerd:
    """One broker process; when it is started again, it is empty and has the ports that it had."""

    def __init__(self, site: Site, name: str, token: str, folder: Path):
        self._site, self.name, self._token = site, name, token
        self._host, self._address = site.topology.host_of(name), site.address(name)
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._life, self._runs = 0, False
        self.at = BrokerAt(f"{self._address}:{ANY_PORT}", f"{self._address}:{ANY_PORT}", ANY_PORT)

    def start(self) -> None:
        """Start it; ``wait`` says where."""
        token_file = self._folder / f"{self.name}.token"
        token_file.touch(mode=0o600)
        token_file.write_text(self._token)
        self._life += 1
        files = self._folder / f"{self.name}.{self._life}"
        files.mkdir()
        words = [str(brokerd_path()), "-data", self.at.ingress, "-nsqd", self.at.nsqd,
                 "-control", f"127.0.0.1:{self.at.control_port}", "-path", str(files),
                 "-token-file", str(token_file)]  # fmt: skip
        self._agent = self._site.start(self._host, Program(f"broker-{self.name}", words))
        self._runs = True

    def wait(self) -> None:
        """Until it serves."""
        told = self._agent.ready(READY_S)
        self.at = BrokerAt(told["ingress"], told["nsqd"], int(told["control"].rpartition(":")[2]))

    def kill(self) -> None:
        """A crash: what it held is gone."""
        with suppress(ProcessLookupError):
            self._agent.process.kill()
        self.stop()

    def stop(self) -> None:
        """End it, if it runs."""
        if self._runs:
            self._runs = False
            self._site.forget(self._agent.name)

    def stats(self) -> dict[str, int]:
        """What it counts; nothing of one that is gone."""
        if not self._runs or not self._agent.alive:
            return {}
        with suppress(MachineError, OSError):
            client = BrokerClient(self._site.connect(self._host, self.at.control_port), self._token)
            try:
                return client.stats()
            finally:
                client.close()
        return {}


class Servers:
    """All servers of a run, started; ``close`` ends those that the site does not."""

    def __init__(self, site: Site, options: Options, folder: Path):
        cast = cast_of(site.topology.node_names())
        self.token, self.store = secrets.token_hex(16), cast.stores[0]
        self.brokers = {name: Brokerd(site, name, self.token, folder) for name in cast.brokers}
        self.zookeeper = ZooKeeperServer(site, self.store)
        self.serf = SerfCluster(site, cast.agents, profile_of(options))
        brokerd_path()  # built before anything runs
        for broker in self.brokers.values():
            broker.start()
        self.zookeeper.start()
        for broker in self.brokers.values():
            broker.wait()
        self.serf.start(JOIN_S)

    def crash(self, node: str) -> None:
        """Kill the server beside a node, where there is one."""
        if node in self.brokers:
            self.brokers[node].kill()
        elif node == self.store:
            self.zookeeper.kill()
        elif node in self.serf.servers:
            self.serf.servers[node].kill()

    def restart(self, node: str) -> None:
        """Start it again."""
        if node in self.brokers:
            self.brokers[node].start()
            self.brokers[node].wait()
        elif node == self.store:
            self.zookeeper.start()
        elif node in self.serf.servers:
            self.serf.restart(node)

    def close(self) -> None:
        """End them."""
        for broker in self.brokers.values():
            broker.stop()
        self.serf.stop()
        self.zookeeper.stop()
