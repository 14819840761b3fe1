"""The event loop of virtual time: delivers events to nodes and carries out their effects.

Events are handled in order of (instant, serial number): ties are first in, first out.  Before an
event at instant t is delivered, the data plane is advanced to t.  Every message is encoded and
decoded, so that what works here works on sockets, and its bytes are counted.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from core.codec import Codec
from core.errors import SpecError, SystemFault
from core.records import Request
from core.registry import hint
from core.units import SECOND_NS, duration_text
from systems.api import (
    Actuate,
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Forward,
    Node,
    Report,
    Sample,
    Send,
    SetTimer,
    Start,
    Timer,
    Transport,
    Verdict,
)
from systems.referee import Referee
from testbed.faults import ClockSkew, Crash, Fault, Handover, Heal, LinkFault, Partition, Restart, check_faults
from testbed.nodes.member import answer, encoded
from testbed.virtual.network import Network, Parcel

EVENTS_MAXIMUM = 200_000_000  # of one run
EVENTS_AT_ONE_INSTANT_MAXIMUM = 100_000  # timers and deliveries of one node: more is a node that never stops
SAMPLE_PERIOD_NS = SECOND_NS  # of the traffic counters
_SELF_MADE = (Timer, Delivery)  # events that nodes give themselves or each other


class DataPlane(Protocol):
    """What carries the messages that the nodes control: the virtual broker kernel, say."""

    def advance(self, until_ns: int) -> None:
        """Carry all traffic up to ``until_ns``."""
        ...

    def report(self) -> Iterable[tuple[str, Any]]:
        """What it saw since the last report: (node, measurement), for each node and topic."""
        ...

    def actuate(self, node: str, command: Any, now_ns: int) -> None:
        """Carry out a command of ``node``, as of ``now_ns``.

        A plane whose nodes take their traffic with them also has ``crash(node, now_ns)``.
        """
        ...


class Step(NamedTuple):
    """One event that a node handled, and its answer; ``at_ns`` is the node's own time."""

    at_ns: int
    node: str
    incarnation: int
    event: Event
    effects: tuple[Effect, ...]


@dataclass
class Journal:
    """Everything that happened, in order."""

    offered: dict[int, tuple[str, Request]] = field(default_factory=dict)  # request id -> (node, request)
    verdicts: dict[int, tuple[int, str, Verdict]] = field(default_factory=dict)  # request id -> (at_ns, node, verdict)
    samples: list[tuple[int, str, str, float]] = field(default_factory=list)  # (at_ns, node, metric, value)
    commands: list[tuple[int, str, Any]] = field(default_factory=list)  # (at_ns, node, command)
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)  # on request


@dataclass
class _Member:
    """A node's place in the run; a crash ends one incarnation, a restart begins the next."""

    node: Node
    referee: Referee
    incarnation: int = 0
    alive: bool = True
    timers: dict[str, int] = field(default_factory=dict)  # name -> number of the setting that counts
    clock_offset_ns: int = 0  # how far the node's clock is ahead of true time
    instant_ns: int = -1
    events_at_instant: int = 0


