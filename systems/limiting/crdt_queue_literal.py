"""The token-bucket queue as the thesis lists it: plain lists, one delta state a neighbour.

Slow, and the yardstick of the node on arrays; also the only node that knows the printed rules
(``systems.limiting.crdt_queue.Config``), and rates so fine that ticks outgrow 64 bits (``Rule.fine``).
Where no printed rule is on, it means what the docstring of ``systems.limiting.crdt_queue`` says.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from core.records import Request
from systems.api import (
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Send,
    SetTimer,
    Start,
    Timer,
    UnexpectedEvent,
    Verdict,
)
from systems.limiting.queue_common import (
    ELEMENT_BYTES,
    TIMER,
    Elements,
    FineElements,
    Rule,
    message_bytes,
    pack,
    queue_bytes,
    too_late,
    unpack,
)
from systems.parts.gossip import Rounds
from systems.parts.user_key import MODEL_BYTES, user_key


class Element(NamedTuple):
    """One accepted token (Fig. 4.3): birth in ns, death in ticks, and who accepted it, if that is in the key.

    ``rank``, which is not sent, tells elements of one key apart within a node: the first to come has 0.
    """

    birth: int
    death: int
    origin: int = 0
    rank: int = 0

    @property
    def key(self) -> tuple[int, int]:
        """What identifies the element in messages, and orders it in its queue."""
        return self.birth, self.origin

    @property
    def place(self) -> tuple[int, int, int]:
        """What identifies the element within a node."""
        return self.birth, self.origin, self.rank


Queue = list[Element]
State = dict[bytes, Queue]  # user -> queue; users without elements have no entry


def refill(queue: Queue, now_ticks: int, keep_last: int = 0, as_printed: bool = False) -> Queue:
    """Listing 4.1: drop head elements whose death has passed, but keep the last ``keep_last`` (5.4).

    Listing 4.1 prints the comparison the other way round, which drops the living (A1).
    """
    gone_count = 0
    while gone_count < len(queue) - keep_last:
        death = queue[gone_count].death
        if not (death > now_ticks if as_printed else death <= now_ticks):
            break
        gone_count += 1
    return queue[gone_count:]


def merge(local: Queue, other: Queue, step_ticks: int, into_local_state: bool = True) -> tuple[Queue, Queue]:
    """Listings 4.2 and 4.3: the merged queue, and its elements that are new or die later than in ``local``.

    ``into_local_state`` = False keeps both of two elements of one birth, as the thesis does where
    updates are merged into delta states (A8).
    """
    result: Queue = []
    updates: Queue = []

    def append(element: Element, known: Element | None) -> None:
        rank = known.rank if known else 0
        if result:  # Listing 4.3
            element = element._replace(death=max(element.death, result[-1].death + step_ticks))
            if known is None and result[-1].key == element.key:
                rank = result[-1].rank + 1
        element = element._replace(rank=rank)
        result.append(element)
        if known is None or element.death > known.death:
            updates.append(element)

    i = j = 0
    while i < len(local) and j < len(other):
        if into_local_state and local[i].key == other[j].key:
            append(max(local[i], other[j], key=lambda element: element.death), local[i])
            i, j = i + 1, j + 1
        elif local[i].key < other[j].key:
            append(local[i], local[i])
            i += 1
        else:
            append(other[j], None)
            j += 1
    for element in local[i:]:
        append(element, element)
    for element in other[j:]:
        append(element, None)
    return result, updates


def union(queue: Queue, updates: Queue) -> Queue:
    """A delta state takes up updates: one copy of an element, with the later death; nothing is chained."""
    latest = {element.place: element for element in queue}
    for element in updates:
        if element.place not in latest or element.death > latest[element.place].death:
            latest[element.place] = element
    return sorted(latest.values(), key=lambda element: element.place)


def remove_duplicates(queue: Queue, received: Queue, identity: str = "not-later") -> Queue:
    """What the sender of ``received`` still lacks of ``queue``: what it does not have, or with an earlier death.

    By ``birth`` alone later deaths are hidden from the sender (A11); by ``exact`` equality it gets back what dies
    earlier than what it sent, too.
    """
    sent: dict[tuple[int, int], list[int]] = {}
    for element in received:
        sent.setdefault(element.key, []).append(element.death)
    return [element for element in queue if not _has(sent.get(element.key, []), element.death, identity)]


def _has(deaths: list[int], death: int, identity: str) -> bool:
    if identity == "not-later":
        return any(sent >= death for sent in deaths)
    return death in deaths if identity == "exact" else bool(deaths)


class LiteralQueueNode:
    """One replica (Fig. 4.3)."""

    def __init__(self, node_id: str, number: int, neighbours: Iterable[str], rule: Rule, rounds: Rounds):
        self.node_id, self.number, self.rule, self.rounds = node_id, number, rule, rounds
        self.neighbours, self._latest_ns = list(neighbours), rule.latest_ns
        self.local_state: State = {}
        self.delta_states: dict[str, State] = {neighbour: {} for neighbour in self.neighbours}
        self.priorities = dict.fromkeys(self.neighbours, 0)  # of Listings 4.6 to 4.8, if they are on

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        if abs(now_ns) > self._latest_ns:
            raise too_late(self.node_id, now_ns)
        match event:
            case Arrival(request):
                return self._serve(request, now_ns)
            case Delivery(source, (Elements() | FineElements()) as message):
                self._receive(source, message, now_ns)
                return []
            case Timer(name, due_at_ns) if name == TIMER:
                return [SetTimer(TIMER, self.rounds.next_at_ns(due_at_ns, now_ns)), *self._gossip()]
            case Start(None | Elements() | FineElements() as snapshot):
                if snapshot is not None:
                    self._restore(snapshot, now_ns)
                return [SetTimer(TIMER, self.rounds.first_at_ns(now_ns))] if self.neighbours else []
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        """Whether no delta state holds anything."""
        return not any(self.delta_states.values())

    def state_bytes(self) -> int:
        """Local state and delta states in the model: 32 bytes a user, 16 an element; or as terms."""
        states = (self.local_state, *self.delta_states.values())
        elements = sum(len(queue) for state in states for queue in state.values())
        if self.rule.memory != "columns":
            local_users, *delta_users = map(len, states)
            keys = local_users + len({user for state in self.delta_states.values() for user in state})
            terms = {(user, element.place) for state in states for user, queue in state.items() for element in queue}
            maps = len(self.neighbours), local_users, delta_users, keys
            return queue_bytes(self.rule.memory, maps, elements, len(terms))
        return MODEL_BYTES * sum(len(state) for state in states) + ELEMENT_BYTES * elements

    def message_bytes(self, message: Elements | FineElements, encoded_bytes: int) -> int:
        """See ``systems.api.Node``."""
        return message_bytes(self.rule.unit, message, encoded_bytes)

    def allocated_bytes(self) -> int:
        """Dicts, lists and elements, without their integers, which delta states share."""
        total = 0
        for state in (self.local_state, *self.delta_states.values()):
            total += sys.getsizeof(state)
            for queue in state.values():
                total += sys.getsizeof(queue) + sum(map(sys.getsizeof, queue))
        return total

    def snapshot(self) -> Elements | FineElements:
        """The local state."""
        return self._message(self.local_state)

    # --- requests ------------------------------------------------------------------------------

    def _serve(self, request: Request, now_ns: int) -> list[Effect]:
        user, limit, now_ticks = user_key(request.user), self.rule.limit, self.rule.limit.ticks(now_ns)
        queue = self._refill(self.local_state.get(user, []), now_ticks)
        taken = len(queue) if self._is("refill") else sum(element.death > now_ticks for element in queue)
        accepted = taken + request.cost <= limit.capacity
        added = [self._add(queue, now_ns) for _ in range(request.cost)] if accepted else []
        _store(self.local_state, user, queue)
        if not accepted:
            return [Decide(request.id, Verdict.REJECT)]
        effects: list[Effect] = [Decide(request.id, Verdict.ADMIT)]
        for neighbour in self.neighbours:
            self.priorities[neighbour] += len(added)  # Listing 4.6
            self.delta_states[neighbour].setdefault(user, []).extend(added)
            if self.rule.frequency:
                effects += self._push_if_frequent(neighbour, user)
        return effects

    def _add(self, queue: Queue, now_ns: int) -> Element:
        """Eq. 4.2 (4.1 for the sliding log); elements kept beyond their death (5.4) do not give old deaths on."""
        death = self.rule.limit.ticks(now_ns) + self.rule.life_ticks
        if queue:
            death = max(death, queue[-1].death + self.rule.step_ticks)
        birth = self.rule.birth_ns(now_ns, queue[-1].birth if queue else None)
        element = Element(birth, death, self.number if self._is("key") else 0)
        if queue and queue[-1].key == element.key:
            element = element._replace(rank=queue[-1].rank + 1)
        queue.append(element)
        return element

    def _push_if_frequent(self, neighbour: str, user: bytes) -> list[Effect]:
        """Listings 4.5 and 4.8."""
        queue, window = self.delta_states[neighbour][user], self.rule.window
        if len(queue) < window:
            return []
        span_ns = queue[-1].birth - queue[-window].birth
        if not (span_ns > self.rule.span_ns if self._is("threshold") else span_ns < self.rule.span_ns):
            return []
        self.priorities[neighbour] -= len(queue)
        if not self._is("keep_sent"):
            del self.delta_states[neighbour][user]
        return [Send(neighbour, self._message({user: queue}))]

    # --- gossip --------------------------------------------------------------------------------

    def _gossip(self) -> list[Effect]:
        drifting = self._is("priorities") and self.rounds.least_informed
        counts = [sum(map(len, state.values())) for state in self.delta_states.values()]
        chosen = self.rounds.choose(list(self.priorities.values()) if drifting else counts)
        if chosen is None:
            return []
        neighbour = self.neighbours[chosen]
        self.priorities[neighbour] = 0
        delta_state, self.delta_states[neighbour] = self.delta_states[neighbour], {}
        return [Send(neighbour, self._message(delta_state))] if delta_state else []

    def _receive(self, sender: str, message: Elements | FineElements, now_ns: int) -> None:
        now_ticks, step_ticks = self.rule.limit.ticks(now_ns), self.rule.step_ticks
        for user, received in self._queues(message).items():
            queue, updates = merge(self.local_state.get(user, []), received, step_ticks)
            _store(self.local_state, user, self._refill(queue, now_ticks))
            for neighbour, delta_state in self.delta_states.items():
                before = delta_state.get(user, [])
                delta = merge(before, updates, step_ticks, False)[0] if self._is("merge") else union(before, updates)
                if neighbour == sender:
                    delta = remove_duplicates(delta, received, self.rule.identity)
                self.priorities[neighbour] += len(delta) - len(before)  # Listing 4.7
                _store(delta_state, user, self._refill_delta(delta, user, now_ticks))
        if sender in self.priorities:
            self.priorities[sender] = sum(map(len, self.delta_states[sender].values()))

    def _refill(self, queue: Queue, now_ticks: int) -> Queue:
        return refill(queue, now_ticks, self.rule.keep_last, self._is("refill"))

    def _refill_delta(self, queue: Queue, user: bytes, now_ticks: int) -> Queue:
        """Listing 4.4: what has left the local state is dropped here, too."""
        if self._is("refill") or self._is("merge"):  # the two lists may have parted: as printed
            return self._refill(queue, now_ticks)
        here = {element.place for element in self.local_state.get(user, [])}
        return [element for element in queue if element.place in here]

    def _restore(self, snapshot: Elements | FineElements, now_ns: int) -> None:
        now_ticks = self.rule.limit.ticks(now_ns)
        for user, received in self._queues(snapshot).items():
            queue, _ = merge([], received, self.rule.step_ticks)
            _store(self.local_state, user, self._refill(queue, now_ticks))

    def _message(self, queues: Mapping[bytes, Queue]) -> Elements | FineElements:
        return pack(queues, self.rule)

    def _queues(self, message: Elements | FineElements) -> State:
        queues = unpack(message, self.rule.limit.ticks_per_ns)
        return {user: [Element(*row) for row in queue] for user, queue in queues.items()}

    def _is(self, switch: str) -> bool:
        return switch in self.rule.literal


def _store(state: State, user: bytes, queue: Queue) -> None:
    if queue:
        state[user] = queue
    else:
        state.pop(user, None)
