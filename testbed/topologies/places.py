"""Sites: the places where clients reach the network, each a switch with a broker or none and a coordinate proxy.

A topology of the placement family has hosts of these roles, each on one link to a switch: ``broker`` (nodes ``brokerN``
and its coordinate agent ``brokerN-agent``), ``proxy`` (``proxyN``, the agent of the Nth site's gateway), ``manager``
(``managerN`` and ``managerN-agent``: where load managers may be elected) and ``store`` (the coordination store).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from systems.placement.cast import AGENT
from testbed.topologies.topology import SWITCH, Host, Link, Topology

STORE = Host("store", role="store")


def actor(role: str, number: int) -> Host:
    """A broker, a manager or a proxy; the first two have a coordinate agent beside them, a proxy is one."""
    name = f"{role}{number}"
    return Host(name, role=role, nodes=() if role == "proxy" else (name, name + AGENT))


def joined(
    topology: str,
    placed: Sequence[tuple[Host, str]],
    switches: Iterable[str],
    between: Iterable[Link],
    access_ns: int = 0,
    direct: bool = False,
    notes: tuple[str, ...] = (),
) -> Topology:
    """Hosts, each ``access_ns`` from its switch, and the links between switches."""
    hosts = (*(host for host, _ in placed), *(Host(name, role=SWITCH) for name in switches))
    links = (*(Link(host.name, switch, access_ns) for host, switch in placed), *between)
    return Topology(topology, hosts, links, direct, notes)


@dataclass(frozen=True)
class EdgeSite:
    """Where clients are: ``name`` is the switch's, ``proxy`` the node that knows the place's coordinate."""

    name: str
    proxy: str


def sites(topology: Topology) -> list[EdgeSite]:
    """The sites of ``topology``, in the order of their proxies."""
    ends: defaultdict[str, list[str]] = defaultdict(list)
    for link in topology.links:
        ends[link.a].append(link.b)
        ends[link.b].append(link.a)
    proxies = topology.node_names("proxy")
    assert all(len(ends[name]) == 1 for name in proxies), "a proxy has one link, to its site's switch"
    return [EdgeSite(ends[name][0], name) for name in proxies]


def with_clients(topology: Topology, homes: Mapping[str, int], access_ns: int) -> Topology:
    """``topology`` with a host of role ``client`` for each of ``homes``, ``access_ns`` (one way) from its site."""
    places = sites(topology)
    hosts = tuple(Host(client, role="client") for client in homes)
    links = tuple(Link(client, places[home].name, access_ns) for client, home in homes.items())
    return replace(topology, hosts=(*topology.hosts, *hosts), links=(*topology.links, *links))
