"""A topology as a network of Mininet: namespaces, links and bridges.  Delays are somebody else's: see ``site.py``.

Where machines hang on switches that form a tree, each switch is a LinuxBridge and each link a pair of interfaces, so
that flows share the rate of a link.  Any other topology (full meshes, hosts that forward, cities all joined to
each other) has one bridge, for bridges know no shortest paths: delay, loss and rate are then of whole paths.

Bridges live in namespaces, as hosts do: there is nothing in the root one that could be left behind.  A namespace ends
with the last process and socket in it; Mininet's shells end when the harness does, with their terminals.
"""

import importlib
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Protocol

from core.errors import MachineError
from testbed.hosts.capabilities import CAPABILITIES, require
from testbed.hosts.mininet.namespaces import entering, run_in
from testbed.topologies.topology import SWITCH, Topology

NEEDED = ("root", "namespaces", "mininet", "mnexec", "brctl", "ip")
DEBIAN = "/usr/lib/python3/dist-packages"  # where Debian's package is, which other Pythons do not see
FABRIC = ""  # the one bridge of a topology whose switches are no tree
FORWARDING_TIMEOUT_S = 10.0
FORWARDING = "3"  # the state of a bridge's port
# An interface that a namespace gets from now on has no address for IPv6 and says nothing by itself; ::1 stays.
NO_IPV6 = "! test -d /proc/sys/net/ipv6 || echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6"


class MininetNode(Protocol):
    """A host or switch of Mininet's; ``pid``: its shell, in its namespace."""

    name: str
    pid: int

    def IP(self) -> str:
        """IPv4, of its only interface."""

    def MAC(self) -> str:
        """The hardware address of that."""

    def defaultIntf(self) -> object:
        """That interface; as text its name."""


