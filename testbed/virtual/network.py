"""The network of virtual time: when a message arrives, if it does.

* Delay: the links' delays along the shortest path, their jitter (uniform, plus or minus, drawn per
  link as tc-netem does by default) and the time to put the bytes on each link.  Links do not queue:
  control traffic is far below their rates.
* Datagrams may be lost, doubled, and, with jitter or when held back, overtake each other; a partition loses them.
* Streams keep their order.  A lost message is sent again after a round trip and 200 ms, twice as
  long each further time (Linux's TCP without fast retransmit), at most 15 times; messages of a
  partition wait for its end.  What is under way to a node that crashes is lost; what a crashed node had
  under way still arrives, and its next life's stream is a new one.  What is doubled stays in order.

Randomness is named by path; loss, jitter and disorder are apart: traffic of one path shifts no other's.
"""

from collections import Counter
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from core.seeds import generator
from core.units import MILLISECOND_NS
from systems.api import Transport
from testbed.faults import EVERY, LinkDuplication, LinkFault, LinkLoss, LinkReordering
from testbed.topologies.topology import Link, Path, Topology

RETRANSMIT_MINIMUM_NS = 200 * MILLISECOND_NS  # Linux, TCP_RTO_MIN
RETRANSMITS_MAXIMUM = 15  # Linux, tcp_retries2


class Parcel(NamedTuple):
    """A message under way.  ``target_incarnation``: of the target when it was sent."""

    source: str
    target: str
    content: Any
    size_bytes: int
    target_incarnation: int


class _Route:
    """One direction between two nodes.

    What every message needs is added up once; generators, dear to make, are made where something is drawn.
    ``through``: the probability that a message is not lost.  ``last_arrival_ns``: of a stream, nothing arrives before.
    """

    def __init__(self, seed: int, source: str, target: str, path: Path, cut: bool, through: float):
        self._seed, self._ends = seed, (source, target)
        self.cut, self.last_arrival_ns = cut, 0
        self.lead(path, through)

    def lead(self, path: Path, through: float) -> None:
        """From now on messages take this path."""
        self.path, self.through = path, through
        self.one_way_delay_ns = path.one_way_delay_ns
        self.jittery = [link.jitter_ns for link in path.links if link.jitter_ns]
        self.is_slow = any(link.rate_bps for link in path.links)

    @cached_property
    def loss(self) -> np.random.Generator:
        """Draws who is lost."""
        return generator(self._seed, "network", "loss", *self._ends)

    @cached_property
    def jitter(self) -> np.random.Generator:
        """Draws who is how late."""
        return generator(self._seed, "network", "jitter", *self._ends)

    @cached_property
    def disorder(self) -> np.random.Generator:
        """Draws who is doubled, and who is held back."""
        return generator(self._seed, "network", "disorder", *self._ends)


