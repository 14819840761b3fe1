"""What coordinate agents are asked for, on every testbed: who runs one, for how long, when their coordinates are read.

Times count from the instant at which the agents begin to probe: on live testbeds, when all have joined.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.errors import SpecError
from core.units import SECOND_NS
from systems.parts.coordinates import Coordinates
from testbed.evidence import NOTHING, Evidence
from testbed.topology import SWITCH, Link, Path, Topology

LAN_NS = SECOND_NS  # between two probes of a node: memberlist's profile lan (ePulsar, Section 5.3)
PROBE_TIMEOUT_NS = SECOND_NS // 2  # of the same profile: a slower answer moves no coordinate


@dataclass(frozen=True)
class Handover:
    """From now on the host's only link leads to another switch; its delay, jitter and loss are the link's own."""

    at_ns: int
    host: str
    to: str


@dataclass(frozen=True)
class Locating:
    """Agents on ``nodes`` make ``rounds`` probes each, ``interval_ns`` apart; they are read after those ``reads``."""

    nodes: tuple[str, ...]
    rounds: int
    reads: tuple[int, ...]  # ascending numbers of rounds, 0 to ``rounds``
    interval_ns: int = LAN_NS
    handovers: tuple[Handover, ...] = ()  # in order


@dataclass(frozen=True)
class Located:
    """The agents' own coordinates: read number k gave ``coordinates[k]`` at ``at_ns[k]``, a row a node."""

    nodes: tuple[str, ...]
    at_ns: tuple[int, ...]
    coordinates: tuple[Coordinates, ...]
    evidence: Evidence = NOTHING


class Trips(NamedTuple):
    """Paths between n nodes and back: arrays (n, n), with zeros between nodes of one host."""

    rtt_ns: NDArray[np.int64]  # both ways' delays
    jitter_ns: NDArray[np.int64]  # of one way, plus or minus
    loss_probability: NDArray[np.float64]  # of either way's packet, or of both


def check_locating(topology: Topology, locating: Locating) -> None:
    """SpecError for agents, instants or handovers that cannot be."""
    if len(locating.nodes) < 2:
        raise SpecError(f"{len(locating.nodes)} coordinate agents on topology {topology.name}", "give at least 2")
    if len(set(locating.nodes)) < len(locating.nodes):
        raise SpecError("a node has two coordinate agents", "name each node once")
    hosts = {topology.host_of(node) for node in locating.nodes}
    if locating.rounds < 1 or locating.interval_ns < 1:
        raise SpecError(f"coordinates: {locating.rounds} rounds of {locating.interval_ns} ns", "give 1 or more")
    if list(locating.reads) != sorted(set(locating.reads)) or not all(
        0 <= k <= locating.rounds for k in locating.reads
    ):
        raise SpecError(
            f"coordinates are read after rounds {locating.reads}", f"give rounds from 0 to {locating.rounds}"
        )
    if [move.at_ns for move in locating.handovers] != sorted(move.at_ns for move in locating.handovers):
        raise SpecError("handovers are not in order", "sort them by instant")
    switches = {host.name for host in topology.hosts if host.role == SWITCH}
    for move in locating.handovers:
        if move.host not in hosts or move.to not in switches or len(links_of(topology, move.host)) != 1:
            raise SpecError(f"{move} cannot happen", "hosts with one link and an agent hand over, to switches")


def trips(topology: Topology, nodes: Sequence[str], attached: Mapping[str, str] | None = None) -> Trips:
    """The trips between ``nodes``, where the hosts in ``attached`` hang on those switches instead of their own."""
    hosts = [topology.host_of(node) for node in nodes]
    roots = _roots(topology, attached or {})
    ends = sorted({roots[host][0] for host in hosts})
    paths = [[topology.path(here, there) for there in ends] for here in ends]  # few: most hosts share a switch
    row = np.array([ends.index(roots[host][0]) for host in hosts], int)
    spurs = [roots[host][1] for host in hosts]
    apart = np.array(hosts)[:, None] != np.array(hosts)[None, :]

    def sums(of_path: Callable[[Path], int], of_link: Callable[[Link], int]) -> NDArray[np.int64]:
        between = np.array([[of_path(path) for path in line] for line in paths], np.int64)
        spur = np.array([sum(map(of_link, links)) for links in spurs], np.int64)
        found: NDArray[np.int64] = (between[np.ix_(row, row)] + spur[:, None] + spur[None, :]) * apart
        return found

    delay_ns = sums(lambda path: path.one_way_delay_ns, lambda link: link.one_way_delay_ns)
    jitter_ns = sums(lambda path: path.jitter_ns, lambda link: link.jitter_ns)
    between = np.array([[1.0 - path.loss_probability for path in line] for line in paths])
    through = np.array([prod(1.0 - link.loss_probability for link in links) for links in spurs])
    loss = 1.0 - (between[np.ix_(row, row)] * through[:, None] * through[None, :]) ** 2
    return Trips(2 * delay_ns, jitter_ns, loss * apart)


def _roots(topology: Topology, attached: Mapping[str, str]) -> dict[str, tuple[str, list[Link]]]:
    """Where each host's paths begin, and what comes before: one with a single link to a switch hangs on that."""
    switches = {host.name for host in topology.hosts if host.role == SWITCH}
    links: dict[str, list[Link]] = {host.name: [] for host in topology.hosts}
    for link in topology.links:
        links[link.a].append(link)
        links[link.b].append(link)
    found: dict[str, tuple[str, list[Link]]] = {}
    for host, its in links.items():
        end = attached.get(host) or _other_end(its, host)
        hangs = len(its) == 1 and end in switches and host not in switches
        found[host] = (end, its) if hangs else (host, [])
    return found


def _other_end(links: list[Link], host: str) -> str:
    """Of the first link; a host alone has none."""
    return next((link.b if link.a == host else link.a for link in links), host)


def links_of(topology: Topology, host: str) -> list[Link]:
    """The links of a host; one that can hand over has one."""
    return [link for link in topology.links if host in (link.a, link.b)]
