"""What holds of placements: one owner at a time, nothing acknowledged is lost, few move, all are served at rest.

A broker whose session at the store lives owns its topics alone.  One that is cut off for longer than a session does
not know that it owns nothing any more, and goes on until it hears so, or begins with what it was granted before: the
model has no lease on ownership, so that two may accept a topic meanwhile (ZooKeeper's own limit).
"""

from dataclasses import dataclass, field

from core.clients import Role
from core.units import duration_text
from systems.api import Actuate, Delivery, Effect, Invariant, Report, RunHistory, Send, Start, Step, Timer, Violation
from systems.placement.cast import STORE
from systems.placement.manager import GIVEN_UP_NS
from systems.placement.messages import (
    Attach,
    Beat,
    Detach,
    Drained,
    Expired,
    Fence,
    Follow,
    Open,
    Release,
    Released,
    Subscribed,
    Unfollow,
    Unsubscribed,
    Wanted,
)

_MOVING_NS = 5_000_000_000  # a topic fenced so lately may be on its way


@dataclass
class _Plane:
    """Who accepts which topic, what is not yet drained, whose session lives, step by step."""

    session_ns: int
    outages: dict[str, list[tuple[int, int]]]
    heard_ns: dict[str, int] = field(default_factory=dict)  # by the store, on its clock: sessions that live
    open: dict[str, dict[str, None]] = field(default_factory=dict)  # topic -> brokers
    draining: dict[str, dict[str, None]] = field(default_factory=dict)  # topic -> brokers
    fenced_ns: dict[str, int] = field(default_factory=dict)  # topic -> last time, true
    subscribed: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)  # (topic, client) -> brokers
    connected: dict[tuple[str, str, Role], str] = field(default_factory=dict)  # (client, topic, role) -> broker
    wanted: dict[tuple[str, str, Role], None] = field(default_factory=dict)

    def follow(self, step: Step) -> None:
        """Crashes up to a step, and what its node was told; its effects come one by one to ``effect``."""
        for node, spans in self.outages.items():
            while spans and spans[0][0] <= step.true_ns:
                spans.pop(0)
                self._crashed(node)
        match step.event:
            case Start() if step.node == STORE:
                self.heard_ns.clear()
            case Delivery(source, message) if step.node == STORE:
                opens = isinstance(message, Beat) and message.opens
                if opens:
                    self._ended(source)
                if source in self.heard_ns or opens:
                    self.heard_ns[source] = step.at_ns
            case Timer("sessions") if step.node == STORE:
                for name in [name for name, at_ns in self.heard_ns.items() if step.at_ns - at_ns >= self.session_ns]:
                    self._ended(name)
            case Report(Drained(topic)):
                self.draining.get(topic, {}).pop(step.node, None)
            case Report(Wanted(topic, role, wanted)):
                self.wanted.pop((step.node, topic, role), None)
                if wanted:
                    self.wanted[step.node, topic, role] = None

    def _ended(self, name: str) -> None:
        """A session is over: what its broker has not delivered yet holds nobody back any more."""
        self.heard_ns.pop(name, None)
        for brokers in self.draining.values():
            brokers.pop(name, None)

    def effect(self, effect: Effect, step: Step, drains: bool) -> None:
        """A command to the data plane."""
        if not isinstance(effect, Actuate):
            return
        node = step.node
        match effect.command:
            case Open(topic):
                self.open.setdefault(topic, {})[node] = None
            case Fence(topic):
                self._left(topic, node)
                self.fenced_ns[topic] = step.true_ns
                if drains:
                    self.draining.setdefault(topic, {})[node] = None
            case Subscribed(topic, client):
                self.subscribed.setdefault((topic, client), {})[node] = None
            case Unsubscribed(topic, client):
                self.subscribed.get((topic, client), {}).pop(node, None)
            case Attach(topic, broker):
                self.connected[node, topic, Role.PRODUCER] = broker
            case Follow(topic, broker):
                self.connected[node, topic, Role.CONSUMER] = broker
            case Detach(topic):
                self.connected.pop((node, topic, Role.PRODUCER), None)
            case Unfollow(topic):
                self.connected.pop((node, topic, Role.CONSUMER), None)

    def _left(self, topic: str, broker: str) -> None:
        self.open.get(topic, {}).pop(broker, None)
        for (name, _), brokers in self.subscribed.items():
            if name == topic:
                brokers.pop(broker, None)

    def _crashed(self, node: str) -> None:
        for topic in self.open:
            self._left(topic, node)
        for brokers in self.draining.values():
            brokers.pop(node, None)
        self.wanted = {key: None for key in self.wanted if key[0] != node}
        self.connected = {key: broker for key, broker in self.connected.items() if key[0] != node}


def _plane(history: RunHistory) -> _Plane:
    return _Plane(history.config.span("session"), {name: list(spans) for name, spans in history.outages.items()})


