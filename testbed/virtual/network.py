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
from functools import cached_property
from typing import NamedTuple

import numpy as np

from core.seeds import generator
from core.units import MILLISECOND_NS
from systems.api import Transport
from testbed.faults import Fault, Handover, Heal
from testbed.links import LinkStates, PathState
from testbed.topologies.topology import Topology

RETRANSMIT_MINIMUM_NS = 200 * MILLISECOND_NS  # Linux, TCP_RTO_MIN
RETRANSMITS_MAXIMUM = 15  # Linux, tcp_retries2


class Parcel(NamedTuple):
    """A message under way.  ``target_incarnation``: of the target when it was sent."""

    source: str
    target: str
    content: bytes
    size_bytes: int
    target_incarnation: int


class _Route:
    """One direction between two nodes.

    What every message needs is at hand; generators, dear to make, are made where something is drawn.
    ``last_arrival_ns``: of a stream, nothing arrives before.
    """

    def __init__(self, seed: int, source: str, target: str, state: PathState):
        self._seed, self._ends = seed, (source, target)
        self.last_arrival_ns = 0
        self.lead(state)

    def lead(self, state: PathState) -> None:
        """From now on this holds."""
        self.state, self.cut, self.through = state, state.is_cut, state.through_probability
        self.one_way_delay_ns, self.jitters_ns, self.is_slow = state.delay_ns, state.jitters_ns, bool(state.rates_bps)
        self.duplications, self.reorderings = state.duplications, state.reorderings

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
        self._links = LinkStates(topology)
        self._routes: dict[tuple[str, str], _Route] = {}
        self._held: list[Parcel] = []

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
        elif route.reorderings:
            at_ns += sum(hold_ns for chance, hold_ns in route.reorderings if route.disorder.random() < chance)
        doubled = [bool(route.disorder.random() < chance) for chance in route.duplications]  # each link draws
        return [at_ns, at_ns] if any(doubled) else [at_ns]

    def apply(self, fault: Fault) -> list[Parcel]:
        """Change the links, as ``testbed.links`` says; returns the held parcels that are to be sent again.

        What is under way arrives as it was; streams go on in order.
        """
        self._links.apply(fault)
        for (source, target), route in self._routes.items():
            ends = self.topology.host_of(source), self.topology.host_of(target)
            if not isinstance(fault, Handover) or fault.host in ends:
                route.lead(self._links.state(source, target))
        if not isinstance(fault, Heal):
            return []
        held, self._held = self._held, []
        return held

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
        route = self._routes.get((source, target))
        if route is None:
            route = _Route(self.seed, source, target, self._links.state(source, target))
            self._routes[source, target] = route
        return route

    @staticmethod
    def _tries(route: _Route, again_maximum: int) -> int | None:
        """How often the parcel is lost before it comes through; None if that is too often."""
        if route.through == 1.0:
            return 0
        for tries in range(again_maximum + 1):
            if route.loss.random() < route.through:
                return tries
        return None

    @staticmethod
    def _delay_ns(route: _Route, size_bytes: int) -> int:
        delay = route.one_way_delay_ns
        if route.is_slow:
            delay += route.state.transmission_ns(size_bytes)
        for jitter_ns in route.jitters_ns:
            delay += int(route.jitter.integers(-jitter_ns, jitter_ns, endpoint=True))
        return delay
