"""The network of virtual time: when a message arrives, if it does.

* Delay: the links' delays along the shortest path, their jitter (uniform, plus or minus, drawn per
  link as tc-netem does by default) and the time to put the bytes on each link.  Links do not queue:
  control traffic is far below their rates.
* Datagrams may be lost, doubled, and, with jitter or when held back, overtake each other; a partition loses them.
  A copy has a jitter and a hold of its own.
* Streams keep their order, and lose nothing.  A lost message is sent again when ``testbed.nodes.retransmission``
  says, with the link as it is by then, and so is one that a partition cuts off.  A stream has one timer: when it
  rings, all that is missing is sent again, and its wait begins anew once the first of that comes through (Linux's
  TCP without fast retransmit; acknowledgements are not lost).  What came through meanwhile waits at its target.
* With a crash the node's streams end: what comes through already still arrives, what was missing, or waited for
  it, is lost.  With its restart they end again, and with them what was sent to it meanwhile: the next life's streams
  are new ones.  What is doubled stays in order.

Randomness is named by path; loss, jitter and disorder are apart: traffic of one path shifts no other's.
"""

from collections import Counter, deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec import Struct

from core.seeds import generator
from systems.api import Transport
from testbed.faults import Fault, Handover
from testbed.links import LinkStates, PathState
from testbed.nodes.retransmission import first_wait_ns, next_wait_ns
from testbed.topologies.topology import Topology


class Parcel(Struct, frozen=True):
    """A message under way.

    ``target_incarnation``: of the target when it was sent.  ``by_datagram``: it is one, whatever the network's
    ``transport``.
    """

    source: str
    target: str
    content: bytes
    size_bytes: int
    target_incarnation: int
    by_datagram: bool = False


class _Route:
    """One direction between two nodes.

    What every message needs is at hand; generators, dear to make, are made where something is drawn.
    """

    def __init__(self, seed: int, source: str, target: str, state: PathState):
        self._seed, self._ends = seed, (source, target)
        self.stream = Stream(self)
        self.lead(state)

    def lead(self, state: PathState) -> None:
        """From now on this holds."""
        self.state, self.cut, self.through = state, state.is_cut, state.through_probability
        self.one_way_delay_ns, self.jitters_ns, self.is_slow = state.delay_ns, state.jitters_ns, bool(state.rates_bps)
        self.duplications, self.reorderings = state.duplications, state.reorderings
        disturbed = self.cut or self.through < 1.0 or self.is_slow
        self.is_plain = not (disturbed or self.jitters_ns or self.duplications or self.reorderings)

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


@dataclass(slots=True)
class _Sent:
    """A message of a stream.  ``arrivals_ns``: of the message and its doubles; empty as long as it is lost."""

    parcel: Parcel
    arrivals_ns: list[int]


class Stream:
    """A connection, one way: ``unordered``, what was sent from the first message on that is still missing.

    ``wait_ns``: of the timer that runs while anything is missing; 0 when nothing is.
    """

    def __init__(self, route: _Route):
        self.route = route
        self.unordered: deque[_Sent] = deque()
        self.wait_ns = self._last_arrival_ns = 0

    def in_order(self) -> list["Happening"]:
        """The arrivals that wait for no other any more."""
        arrivals: list[Happening] = []
        while self.unordered and self.unordered[0].arrivals_ns:
            sent = self.unordered.popleft()
            arrivals += [(self.after_all(at_ns), sent.parcel) for at_ns in sent.arrivals_ns]
        return arrivals

    def after_all(self, at_ns: int) -> int:
        """When that arrives which would at ``at_ns``: not before what is ahead of it."""
        if at_ns > self._last_arrival_ns:
            self._last_arrival_ns = at_ns
        return self._last_arrival_ns

    def end(self) -> int:
        """How many messages are lost with it."""
        lost_count = len(self.unordered)
        self.unordered.clear()
        return lost_count


Happening = tuple[int, Parcel | Stream]  # an instant, and what arrives then, or whose timer rings


