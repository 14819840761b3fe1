"""What goes wrong in a run, and when: data that every backend reads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import SpecError
from core.registry import configure, hint
from core.units import duration_ns
from testbed.topology import Topology


@dataclass(frozen=True)
class Crash:
    """A node stops at once: its state, timers and open requests are gone."""

    at_ns: int
    node: str


@dataclass(frozen=True)
class Restart:
    """A crashed node begins anew with ``Start(None)``."""

    at_ns: int
    node: str


@dataclass(frozen=True)
class Partition:
    """Nothing passes between the hosts of ``side`` (nodes or hosts) and the others; what is under way arrives."""

    at_ns: int
    side: tuple[str, ...]


@dataclass(frozen=True)
class Heal:
    """The partition that cut off ``side`` ends; an empty ``side``: all partitions do."""

    at_ns: int
    side: tuple[str, ...] = ()


@dataclass(frozen=True)
class LinkLoss:
    """From now on the link between two hosts loses packets with this probability."""

    at_ns: int
    a: str
    b: str
    loss_probability: float


Fault = Crash | Restart | Partition | Heal | LinkLoss

KINDS: dict[str, type[Any]] = {
    "crash": Crash,
    "restart": Restart,
    "partition": Partition,
    "heal": Heal,
    "link-loss": LinkLoss,
}


def read_faults(rows: Iterable[Mapping[str, Any]]) -> tuple[Fault, ...]:
    """Faults written as plain values: ``{"kind": "crash", "at": "2s", "node": "n1"}``; SpecError names the row."""
    faults = []
    for number, row in enumerate(rows, 1):
        fields = dict(row)
        kind = fields.pop("kind", None)
        if kind not in KINDS:
            raise SpecError(f"fault {number}: kind {kind!r}", hint(str(kind), KINDS))
        try:
            fields["at_ns"] = duration_ns(fields.pop("at"))
        except (KeyError, ValueError, TypeError):
            raise SpecError(f"fault {number}: at = {row.get('at')!r}", 'give an instant such as "2s"') from None
        faults.append(configure(f"fault {number} ({kind})", KINDS[kind], fields))
    return tuple(faults)


def check_faults(faults: Iterable[Fault], topology: Topology) -> list[Fault]:
    """The faults in order of time, or a SpecError about one that cannot happen on ``topology``."""
    ordered = sorted(faults, key=lambda fault: fault.at_ns)
    down: set[str] = set()
    cut: list[tuple[str, ...]] = []
    for fault in ordered:
        if fault.at_ns < 0:
            raise SpecError(f"{fault}: before the start", "give an instant from 0 on")
        match fault:
            case Crash(_, node) | Restart(_, node):
                _known_node(node, fault, topology)
                if isinstance(fault, Crash) == (node in down):
                    raise SpecError(
                        f"{fault}: {node} is {'down already' if node in down else 'up'}", "crash, then restart"
                    )
                down ^= {node}
            case Partition(_, side):
                for name in side:
                    topology.host_of(name)
                cut.append(side)
            case Heal(_, side):
                if side and side not in cut:
                    raise SpecError(f"{fault}: no such partition", "name the side that was cut off")
                cut = [other for other in cut if side and other != side]
            case LinkLoss(_, a, b, loss_probability):
                if not any({a, b} == {link.a, link.b} for link in topology.links):
                    raise SpecError(f"{fault}: no link {a}-{b} in {topology.name}", "name two hosts that a link joins")
                if not 0 <= loss_probability <= 1:
                    raise SpecError(f"{fault}: loss_probability", "give a value from 0 to 1")
    return ordered


def _known_node(node: str, fault: Fault, topology: Topology) -> None:
    if node not in topology.node_names():
        raise SpecError(f"{fault}: no node {node!r}", hint(node, topology.node_names()))
