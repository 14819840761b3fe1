"""A broker's control side: it owns units, lets clients in, watches delay and load, gives units up (ePulsar, 3.2, 3.6).

Ownership is an entry in the coordination store.  A unit that nobody owns is acquired when the first client comes
(Pulsar's lazy way), or when the old owner says so (step 4 of ePulsar's Fig. 2).
"""

from dataclasses import dataclass, field
from enum import Enum

import msgspec

from core.clients import Role
from core.seeds import generator
from systems.api import (
    Actuate,
    Delivery,
    Effect,
    Event,
    Message,
    Report,
    Sample,
    Send,
    SetTimer,
    Start,
    Timer,
    UnexpectedEvent,
)
from systems.parts.vivaldi import Coordinate
from systems.placement.cast import AGENT
from systems.placement.messages import (
    Acquire,
    Beat,
    ClientLocation,
    Close,
    Connect,
    Connected,
    Create,
    Delete,
    Disconnect,
    Done,
    Drained,
    Expired,
    Fence,
    Here,
    Noted,
    Open,
    Refused,
    Release,
    Released,
    Subscribed,
    Traffic,
    Unsubscribed,
    Used,
    WhereAmI,
    Write,
)
from systems.placement.monitoring import LOADS, OWNERS, BrokerReport, Clients, Rates, Strategy
from systems.placement.options import Options


class UnitState(Enum):
    """Of a unit at a broker."""

    ACQUIRING = "acquiring"
    OWNED = "owned"
    DRAINING = "draining"  # fenced; what was accepted is being delivered
    RELEASING = "releasing"


@dataclass
class _Unit:
    """A unit that this broker owns, or is about to own or to give up."""

    state: UnitState
    topics: dict[str, dict[Role, dict[str, None]]] = field(default_factory=dict)  # topic -> role -> clients, in order
    waiting: list[tuple[str, str, Role]] = field(default_factory=list)  # who is not let in yet: client, topic, role
    manager: str = ""  # who asked for the release
    next_broker: str = ""
    draining: set[str] = field(default_factory=set)  # topics that the data plane still delivers


