"""Topologies are data: hosts and links.  Every testbed is made from the same ``Topology``.

Registry: ``TOPOLOGIES``, name -> "module:builder".  A builder is a function of plain options.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, product
from math import prod

from core.errors import SpecError
from core.limits import HostCount, MeshHostCount
from core.records import Options
from core.registry import configure, lookup
from core.units import duration_ns

TOPOLOGIES = {
    "srtm-lan": "testbed.topologies.topology:srtm_lan",
    "star": "testbed.topologies.topology:star",
    "full-mesh": "testbed.topologies.topology:full_mesh",
    "dumbbell": "testbed.topologies.topology:dumbbell",
    "tree": "testbed.topologies.topology:tree",
    "wan": "testbed.topologies.wan:wan",
    "city-mec": "testbed.topologies.mec:city_mec",
    "us-cities": "testbed.topologies.us_cities:us_cities",
    "matrix-sites": "testbed.topologies.matrix_sites:matrix_sites",
}

DELAY_MAXIMUM_NS = duration_ns("1h")  # of a link (ours): light needs eight minutes from the sun
SWITCH = "switch"  # the role of a host that only forwards: no node runs there


@dataclass(frozen=True)
class Host:
    """A machine, container or namespace.  ``nodes``: what runs on it, by default one node of its own name."""

    name: str
    cores: int = 1
    role: str = "host"
    nodes: tuple[str, ...] = ()

    @property
    def node_names(self) -> tuple[str, ...]:
        """The nodes on this host."""
        return () if self.role == SWITCH else self.nodes or (self.name,)


@dataclass(frozen=True)
class Link:
    """A two-way link; each direction has these properties.  ``jitter_ns``: uniform, plus or minus."""

    a: str
    b: str
    one_way_delay_ns: int = 0
    jitter_ns: int = 0
    loss_probability: float = 0.0
    rate_bps: int | None = None  # None: unlimited


@dataclass(frozen=True)
class Path:
    """The links from one host to another, in order; none on the same host."""

    links: tuple[Link, ...]

    @property
    def one_way_delay_ns(self) -> int:
        """Sum of the links' delays."""
        return sum(link.one_way_delay_ns for link in self.links)

    @property
    def jitter_ns(self) -> int:
        """The most that the delay may be off, either way."""
        return sum(link.jitter_ns for link in self.links)

    @property
    def loss_probability(self) -> float:
        """Probability that a packet does not come through."""
        return 1.0 - prod(1.0 - link.loss_probability for link in self.links)


