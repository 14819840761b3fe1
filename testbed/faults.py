"""What goes wrong in a run, and when: data that every testbed reads."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from core.errors import SpecError
from core.records import Options
from core.registry import configure, hint
from core.units import duration_ns
from testbed.topologies.topology import SWITCH, Topology


@dataclass(frozen=True)
class Crash:
    """A node stops at once: its state, timers and open requests are gone."""

    at_ns: int
    node: str


@dataclass(frozen=True)
class ServerCrash:
    """The server processes that stand beside a node are killed, and the node goes on; only real hosts have such."""

    at_ns: int
    node: str


@dataclass(frozen=True)
class Restart:
    """A crashed node begins anew: empty, with ``Start(None)``, or with a copy of ``copy_from``'s state.

    The copy counts as sent by the peer; one that is down, or that knows no ``snapshot()``, gives none.
    """

    at_ns: int
    node: str
    copy_from: str = ""


@dataclass(frozen=True)
class Partition:
    """Nothing passes between the hosts of ``side`` (nodes or hosts) and the others; what is under way arrives.

    A switch is on no side: whoever is behind it is named.
    """

    at_ns: int
    side: tuple[str, ...]


@dataclass(frozen=True)
class Heal:
    """The partition that cut off ``side`` ends; an empty ``side``: all partitions do."""

    at_ns: int
    side: tuple[str, ...] = ()


@dataclass(frozen=True)
class LinkFault:
    """From now on the link between two hosts is disturbed; ``*`` and ``*``: every link."""

    at_ns: int
    a: str
    b: str


@dataclass(frozen=True)
class LinkLoss(LinkFault):
    """It loses packets with this probability."""

    loss_probability: float


@dataclass(frozen=True)
class LinkDelay(LinkFault):
    """It takes each packet ``hold_ns`` longer than the topology says; 0: as long as that.  What is under way does not.

    A datagram may overtake one that was sent before it; streams keep order.
    """

    hold_ns: int


@dataclass(frozen=True)
class LinkDuplication(LinkFault):
    """A message over it arrives twice with this probability.

    On a stream the copy stands for a sender that repeats itself after a reconnection: it comes right behind.
    """

    duplication_probability: float


@dataclass(frozen=True)
class LinkReordering(LinkFault):
    """A datagram over it is held back with this probability, for ``hold_ns``; streams keep order."""

    reordering_probability: float
    hold_ns: int


@dataclass(frozen=True)
class Handover:
    """From now on the only link of ``host`` leads to ``point``, a switch; its properties stay."""

    at_ns: int
    host: str
    point: str


@dataclass(frozen=True)
class ClockSkew:
    """From now on a node's clock is ``offset_ns`` ahead of true time, or behind it."""

    at_ns: int
    node: str
    offset_ns: int


Fault = (
    Crash
    | ServerCrash
    | Restart
    | Partition
    | Heal
    | LinkLoss
    | LinkDelay
    | LinkDuplication
    | LinkReordering
    | Handover
    | ClockSkew
)
EVERY = "*"

KINDS: dict[str, Callable[..., Fault]] = {
    "crash": Crash,
    "server-crash": ServerCrash,
    "restart": Restart,
    "partition": Partition,
    "heal": Heal,
    "link-loss": LinkLoss,
    "link-delay": LinkDelay,
    "link-duplication": LinkDuplication,
    "link-reordering": LinkReordering,
    "handover": Handover,
    "clock-skew": ClockSkew,
}


def read_faults(rows: Iterable[Options]) -> tuple[Fault, ...]:
    """Faults written as plain values: ``{"kind": "crash", "at": "2s", "node": "n1"}``; SpecError names the row.

    Spans are text and lose their unit's suffix: ``at``, ``offset`` (``"-5ms"`` is behind) and ``hold``.
    """
    faults: list[Fault] = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise SpecError(f"fault {number}: {row!r}", 'write a table, as in {kind = "crash", at = "2s", node = "n1"}')
        fields = dict(row)
        kind = fields.pop("kind", None)
        if not isinstance(kind, str) or kind not in KINDS:
            raise SpecError(f"fault {number}: kind {kind!r}", hint(str(kind), KINDS))
        for span in ("at", "offset", "hold"):
            if span in fields or span == "at":
                try:
                    fields[f"{span}_ns"] = _signed_ns(fields.pop(span, None))
                except (ValueError, TypeError, AttributeError):
                    raise SpecError(f"fault {number}: {span} = {row.get(span)!r}", 'write it as in "2s"') from None
        faults.append(configure(f"fault {number} ({kind})", KINDS[kind], fields))
    return tuple(faults)