def load_mininet() -> ModuleType:
    """The package ``mininet`` with its parts; MachineError where it or its tools are missing."""
    require(*NEEDED)
    debian = PathFinder.find_spec("mininet", [DEBIAN])
    if importlib.util.find_spec("mininet") is None and debian and debian.loader:
        sys.modules["mininet"] = importlib.util.module_from_spec(debian)
        debian.loader.exec_module(sys.modules["mininet"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it uses distutils
            for part in ("log", "net", "nodelib"):
                importlib.import_module(f"mininet.{part}")
    except ImportError as error:
        raise MachineError(f"Mininet does not load: {error}", CAPABILITIES["mininet"].fix) from None
    mininet = sys.modules["mininet"]
    mininet.log.setLogLevel("error")
    mininet.net.Mininet.inited = True  # or it would change limits and sysctls of the whole machine
    return mininet


def is_tree(topology: Topology) -> bool:
    """Whether machines hang on switches by one link each, and the links have no circle."""
    switches = {host.name for host in topology.hosts if host.role == SWITCH}
    ends = [name for link in topology.links for name in (link.a, link.b)]
    leaves = all(ends.count(host.name) == 1 for host in topology.machines)
    joined = all({link.a, link.b} & switches for link in topology.links)
    return leaves and joined and len(topology.links) == len(topology.hosts) - 1


class MininetNetwork:
    """The namespaces of a topology, up and joined.  ``environment`` marks the shells as the run's.

    ``holders``: machines whose namespaces are there already, as those of containers: host -> a process in it.
    """

    def __init__(
        self, topology: Topology, environment: Mapping[str, str], holders: Mapping[str, int] = MappingProxyType({})
    ):
        mininet = load_mininet()
        host, bridge = (_marked(kind, environment) for kind in (mininet.node.Host, mininet.nodelib.LinuxBridge))
        self.is_tree = is_tree(topology)
        self.net = mininet.net.Mininet(controller=None, host=host, switch=bridge, build=False)
        self.nodes: dict[str, MininetNode] = {}
        self._ports: dict[frozenset[str], dict[str, str]] = {}  # by link: end -> interface
        try:
            self._add_nodes(topology, holders)
            self._add_links(topology)
            self.net.build()
            self.net.start()
            self._fix_neighbours(topology)
            self._await_forwarding()
        except BaseException:
            self.close()
            raise

    def pid(self, host: str) -> int:
        """A process in the namespace of a machine or switch."""
        return self.nodes[host].pid

    def address(self, host: str) -> str:
        """IPv4, of the host's only interface."""
        return self.nodes[host].IP()

    def device(self, host: str) -> str:
        """The name of the host's only interface."""
        return str(self.nodes[host].defaultIntf())

    def ports(self, a: str, b: str) -> tuple[str, str]:
        """The interfaces at both ends of a link that is a pair of interfaces."""
        ends = self._ports[frozenset((a, b))]
        return ends[a], ends[b]

    def move(self, host: str, before: str, point: str) -> None:
        """Take the far end of a host's link from one bridge to another; the host keeps its interface and address.

        The kernel may take a second before the new port forwards; this returns when it does.
        """
        port = self._ports.pop(frozenset((host, before)))
        far, target = port[before], self.nodes[point]
        name = f"{target.name}-from{self.nodes[host].name}"
        run_in(self.pid(before), "ip", "link", "set", far, "nomaster")
        run_in(self.pid(before), "ip", "link", "set", far, "netns", str(target.pid), "name", name)
        run_in(target.pid, "ip", "link", "set", name, "master", target.name, "up")
        for switch in self.net.switches:  # what bridges have learned is wrong now, all the way
            run_in(switch.pid, "ip", "link", "set", switch.name, "type", "bridge", "fdb_flush")
        self._ports[frozenset((host, point))] = {host: port[host], point: name}
        self._await_forwarding()

    def close(self) -> None:
        """End the shells; namespaces, links and bridges go with them."""
        for node in [*self.net.switches, *self.net.hosts]:
            for known in (node.inToNode, node.outToNode):  # Mininet's own, for ever
                known.pop(node.stdin.fileno(), None)
            node.terminate()
        self.net.switches.clear()
        self.net.hosts.clear()

    def _await_forwarding(self) -> None:
        """A bridge takes a port into use when the kernel tells it of the carrier, which may be a second later."""
        until_s = time.monotonic() + FORWARDING_TIMEOUT_S
        for switch in self.net.switches:
            place = Path(f"/proc/{switch.pid}/root/sys/class/net/{switch.name}/brif")
            while any((port / "state").read_text().strip() != FORWARDING for port in place.iterdir()):
                if time.monotonic() > until_s:
                    raise MachineError(f"a port of bridge {switch.name} does not forward", "see ip -d link")
                time.sleep(0.01)

    def _add_nodes(self, topology: Topology, holders: Mapping[str, int]) -> None:
        """Whose interfaces, when they get some, will speak IPv4 alone: links carry what is measured."""
        switches = [host.name for host in topology.hosts if host.role == SWITCH] if self.is_tree else [FABRIC]
        for number, name in enumerate(switches, 1):
            self.nodes[name] = self.net.addSwitch(f"s{number}", inNamespace=True)
        for number, host in enumerate(topology.machines, 1):
            mac, holder = f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}", holders.get(host.name)
            self.nodes[host.name] = self.net.addHost(f"h{number}", mac=mac, inNamespace=holder is None, holder=holder)
        for node in self.nodes.values():
            run_in(node.pid, "sh", "-c", NO_IPV6)

    def _add_links(self, topology: Topology) -> None:
        pairs = [(link.a, link.b) for link in topology.links]
        if not self.is_tree:
            pairs = [(host.name, FABRIC) for host in topology.machines]
        for a, b in pairs:
            link = self.net.addLink(self.nodes[a], self.nodes[b])
            self._ports[frozenset((a, b))] = {a: link.intf1.name, b: link.intf2.name}

    def _fix_neighbours(self, topology: Topology) -> None:
        """No host asks for another's hardware address: links carry what is measured."""
        hosts = [self.nodes[host.name] for host in topology.machines]
        for node in hosts:
            lines = [
                f"neighbour replace {other.IP()} lladdr {other.MAC()} dev {node.defaultIntf()} nud permanent"
                for other in hosts
                if other is not node
            ]
            run_in(node.pid, "ip", "-batch", "-", text="\n".join(lines) + "\n")


def _marked(kind: Any, environment: Mapping[str, str]) -> type[MininetNode]:
    """A class of Mininet's nodes whose shells have ``environment``, too, and may live in another's network.

    ``holder``, a node's parameter, is a process in that network, as of a container.  Mininet's shell is there with this
    machine's files and process ids: whatever the container has in it, Mininet finds its tools, and can make a link
    between any two hosts by the ids of their shells.
    """

    class MarkedNode(kind):
        def _popen(self, cmd: list[str], **how: object) -> object:
            words = entering(holder) if (holder := self.params.get("holder")) else []
            return super()._popen([*words, *cmd], env={**os.environ, **environment}, **how)

    return MarkedNode