@dataclass(frozen=True)
class Topology:
    """Hosts and links, checked: SpecError names what is wrong.

    ``direct``: paths have the fewest links rather than the least delay, so that none takes a detour over a third place
    that happens to be faster: the Internet does not route by delay, and measured tables are full of such places.
    ``notes``: what was mended of the table that it was made of, a sentence each, for whoever shows its results.
    """

    name: str
    hosts: tuple[Host, ...]
    links: tuple[Link, ...]
    direct: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._check_hosts()
        known = {host.name for host in self.hosts}
        for link in self.links:
            self._check_link(link, known)
        pairs = [frozenset((link.a, link.b)) for link in self.links]
        _no_twice(self.name, "link", ["-".join(sorted(pair)) for pair in pairs])
        lonely = {host.name for host in self.hosts} - set(self._paths_from(self.hosts[0].name))
        if lonely:
            self._wrong(f"no path from {self.hosts[0].name} to {', '.join(sorted(lonely))}", "add links")

    def node_names(self, role: str | None = None) -> list[str]:
        """All nodes, or those on hosts of one role, in the order of the hosts."""
        return [name for host in self.hosts if role in (None, host.role) for name in host.node_names]

    @property
    def machines(self) -> tuple[Host, ...]:
        """The hosts that are not switches."""
        return tuple(host for host in self.hosts if host.role != SWITCH)

    def host_of(self, node: str) -> str:
        """The name of the host on which ``node`` runs; a host's own name is taken as well."""
        if node not in self._host_of:
            raise SpecError(f"topology {self.name} has no node {node!r}", f"nodes: {', '.join(self.node_names())}")
        return self._host_of[node]

    def path(self, source: str, target: str) -> Path:
        """The path of least delay between two nodes or hosts (then of fewest links, then the first declared).

        Where the topology is ``direct``, of fewest links (then of least delay, then the first declared).
        """
        return self._paths_from(self.host_of(source))[self.host_of(target)]

    @cached_property
    def _host_of(self) -> dict[str, str]:
        own = {host.name: host.name for host in self.hosts}
        return own | {node: host.name for host in self.hosts for node in host.node_names}

    def _paths_from(self, source: str) -> dict[str, Path]:
        if source not in self._paths:
            self._paths[source] = _shortest_paths(self.links, source, self.direct)
        return self._paths[source]

    @cached_property
    def _paths(self) -> dict[str, dict[str, Path]]:
        return _paths_along(self.links, self.direct)

    def _check_hosts(self) -> None:
        if not self.hosts:
            self._wrong("no hosts", "add one")
        _no_twice(self.name, "host", [host.name for host in self.hosts])
        _no_twice(self.name, "node", self.node_names())
        carriers = {node: host.name for host in self.hosts for node in host.nodes}
        for host in self.hosts:
            if host.cores < 1:
                self._wrong(f"host {host.name} has {host.cores} cores", "give at least 1")
            if host.role == SWITCH and host.nodes:
                self._wrong(f"switch {host.name} has nodes", "put them on a host")
            if carriers.get(host.name, host.name) != host.name:
                self._wrong(f"{host.name!r} is a host and a node on {carriers[host.name]}", "rename one")

    def _check_link(self, link: Link, known: Set[str]) -> None:
        label = f"link {link.a}-{link.b}"
        if link.a == link.b or not {link.a, link.b} <= known:
            self._wrong(f"{label} does not join two hosts", f"hosts: {', '.join(sorted(known))}")
        if link.one_way_delay_ns < 0 or not 0 <= link.jitter_ns <= link.one_way_delay_ns:
            self._wrong(
                f"{label}: delay {link.one_way_delay_ns} ns, jitter {link.jitter_ns} ns", "0 <= jitter <= delay"
            )
        if link.one_way_delay_ns > DELAY_MAXIMUM_NS:
            self._wrong(f"{label}: delay {link.one_way_delay_ns} ns", "give at most an hour")
        if not 0.0 <= link.loss_probability <= 1.0:
            self._wrong(f"{label}: loss_probability {link.loss_probability}", "give a value from 0 to 1")
        if link.rate_bps is not None and link.rate_bps <= 0:
            self._wrong(f"{label}: rate_bps {link.rate_bps}", "give a positive rate, or none")

    def _wrong(self, what: str, fix: str) -> None:
        raise SpecError(f"topology {self.name}: {what}", fix)


