"""A client: it looks topics up, connects, says where it is, and follows its topics when they move (ePulsar, 3.6, 4).

A migration is told by ``Close``; a broker that no longer answers is taken for dead.  Either way the client is cut off
from then until a broker answers ``Connected``: its downtime, a sample of each reconnection.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from core.clients import Role
from core.seeds import generator
from core.units import SECOND_NS
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
from systems.parts.steady_clock import SteadyClock
from systems.parts.vivaldi import Coordinate
from systems.placement.messages import (
    AtSite,
    Attach,
    ClientLocation,
    Close,
    Connect,
    Connected,
    Detach,
    Disconnect,
    Follow,
    Found,
    Here,
    Lookup,
    Noted,
    Refused,
    Unfollow,
    Wanted,
    WhereAmI,
)
from systems.placement.options import Options

Key = tuple[str, Role]  # topic, and what the client is to it


@dataclass
class _Link:
    """One role in one topic."""

    broker: str = ""  # the one connected to or being connected to; "": being looked up
    connected: bool = False
    due_at_ns: int = 0  # when to ask (again), while not connected
    asks: bool = False  # a manager, and has not been answered
    turn: int = 0  # managers that were no help since the last one that was
    closed_at_ns: int | None = None  # since when it is cut off


class ClientNode:
    """One client device, or one session of a game server.  It may ask any of the ``managers``."""

    def __init__(self, node_id: str, managers: Sequence[str], options: Options, seed: int):
        self.node_id, self.managers = node_id, managers
        self.locate_ns, self.retry_ns, self.answer_ns = (options.span(name) for name in ("locate", "retry", "answer"))
        self.dead_ns, self.reconnect_ns = options.span("dead"), options.span("reconnect", "0")
        access_ns = options.span("access", "0") if options.add_access else 0
        self._access_rtt_s = 2 * access_ns / SECOND_NS
        self._rng, self._clock = generator(seed, "client", node_id), SteadyClock()
        self._links: dict[Key, _Link] = {}
        self._heard_at_ns: dict[str, int] = {}  # broker -> its last sign of life
        self._manager = 0  # the last one that was of help: asked first
        self._proxy = ""
        self._unanswered = False  # the proxy, since it was last asked
        self._coordinate: Coordinate | None = None

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        return self._clock.handled(self._handle, event, now_ns)

    def _handle(self, event: Event, now_ns: int) -> list[Effect]:
        match event:
            case Start(None):
                return [SetTimer("locate", now_ns + int(self._rng.integers(1, self.locate_ns, endpoint=True)))]
            case Timer("locate", due_at_ns):
                ask: list[Effect] = [Send(self._proxy, WhereAmI())] if self._proxy else []
                # A proxy that is down is no reason to hear nothing of brokers, which answer who says where it is.
                tell = self._tell_where() if self._unanswered else []
                self._unanswered = bool(ask)
                return [*ask, *tell, *self._bury(now_ns), SetTimer("locate", due_at_ns + self.locate_ns)]
            case Timer("retry", _):
                return self._ask_again(now_ns)
            case Report(measurement):
                return self._told(measurement, now_ns)
            case Delivery(source, message):
                return self._heard(source, message, now_ns)
        raise UnexpectedEvent(self.node_id, event)

    def _told(self, measurement: object, now_ns: int) -> list[Effect]:
        match measurement:
            case AtSite(proxy):
                first, self._proxy = not self._proxy, proxy
                return [Send(proxy, WhereAmI())] if first else []
            case Wanted(topic, role, True):
                self._links[topic, role] = _Link()
                return self._look_up((topic, role), now_ns)
            case Wanted(topic, role, False):
                link = self._links.pop((topic, role), None)
                return self._leave((topic, role), link.broker) if link and link.broker else []
        raise UnexpectedEvent(self.node_id, Report(measurement))

    def _heard(self, source: str, message: Message, now_ns: int) -> list[Effect]:
        match message:
            case Here(coordinate):
                self._coordinate = replace(coordinate, height=coordinate.height + self._access_rtt_s)
                self._unanswered = False
                return self._tell_where()
            case Noted(roles):
                self._heard_at_ns[source] = now_ns
                return self._missed(source, roles, now_ns)
            case Found(topic, broker):
                return self._found(source, topic, broker, now_ns)
            case Connected(topic, role):
                return self._connected(source, (topic, role), now_ns)
            case Refused(topic, role):
                link = self._links.get((topic, role))
                if link is None or link.broker != source:
                    return []
                link.broker, link.connected, link.asks = "", False, False
                return self._later(link, self.retry_ns, now_ns)
            case Close(topic, next_broker):
                return [
                    effect
                    for (name, role), link in self._links.items()
                    if name == topic and link.broker == source
                    for effect in self._closed((name, role), link, next_broker, now_ns)
                ]
        raise UnexpectedEvent(self.node_id, Delivery(source, message))

    def _tell_where(self) -> list[Effect]:
        if self._coordinate is None:
            return []
        brokers = dict.fromkeys(link.broker for link in self._links.values() if link.connected)
        return [Send(broker, ClientLocation(self._coordinate)) for broker in brokers]

    # --- finding and leaving brokers ---------------------------------------------------------------

    def _look_up(self, key: Key, now_ns: int) -> list[Effect]:
        link = self._links[key]
        link.broker, link.connected, link.asks = "", False, True
        manager = self.managers[(self._manager + link.turn) % len(self.managers)]
        return [Send(manager, Lookup(key[0], self._coordinate)), *self._later(link, self.answer_ns, now_ns)]

    def _found(self, source: str, topic: str, broker: str, now_ns: int) -> list[Effect]:
        mine = {key: link for key, link in self._links.items() if key[0] == topic and not link.broker}
        if broker and mine:
            self._manager = self.managers.index(source)
        effects: list[Effect] = []
        for key, link in mine.items():
            if broker:
                link.asks, link.turn = False, 0
                effects += self._connect(key, broker, now_ns)
            elif link.asks:  # nobody owns it yet, or this is not the load manager: ask the next
                link.asks, link.turn = False, link.turn + 1
                effects += self._later(link, self.retry_ns, now_ns)
        return effects

    def _connect(self, key: Key, broker: str, now_ns: int) -> list[Effect]:
        link = self._links[key]
        link.broker, link.connected = broker, False
        return [Send(broker, Connect(*key)), *self._later(link, self.answer_ns, now_ns)]

    def _connected(self, source: str, key: Key, now_ns: int) -> list[Effect]:
        link = self._links.get(key)
        if link is None or link.broker != source:
            return [Send(source, Disconnect(*key))]  # it is no longer wanted, or was sought elsewhere meanwhile
        if link.connected:
            return []
        link.connected, self._heard_at_ns[source] = True, now_ns
        effects: list[Effect] = [Actuate((Attach if key[1] is Role.PRODUCER else Follow)(key[0], source))]
        if link.closed_at_ns is not None:
            effects.append(Sample("client_downtime_ns", now_ns - link.closed_at_ns))
            link.closed_at_ns = None
        if self._coordinate is not None:
            effects.append(Send(source, ClientLocation(self._coordinate)))
        return effects

    def _closed(self, key: Key, link: _Link, next_broker: str, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        if link.connected:
            link.closed_at_ns = now_ns
            effects.append(_cut_off(key))
        link.broker, link.connected = "", False
        if next_broker:
            return [*effects, *self._connect(key, next_broker, now_ns)]
        if self.reconnect_ns:
            return [*effects, *self._later(link, self.reconnect_ns, now_ns)]
        return [*effects, *self._look_up(key, now_ns)]

    @staticmethod
    def _leave(key: Key, broker: str) -> list[Effect]:
        return [_cut_off(key), Send(broker, Disconnect(*key))]

    # --- what did not happen -------------------------------------------------------------------------

    def _later(self, link: _Link, wait_ns: int, now_ns: int) -> list[Effect]:
        """Ask again after ``wait_ns``, unless it has been settled by then."""
        link.due_at_ns = now_ns + wait_ns
        return [self._retry(now_ns)]

    def _retry(self, now_ns: int) -> Effect:
        """When the next link is due; at once, where one has been for a while and its timer has not rung yet."""
        due_ns = min(link.due_at_ns for link in self._links.values() if not link.connected)
        return SetTimer("retry", max(now_ns, due_ns))

    def _ask_again(self, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        for key, link in list(self._links.items()):
            if not link.connected and link.due_at_ns <= now_ns:
                if link.asks:
                    link.turn += 1  # the one asked before has said nothing
                effects += self._look_up(key, now_ns)
        waiting = any(not link.connected for link in self._links.values())
        return [*effects, self._retry(now_ns)] if waiting else effects

    def _missed(self, broker: str, roles: tuple[Key, ...], now_ns: int) -> list[Effect]:
        """Leave the broker where it does not know of it: streams keep order, so it has forgotten."""
        effects: list[Effect] = []
        for key, link in list(self._links.items()):
            if link.connected and link.broker == broker and key not in roles:
                effects += self._closed(key, link, "", now_ns)
        return effects

    def _bury(self, now_ns: int) -> list[Effect]:
        """Leave the brokers that have not answered for long, if they had been told anything."""
        if self._coordinate is None:
            return []
        effects: list[Effect] = []
        for key, link in list(self._links.items()):
            if link.connected and now_ns - self._heard_at_ns[link.broker] > self.dead_ns:
                effects += self._closed(key, link, "", now_ns)
        return effects

    def idle(self) -> bool:
        """Connected to all that it wants."""
        return all(link.connected for link in self._links.values())


def _cut_off(key: Key) -> Effect:
    return Actuate((Detach if key[1] is Role.PRODUCER else Unfollow)(key[0]))
