"""The load manager: it is elected, reads what brokers report, decides, and has topics moved (ePulsar, 3.3, 3.6, 4).

Candidates are managers in the cloud; the coordination store elects one.  A *migration* lasts from ``Release`` to
``Released`` (steps 1 to 5 of Fig. 2), and at most ``executors`` are under way; samples of each give its time, with and
without the wait for an executor.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from systems.api import Delivery, Effect, Event, Message, Sample, Send, SetTimer, Start, Timer, UnexpectedEvent
from systems.parts.steady_clock import SteadyClock
from systems.parts.vivaldi import Coordinate
from systems.placement.messages import (
    Beat,
    Changed,
    Create,
    Done,
    Expired,
    Found,
    Lookup,
    Release,
    Released,
    WatchEntries,
)
from systems.placement.monitoring import LEADER, LOADS, OWNERS, BrokerReport, Strategy, View
from systems.placement.options import Options

HEAD_START_NS = 500_000_000  # ours: of a candidate over the next, so that a run knows whom a fault of its leader hits
GIVEN_UP_NS = 10_000_000_000  # ours: a migration that has not ended after so long occupies no executor any more


class _Migration(NamedTuple):
    """A unit on its way."""

    unit: str
    source: str
    target: str  # "": found when a client asks
    decided_at_ns: int
    started_at_ns: int = 0


class ManagerNode:
    """One candidate; ``turn``: when it first stands for election, the others of the deployment before it or after."""

    def __init__(
        self, node_id: str, store: str, brokers: Sequence[str], strategy: Strategy, options: Options, turn: int = 0
    ):
        self.node_id, self.store, self.strategy = node_id, store, strategy
        self._first_ns = turn * HEAD_START_NS
        self.place_ns, self.guard_ns = options.span("place"), options.span("guard", "0")
        self.beat_ns, self.executors = options.span("session") // 3, options.executors
        self.periodic_ns = options.span("periodic") if options.periodic else 0
        self._brokers = brokers  # in their order
        self._clock = SteadyClock()
        self.leads = False
        self._forget()

    def _forget(self) -> None:
        self._ticket = 0
        self.view = View()
        self._intended: dict[str, str] = {}  # unit -> the broker that shall own it next
        self._moved_at_ns: dict[str, int] = {}
        self._queue: deque[_Migration] = deque()
        self._running: dict[str, _Migration] = {}

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        return self._clock.handled(self._handle, event, now_ns)

    def _handle(self, event: Event, now_ns: int) -> list[Effect]:
        match event:
            case Start(None):
                beat = SetTimer("beat", now_ns + self.beat_ns)
                return [SetTimer("stand", now_ns + self._first_ns), beat] if self._first_ns else [*self._stand(), beat]
            case Timer("stand", _):
                return self._stand()
            case Timer("beat", due_at_ns):
                return [Send(self.store, Beat()), SetTimer("beat", due_at_ns + self.beat_ns)]
            case Timer("place", due_at_ns):
                if not self.leads:
                    return []
                return [*self._place(now_ns), SetTimer("place", due_at_ns + self.place_ns)]
            case Timer("periodic", due_at_ns):
                if not self.leads:
                    return []
                return [*self._rotate(now_ns), SetTimer("periodic", due_at_ns + self.periodic_ns)]
            case Delivery(source, message):
                return self._heard(source, message, now_ns)
        raise UnexpectedEvent(self.node_id, event)

    def _heard(self, source: str, message: Message, now_ns: int) -> list[Effect]:
        match message:
            case Done(_, worked):
                return self._lead(now_ns) if worked and not self.leads else []
            case Changed(path, value) if path == LEADER:
                return [] if value is not None else [Send(self.store, Create(0, LEADER, self.node_id))]
            case Changed(path, value):
                self._changed(path, value)
                return []
            case Expired():
                self.leads = False
                self._forget()
                return self._stand()
            case Lookup(topic, coordinate):
                return [Send(source, Found(topic, self._owner_of(topic, coordinate)))]
            case Released(unit):
                return self._released(unit, now_ns)
        raise UnexpectedEvent(self.node_id, Delivery(source, message))

    # --- election, and what the store says ------------------------------------------------------------

    def _stand(self) -> list[Effect]:
        """Stand for election; who loses watches the winner."""
        opening: list[Effect] = [Send(self.store, Beat(opens=True)), Send(self.store, WatchEntries(LEADER))]
        return [*opening, Send(self.store, Create(0, LEADER, self.node_id))]

    def _lead(self, now_ns: int) -> list[Effect]:
        self.leads = True
        watches: list[Effect] = [Send(self.store, WatchEntries(OWNERS)), Send(self.store, WatchEntries(LOADS))]
        timers: list[Effect] = [SetTimer("place", now_ns + self.place_ns)]
        if self.periodic_ns:
            timers.append(SetTimer("periodic", now_ns + self.periodic_ns))
        return [*watches, *timers, Sample("elected_count", 1.0)]

    def _changed(self, path: str, value: str | None) -> None:
        if path.startswith(OWNERS):
            unit = path.removeprefix(OWNERS)
            if value is None:
                self.view.owners.pop(unit, None)
            else:
                self.view.owners[unit] = value
                if self._intended.get(unit) == value:
                    del self._intended[unit]
        else:
            broker = path.removeprefix(LOADS)
            if value is None:
                self.view.brokers.pop(broker, None)
            else:
                self.view.reported(broker, msgspec.json.decode(value, type=BrokerReport))

    def _owner_of(self, topic: str, coordinate: Coordinate | None) -> str:
        """Who has the topic, or shall have it; "" where this is not the load manager, or it knows of no broker."""
        unit = self.strategy.unit_of(topic)
        if not self.leads:
            return ""
        if unit in self.view.owners and unit not in self._running:
            return self.view.owners[unit]
        if self._intended.get(unit) not in self.view.brokers:
            running = self._running.get(unit)
            self._intended[unit] = (running and running.target) or self.strategy.first(unit, self.view, coordinate)
        return self._intended[unit]

    # --- migrations -----------------------------------------------------------------------------------

    def _place(self, now_ns: int) -> list[Effect]:
        """Algorithm 1, on what is known now; units that are on their way, or have just arrived, stay."""
        for unit, migration in list(self._running.items()):
            if now_ns - migration.started_at_ns > GIVEN_UP_NS:
                del self._running[unit]
        recent = (unit for unit, at_ns in self._moved_at_ns.items() if now_ns - at_ns < self.guard_ns)
        waiting = (migration.unit for migration in self._queue)
        self.view.held = frozenset((*recent, *waiting, *self._running))
        for unit, target in self.strategy.moves(self.view).items():
            self._queue.append(_Migration(unit, self.view.owners[unit], target, now_ns))
        return self._execute(now_ns)

    def _rotate(self, now_ns: int) -> list[Effect]:
        """The microbenchmark's load manager (5.7): every unit to the broker after its own."""
        busy = {migration.unit for migration in self._queue} | set(self._running)
        for unit, broker in self.view.owners.items():
            if unit not in busy:
                after = self._brokers[(self._brokers.index(broker) + 1) % len(self._brokers)]
                self._queue.append(_Migration(unit, broker, after, now_ns))
        return self._execute(now_ns)

    def _execute(self, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        while self._queue and len(self._running) < self.executors:
            migration = self._queue.popleft()._replace(started_at_ns=now_ns)
            self._running[migration.unit] = migration
            self._moved_at_ns[migration.unit] = now_ns
            if migration.target:
                self._intended[migration.unit] = migration.target
            else:
                self._intended.pop(migration.unit, None)
            effects.append(Send(migration.source, Release(migration.unit, migration.target)))
        return effects

    def _released(self, unit: str, now_ns: int) -> list[Effect]:
        migration = self._running.pop(unit, None)
        if migration is None:
            return self._execute(now_ns)
        return [
            Sample("migration_ns", now_ns - migration.started_at_ns),
            Sample("migration_with_wait_ns", now_ns - migration.decided_at_ns),
            *self._execute(now_ns),
        ]
