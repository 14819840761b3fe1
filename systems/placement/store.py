"""The coordination store as a node: what ZooKeeper does for the placement family, in virtual time.

Operations are carried out one after the other, each of which takes ``write_ns`` (a write is synced before it is
answered).  Entries are ephemeral, and all is lost in a crash: a session that the store does not know is told so.
"""

from dataclasses import dataclass, field

from systems.api import Delivery, Effect, Event, Message, Send, SetTimer, Start, Timer, UnexpectedEvent
from systems.parts.steady_clock import SteadyClock
from systems.placement.messages import Beat, Changed, Create, Delete, Done, Expired, WatchEntries, Write


@dataclass
class _Session:
    """What the store knows of one of its clients."""

    heard_at_ns: int
    prefixes: list[str] = field(default_factory=list)


class StoreNode:
    """One server.  ``session_ns``: a session ends when nothing has been heard for so long."""

    def __init__(self, node_id: str, write_ns: int, session_ns: int):
        self.node_id, self.write_ns, self.session_ns = node_id, write_ns, session_ns
        self.entries: dict[str, tuple[str, str]] = {}  # path -> (owner, value)
        self._sessions: dict[str, _Session] = {}
        self._queue: list[tuple[str, _Session, Message]] = []  # what is asked in a session ends with it
        self._works, self._clock = False, SteadyClock()

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        return self._clock.handled(self._handle, event, now_ns)

    def _handle(self, event: Event, now_ns: int) -> list[Effect]:
        match event:
            case Start(None):
                return [SetTimer("sessions", now_ns + self.session_ns // 2)]
            case Delivery(source, Beat(opens)):
                return self._beat(source, opens, now_ns)
            case Delivery(source, message):
                return self._ask(source, message, now_ns)
            case Timer("work", _):
                return self._work(now_ns)
            case Timer("sessions", due_at_ns):
                gone = [
                    name for name, session in self._sessions.items() if now_ns - session.heard_at_ns >= self.session_ns
                ]
                effects: list[Effect] = [effect for name in gone for effect in self._end(name)]
                return [*effects, SetTimer("sessions", due_at_ns + self.session_ns // 2)]
        raise UnexpectedEvent(self.node_id, event)

    def _beat(self, source: str, opens: bool, now_ns: int) -> list[Effect]:
        if opens:
            effects = self._end(source)
            self._sessions[source] = _Session(now_ns)
            return effects
        if source not in self._sessions:
            return [Send(source, Expired())]
        self._sessions[source].heard_at_ns = now_ns
        return []

    def _ask(self, source: str, message: Message, now_ns: int) -> list[Effect]:
        """Into the queue; who has no session is told so."""
        if source not in self._sessions:
            return [Send(source, Expired())]
        self._sessions[source].heard_at_ns = now_ns
        self._queue.append((source, self._sessions[source], message))
        if self._works:
            return []
        self._works = True
        return [SetTimer("work", now_ns + self.write_ns)]

    def _work(self, now_ns: int) -> list[Effect]:
        source, session, message = self._queue.pop(0)
        effects = self._carry_out(source, message) if self._sessions.get(source) is session else []
        self._works = bool(self._queue)
        return [*effects, SetTimer("work", now_ns + self.write_ns)] if self._works else effects

    def _carry_out(self, source: str, message: Message) -> list[Effect]:
        match message:
            case Create(ticket, path, value):
                if path in self.entries:
                    return [Send(source, Done(ticket, False))]
                return [*self._set(path, source, value), Send(source, Done(ticket, True))]
            case Write(path, value):
                return self._set(path, source, value)
            case Delete(ticket, path):
                worked = path in self.entries and self.entries[path][0] == source
                return [*(self._remove(path) if worked else []), Send(source, Done(ticket, worked))]
            case WatchEntries(prefix):
                self._sessions[source].prefixes.append(prefix)
                return [Send(source, Changed(path, value)) for path, (_, value) in self.entries.items()
                        if path.startswith(prefix)]  # fmt: skip
        raise UnexpectedEvent(self.node_id, message)

    def _set(self, path: str, owner: str, value: str) -> list[Effect]:
        self.entries[path] = owner, value
        return self._tell(path, value)

    def _remove(self, path: str) -> list[Effect]:
        del self.entries[path]
        return self._tell(path, None)

    def _tell(self, path: str, value: str | None) -> list[Effect]:
        return [
            Send(name, Changed(path, value))
            for name, session in self._sessions.items()
            if any(path.startswith(prefix) for prefix in session.prefixes)
        ]

    def _end(self, name: str) -> list[Effect]:
        """A session is over: its entries go, and those who watch them hear of it."""
        self._sessions.pop(name, None)
        mine = [path for path, (owner, _) in self.entries.items() if owner == name]
        return [effect for path in mine for effect in self._remove(path)]
