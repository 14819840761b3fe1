"""What each path of a network shall do to packets, now: the topology, as faults and moves have changed it."""

from dataclasses import dataclass, replace
from typing import Any

from core.errors import SpecError
from testbed.faults import EVERY, Fault, Heal, LinkDuplication, LinkLoss, LinkReordering, Partition
from testbed.topologies.topology import Link, Path, Topology

Ends = frozenset[str]


@dataclass(frozen=True)
class PathSetting:
    """One direction between two machines.  ``jitters_ns``, ``doublings`` and ``holds``: one a link that has any."""

    delay_ns: int = 0
    jitters_ns: tuple[int, ...] = ()
    loss_probability: float = 0.0
    doublings: tuple[float, ...] = ()
    holds: tuple[tuple[float, int], ...] = ()  # (probability, for how long)
    is_cut: bool = False
    rate_bps: int | None = None  # of the narrowest link

    def as_values(self) -> dict[str, Any]:
        """For the delayer: plain values under the names above."""
        return {
            "delay_ns": self.delay_ns,
            "jitters_ns": self.jitters_ns,
            "loss_probability": self.loss_probability,
            "doublings": self.doublings,
            "holds": self.holds,
            "is_cut": self.is_cut,
        }


class Paths:
    """The links of a network with what was done to them; ``settings`` is what follows for the paths."""

    def __init__(self, topology: Topology):
        self.topology = topology
        self._doubling: dict[Ends, float] = {}
        self._holds: dict[Ends, tuple[float, int]] = {}
        self._sides: list[frozenset[str]] = []

    def settings(self) -> dict[tuple[str, str], PathSetting]:
        """By (source, target), hosts that are no switches."""
        names = [host.name for host in self.topology.machines]
        return {(a, b): self._setting(a, b) for a in names for b in names if a != b}

    def apply(self, fault: Fault) -> None:
        """Partition, Heal and the faults of links; SpecError for others and for links that are not there."""
        match fault:
            case Partition(side=side):
                self._sides.append(self._hosts(side))
            case Heal(side=side):
                hosts = self._hosts(side)
                self._sides = [other for other in self._sides if side and other != hosts]
            case LinkLoss(a=a, b=b, loss_probability=probability):
                self._replace({link: replace(link, loss_probability=probability) for link in self._links(a, b, fault)})
            case LinkDuplication(a=a, b=b, duplication_probability=probability):
                for link in self._links(a, b, fault):
                    self._doubling[_ends(link)] = probability
            case LinkReordering(a=a, b=b, reordering_probability=probability, hold_ns=hold_ns):
                for link in self._links(a, b, fault):
                    self._holds[_ends(link)] = probability, hold_ns
            case _:
                raise SpecError(f"{fault}: nothing that a network does", "a node host carries it out")

    def set_delay(self, a: str, b: str, delay_ns: int) -> None:
        """The link between two hosts has another delay now (``*`` and ``*``: every link); jitter never exceeds it."""
        self._replace(
            {
                link: replace(link, one_way_delay_ns=delay_ns, jitter_ns=min(link.jitter_ns, delay_ns))
                for link in self._links(a, b, "set_delay")
            }
        )

    def move_host(self, host: str, point: str) -> str:
        """The host's only link now leads to ``point``; returns where it led before."""
        mine = [link for link in self.topology.links if host in (link.a, link.b)]
        if len(mine) != 1:
            raise SpecError(f"{host} has {len(mine)} links", "only a host with one link can move")
        if point == host or point not in {other.name for other in self.topology.hosts}:
            raise SpecError(f"no access point {point!r} in {self.topology.name}", "name a switch or a host")
        (link,) = mine
        before = link.b if link.a == host else link.a
        if before != point:
            moved = replace(link, a=host, b=point)
            self._replace({link: moved})
            if _ends(link) in self._doubling:
                self._doubling[_ends(moved)] = self._doubling.pop(_ends(link))
            if _ends(link) in self._holds:
                self._holds[_ends(moved)] = self._holds.pop(_ends(link))
        return before

    def _setting(self, source: str, target: str) -> PathSetting:
        path = self.topology.path(source, target)
        ends = [_ends(link) for link in path.links]
        return PathSetting(
            path.one_way_delay_ns,
            tuple(link.jitter_ns for link in path.links if link.jitter_ns),
            path.loss_probability,
            tuple(self._doubling[link] for link in ends if self._doubling.get(link)),
            tuple(self._holds[link] for link in ends if self._holds.get(link, (0.0, 0))[0]),
            any((source in side) != (target in side) for side in self._sides),
            rate_bps(path),
        )

    def _hosts(self, names: tuple[str, ...]) -> frozenset[str]:
        return frozenset(self.topology.host_of(name) for name in names)

    def _links(self, a: str, b: str, what: object) -> list[Link]:
        found = [link for link in self.topology.links if a == b == EVERY or {a, b} == {link.a, link.b}]
        if not found:
            raise SpecError(f"{what}: no link {a}-{b} in {self.topology.name}", "name two hosts that a link joins")
        return found

    def _replace(self, new: dict[Link, Link]) -> None:
        links = tuple(new.get(link, link) for link in self.topology.links)
        self.topology = replace(self.topology, links=links)


def rate_bps(path: Path) -> int | None:
    """Of the narrowest link; None where no link is limited."""
    return min((link.rate_bps for link in path.links if link.rate_bps), default=None)


def _ends(link: Link) -> Ends:
    return frozenset((link.a, link.b))