def _signed_ns(text: object) -> int:
    if not isinstance(text, str):
        raise TypeError("a span is text, with its unit")
    return -duration_ns(text[1:]) if text.startswith("-") else duration_ns(text)


def check_faults(faults: Iterable[Fault], topology: Topology) -> list[Fault]:
    """The faults in order of time, or a SpecError about one that cannot happen on ``topology``."""
    ordered = sorted(faults, key=lambda fault: fault.at_ns)
    down: set[str] = set()
    cut: list[tuple[str, ...]] = []
    joined = [{link.a, link.b} for link in topology.links]  # at the instant of the fault
    for fault in ordered:
        if fault.at_ns < 0:
            raise SpecError(f"{fault}: before the start", "give an instant from 0 on")
        match fault:
            case Crash(_, node) | Restart(_, node, _):
                _known_node(node, fault, topology)
                if isinstance(fault, Restart) and fault.copy_from:
                    _known_node(fault.copy_from, fault, topology)
                    if fault.copy_from == node:
                        raise SpecError(f"{fault}: copies from itself", "name another node, or leave copy_from out")
                if isinstance(fault, Crash) == (node in down):
                    state = "down already" if node in down else "up"
                    raise SpecError(f"{fault}: {node} is {state}", "crash, then restart")
                down ^= {node}
            case Partition(_, side):
                _check_side(side, fault, topology)
                cut.append(side)
            case Heal(_, side):
                if side and side not in cut:
                    raise SpecError(f"{fault}: no such partition", "name the side that was cut off")
                cut = [other for other in cut if side and other != side]
            case LinkFault(_, a, b):
                if not (a == b == EVERY or {a, b} in joined):
                    fix = "name two hosts that a link joins, or * and *"
                    raise SpecError(f"{fault}: no link {a}-{b} in {topology.name}", fix)
                _check_disturbance(fault)
            case Handover(_, host, point):
                _check_handover(host, point, fault, topology)
                joined = [{host, point} if host in pair else pair for pair in joined]
            case ClockSkew(_, node, _) | ServerCrash(_, node):
                _known_node(node, fault, topology)
    return ordered


def _check_side(side: tuple[str, ...], fault: Fault, topology: Topology) -> None:
    if not side:
        raise SpecError(f"{fault}: nobody is cut off", "name the nodes or hosts of one side")
    for name in side:
        if topology.host_of(name) in _switches(topology):
            joined = [{link.a, link.b} for link in topology.links]
            hosts = [host.name for host in topology.machines]
            behind = [host for host in hosts if {host, name} in joined] or hosts
            raise SpecError(f"{fault}: {name} is a switch", f"name the hosts behind it, as in {', '.join(behind[:3])}")


def _check_disturbance(fault: LinkFault) -> None:
    match fault:
        case LinkLoss(_, _, _, chance) | LinkDuplication(_, _, _, chance) | LinkReordering(_, _, _, chance, _):
            if not 0 <= chance <= 1:
                raise SpecError(f"{fault}: probability {chance}", "give a value from 0 to 1")
    match fault:
        case LinkDelay(hold_ns=hold_ns) if hold_ns < 0:
            raise SpecError(f"{fault}: hold", 'give a length, as in "20ms", or "0ms" at its end')
        case LinkReordering(hold_ns=hold_ns) if hold_ns <= 0:
            raise SpecError(f"{fault}: hold", 'give a length, as in "20ms"')


def _check_handover(host: str, point: str, fault: Fault, topology: Topology) -> None:
    links = [link for link in topology.links if host in (link.a, link.b)]
    if len(links) != 1:
        raise SpecError(f"{fault}: {host} has {len(links)} links", "only a host with one link can move")
    switches = _switches(topology)
    if host in switches:
        raise SpecError(f"{fault}: {host} is a switch", "only a host on which nodes run can move")
    if point not in switches:
        raise SpecError(f"{fault}: no access point {point!r}", hint(point, switches))


def _switches(topology: Topology) -> list[str]:
    return [host.name for host in topology.hosts if host.role == SWITCH]


def _known_node(node: str, fault: Fault, topology: Topology) -> None:
    if node not in topology.node_names():
        raise SpecError(f"{fault}: no node {node!r}", hint(node, topology.node_names()))
