"""A node's place in a run, the same in virtual time and on sockets: incarnations, timers, clock, effects, counters.

A ``Member`` gives its node events, judges the answers and carries each effect out through a ``Body``: the event loop
of virtual time, or the process that has the node's sockets.  The two differ in how they wait and in where bytes go.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from core.codec import Codec
from core.errors import HarnessError, SystemFault
from core.records import Request
from core.seeds import child_seed
from core.units import duration_text
from systems.api import (
    Actuate,
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Forward,
    Message,
    Node,
    Sample,
    Send,
    SetTimer,
    Start,
    Timer,
    Transport,
)
from systems.referee import Referee

DATAGRAM_BYTES_MAXIMUM = 65_507  # of UDP over IPv4
WEIGHTS = ("state_bytes", "allocated_bytes")  # metrics that a node may tell by a method of that name


class Group:
    """The nodes of a deployment, by name, and how they talk: what they send each other, and over what."""

    def __init__(self, names: Collection[str], messages: Sequence[type], transport: Transport):
        self.names, self.messages, self.transport = names, messages, transport
        self.codec = Codec((Request, *messages))


class Body(Protocol):
    """What carries members: a clock with alarms, and ways out.  Instants are of true time."""

    @property
    def now_ns(self) -> int:
        """The run's true time."""

    def occur(self, member: "Member", event: Event) -> None:
        """Give an event to a member, by ``Member.handle``."""

    def call_at(self, at_ns: int, action: Callable[..., None], *arguments: object) -> None:
        """Call ``action`` at an instant."""

    def send(self, source: str, target: str, content: bytes, by_datagram: bool) -> None:
        """Bring a message's bytes to another node, or to the same; see ``systems.api.Message``."""

    # What a body need not take note of.

    def release(self, node: str, request_id: int) -> None:
        """The node has handed the request on, and will not decide it."""
        return None

    def decide(self, node: str, decision: Decide) -> None:
        """The node has decided a request."""
        return None

    def actuate(self, node: str, command: object) -> None:
        """Pass a command on to the node's data plane, if it has one."""
        return None

    def sample(self, node: str, metric: str, value: float) -> None:
        """Keep a value of now."""
        return None


