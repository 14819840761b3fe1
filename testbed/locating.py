"""What coordinate agents are asked for, on every testbed: who runs one, for how long, when their coordinates are read.

Times count from the instant at which the agents begin to probe: on live testbeds, when all have joined.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.errors import SpecError
from core.units import SECOND_NS
from systems.parts.coordinates import Coordinates
from testbed.evidence import NOTHING, Evidence
from testbed.topology import SWITCH, Link, Topology

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
    """Paths between n nodes and back: arrays (n, n), symmetric, with zeros between nodes of one host."""

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
    attached = attached or {}
    hosts = [topology.host_of(node) for node in nodes]
    ends = [attached.get(host, host) for host in hosts]
    spurs = [links_of(topology, host)[0] if host in attached else None for host in hosts]
    shape = len(nodes), len(nodes)
    found = Trips(np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape))
    between: dict[tuple[str, str], tuple[int, int, float]] = {}  # many nodes share their ends
    for i, here in enumerate(ends):
        for j in range(i):
            if hosts[i] == hosts[j]:
                continue
            pair = (here, ends[j])
            if pair not in between:
                path = topology.path(*pair)
                between[pair] = (path.one_way_delay_ns, path.jitter_ns, 1.0 - path.loss_probability)
            delay_ns, jitter_ns, through = between[pair]
            for spur in filter(None, (spurs[i], spurs[j])):
                delay_ns, jitter_ns = delay_ns + spur.one_way_delay_ns, jitter_ns + spur.jitter_ns
                through *= 1.0 - spur.loss_probability
            for a, b in ((i, j), (j, i)):
                found.rtt_ns[a, b], found.jitter_ns[a, b] = 2 * delay_ns, jitter_ns
                found.loss_probability[a, b] = 1.0 - through * through
    return found


def links_of(topology: Topology, host: str) -> list[Link]:
    """The links of a host; one that can hand over has one."""
    return [link for link in topology.links if host in (link.a, link.b)]