def _no_twice(topology: str, kind: str, names: list[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise SpecError(f"topology {topology}: {kind} {', '.join(twice)} is there twice", "give each a name of its own")


@lru_cache(maxsize=16)
def _paths_along(links: tuple[Link, ...], direct: bool) -> dict[str, dict[str, Path]]:
    """Source -> target -> path, filled as they are asked for: the runs of a process mostly have one topology."""
    return {}


def _shortest_paths(links: tuple[Link, ...], source: str, direct: bool) -> dict[str, Path]:
    """Dijkstra's algorithm by (delay, number of links, order of declaration); ``direct``: by number of links first."""
    neighbours: dict[str, list[tuple[str, Link]]] = {}
    for link in links:
        neighbours.setdefault(link.a, []).append((link.b, link))
        neighbours.setdefault(link.b, []).append((link.a, link))
    paths: dict[str, Path] = {}
    best: dict[str, tuple[int, int]] = {}
    serial = 0
    heap: list[tuple[int, int, int, str, tuple[Link, ...]]] = [(0, 0, serial, source, ())]
    while heap:
        first, second, _, here, taken = heapq.heappop(heap)
        if here in paths:
            continue
        paths[here] = Path(taken)
        for there, link in neighbours.get(here, ()):
            serial += 1
            more = (1, link.one_way_delay_ns) if direct else (link.one_way_delay_ns, 1)
            cost = first + more[0], second + more[1]
            if there not in best or cost < best[there]:  # an equal one was declared earlier
                best[there] = cost
                heapq.heappush(heap, (*cost, serial, there, (*taken, link)))
    return paths


def load_topology(name: str, options: Options | None = None) -> Topology:
    """The topology ``"star"``, or of ``"path.py:TOPOLOGY"``, a builder, built with ``options``.

    SpecError on unknown names and options, and for an object that builds none.
    """
    builder = lookup("topology", TOPOLOGIES, name)
    if not callable(builder):
        raise SpecError(f"{name} is a {type(builder).__name__}", "it must be a function of options, to a Topology")
    topology = configure(f"topology {name}", builder, options or {})
    if not isinstance(topology, Topology):
        raise SpecError(f"{name} builds a {type(topology).__name__}", "it must build a Topology")
    return topology


def at_least(topology: str, option: str, count: int, least: int) -> None:
    """SpecError naming ``option`` where ``count`` is too small."""
    if count < least:
        raise SpecError(f"topology {topology}: {option} = {count}", f"give at least {least}")


def one_way(topology: str, option: str, text: str) -> int:
    """Nanoseconds of a topology's option; SpecError naming it."""
    try:
        return duration_ns(text)
    except ValueError as error:
        raise SpecError(f"topology {topology}: {option}: {error}", "") from None


def srtm_lan(brokers: HostCount = 6, delay: str = "10us") -> Topology:
    """The testbed of SRTM VI: 7 hosts of 2 x 8 cores on 40 Gb/s Ethernet.

    Two hosts for publishers, two for subscribers, two that carry the brokers (2 cores each), one for
    Load Distributor and TB Adaptor.  ``delay``: one way, host to switch (ours).
    """
    at_least("srtm-lan", "brokers", brokers, 1)
    names = [f"broker{i}" for i in range(1, brokers + 1)]
    half = (brokers + 1) // 2
    hosts = [Host(f"{role}s{i}", 16, role) for role in ("publisher", "subscriber") for i in (1, 2)]
    carried = [part for part in (names[:half], names[half:]) if part]
    hosts += [Host(f"brokers{i}", max(16, 2 * len(part)), "broker", tuple(part)) for i, part in enumerate(carried, 1)]
    hosts.append(Host("control", 16, "control", ("distributor", "adaptor")))
    links = [Link(host.name, "lan", one_way("srtm-lan", "delay", delay), rate_bps=40 * 10**9) for host in hosts]
    return Topology("srtm-lan", (*hosts, *_switches(["lan"])), tuple(links))


def star(
    nodes: HostCount = 4, delay: str = "5ms", jitter: str = "0ms", loss_probability: float = 0.0, cores: int = 1
) -> Topology:
    """A node ``hub`` linked to ``n1`` ... ``nN``; delay one way, hub to leaf."""
    leaves = _numbered("star", nodes, 1)
    links = _links("star", product(["hub"], leaves), delay, jitter, loss_probability)
    return Topology("star", (Host("hub", cores, "hub"), *_nodes(leaves, cores)), links)


def full_mesh(
    nodes: MeshHostCount = 4, delay: str = "5ms", jitter: str = "0ms", loss_probability: float = 0.0, cores: int = 1
) -> Topology:
    """Nodes ``n1`` ... ``nN``, each linked to every other; delay one way."""
    names = _numbered("full-mesh", nodes, 1)
    links = _links("full-mesh", combinations(names, 2), delay, jitter, loss_probability)
    return Topology("full-mesh", _nodes(names, cores), links)


def dumbbell(
    nodes: HostCount = 4,
    delay: str = "20ms",
    access_delay: str = "1ms",
    jitter: str = "0ms",
    loss_probability: float = 0.0,
    rate_mbps: float = 0.0,
    cores: int = 1,
) -> Topology:
    """Nodes ``n1`` ... ``nN``, the first half (rounded up) behind switch ``left``, the others behind ``right``.

    ``delay``, ``jitter``, ``loss_probability`` and ``rate_mbps`` (0: unlimited) are of the link between the switches.
    """
    names = _numbered("dumbbell", nodes, 2)
    half, access_ns = (nodes + 1) // 2, one_way("dumbbell", "access_delay", access_delay)
    access = [Link(name, "left" if i < half else "right", access_ns) for i, name in enumerate(names)]
    between = _links("dumbbell", [("left", "right")], delay, jitter, loss_probability, rate_mbps)
    return Topology("dumbbell", (*_nodes(names, cores), *_switches(["left", "right"])), (*access, *between))


def tree(
    depth: HostCount = 2,
    fanout: HostCount = 2,
    delay: str = "5ms",
    jitter: str = "0ms",
    loss_probability: float = 0.0,
    rate_mbps: float = 0.0,
    cores: int = 1,
) -> Topology:
    """Switches ``s1`` (the root), ``s2`` ... in ``depth`` levels, each with ``fanout`` below it; nodes are the leaves.

    All links are alike; ``rate_mbps`` 0: unlimited.
    """
    if depth < 1 or fanout < 1 or fanout**depth > 1000:
        raise SpecError(f"topology tree: depth = {depth}, fanout = {fanout}", "give 1 or more, and at most 1000 leaves")
    switches, level = ["s1"], ["s1"]
    joints: list[tuple[str, str]] = []
    for _ in range(depth - 1):
        below = [f"s{len(switches) + i + 1}" for i in range(len(level) * fanout)]
        joints += [(level[i // fanout], name) for i, name in enumerate(below)]
        switches, level = switches + below, below
    leaves = _numbered("tree", len(level) * fanout, 1)
    joints += [(level[i // fanout], name) for i, name in enumerate(leaves)]
    links = _links("tree", joints, delay, jitter, loss_probability, rate_mbps)
    return Topology("tree", (*_nodes(leaves, cores), *_switches(switches)), links)


def mesh(
    name: str, names: list[str], delay_ns: int, jitter_ns: int = 0, loss_probability: float = 0.0, cores: int = 1
) -> Topology:
    """A full mesh over hosts of the given names."""
    links = tuple(Link(a, b, delay_ns, jitter_ns, loss_probability) for a, b in combinations(names, 2))
    return Topology(name, _nodes(names, cores), links)


def _numbered(topology: str, count: int, least: int) -> list[str]:
    at_least(topology, "nodes", count, least)
    return [f"n{i}" for i in range(1, count + 1)]


def _nodes(names: Iterable[str], cores: int) -> tuple[Host, ...]:
    return tuple(Host(name, cores, "node") for name in names)


def _switches(names: Iterable[str]) -> tuple[Host, ...]:
    return tuple(Host(name, role=SWITCH) for name in names)


def _links(
    topology: str,
    ends: Iterable[tuple[str, str]],
    delay: str,
    jitter: str,
    loss_probability: float,
    rate_mbps: float = 0.0,
) -> tuple[Link, ...]:
    if not 0 <= rate_mbps < float("inf"):
        raise SpecError(f"topology {topology}: rate_mbps = {rate_mbps}", "give a positive rate, or 0 for none")
    delay_ns, jitter_ns = one_way(topology, "delay", delay), one_way(topology, "jitter", jitter)
    rate_bps = round(rate_mbps * 10**6) or None
    return tuple(Link(a, b, delay_ns, jitter_ns, loss_probability, rate_bps) for a, b in ends)