def _one_owner(history: RunHistory) -> Violation | None:
    """Of the brokers whose sessions live, none accepts a topic that another accepts."""
    plane = _plane(history)
    for step in history.steps:
        plane.follow(step)
        begun = _begins(step)  # with a new session, and maybe with what it had in the one before
        opened = [(begun, topic) for topic, brokers in plane.open.items() if begun in brokers] if begun else []
        for effect in step.effects:
            plane.effect(effect, step, drains=False)
            if isinstance(effect, Actuate) and isinstance(effect.command, Open) and step.node in plane.heard_ns:
                opened.append((step.node, effect.command.topic))
        for broker, topic in opened:
            others = [name for name in plane.open[topic] if name != broker and name in plane.heard_ns]
            if others:
                return Violation(step.true_ns, broker, f"accepts {topic}, which {others[0]} accepts as well")
    return None


def _begins(step: Step) -> str:
    """Whose session begins at the store; "": nobody's."""
    match step.event:
        case Delivery(source, Beat(True)) if step.node == STORE:
            return source
    return ""


def _nothing_lost(history: RunHistory) -> Violation | None:
    """Where brokers drain, nobody accepts a topic before all that was acknowledged elsewhere is delivered."""
    plane = _plane(history)
    for step in history.steps if history.config.drain else ():
        plane.follow(step)
        for effect in step.effects:
            plane.effect(effect, step, drains=True)
            if isinstance(effect, Actuate) and isinstance(effect.command, Open) and step.node in plane.heard_ns:
                topic = effect.command.topic
                others = [
                    name for name in plane.draining.get(topic, ()) if name != step.node and name in plane.heard_ns
                ]
                if others:
                    what = f"accepts {topic} before {others[0]} has delivered what it acknowledged"
                    return Violation(step.true_ns, step.node, what)
    return None


@dataclass
class _Moves:
    """Of a load manager since it was last elected, by its clock: unit -> when it was last told to move."""

    told_ns: dict[str, int] = field(default_factory=dict)
    under_way_ns: dict[str, int] = field(default_factory=dict)  # of those of which it has not heard since

    def under_way(self, now_ns: int) -> list[str]:
        """Units on their way that have not been given up."""
        return [unit for unit, at_ns in self.under_way_ns.items() if now_ns - at_ns <= GIVEN_UP_NS]


def _few_move(history: RunHistory) -> Violation | None:
    """At most ``executors`` migrations of a load manager are under way, one of a unit; a moved one stays for ``guard``.

    The microbenchmark's load manager (``periodic``) does not ask how long a unit has stayed.  Nothing is said where a
    clock was set, which makes its spans longer or shorter.
    """
    if "clock-skew" in history.faults:
        return None
    executors = history.config.executors
    guard_ns = 0 if history.config.periodic else history.config.span("guard", "0")
    managers: dict[str, _Moves] = {}
    for step in history.steps:
        match step.event:
            case Start() | Delivery(_, Expired()):
                managers.pop(step.node, None)
            case Delivery(_, Released(unit)) if step.node in managers:
                managers[step.node].under_way_ns.pop(unit, None)
        for effect in step.effects:
            if not (isinstance(effect, Send) and isinstance(effect.message, Release)):
                continue
            moves, unit = managers.setdefault(step.node, _Moves()), effect.message.unit
            under_way, told_ns = moves.under_way(step.at_ns), moves.told_ns.get(unit)
            if unit in under_way:
                return Violation(step.true_ns, step.node, f"moves {unit}, which is on its way")
            if told_ns is not None and step.at_ns - told_ns < guard_ns:
                what = f"moves {unit} again after {duration_text(step.at_ns - told_ns)}"
                return Violation(step.true_ns, step.node, what)
            if len(under_way) >= executors:
                what = f"moves {unit} beside {len(under_way)} that are on their way, of {executors} at most"
                return Violation(step.true_ns, step.node, what)
            moves.told_ns[unit] = moves.under_way_ns[unit] = step.at_ns
    return None


def _served(history: RunHistory) -> Violation | None:
    """At rest every client is at the one broker that accepts its topic, and that delivers to its consumers."""
    if not history.at_rest:
        return None
    plane = _plane(history)
    for step in history.steps:
        plane.follow(step)
        for effect in step.effects:
            plane.effect(effect, step, drains=False)
    for client, topic, role in plane.wanted:
        if history.end_ns - plane.fenced_ns.get(topic, -_MOVING_NS) < _MOVING_NS:
            continue
        if len(plane.open.get(topic, {})) > 1:
            return Violation(history.end_ns, "", f"{' and '.join(sorted(plane.open[topic]))} accept {topic} at rest")
        broker = plane.connected.get((client, topic, role), "")
        accepted = broker in plane.open.get(topic, {})
        delivers = role is Role.PRODUCER or broker in plane.subscribed.get((topic, client), {})
        if not (accepted and delivers):
            fault = f"is at {broker}, which does not {'deliver' if accepted else 'accept'}" if broker else "is nowhere"
            return Violation(history.end_ns, client, f"{role.value} of {topic} {fault}")
    return None


INVARIANTS = (
    Invariant("one owner at a time", _one_owner),
    Invariant("nothing acknowledged is lost", _nothing_lost),
    Invariant("few move at a time", _few_move),
    Invariant("clients are served at rest", _served),
)