class Member:
    """A node's place; a crash ends one incarnation, a restart begins the next.

    ``clock_offset_ns``: how far the node's clock is ahead of true time.  ``last_traffic_ns``: when it last sent, or
    was seen to receive, in true time.
    """

    def __init__(self, name: str, node: Node, group: Group, body: Body, clock_offset_ns: int = 0):
        self.name, self.clock_offset_ns = name, clock_offset_ns
        self.alive, self.incarnation, self.last_traffic_ns = True, 0, 0
        self._group, self._body = group, body
        self._timers: dict[str, int] = {}  # name -> number of the setting that counts
        self._timer_serial = 0
        self._latest_ns = 0  # how late the latest timer rang, the sent: since they were last told of
        self._sent_count = self._sent_bytes = 0
        self._settle(node)

    def _settle(self, node: Node) -> None:
        self.node = node
        self._weighs = [(metric, getattr(node, metric)) for metric in WEIGHTS if hasattr(node, metric)]
        self._message_bytes = getattr(node, "message_bytes", _as_encoded)
        self._referee = Referee(self.name, self._group.names, self._group.messages)

    def handle(self, event: Event) -> list[Effect]:
        """Give the node an event now, and carry out its answer; SystemFault where it breaks a rule, or breaks down.

        A body that rings a timer late is not the node's fault: what the node then sets is judged as of the instant
        at which the timer was due.
        """
        clock_ns = self._body.now_ns + self.clock_offset_ns
        self._referee.saw(event)
        try:
            effects = self.node.handle(event, clock_ns)
        except HarnessError:
            raise
        except Exception as error:
            what = f"{self.name} failed on {event!r} at {duration_text(clock_ns)}: {type(error).__name__}: {error}"
            raise SystemFault(what, "mend the node's handle") from error
        self._referee.check(effects, min(clock_ns, event.due_at_ns) if isinstance(event, Timer) else clock_ns)
        for effect in effects:
            self._carry_out(effect)
        return effects

    def event_of(self, source: str, content: bytes) -> Event:
        """What the bytes of another node mean to this one; SystemFault where they cannot be read."""
        message = self._group.codec.decode(content)
        return Arrival(message) if isinstance(message, Request) else Delivery(source, message)

    def start_from(self, state: bytes | None, again: bool = False) -> Start:
        """The event with which an incarnation begins: empty, or with a peer's ``state_content``."""
        return Start(self._group.codec.decode(state) if state else None, again)

    def _ring(self, timer: str, serial: int, true_ns: int) -> None:
        if self._timers.get(timer) == serial:  # not replaced since, nor lost in a crash
            del self._timers[timer]
            late_ns = self._body.now_ns - true_ns
            if late_ns > self._latest_ns:
                self._latest_ns = late_ns
            # A step of the clock does not move what was set before.
            self._body.occur(self, Timer(timer, true_ns + self.clock_offset_ns))

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(target, message):
                self._send(target, message)
            case SetTimer(timer, at_ns):
                self._timer_serial += 1
                self._timers[timer] = self._timer_serial
                true_ns = at_ns - self.clock_offset_ns
                self._body.call_at(true_ns, self._ring, timer, self._timer_serial, true_ns)
            case Forward(request, target):
                self._body.release(self.name, request.id)
                self._send(target, request)
            case Decide():
                self._body.decide(self.name, effect)
            case Actuate(command):
                self._body.actuate(self.name, command)
            case Sample(metric, value):
                self._body.sample(self.name, metric, float(value))

    def _send(self, target: str, message: object) -> None:
        content = self._group.codec.encode(message)
        by_datagram = isinstance(message, Message) and message.by_datagram
        is_datagram = by_datagram or self._group.transport is Transport.DATAGRAM
        if len(content) > DATAGRAM_BYTES_MAXIMUM and is_datagram:
            what = f"{self.name} sent a {type(message).__name__} of {len(content)} bytes, too long for a datagram"
            raise SystemFault(what, "declare transport=Transport.STREAM, or send less at once")
        self._count(self._message_bytes(message, len(content)))
        self._body.send(self.name, target, content, by_datagram)

    def crash(self) -> None:
        """The incarnation ends: its timers are gone, and it hears nothing more."""
        self.alive = False
        self._timers.clear()

    def rejoin(self, node: Node) -> None:
        """Another incarnation begins with a fresh node; its ``Start`` is to come."""
        self.alive, self.incarnation = True, self.incarnation + 1
        self._settle(node)

    def state(self) -> object:
        """The node's snapshot; None where it is down, or keeps it to itself."""
        snapshot = getattr(self.node, "snapshot", None)
        return snapshot() if self.alive and snapshot is not None else None

    def state_content(self, counted: bool = True) -> bytes | None:
        """The same as bytes for a peer that re-joins; it counts as sent by the node, if it is ``counted``."""
        state = self.state()
        if state is None:
            return None
        content = self._group.codec.encode(state)
        if counted:
            self._count(self._message_bytes(state, len(content)))
        return content

    def idle(self) -> bool | None:
        """Whether nothing is left to send; None where the node does not say."""
        idle = getattr(self.node, "idle", None)
        return None if idle is None else bool(idle())

    def count_sent(self, content: bytes) -> None:
        """The node's data plane sends these bytes."""
        self._count(len(content))

    def _count(self, size_bytes: int) -> None:
        self.last_traffic_ns = self._body.now_ns
        self._sent_count += 1
        self._sent_bytes += size_bytes

    def tell_traffic(self, lost_count: int) -> None:
        """Sample what was sent and lost since the last time, and how late the latest timer rang; nothing where 0."""
        counted = (
            ("lost_count", lost_count),
            ("sent_bytes", self._sent_bytes),
            ("sent_count", self._sent_count),
            ("timer_lateness_ns", self._latest_ns),
        )
        for metric, value in counted:
            if value:
                self._body.sample(self.name, metric, float(value))
        self._sent_count = self._sent_bytes = self._latest_ns = 0

    def tell_weight(self) -> None:
        """Sample what the node's state weighs, where it lives and says so."""
        if self.alive:
            for metric, weigh in self._weighs:
                self._body.sample(self.name, metric, float(weigh()))


def _as_encoded(message: object, encoded_bytes: int) -> int:
    """What a message counts where its node does not say."""
    return encoded_bytes


def node_seed(seed: int, restart: int) -> int:
    """The seed of the nodes that are made at the start (0) or for the run's n-th restart."""
    return child_seed(seed, "nodes", restart) >> 1
