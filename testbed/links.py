"""What faults and handovers have made of a topology's links: ONE fold, for virtual time and for links that are real.

No randomness and no packets here: what a path does to each message is drawn, and done, by whoever asks.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

from core.errors import SpecError
from core.registry import hint
from core.units import SECOND_NS
from testbed.faults import (
    EVERY,
    Fault,
    Handover,
    Heal,
    LinkDelay,
    LinkDuplication,
    LinkFault,
    LinkLoss,
    LinkReordering,
    Partition,
)
from testbed.topologies.topology import Link, Path, Topology

Ends = frozenset[str]


@dataclass(frozen=True)
class PathState:
    """What holds on a path now, one way.  Tuples have one entry for each link that has any, in the path's order."""

    delay_ns: int = 0
    jitters_ns: tuple[int, ...] = ()  # uniform, plus or minus
    through_probability: float = 1.0  # that no link loses a packet
    duplications: tuple[float, ...] = ()  # probabilities
    reorderings: tuple[tuple[float, int], ...] = ()  # (probability, how long a packet is held back)
    rates_bps: tuple[int, ...] = ()
    is_cut: bool = False

    @property
    def loss_probability(self) -> float:
        """That some link loses a packet."""
        return 1.0 - self.through_probability

    @property
    def rate_bps(self) -> int | None:
        """Of the narrowest link; None where no link is limited."""
        return min(self.rates_bps, default=None)

    def transmission_ns(self, size_bytes: int) -> int:
        """Time to put ``size_bytes`` on each link in turn (store and forward), rounded down link by link."""
        return sum(size_bytes * 8 * SECOND_NS // rate_bps for rate_bps in self.rates_bps)


class LinkStates:
    """A topology with its history; a link is known by the ends that it had in the beginning."""

    def __init__(self, topology: Topology):
        self._declared = topology  # with the delays that were set
        self._now = {_ends(link): link for link in topology.links}
        self._held_ns: dict[Ends, int] = {}  # for so much longer, beyond the link's own delay
        self._duplication: dict[Ends, float] = {}
        self._reordering: dict[Ends, tuple[float, int]] = {}
        self._moved: dict[str, Ends] = {}  # host -> its only link, which leads elsewhere than it did
        self._sides: list[frozenset[str]] = []  # hosts cut off from the others

    @property
    def topology(self) -> Topology:
        """The topology as it is now: links as they lead, with their delays and losses."""
        return replace(self._declared, links=tuple(self._now.values()))

    def apply(self, fault: Fault) -> None:
        """One more event of the history; SpecError for one that is no network's, or for a link that is not there."""
        match fault:
            case Partition(side=side):
                self._sides.append(self._hosts(side))
            case Heal(side=side):
                hosts = self._hosts(side)
                self._sides = [other for other in self._sides if side and other != hosts]
            case Handover(host=host, point=point):
                self._move(host, point)
            case LinkFault():
                self._disturb(fault)
            case _:
                raise SpecError(f"{fault}: nothing that a network does", "a node host carries it out")

    def set_delay(self, a: str, b: str, delay_ns: int) -> None:
        """The link between two hosts has another delay now (``*`` and ``*``: every link); jitter never exceeds it."""
        for key in self._named(a, b, "set_delay"):
            link = self._now[key]
            self._now[key] = replace(link, one_way_delay_ns=delay_ns, jitter_ns=min(link.jitter_ns, delay_ns))
        links = (replace(self._now[_ends(link)], a=link.a, b=link.b) for link in self._declared.links)
        self._declared = replace(self._declared, links=tuple(links))

    def point_of(self, host: str) -> str:
        """Where the only link of a host leads now; SpecError where it has more, or none."""
        link = self._now[self._only(host)]
        return link.b if link.a == host else link.a

    def state(self, source: str, target: str) -> PathState:
        """What holds from one node or host to another."""
        ends = self._declared.host_of(source), self._declared.host_of(target)
        keys = self._along(*ends)
        links = [self._now[key] for key in keys]
        return PathState(
            sum(link.one_way_delay_ns for link in links) + sum(self._held_ns.get(key, 0) for key in keys),
            tuple(link.jitter_ns for link in links if link.jitter_ns),
            prod(1.0 - link.loss_probability for link in links),
            tuple(self._duplication[key] for key in keys if self._duplication.get(key)),
            tuple(self._reordering[key] for key in keys if key in self._reordering and self._reordering[key][0]),
            tuple(link.rate_bps for link in links if link.rate_bps),
            any((ends[0] in side) != (ends[1] in side) for side in self._sides),
        )

    def states(self) -> dict[tuple[str, str], PathState]:
        """By (source, target), hosts that are no switches."""
        names = [host.name for host in self._declared.machines]
        return {(a, b): self.state(a, b) for a in names for b in names if a != b}

    def _along(self, source: str, target: str) -> list[Ends]:
        """The links of the path between two hosts: whoever moved goes by way of the point that it moved to.

        Only hosts with one link move, and no path leads through them: the others' paths stay.
        """
        if source == target:
            return []
        first, last = self._moved.get(source), self._moved.get(target)
        ends = (self.point_of(host) if host in self._moved else host for host in (source, target))
        between = self._declared.path(*ends)
        return [*filter(None, [first]), *map(_ends, between.links), *filter(None, [last])]

    def _disturb(self, fault: LinkFault) -> None:
        for key in self._named(fault.a, fault.b, fault):
            match fault:
                case LinkLoss(loss_probability=probability):
                    self._now[key] = replace(self._now[key], loss_probability=probability)
                case LinkDelay(hold_ns=hold_ns):
                    self._held_ns[key] = hold_ns
                case LinkDuplication(duplication_probability=probability):
                    self._duplication[key] = probability
                case LinkReordering(reordering_probability=probability, hold_ns=hold_ns):
                    self._reordering[key] = probability, hold_ns

    def _move(self, host: str, point: str) -> None:
        key, names = self._only(host), [other.name for other in self._declared.hosts]
        if point == host or point in self._moved or point not in names:
            raise SpecError(f"no access point {point!r} in {self._declared.name}", hint(point, names))
        if self.point_of(host) != point:
            self._now[key] = replace(self._now[key], a=host, b=point)
            self._moved[host] = key

    def _only(self, host: str) -> Ends:
        keys = [key for key, link in self._now.items() if host in (link.a, link.b)]
        if len(keys) != 1:
            raise SpecError(f"{host} has {len(keys)} links", "only a host with one link can move")
        return keys[0]

    def _named(self, a: str, b: str, what: object) -> Iterable[Ends]:
        if a == b == EVERY:
            return list(self._now)
        keys = [key for key, link in self._now.items() if {a, b} == {link.a, link.b}]
        if not keys:
            raise SpecError(f"{what}: no link {a}-{b} in {self._declared.name}", "name two hosts that a link joins")
        return keys

    def _hosts(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(self._declared.host_of(name) for name in names)


def _ends(link: Link) -> Ends:
    return frozenset((link.a, link.b))


def longest_delay_ns(topology: Topology) -> int:
    """One way between any two nodes, with the worst jitter."""
    return max(path.one_way_delay_ns + path.jitter_ns for path in _paths(topology))


def held_ns(topology: Topology, faults: Iterable[Fault], from_ns: int = 0) -> int:
    """How much longer than a link's own delay faults let the longest way take, for what is under way at an instant.

    A fault ends with the next of its kind on the same link, or on all: what it held back last is out by its own hold,
    which each link of a way has, after that.  A link may hold back by both kinds, one after the other.
    """
    kinds = sorted((of for of in faults if isinstance(of, LinkDelay | LinkReordering)), key=lambda of: of.at_ns)
    most_links = max(len(path.links) for path in _paths(topology)) if kinds else 0
    longest_ns = dict.fromkeys((LinkDelay, LinkReordering), 0)
    for number, fault in enumerate(kinds):
        way_ns, links = fault.hold_ns * most_links, {fault.a, fault.b}
        ends_ns = (
            later.at_ns
            for later in kinds[number + 1 :]
            if type(later) is type(fault) and {later.a, later.b} in (links, {EVERY})
        )
        if min(ends_ns, default=from_ns) + way_ns >= from_ns:
            longest_ns[type(fault)] = max(longest_ns[type(fault)], way_ns)
    return sum(longest_ns.values())


def _paths(topology: Topology) -> Iterator[Path]:
    names = topology.node_names()
    return (topology.path(source, target) for source in names for target in names)