class BrokerNode:
    """One broker, beside whose data plane runs a coordinate agent of its own."""

    def __init__(self, node_id: str, store: str, strategy: Strategy, options: Options, seed: int):
        self.node_id, self.store, self.strategy = node_id, store, strategy
        self.hint, self.proactive, self.drain = options.hint, options.proactive, options.drain
        self.report_ns, self.locate_ns = options.span("report"), options.span("locate")
        self.beat_ns = options.span("session") // 3
        self._rng = generator(seed, "broker", node_id)
        self._units: dict[str, _Unit] = {}
        self._tickets: dict[int, str] = {}  # what the store is asked for: ticket -> unit
        self._ticket = 0
        self._coordinate: Coordinate | None = None
        self._clients: dict[str, Coordinate] = {}  # where clients said they are
        self._rates: dict[str, Rates] = {}  # by topic
        self._utilisation = 0.0  # of the resource that is used most (3.4.2)

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Start(None):
                phase_ns = int(self._rng.integers(1, self.report_ns, endpoint=True))
                return [
                    *self._open_session(),
                    SetTimer("beat", now_ns + self.beat_ns),
                    SetTimer("locate", now_ns + 1),
                    SetTimer("report", now_ns + phase_ns),
                ]
            case Timer("beat", due_at_ns):
                return [Send(self.store, Beat()), SetTimer("beat", due_at_ns + self.beat_ns)]
            case Timer("locate", due_at_ns):
                return [Send(self.node_id + AGENT, WhereAmI()), SetTimer("locate", due_at_ns + self.locate_ns)]
            case Timer("report", due_at_ns):
                return [*self._report(), SetTimer("report", due_at_ns + self.report_ns)]
            case Report(Traffic(topic, in_rps, out_rps)):
                self._rates[topic] = Rates(in_rps, out_rps)
                return []
            case Report(Used(processor, memory, network)):
                self._utilisation = max(processor, memory, network)
                return []
            case Report(Drained(topic)):
                return self._drained(topic)
            case Delivery(source, message):
                return self._heard(source, message)
        raise UnexpectedEvent(self.node_id, event)

    def _heard(self, source: str, message: Message) -> list[Effect]:
        match message:
            case Here(coordinate):
                self._coordinate = coordinate
                return []
            case ClientLocation(coordinate):
                self._clients[source] = coordinate
                return [Send(source, Noted(self._roles(source)))]
            case Connect(topic, role):
                return self._connect(source, topic, role)
            case Disconnect(topic, role):
                return self._disconnect(source, topic, role)
            case Acquire(unit):
                return self._acquire(unit) if unit not in self._units else []
            case Release(unit, next_broker):
                return self._release(source, unit, next_broker)
            case Done(ticket, worked):
                return self._done(self._tickets.pop(ticket, ""), worked)
            case Expired():
                return self._begin_anew()
        raise UnexpectedEvent(self.node_id, Delivery(source, message))

    # --- clients ------------------------------------------------------------------------------------

    def _connect(self, client: str, topic: str, role: Role) -> list[Effect]:
        name = self.strategy.unit_of(topic)
        effects = self._acquire(name) if name not in self._units else []
        unit = self._units[name]
        if unit.state is UnitState.OWNED:
            return [*effects, *self._let_in(unit, client, topic, role)]
        unit.waiting.append((client, topic, role))
        return effects

    @staticmethod
    def _let_in(unit: _Unit, client: str, topic: str, role: Role) -> list[Effect]:
        effects: list[Effect] = []
        if topic not in unit.topics:
            unit.topics[topic] = {Role.PRODUCER: {}, Role.CONSUMER: {}}
            effects.append(Actuate(Open(topic)))
        unit.topics[topic][role][client] = None
        if role is Role.CONSUMER:
            effects.append(Actuate(Subscribed(topic, client)))
        return [*effects, Send(client, Connected(topic, role))]

    def _disconnect(self, client: str, topic: str, role: Role) -> list[Effect]:
        unit = self._units.get(self.strategy.unit_of(topic))
        if unit is None:
            return []
        unit.waiting = [entry for entry in unit.waiting if entry != (client, topic, role)]
        present = unit.topics.get(topic, {}).get(role, {})
        if client not in present:
            return []
        del present[client]
        return [Actuate(Unsubscribed(topic, client))] if role is Role.CONSUMER else []

    # --- ownership ----------------------------------------------------------------------------------

    def _acquire(self, name: str) -> list[Effect]:
        self._units[name] = _Unit(UnitState.ACQUIRING)
        return [Send(self.store, Create(self._new_ticket(name), OWNERS + name, self.node_id))]

    def _release(self, manager: str, name: str, next_broker: str) -> list[Effect]:
        """Step 2: fence, drain, then give the ownership back; clients stay until that is done."""
        unit = self._units.get(name)
        if unit is None or unit.state is not UnitState.OWNED:
            return [Send(manager, Released(name))]
        unit.state, unit.manager, unit.next_broker = UnitState.DRAINING, manager, next_broker
        unit.draining = set(unit.topics) if self.drain else set()
        fences: list[Effect] = [Actuate(Fence(topic)) for topic in unit.topics]
        return fences if unit.draining else [*fences, *self._give_up(name, unit)]

    def _drained(self, topic: str) -> list[Effect]:
        name = self.strategy.unit_of(topic)
        unit = self._units.get(name)
        if unit is None or unit.state is not UnitState.DRAINING:
            return []
        unit.draining.discard(topic)
        return [] if unit.draining else self._give_up(name, unit)

    def _give_up(self, name: str, unit: _Unit) -> list[Effect]:
        unit.state = UnitState.RELEASING
        return [Send(self.store, Delete(self._new_ticket(name), OWNERS + name))]

    def _done(self, name: str, worked: bool) -> list[Effect]:
        unit = self._units.get(name)
        if unit is None:
            return []
        if unit.state is UnitState.RELEASING:
            return self._released(name, unit)
        if worked:
            unit.state, waiting, unit.waiting = UnitState.OWNED, unit.waiting, []
            return [effect for entry in waiting for effect in self._let_in(unit, *entry)]
        del self._units[name]
        return self._turned_away(unit)

    def _released(self, name: str, unit: _Unit) -> list[Effect]:
        """Steps 3, 4 and 5."""
        del self._units[name]
        effects: list[Effect] = []
        next_broker = unit.next_broker if self.hint else ""
        for client, topic in self._present(unit):
            effects.append(Send(client, Close(topic, next_broker)))
        for topic in unit.topics:
            self._rates.pop(topic, None)
        if self.proactive and unit.next_broker:
            effects.append(Send(unit.next_broker, Acquire(name)))
        return [*effects, *self._turned_away(unit), Send(unit.manager, Released(name))]

    @staticmethod
    def _present(unit: _Unit) -> list[tuple[str, str]]:
        """Client and topic of all that are let in, each once."""
        pairs = {
            (client, topic): None
            for topic, members in unit.topics.items()
            for role in members
            for client in members[role]
        }
        return list(pairs)

    def _roles(self, client: str) -> tuple[tuple[str, Role], ...]:
        """What the client is let in for, here."""
        return tuple(
            (topic, role)
            for unit in self._units.values()
            for topic, members in unit.topics.items()
            for role in members
            if client in members[role]
        )

    @staticmethod
    def _turned_away(unit: _Unit) -> list[Effect]:
        return [Send(client, Refused(topic, role)) for client, topic, role in unit.waiting]

    def _begin_anew(self) -> list[Effect]:
        """The store has forgotten this broker: own again what it owned, unless another does by now."""
        units, self._units, self._tickets = self._units, {}, {}
        effects = self._open_session()
        for unit in units.values():
            effects += [Actuate(Fence(topic)) for topic in unit.topics]
            effects += [Send(client, Close(topic, "")) for client, topic in self._present(unit)]
            effects += self._turned_away(unit)
        return effects

    def _open_session(self) -> list[Effect]:
        return [Send(self.store, Beat(opens=True)), *self._report()]

    def _new_ticket(self, unit: str) -> int:
        self._ticket += 1
        self._tickets[self._ticket] = unit
        return self._ticket

    # --- monitoring -----------------------------------------------------------------------------------

    def _report(self) -> list[Effect]:
        """What the load manager needs to know, into the store (3.2)."""
        units = {}
        for name, unit in self._units.items():
            if unit.state is UnitState.OWNED:
                rates = [self._rates.get(topic, Rates()) for topic in unit.topics]
                total = Rates(sum(rate.in_rps for rate in rates), sum(rate.out_rps for rate in rates))
                units[name] = self.strategy.record(self._where(unit), self._coordinate, total)
        everything = [self._rates.get(topic, Rates()) for unit in self._units.values() for topic in unit.topics]
        out_rps = sum(rate.out_rps for rate in everything)
        utilisation = round(self._utilisation, 3)
        value = msgspec.json.encode(BrokerReport(self._coordinate, out_rps, units, utilisation)).decode()
        return [
            Send(self.store, Write(LOADS + self.node_id, value)),
            Sample("monitoring_bytes", len(value)),
            Sample("utilisation_ratio", utilisation),
        ]

    def _where(self, unit: _Unit) -> Clients:
        """The coordinates of the unit's producers and consumers, as far as they are known."""
        producers, consumers = (
            [
                self._clients[client]
                for members in unit.topics.values()
                for client in members[role]
                if client in self._clients
            ]
            for role in (Role.PRODUCER, Role.CONSUMER)
        )
        return Clients(producers, consumers)