class Network:
    """Delay, jitter, loss and partitions between the nodes of a topology; ``transport``: of most of what they send."""

    def __init__(self, topology: Topology, seed: int, transport: Transport = Transport.DATAGRAM):
        self.topology, self.seed, self.transport = topology, seed, transport
        self.lost_count: Counter[str] = Counter()  # by source
        self._links = LinkStates(topology)
        self._routes: dict[tuple[str, str], _Route] = {}

    def send(self, parcel: Parcel, now_ns: int) -> list[Happening]:
        """What comes of it: the parcel arrives once, twice or never; or its stream's timer is to ring (``retry``)."""
        route = self._route(parcel.source, parcel.target)
        is_datagram = self.transport is Transport.DATAGRAM or parcel.by_datagram
        if route.is_plain and not route.stream.unordered:  # as nearly always: once, when the delay is over
            at_ns = now_ns + route.one_way_delay_ns
            return [(at_ns if is_datagram else route.stream.after_all(at_ns), parcel)]
        arrivals_ns = self._arrivals_ns(route, parcel, is_datagram, now_ns)
        if is_datagram:
            if not arrivals_ns:
                self.lost_count[parcel.source] += 1
            return [(at_ns, parcel) for at_ns in arrivals_ns]
        stream = route.stream
        stream.unordered.append(_Sent(parcel, arrivals_ns))
        if stream.wait_ns:
            return []
        return stream.in_order() if arrivals_ns else [self._set_timer(stream, now_ns)]

    def retry(self, stream: Stream, now_ns: int) -> list[Happening]:
        """A stream's timer rings; see ``send``."""
        for sent in stream.unordered:
            if not sent.arrivals_ns:
                sent.arrivals_ns = self._arrivals_ns(stream.route, sent.parcel, False, now_ns)
        happenings = stream.in_order()
        if happenings:
            stream.wait_ns = 0
        if stream.unordered:
            happenings.append(self._set_timer(stream, now_ns))
        return happenings

    def apply(self, fault: Fault) -> None:
        """Change the links, as ``testbed.links`` says; what is under way arrives as it was."""
        self._links.apply(fault)
        for (source, target), route in self._routes.items():
            ends = self.topology.host_of(source), self.topology.host_of(target)
            if not isinstance(fault, Handover) or fault.host in ends:
                route.lead(self._links.state(source, target))

    def end_streams(self, node: str) -> None:
        """Streams from and to ``node`` end: it crashes, or is about to begin anew."""
        for (source, target), route in self._routes.items():
            if node in (source, target):
                self.lost_count[source] += route.stream.end()
                route.stream = Stream(route)

    @property
    def waiting_count(self) -> int:
        """Messages of streams that are missing, or wait for one that is."""
        return sum(len(route.stream.unordered) for route in self._routes.values())

    def _route(self, source: str, target: str) -> _Route:
        route = self._routes.get((source, target))
        if route is None:
            route = _Route(self.seed, source, target, self._links.state(source, target))
            self._routes[source, target] = route
        return route

    @staticmethod
    def _set_timer(stream: Stream, now_ns: int) -> Happening:
        first_ns = first_wait_ns(2 * stream.route.one_way_delay_ns)
        stream.wait_ns = next_wait_ns(stream.wait_ns) if stream.wait_ns else first_ns
        return now_ns + stream.wait_ns, stream

    def _arrivals_ns(self, route: _Route, parcel: Parcel, is_datagram: bool, now_ns: int) -> list[int]:
        """Of a parcel that is sent now: none where it is lost, two where it is doubled."""
        is_lost = route.through < 1.0 and route.loss.random() >= route.through  # drawn in a partition as well
        if is_lost or route.cut:
            return []
        at_ns = now_ns + self._delay_ns(route, parcel.size_bytes, is_datagram)
        doubled = [bool(route.disorder.random() < chance) for chance in route.duplications]  # each link draws
        if not any(doubled):
            return [at_ns]
        return [at_ns, now_ns + self._delay_ns(route, parcel.size_bytes, is_datagram) if is_datagram else at_ns]

    @staticmethod
    def _delay_ns(route: _Route, size_bytes: int, is_datagram: bool) -> int:
        delay = route.one_way_delay_ns
        if route.is_slow:
            delay += route.state.transmission_ns(size_bytes)
        for jitter_ns in route.jitters_ns:
            delay += int(route.jitter.integers(-jitter_ns, jitter_ns, endpoint=True))
        if route.reorderings and is_datagram:
            delay += sum(hold_ns for chance, hold_ns in route.reorderings if route.disorder.random() < chance)
        return delay