class EventLoop:
    """Runs the nodes that ``boot`` makes.

    ``boot(restart)`` makes all nodes anew; ``restart`` is 0 at the start and counts the run's
    restarts, each of which takes its node from a fresh set: nothing survives a crash.  Time begins
    at ``start_ns``; ``plane`` is what carries messages, if anything does.  ``clock_offsets_ns``: how
    far nodes' clocks are ahead of true time (0 where not given).
    """

    def __init__(
        self,
        boot: Callable[[int], Mapping[str, Node]],
        network: Network,
        messages: Sequence[type] = (),
        plane: DataPlane | None = None,
        keep_steps: bool = False,
        start_ns: int = 0,
        events_maximum: int = EVENTS_MAXIMUM,
        clock_offsets_ns: Mapping[str, int] | None = None,
    ):
        self.now_ns = self.last_traffic_ns = start_ns
        self.in_flight_count = 0
        self.journal = Journal()
        self._boot, self._network, self._messages, self._plane = boot, network, messages, plane
        self._codec = Codec((Request, *messages))
        self._keep_steps, self._events_left = keep_steps, events_maximum
        self._restarts_count = 0
        self._sent: dict[str, list[int]] = {}  # by source: messages, bytes, since they were last told of
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = self._timer_serial = 0
        nodes = boot(0)
        self._members = {name: _Member(node, Referee(name, nodes, messages)) for name, node in nodes.items()}
        for name in self._members:
            network.topology.host_of(name)
            self._members[name].clock_offset_ns = (clock_offsets_ns or {}).get(name, 0)
            self._push(start_ns, self._handle, name, Start(None))
        self._push(start_ns + SAMPLE_PERIOD_NS, self._tick)

    def states(self) -> dict[str, Any]:
        """The snapshot of each node that lives and gives one."""
        takes = {name: getattr(of.node, "snapshot", None) for name, of in self._members.items() if of.alive}
        return {name: take() for name, take in takes.items() if take is not None}

    # --- what happens from outside ---------------------------------------------------------------

    def offer(self, node: str, requests: Iterable[Request]) -> None:
        """Requests arrive at ``node`` at their instants; they must be in order of time."""
        self._known(node)
        self._next_request(node, iter(requests))

    def inject(self, node: str, at_ns: int, event: Event) -> None:
        """Give ``node`` an event, a ``Report`` say, at an instant."""
        self._known(node)
        self._push(at_ns, self._handle, node, event)

    def fail(self, faults: Iterable[Fault]) -> None:
        """Let faults happen; SpecError where one cannot."""
        for fault in check_faults(faults, self._network.topology):
            if isinstance(fault, Crash | Restart | ClockSkew):
                self._known(fault.node)
            self._push(fault.at_ns, self._apply_fault, fault)

    def report_every(self, period_ns: int) -> None:
        """Give the nodes the data plane's measurements every ``period_ns`` from now on."""
        assert self._plane is not None and period_ns > 0
        self._push(self.now_ns + period_ns, self._report, period_ns)

    def run(self, until_ns: int) -> Journal:
        """Handle all events up to and including ``until_ns``; may be called again with a later instant."""
        heap, pop, plane = self._heap, heapq.heappop, self._plane
        while heap and heap[0][0] <= until_ns:
            at_ns, _, action, arguments = pop(heap)
            if plane is None:
                self.now_ns = at_ns
            else:
                self._advance(at_ns)
            action(*arguments)
        self._advance(until_ns)
        self._flush_traffic()
        return self.journal

    def is_quiet(self) -> bool | None:
        """Is nothing queued at any node, and nothing under way?  None where a node does not say (``idle()``)."""
        if self.in_flight_count or self._network.held_count:
            return False
        nodes = [member.node for member in self._members.values() if member.alive]
        if not all(hasattr(node, "idle") for node in nodes):
            return None
        return all(node.idle() for node in nodes)  # type: ignore[attr-defined]

    def _known(self, node: str) -> None:
        if node not in self._members:
            raise SpecError(f"no node {node!r} in this run", hint(node, self._members))

    # --- the heap --------------------------------------------------------------------------------

    def _push(self, at_ns: int, action: Callable[..., None], *arguments: Any) -> int:
        assert at_ns >= self.now_ns, f"an event at {at_ns} after {self.now_ns}"
        self._serial += 1
        heapq.heappush(self._heap, (at_ns, self._serial, action, arguments))
        return self._serial

    def _advance(self, at_ns: int) -> None:
        if self._plane is not None and at_ns > self.now_ns:
            self._plane.advance(at_ns)
        self.now_ns = at_ns

    # --- events ----------------------------------------------------------------------------------

    def _handle(self, name: str, event: Event) -> None:
        member = self._members[name]
        if not member.alive:
            return
        self._bound(name, member, event)
        clock_ns = self.now_ns + member.clock_offset_ns
        effects = answer(member.node, member.referee, event, clock_ns)
        if self._keep_steps:
            self.journal.steps.append(Step(clock_ns, name, member.incarnation, event, tuple(effects)))
        for effect in effects:
            self._carry_out(name, member, effect)

    def _bound(self, name: str, member: _Member, event: Event) -> None:
        self._events_left -= 1
        if self._events_left < 0:
            raise SystemFault(f"too many events, the last at {name}", "shorten the run, or set fewer timers")
        if self.now_ns != member.instant_ns:
            member.instant_ns, member.events_at_instant = self.now_ns, 0
        member.events_at_instant += isinstance(event, _SELF_MADE)
        if member.events_at_instant > EVENTS_AT_ONE_INSTANT_MAXIMUM:
            raise SystemFault(
                f"{name} does not get past {duration_text(self.now_ns)}, last with {event!r}", "set timers ahead of now"
            )

    def _next_request(self, node: str, rest: Iterator[Request]) -> None:
        request = next(rest, None)
        if request is not None:
            if request.at_ns < self.now_ns:
                raise SpecError(f"request {request.id} at {node} is out of order", "offer requests in order of time")
            self._push(request.at_ns, self._arrive, node, request, rest)

    def _arrive(self, node: str, request: Request, rest: Iterator[Request]) -> None:
        self._next_request(node, rest)
        if request.id in self.journal.offered:
            raise SpecError(f"request {request.id} is offered twice", "ids are unique over all nodes")
        self.journal.offered[request.id] = node, request
        self._handle(node, Arrival(request))

    def _ring(self, name: str, timer: str, serial: int) -> None:
        member = self._members[name]
        if member.timers.get(timer) == serial:  # not replaced since, nor lost in a crash
            del member.timers[timer]
            due_at_ns = self.now_ns + member.clock_offset_ns  # a step of the clock does not move what was set before
            self._handle(name, Timer(timer, due_at_ns))

    def _deliver(self, parcel: Parcel) -> None:
        self.in_flight_count -= 1
        self.last_traffic_ns = self.now_ns
        member = self._members[parcel.target]
        broken = self._network.transport is Transport.STREAM and member.incarnation != parcel.target_incarnation
        if broken or not member.alive:
            self._network.lost_count[parcel.source] += 1
            return
        content = self._codec.decode(parcel.content)
        event = Arrival(content) if isinstance(content, Request) else Delivery(parcel.source, content)
        self._handle(parcel.target, event)

    def _report(self, period_ns: int) -> None:
        assert self._plane is not None
        self._push(self.now_ns + period_ns, self._report, period_ns)
        for name, measurement in self._plane.report():
            self._handle(name, Report(measurement))

    # --- effects ---------------------------------------------------------------------------------

    def _carry_out(self, name: str, member: _Member, effect: Effect) -> None:
        match effect:
            case Send(target, message):
                self._send(name, target, message)
            case SetTimer(timer, at_ns):
                self._timer_serial += 1
                member.timers[timer] = self._timer_serial
                true_ns = at_ns - member.clock_offset_ns
                self._push(true_ns, self._ring, name, timer, self._timer_serial)
            case Forward(request, target):
                self._send(name, target, request)
            case Decide(request_id, verdict):
                self.journal.verdicts[request_id] = self.now_ns, name, verdict
            case Actuate(command):
                self.journal.commands.append((self.now_ns, name, command))
                if self._plane is not None:
                    self._plane.actuate(name, command, self.now_ns)
            case Sample(metric, value):
                self.journal.samples.append((self.now_ns, name, metric, float(value)))

    def _send(self, source: str, target: str, message: Any) -> None:
        content = encoded(self._codec, source, message, self._network.transport)
        self._count_sent(source, content)
        self._dispatch(Parcel(source, target, content, len(content), self._members[target].incarnation))

    def _count_sent(self, source: str, content: bytes) -> None:
        self.last_traffic_ns = self.now_ns
        sent = self._sent.setdefault(source, [0, 0])
        sent[0] += 1
        sent[1] += len(content)

    def _dispatch(self, parcel: Parcel) -> None:
        for at_ns in self._network.send(parcel, self.now_ns):
            self.in_flight_count += 1
            self._push(at_ns, self._deliver, parcel)

    # --- faults and counters ---------------------------------------------------------------------

    def _apply_fault(self, fault: Fault) -> None:
        self.journal.faults.append((self.now_ns, fault))
        match fault:
            case Crash(_, node):
                self._crash(node)
            case Restart(_, node, copy_from):
                self._restart(node, copy_from)
            case Partition(_, side):
                self._network.partition(side)
            case Heal(_, side):
                for parcel in self._network.heal(side):
                    self._dispatch(parcel)
            case Handover(_, host, point):
                self._network.move(host, point)
            case ClockSkew(_, node, offset_ns):
                self._members[node].clock_offset_ns = offset_ns
            case _:
                assert isinstance(fault, LinkFault)
                self._network.disturb(fault)

    def _crash(self, name: str) -> None:
        member = self._members[name]
        member.alive = False
        member.timers.clear()
        self._network.crash(name)
        crash = getattr(self._plane, "crash", None)
        if crash is not None:
            crash(name, self.now_ns)

    def _restart(self, name: str, copy_from: str) -> None:
        self._restarts_count += 1
        member = self._members[name]
        member.node = self._boot(self._restarts_count)[name]
        member.referee = Referee(name, self._members, self._messages)
        snapshot = self._copied(copy_from) if copy_from else None
        member.alive, member.incarnation = True, member.incarnation + 1
        self._handle(name, Start(snapshot))

    def _copied(self, peer: str) -> Any:
        """The state of ``peer`` as a message, or None where it is down or keeps it to itself."""
        member = self._members[peer]
        take = getattr(member.node, "snapshot", None)
        if take is None or not member.alive:
            return None
        content = self._codec.encode(take())
        self._count_sent(peer, content)
        return self._codec.decode(content)

    def _tick(self) -> None:
        self._push(self.now_ns + SAMPLE_PERIOD_NS, self._tick)
        self._flush_traffic()
        for name, member in self._members.items():
            for metric in ("state_bytes", "allocated_bytes"):
                weigh = getattr(member.node, metric, None)
                if weigh is not None and member.alive:
                    self.journal.samples.append((self.now_ns, name, metric, float(weigh())))

    def _flush_traffic(self) -> None:
        """What was sent and lost since the last time, in the samples of now."""
        lost = self._network.lost_count
        rows = [(source, "lost_count", count) for source, count in lost.items()]
        for source, (count, size_bytes) in self._sent.items():
            rows += [(source, "sent_bytes", size_bytes), (source, "sent_count", count)]
        self.journal.samples += [(self.now_ns, source, metric, float(value)) for source, metric, value in sorted(rows)]
        lost.clear()
        self._sent.clear()
