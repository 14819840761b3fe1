"""The real servers of a live placement run: a ZooKeeper, a Serf agent for each coordinate agent, a broker process each.

They are started before the nodes, which stand beside them; with a node's crash its server is killed as well.
"""

from pathlib import Path

from studies.placement.script import read_script
from systems.api import Node
from systems.placement.cast import cast_of
from systems.placement.options import Options
from testbed.brokers.launcher import Brokers
from testbed.hosts.site import Site
from testbed.nodes.planes import Surroundings
from testbed.servers.serf import SerfCluster, profile_of
from testbed.servers.serf_agent import SerfAgent
from testbed.servers.zookeeper import ZooKeeperServer
from testbed.servers.zookeeper_store import ZooKeeperStore


def stand_in(node: Node, around: Surroundings) -> Node:
    """See ``systems.api.StandIn``: the store is a ZooKeeper's, and agents are Serf's."""
    script, name = read_script(Path(around.script)), around.node
    if name == script.store:
        return ZooKeeperStore(name, script.store_at, script.session_ns)
    if name in script.serf:
        return SerfAgent(name, script.serf[name])
    return node


class Servers:
    """All servers of a run, started; ``close`` ends those that the site does not."""

    def __init__(self, site: Site, options: Options):
        cast = cast_of(site.topology.node_names())
        self.store, self._broker_names = cast.stores[0], cast.brokers
        self.zookeeper = ZooKeeperServer(site, self.store)
        self.serf = SerfCluster(site, cast.agents, profile_of(options.span("probe")))
        self.brokers = Brokers(site, cast.brokers, commanded=True)
        self.zookeeper.start()
        self.serf.start()
        self._down, self._lost = set[str](), set[str]()

    def lost(self) -> tuple[str, ...]:
        """The processes that have ended by no fault, by now or before a fault came to their node."""
        living = {broker.name: (broker.agent.name, broker.alive) for broker in self.brokers}
        for node, server in {**self.serf.servers, self.store: self.zookeeper}.items():
            living[node] = server.process.name, server.process.alive
        self._lost |= {name for node, (name, is_alive) in living.items() if not is_alive and node not in self._down}
        return tuple(sorted(self._lost))

    def crash(self, node: str) -> None:
        """Kill the server beside a node, where there is one."""
        self.lost()
        self._down.add(node)
        if node in self._broker_names:
            self.brokers.kill(node)
        elif node == self.store:
            self.zookeeper.kill()
        elif node in self.serf.servers:
            self.serf.servers[node].kill()

    def restart(self, node: str) -> None:
        """Start it again."""
        self._down.discard(node)
        if node in self._broker_names:
            self.brokers.restart(node)
        elif node == self.store:
            self.zookeeper.start()
        elif node in self.serf.servers:
            self.serf.restart(node)

    def close(self) -> None:
        """End them."""
        self.brokers.close()
        self.serf.stop()
        self.zookeeper.stop()