class Network:
    """Delay, jitter, loss and partitions between the nodes of a topology."""

    def __init__(self, topology: Topology, seed: int, transport: Transport = Transport.DATAGRAM):
        self.topology, self.seed, self.transport = topology, seed, transport
        self.lost_count: Counter[str] = Counter()  # by source
        self._routes: dict[tuple[str, str], _Route] = {}
        self._loss = {_ends(link): link.loss_probability for link in topology.links}
        self._duplication: dict[frozenset[str], float] = {}
        self._reordering: dict[frozenset[str], tuple[float, int]] = {}  # probability, how long it is held back
        self._sides: list[frozenset[str]] = []  # hosts cut off from the others
        self._held: list[Parcel] = []
        self._moved: dict[str, Link] = {}  # host -> its link, where that leads elsewhere than in the topology

    def send(self, parcel: Parcel, now_ns: int) -> list[int]:
        """The instants at which the parcel arrives: none (lost, or held until a partition ends), one, or two."""
        route = self._route(parcel.source, parcel.target)
        stream = self.transport is Transport.STREAM
        if route.cut and stream:
            self._held.append(parcel)
            return []
        tries = self._tries(route, RETRANSMITS_MAXIMUM if stream else 0)
        if route.cut or tries is None:
            self.lost_count[parcel.source] += 1
            return []
        at_ns = now_ns + self._delay_ns(route, parcel.size_bytes)
        if stream:
            first_wait_ns = RETRANSMIT_MINIMUM_NS + 2 * route.one_way_delay_ns
            at_ns = max(at_ns + (2**tries - 1) * first_wait_ns, route.last_arrival_ns)
            route.last_arrival_ns = at_ns
        elif self._reordering:
            at_ns += self._held_back_ns(route)
        return [at_ns, at_ns] if self._duplication and self._is_doubled(route) else [at_ns]

    def partition(self, side: tuple[str, ...]) -> None:
        """Cut the hosts of ``side`` off."""
        self._sides.append(self._hosts(side))
        self._cut_routes()

    def heal(self, side: tuple[str, ...]) -> list[Parcel]:
        """End the partition of ``side`` (empty: all); returns the held parcels, to be sent again."""
        hosts = self._hosts(side)
        self._sides = [other for other in self._sides if side and other != hosts]
        self._cut_routes()
        held, self._held = self._held, []
        return held

    def disturb(self, fault: LinkFault) -> None:
        """Change the loss, duplication or reordering of the link between two hosts, or of every link."""
        ends = list(self._loss) if fault.a == EVERY else [frozenset((fault.a, fault.b))]
        for link in ends:
            match fault:
                case LinkLoss(loss_probability=probability):
                    self._loss[link] = probability
                case LinkDuplication(duplication_probability=probability):
                    self._duplication[link] = probability
                case LinkReordering(reordering_probability=probability, hold_ns=hold_ns):
                    self._reordering[link] = probability, hold_ns
        for route in self._routes.values():
            route.through = self._through(route.path)

    def move(self, host: str, point: str) -> None:
        """A handover: the only link of ``host`` leads to ``point`` from now on; what is under way arrives as it was.

        Streams go on in order.
        """
        (mine,) = (link for link in self.topology.links if host in (link.a, link.b))
        moved = replace(mine, a=host, b=point)
        self._loss[_ends(moved)] = self._loss[_ends(self._moved.get(host, mine))]
        self._moved[host] = moved
        for (source, target), route in self._routes.items():
            if host in (self.topology.host_of(source), self.topology.host_of(target)):
                path = self._path(source, target)
                route.lead(path, self._through(path))

    def crash(self, node: str) -> None:
        """Streams from and to ``node`` end: what is held for them is lost, and their order starts anew."""
        for parcel in self._held:
            if node in (parcel.source, parcel.target):
                self.lost_count[parcel.source] += 1
        self._held = [parcel for parcel in self._held if node not in (parcel.source, parcel.target)]
        for ends, route in self._routes.items():
            if node in ends:
                route.last_arrival_ns = 0

    @property
    def held_count(self) -> int:
        """Messages that wait for the end of a partition."""
        return len(self._held)

    def _route(self, source: str, target: str) -> _Route:
        found = self._routes.get((source, target))
        if found is None:
            path, cut = self._path(source, target), self._is_cut(source, target)
            found = _Route(self.seed, source, target, path, cut, self._through(path))
            self._routes[source, target] = found
        return found

    def _path(self, source: str, target: str) -> Path:
        """The path between two nodes, from where their hosts are now."""
        ends = self.topology.host_of(source), self.topology.host_of(target)
        first, last = (self._moved.get(end) for end in ends)
        if ends[0] == ends[1] or not (first or last):
            return self.topology.path(source, target)
        between = self.topology.path(first.b if first else ends[0], last.b if last else ends[1])
        return Path((*((first,) if first else ()), *between.links, *((last,) if last else ())))

    def _through(self, path: Path) -> float:
        return prod(1.0 - self._loss[_ends(link)] for link in path.links)

    @staticmethod
    def _tries(route: _Route, again_maximum: int) -> int | None:
        """How often the parcel is lost before it comes through; None if that is too often."""
        if route.through == 1.0:
            return 0
        for tries in range(again_maximum + 1):
            if route.loss.random() < route.through:
                return tries
        return None

    def _is_doubled(self, route: _Route) -> bool:
        chances = [self._duplication.get(_ends(link), 0.0) for link in route.path.links]
        return any([chance > 0 and bool(route.disorder.random() < chance) for chance in chances])

    def _held_back_ns(self, route: _Route) -> int:
        chances = [self._reordering.get(_ends(link), (0.0, 0)) for link in route.path.links]
        return sum(hold_ns for chance, hold_ns in chances if chance > 0 and route.disorder.random() < chance)

    @staticmethod
    def _delay_ns(route: _Route, size_bytes: int) -> int:
        delay = route.one_way_delay_ns
        if route.is_slow:
            delay += route.path.transmission_ns(size_bytes)
        for jitter_ns in route.jittery:
            delay += int(route.jitter.integers(-jitter_ns, jitter_ns, endpoint=True))
        return delay

    def _hosts(self, names: tuple[str, ...]) -> frozenset[str]:
        return frozenset(self.topology.host_of(name) for name in names)

    def _is_cut(self, source: str, target: str) -> bool:
        ends = self.topology.host_of(source), self.topology.host_of(target)
        return any((ends[0] in side) != (ends[1] in side) for side in self._sides)

    def _cut_routes(self) -> None:
        for (source, target), route in self._routes.items():
            route.cut = self._is_cut(source, target)


def _ends(link: Link) -> frozenset[str]:
    return frozenset((link.a, link.b))
