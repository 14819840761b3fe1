"""The event loop of virtual time: the body of all nodes of a run, which waits by going to the next instant.

Events are handled in order of (instant, serial number): ties are first in, first out.  Before the
data plane is asked or told anything at instant t it is advanced to t, and not at other events, as a
step of it costs more than what it carries.  Every message is encoded and decoded, so that what works
here works on sockets, and its bytes are counted.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from core.errors import SpecError, SystemFault
from core.records import Request
from core.registry import hint
from core.units import SECOND_NS, duration_text
from systems.api import Arrival, Decide, Delivery, Event, Node, Report, Step, System, Timer, Transport
from testbed.faults import ClockSkew, Crash, Fault, Restart, ServerCrash, check_faults
from testbed.nodes.journal import NodeJournal
from testbed.nodes.member import Group, Member, node_seed
from testbed.topologies.topology import Topology
from testbed.virtual.network import Happening, Network, Parcel, Stream

EVENTS_MAXIMUM = 200_000_000  # of one run
EVENTS_AT_ONE_INSTANT_MAXIMUM = 100_000  # timers and deliveries of one node: more is a node that never stops
SAMPLE_PERIOD_NS = SECOND_NS  # of the traffic counters
_SELF_MADE = (Timer, Delivery)  # events that nodes give themselves or each other


class DataPlane(Protocol):
    """What carries the messages that the nodes control: the virtual broker kernel, say."""

    def advance(self, until_ns: int) -> None:
        """Carry all traffic up to ``until_ns``."""

    def report(self) -> Iterable[tuple[str, object]]:
        """What it saw since the last report: (node, measurement), for each node and topic."""

    def actuate(self, node: str, command: object, now_ns: int) -> None:
        """Carry out a command of ``node``, as of ``now_ns``."""

    def crash(self, node: str, now_ns: int) -> None:
        """``node`` crashes, and takes with it what of the traffic goes with a node."""


class EventLoop:
    """Runs the nodes that ``boot`` makes; their ``testbed.nodes.member.Body``.

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
        clock_offsets_ns: Mapping[str, int] | None = None,
    ):
        self.now_ns = self._start_ns = self._carried_ns = start_ns
        self.in_flight_count = 0
        self.journal = NodeJournal()
        self._boot, self._network, self._plane = boot, network, plane
        self._by_streams = network.transport is Transport.STREAM
        self._keep_steps, self._events_left = keep_steps, EVENTS_MAXIMUM
        self._restarts_count = 0
        self._counted_ns, self._at_instant = start_ns, dict[str, int]()  # self-made events of an instant, by node
        self._heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._serial = 0
        nodes, offsets_ns = boot(0), clock_offsets_ns or {}
        group = Group(frozenset(nodes), messages, network.transport)
        self._members = {name: Member(name, node, group, self, offsets_ns.get(name, 0)) for name, node in nodes.items()}
        for member in self._members.values():
            network.topology.host_of(member.name)
            self.call_at(start_ns, self.occur, member, member.start_from(None))
        self.call_at(start_ns + SAMPLE_PERIOD_NS, self._tick)

    def states(self) -> dict[str, object]:
        """The snapshot of each node that lives and gives one."""
        states = {name: member.state() for name, member in self._members.items()}
        return {name: state for name, state in states.items() if state is not None}

    def living(self) -> dict[str, Node]:
        """The nodes that are up, by name: to be watched, not handled."""
        return {name: member.node for name, member in self._members.items() if member.alive}

    @property
    def last_traffic_ns(self) -> int:
        """When anything was last sent or arrived."""
        return max(self._start_ns, *(member.last_traffic_ns for member in self._members.values()))

    # --- what happens from outside ---------------------------------------------------------------

    def offer(self, node: str, requests: Iterable[Request]) -> None:
        """Requests arrive at ``node`` at their instants; they must be in order of time."""
        self._next_request(self._known(node), iter(requests))

    def inject(self, node: str, at_ns: int, event: Event) -> None:
        """Give ``node`` an event, a ``Report`` say, at an instant."""
        self.call_at(at_ns, self.occur, self._known(node), event)

    def fail(self, faults: Iterable[Fault]) -> None:
        """Let faults happen; SpecError where one cannot."""
        for fault in check_faults(faults, self._network.topology):
            if isinstance(fault, ServerCrash):
                raise SpecError(f"{fault}: nobody asks a real server in virtual time", "use --testbed mininet")
            if isinstance(fault, Crash | Restart | ClockSkew):
                self._known(fault.node)
            self.call_at(fault.at_ns, self._apply_fault, fault)

    def report_every(self, period_ns: int) -> None:
        """Give the nodes the data plane's measurements every ``period_ns`` from now on."""
        assert self._plane is not None and period_ns > 0
        self.call_at(self.now_ns + period_ns, self._report, period_ns)

    def run(self, until_ns: int) -> NodeJournal:
        """Handle all events up to and including ``until_ns``; may be called again with a later instant."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until_ns:
            self.now_ns, _, action, arguments = pop(heap)
            action(*arguments)
        self.now_ns = until_ns
        self.carried()
        self._tell_traffic()
        return self.journal

    def carried(self) -> DataPlane | None:
        """The data plane, if there is one, which has carried all traffic up to now."""
        if self._plane is not None and self._carried_ns < self.now_ns:
            self._plane.advance(self.now_ns)
            self._carried_ns = self.now_ns
        return self._plane

    def is_quiet(self) -> bool | None:
        """Is nothing queued at any node, and nothing under way?  None where a node does not say (``idle()``)."""
        if self.in_flight_count or self._network.waiting_count:
            return False
        idle = [member.idle() for member in self._members.values() if member.alive]
        return None if None in idle else all(idle)

    def _known(self, node: str) -> Member:
        if node not in self._members:
            raise SpecError(f"no node {node!r} in this run", hint(node, self._members))
        return self._members[node]

    # --- the body of all members -----------------------------------------------------------------

    def call_at(self, at_ns: int, action: Callable[..., None], *arguments: object) -> None:
        """Call ``action`` at an instant, in the order given; see ``Body.call_at``."""
        assert at_ns >= self.now_ns, f"an event at {at_ns} after {self.now_ns}"
        self._serial += 1
        heapq.heappush(self._heap, (at_ns, self._serial, action, arguments))

    def occur(self, member: Member, event: Event) -> None:
        """Give an event to a member that lives; SystemFault where there are too many."""
        if not member.alive:
            return
        self._bound(member.name, event)
        effects = member.handle(event)
        if self._keep_steps:
            clock_ns = self.now_ns + member.clock_offset_ns
            step = Step(clock_ns, member.name, member.incarnation, event, tuple(effects), self.now_ns)
            self.journal.steps.append(step)

    def send(self, source: str, target: str, content: bytes, by_datagram: bool) -> None:
        """Into the network; see ``Body.send``."""
        parcel = Parcel(source, target, content, len(content), self._members[target].incarnation, by_datagram)
        self._await(self._network.send(parcel, self.now_ns))

    def release(self, node: str, request_id: int) -> None:
        """Whoever asked hears from where it is decided."""

    def decide(self, node: str, decision: Decide) -> None:
        """Into the journal."""
        self.journal.verdicts[decision.request_id] = self.now_ns, node, decision.verdict

    def actuate(self, node: str, command: object) -> None:
        """Into the journal, and to the data plane."""
        self.journal.commands.append((self.now_ns, node, command))
        plane = self.carried()
        if plane is not None:
            plane.actuate(node, command, self.now_ns)

    def sample(self, node: str, metric: str, value: float) -> None:
        """Into the journal."""
        self.journal.samples.append((self.now_ns, node, metric, value))

    # --- events ----------------------------------------------------------------------------------

    def _bound(self, name: str, event: Event) -> None:
        self._events_left -= 1
        if self._events_left < 0:
            raise SystemFault(f"too many events, the last at {name}", "shorten the run, or set fewer timers")
        if not isinstance(event, _SELF_MADE):
            return
        if self.now_ns != self._counted_ns:
            self._counted_ns = self.now_ns
            self._at_instant.clear()
        self._at_instant[name] = count = self._at_instant.get(name, 0) + 1
        if count > EVENTS_AT_ONE_INSTANT_MAXIMUM:
            raise SystemFault(
                f"{name} does not get past {duration_text(self.now_ns)}, last with {event!r}", "set timers ahead of now"
            )

    def _next_request(self, member: Member, rest: Iterator[Request]) -> None:
        request = next(rest, None)
        if request is not None:
            if request.at_ns < self.now_ns:
                what = f"request {request.id} at {member.name} is out of order"
                raise SpecError(what, "offer requests in order of time")
            self.call_at(request.at_ns, self._arrive, member, request, rest)

    def _arrive(self, member: Member, request: Request, rest: Iterator[Request]) -> None:
        self._next_request(member, rest)
        if request.id in self.journal.offered:
            raise SpecError(f"request {request.id} is offered twice", "ids are unique over all nodes")
        self.journal.offered[request.id] = member.name, request
        self.occur(member, Arrival(request))

    def _await(self, happenings: Iterable[Happening]) -> None:
        for at_ns, what in happenings:
            if isinstance(what, Parcel):
                self.in_flight_count += 1
                self.call_at(at_ns, self._deliver, what)
            else:
                self.call_at(at_ns, self._retry, what)

    def _retry(self, stream: Stream) -> None:
        self._await(self._network.retry(stream, self.now_ns))

    def _deliver(self, parcel: Parcel) -> None:
        self.in_flight_count -= 1
        member = self._members[parcel.target]
        member.last_traffic_ns = self.now_ns
        of_stream = self._by_streams and not parcel.by_datagram
        broken = of_stream and member.incarnation != parcel.target_incarnation
        if broken or not member.alive:
            self._network.lost_count[parcel.source] += 1
            return
        self.occur(member, member.event_of(parcel.source, parcel.content))

    def _report(self, period_ns: int) -> None:
        plane = self.carried()
        assert plane is not None
        self.call_at(self.now_ns + period_ns, self._report, period_ns)
        for name, measurement in plane.report():
            self.occur(self._members[name], Report(measurement))

    # --- faults and counters ---------------------------------------------------------------------

    def _apply_fault(self, fault: Fault) -> None:
        self.journal.faults.append((self.now_ns, fault))
        match fault:
            case Crash(_, node):
                self._members[node].crash()
                self._network.end_streams(node)
                plane = self.carried()
                if plane is not None:
                    plane.crash(node, self.now_ns)
            case Restart(_, node, copy_from):
                self._restart(self._members[node], copy_from)
            case ClockSkew(_, node, offset_ns):
                self._members[node].clock_offset_ns = offset_ns
            case _:
                self._network.apply(fault)

    def _restart(self, member: Member, copy_from: str) -> None:
        self._restarts_count += 1
        self._network.end_streams(member.name)  # nothing waits behind what was sent to the dead
        member.rejoin(self._boot(self._restarts_count)[member.name])
        state = self._members[copy_from].state_content() if copy_from else None
        self.occur(member, member.start_from(state, again=True))

    def _tick(self) -> None:
        self.call_at(self.now_ns + SAMPLE_PERIOD_NS, self._tick)
        self._tell_traffic()
        for member in self._members.values():
            member.tell_weight()

    def _tell_traffic(self) -> None:
        """What was sent and lost since the last time, in the samples of now."""
        for name in sorted(self._members):
            self._members[name].tell_traffic(self._network.lost_count[name])
        self._network.lost_count.clear()


def event_loop(
    system: System,
    config: object,
    topology: Topology,
    names: Sequence[str],
    seed: int,
    plane: DataPlane | None = None,
    keep_steps: bool = False,
    start_ns: int = 0,
    clock_offsets_ns: Mapping[str, int] | None = None,
) -> EventLoop:
    """The loop for ``system.nodes(names, ...)`` on ``topology``; a restarted node has a seed of its own.

    SpecError where the topology has no place for a node, or the system has none.
    """
    make = system.nodes
    if make is None:
        raise SpecError(f"system {system.key} has no nodes", "it distributes publishers; run it as a distributor")

    def boot(restart: int) -> dict[str, Node]:
        return make(list(names), config, node_seed(seed, restart))

    network = Network(topology, seed, system.transport)
    return EventLoop(boot, network, system.messages, plane, keep_steps, start_ns, clock_offsets_ns=clock_offsets_ns)
