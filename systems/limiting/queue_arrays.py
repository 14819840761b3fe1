"""The token-bucket queue on arrays: what ``systems.limiting.crdt_queue`` says, fast.

A test holds it equal to ``LiteralQueueNode``: decisions, messages (in another order of users), weights.
"""

from collections.abc import Iterable
from types import ModuleType

import numpy as np

from core.records import Int64, Request
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
    IDENTITIES,
    TIMER,
    Elements,
    Rule,
    message_bytes,
    queue_bytes,
    too_late,
)
from systems.parts.gossip import Rounds
from systems.parts.user_key import MODEL_BYTES, user_key

_SLOT_BYTES = 150  # of one entry in the dict of user texts: its text, and its place


class Workspace:
    """Room in which messages are made, shared by the nodes of one deployment: empty between events."""

    def __init__(self, kernel: ModuleType, merging: ModuleType, neighbours_maximum: int):
        self.kernel, self.merging = kernel, merging
        self.out = np.zeros((2, 1 << 10), np.int64)  # births, deaths
        self.users = np.zeros((1 << 8, 2), np.int64)
        self.counts = np.zeros(1 << 8, np.uint32)
        self.segments = np.zeros((max(1, neighbours_maximum), 3), np.int64)
        self.scratch = np.zeros((1 << 10, kernel.MASK + -(-max(1, neighbours_maximum) // kernel.BITS)), np.int64)

    def make_room(self, elements: int, users: int) -> None:
        """Let a message of so many elements and users fit."""
        if elements > self.out.shape[1]:
            self.out = np.zeros((2, 2 * elements), np.int64)
        if users > len(self.users):
            self.users, self.counts = np.zeros((2 * users, 2), np.int64), np.zeros(2 * users, np.uint32)


def workspace(neighbours_maximum: int) -> Workspace:
    """Loads the kernels (and so Numba) and makes room."""
    from systems.limiting import crdt_queue_kernel, queue_merge_kernel

    return Workspace(crdt_queue_kernel, queue_merge_kernel, neighbours_maximum)


class ArrayNode:
    """One replica."""

    def __init__(self, node_id: str, neighbours: Iterable[str], rule: Rule, rounds: Rounds, space: Workspace):
        assert not rule.literal and not rule.fine
        self.node_id, self.rule, self.rounds, self.space = node_id, rule, rounds, space
        self.neighbours, self._latest_ns = list(neighbours), rule.latest_ns
        self._index = {neighbour: index for index, neighbour in enumerate(self.neighbours)}
        self._slots: dict[str, int] = {}  # users that asked here
        count, kernel = len(self.neighbours), space.kernel
        words = max(1, -(-count // kernel.BITS))
        self._full = np.zeros(words, np.int64)
        for k in range(count):
            self._full[k // kernel.BITS] |= 1 << (k % kernel.BITS)
        self._none = np.zeros(words, np.int64)
        self._meta = np.zeros(kernel.QUEUED + 2 * count, np.int64)
        self._queued = self._meta[kernel.QUEUED : kernel.QUEUED + count]
        self._pool = np.zeros((1 << 8, kernel.MASK + words), np.int64)
        self._users = np.zeros((1 << 6, kernel.MASKS + 2 * words), np.int64)
        self._table = np.zeros(1 << 7, np.int32)
        self._lists = np.zeros((count, 1 << 6), np.int32)
        terms = rule.limit.capacity, rule.life_ticks, rule.step_ticks, rule.keep_last, rule.frequency
        same = IDENTITIES.index(rule.identity)
        self._rule = np.array([*terms, rule.window, rule.span_ns, rule.apart_ns, same, count], np.int64)

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        if abs(now_ns) > self._latest_ns:
            raise too_late(self.node_id, now_ns)
        match event:
            case Arrival(request):
                return self._serve(request, now_ns)
            case Delivery(source, Elements() as message):
                self._receive(message, self._full, self._index.get(source, -1), now_ns)
                return []
            case Timer(name, due_at_ns) if name == TIMER:
                return [SetTimer(TIMER, self.rounds.next_at_ns(due_at_ns, now_ns)), *self._gossip()]
            case Start(None | Elements() as snapshot):
                return self._start(snapshot, now_ns)
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        """Whether no delta state holds anything."""
        return not self._queued.any()

    def state_bytes(self) -> int:
        """Local state and delta states in the model: 32 bytes a user, 16 an element; or as terms, counted anew."""
        kernel, meta = self.space.kernel, self._meta
        listed: int = sum(self._queued.tolist(), int(meta[kernel.LOCAL_ELEMENTS]))
        if self.rule.memory != "columns":
            delta_users = np.zeros(len(self.neighbours), np.int64)
            keys, elements = kernel.weigh(meta, self._pool, self._users, delta_users)
            maps = len(self.neighbours), int(meta[kernel.LOCAL_USERS]), delta_users.tolist(), int(keys)
            return queue_bytes(self.rule.memory, maps, listed, int(elements))
        users = int(meta[kernel.LOCAL_USERS] + meta[kernel.DELTA_USERS])
        return MODEL_BYTES * users + ELEMENT_BYTES * listed

    def message_bytes(self, message: Elements, encoded_bytes: int) -> int:
        """See ``systems.api.Node``."""
        return message_bytes(self.rule.unit, message, encoded_bytes)

    def allocated_bytes(self) -> int:
        """The arrays, and an estimate for the texts of users that asked here."""
        arrays = (self._meta, self._pool, self._users, self._table, self._lists)
        return sum(array.nbytes for array in arrays) + _SLOT_BYTES * len(self._slots)

    def snapshot(self) -> Elements:
        """The local state."""
        kernel, meta, space = self.space.kernel, self._meta, self.space
        space.make_room(int(meta[kernel.LOCAL_ELEMENTS]), int(meta[kernel.LOCAL_USERS]))
        taken = kernel.dump(meta, self._pool, self._users, space.out, space.users, space.counts)
        return self._message(taken, int(meta[kernel.LOCAL_ELEMENTS]))

    # --- events ----------------------------------------------------------------------------------

    def _start(self, snapshot: Elements | None, now_ns: int) -> list[Effect]:
        if snapshot is not None:
            self._receive(snapshot, self._none, -1, now_ns)
        return [SetTimer(TIMER, self.rounds.first_at_ns(now_ns))] if self.neighbours else []

    def _serve(self, request: Request, now_ns: int) -> list[Effect]:
        slot = self._slots.get(request.user)
        if slot is None:
            slot = self._slots[request.user] = self._slot(request.user)
        rule, space, kernel, meta = self.rule, self.space, self.space.kernel, self._meta
        now_ticks, clock_ns = rule.limit.ticks(now_ns), now_ns - now_ns % rule.resolution_ns
        while True:
            count = kernel.accept(
                meta, self._pool, self._users, self._lists, self._full, self._rule,
                space.out, space.segments, slot, now_ticks, clock_ns, request.cost,
            )  # fmt: skip
            if not meta[kernel.NEED]:
                break
            self._make_room()
        if count < 0:
            return [Decide(request.id, Verdict.REJECT)]
        effects: list[Effect] = [Decide(request.id, Verdict.ADMIT)]
        if count:
            effects += self._urgent(user_key(request.user), count)
        return effects

    def _urgent(self, key: bytes, count: int) -> list[Effect]:
        """Sends of one user's elements; neighbours that lack the same get the same message."""
        out, made, before = self.space.out, None, (0, 0)
        effects: list[Effect] = []
        for k, begin, end in self.space.segments[:count].tolist():
            if made is None or (begin, end) != before:
                births, deaths = out[:, begin:end]
                made = Elements(key, (end - begin).to_bytes(4, "little"), births.tobytes(), deaths.tobytes())
                before = begin, end
            effects.append(Send(self.neighbours[k], made))
        return effects

    def _gossip(self) -> list[Effect]:
        counts = self._queued.tolist()
        chosen = self.rounds.choose(counts)
        if chosen is None:
            return []
        space, kernel, meta = self.space, self.space.kernel, self._meta
        space.make_room(counts[chosen], int(meta[kernel.QUEUED + len(counts) + chosen]))
        taken = kernel.flush(
            meta, self._pool, self._users, self._lists, self._rule, space.out, space.users, space.counts, chosen
        )
        return [Send(self.neighbours[chosen], self._message(taken, counts[chosen]))]

    def _receive(self, message: Elements, full: Int64, source: int, now_ns: int) -> None:
        keys, counts = np.frombuffer(message.users, "<i8"), np.frombuffer(message.counts, "<u4")
        births, deaths = np.frombuffer(message.births, "<i8"), np.frombuffer(message.deaths, "<i8")
        kernel, meta, now_ticks, begin = self.space.kernel, self._meta, self.rule.limit.ticks(now_ns), 0
        meta[kernel.ELEMENT] = 0
        while True:
            begin = self.space.merging.receive(
                meta, self._pool, self._users, self._table, self._lists, full, self._rule, self.space.scratch,
                keys, counts, births, deaths, begin, source, now_ticks,
            )  # fmt: skip
            if not meta[kernel.NEED]:
                return
            self._make_room(len(births))

    def _message(self, users: int, elements: int) -> Elements:
        """The first rows of the out arrays."""
        space = self.space
        births, deaths = space.out[0, :elements].tobytes(), space.out[1, :elements].tobytes()
        return Elements(space.users[:users].tobytes(), space.counts[:users].tobytes(), births, deaths)

    # --- room ------------------------------------------------------------------------------------

    def _slot(self, user: str) -> int:
        high, low = np.frombuffer(user_key(user), "<i8").tolist()
        slot = self.space.kernel.find(self._users, self._table, high, low)
        if slot < 0:
            if self._meta[self.space.kernel.USERS] == len(self._users):
                self._more_users()
            slot = self.space.kernel.insert(self._meta, self._users, self._table, high, low)
        return int(slot)

    def _make_room(self, elements: int = 0) -> None:
        """Enlarge what a kernel found too small."""
        kernel, space = self.space.kernel, self.space
        need, self._meta[kernel.NEED] = int(self._meta[kernel.NEED]), 0
        if need == kernel.NEED_POOL:
            self._pool = _taller(self._pool, 2 * len(self._pool))
        elif need == kernel.NEED_USERS:
            self._more_users()
        elif need == kernel.NEED_LISTS:
            self._lists = np.hstack([self._lists, np.zeros_like(self._lists)])
        elif need == kernel.NEED_OUT:
            space.make_room(2 * space.out.shape[1], 0)
        else:
            assert need == kernel.NEED_SCRATCH
            space.scratch = np.zeros((2 * len(space.scratch) + elements, self._pool.shape[1]), np.int64)

    def _more_users(self) -> None:
        self._users = _taller(self._users, 2 * len(self._users))
        self._table = np.zeros(2 * len(self._users), np.int32)
        self.space.kernel.rebuild(self._meta, self._users, self._table)


def _taller(rows: Int64, count: int) -> Int64:
    taller = np.zeros((count, rows.shape[1]), rows.dtype)
    taller[: len(rows)] = rows
    return taller
