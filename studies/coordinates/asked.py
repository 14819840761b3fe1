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
from testbed.faults import Handover
from testbed.topologies.topology import SWITCH, Link, Path, Topology
from testbed.trust.evidence import NOTHING, RunEvidence

LAN_NS = SECOND_NS  # between two probes of a node: memberlist's profile lan (ePulsar, Section 5.3)
PROBE_TIMEOUT_NS = SECOND_NS // 2  # of the same profile: a slower answer moves no coordinate


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
    evidence: RunEvidence = NOTHING


class Trips(NamedTuple):
    """Paths between n nodes and back: arrays (n, n), with zeros between nodes of one host."""

    rtt_ns: NDArray[np.int64]  # both ways' delays
    jitter_ns: NDArray[np.int64]  # of one way, plus or minus
    loss_probability: NDArray[np.float64]  # of either way's packet, or of both


def check_locating(topology: Topology, locating: Locating) -> None:
    """SpecError for too few agents, or reads after their last round."""
    if len(locating.nodes) < 2:
        raise SpecError(f"{len(locating.nodes)} coordinate agents on topology {topology.name}", "give at least 2")
    if not all(0 <= k <= locating.rounds for k in locating.reads):
        raise SpecError(
            f"coordinates are read after rounds {locating.reads}", f"give rounds from 0 to {locating.rounds}"
        )


def trips(topology: Topology, nodes: Sequence[str]) -> Trips:
    """The trips between ``nodes``."""
    return TripTable(topology, nodes).trips({})


class TripTable:
    """The trips between ``nodes`` of which some hand over: paths are looked up once.

    A host with a single link to a switch hangs on that switch, or on another one; few paths join many hosts.
    ``attached``: which other one, of those that have handed over.
    """

    def __init__(self, topology: Topology, nodes: Sequence[str], handovers: Sequence[Handover] = ()):
        self.attached: dict[str, str] = {}
        self._handovers, self._now = handovers, list[Trips]()
        self._topology, self._hosts = topology, [topology.host_of(node) for node in nodes]
        hangs = _hanging(topology, self._hosts)
        self._roots = [hangs[host][0] if host in hangs else host for host in self._hosts]
        spurs = [_way([hangs[host][1]] if host in hangs else []) for host in self._hosts]
        self._spurs = [np.array(column) for column in zip(*spurs, strict=True)]
        self._apart = np.array(self._hosts)[:, None] != np.array(self._hosts)[None, :]
        self._look_up(sorted(set(self._roots)))

    def _look_up(self, ends: list[str]) -> None:
        self._row = {end: row for row, end in enumerate(ends)}
        ways = [[_way(self._topology.path(here, there).links) for there in ends] for here in ends]
        self._between = [np.array([[way[k] for way in line] for line in ways]) for k in range(3)]

    def before(self, at_ns: int) -> Trips:
        """The trips after the handovers that come before an instant."""
        attached = {move.host: move.point for move in self._handovers if move.at_ns < at_ns}
        if attached != self.attached or not self._now:
            self.attached, self._now = attached, [self.trips(attached)]
        return self._now[0]

    def trips(self, attached: Mapping[str, str]) -> Trips:
        """The trips while the hosts in ``attached`` hang on those switches instead of their own."""
        ends = [attached.get(host, root) for host, root in zip(self._hosts, self._roots, strict=True)]
        if not self._row.keys() >= set(ends):
            self._look_up(sorted({*self._row, *ends}))
        row = [self._row[end] for end in ends]
        delay_ns, jitter_ns, through = (between[np.ix_(row, row)] for between in self._between)
        delay_ns, jitter_ns = (
            (between + spur[:, None] + spur[None, :]) * self._apart
            for between, spur in zip((delay_ns, jitter_ns), self._spurs[:2], strict=True)
        )
        through = through * self._spurs[2][:, None] * self._spurs[2][None, :]
        return Trips(2 * delay_ns, jitter_ns, (1.0 - through**2) * self._apart)


def _way(links: Sequence[Link]) -> tuple[int, int, float]:
    """Delay and jitter in ns along the links, and the probability that a packet comes through."""
    path = Path(tuple(links))
    return path.one_way_delay_ns, path.jitter_ns, 1.0 - path.loss_probability


def _hanging(topology: Topology, hosts: Sequence[str]) -> dict[str, tuple[str, Link]]:
    """Of ``hosts`` those with a single link, to a switch: that switch and that link."""
    switches = {host.name for host in topology.hosts if host.role == SWITCH}
    links: dict[str, list[tuple[str, Link]]] = {host: [] for host in hosts}
    for link in topology.links:
        for host, end in ((link.a, link.b), (link.b, link.a)):
            if host in links:
                links[host].append((end, link))
    return {host: its[0] for host, its in links.items() if len(its) == 1 and its[0][0] in switches}
