"""The counter over arrays, with compiled loops: what a message costs follows what changed, not who there is."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from core.records import Int64
from systems.api import Effect, Message, Send
from systems.limiting.counter_common import Config, Delta, TaggedDelta
from systems.limiting.counter_node import CounterNode, too_many

Scalar = TypeVar("Scalar", bound=np.generic)

_ROOM = 64  # users at the start; doubled as they come
_LINE_BYTES = 64  # of cache


class FastNode(CounterNode):
    """Arrays as in ``crdt_counter_kernel``; decisions and messages are those of ``LiteralCounterNode``."""

    def __init__(self, node_id: str, names: Sequence[str], neighbours: tuple[str, ...], config: Config, seed: int):
        super().__init__(node_id, names, neighbours, config, seed)
        from systems.limiting import crdt_counter_kernel as kernel  # compiled: only where nodes are made

        self.kernel = kernel
        degree, limit = len(neighbours), self.limit
        self.rows = _table(_ROOM, kernel.MASK + (degree + 63) // 64, np.int64)
        self.counts = _table(_ROOM, len(names), np.uint32)
        self.table = np.full(2 * _ROOM, -1, np.int32)
        self.queue = np.zeros((degree, _ROOM), np.int32)
        self.book = np.zeros(kernel.LENGTHS + degree, np.int64)
        capped, whole = config.refill_cap == "bucket", config.whole_tokens
        terms = (self.own, limit.capacity, limit.ticks_per_ns, limit.token_ticks, capped, whole, self.gossips)
        self.terms = np.array(terms, np.int64)

    def restore(self, snapshot: Message) -> None:
        """See ``CounterNode``."""
        assert isinstance(snapshot, Delta)
        silent = self.terms.copy()
        silent[-1] = False
        self._merge(snapshot, silent, -1)

    def snapshot(self) -> Message:
        """See ``systems.api.Node``."""
        everyone = np.arange(self.book[self.kernel.USERS], dtype=np.int32)
        return _delta(*self.kernel.pack(self.rows, self.counts, everyone, self.kernel.LIMIT))

    def admit(self, user: bytes, cost: int, now_ns: int) -> bool:
        """See ``CounterNode``."""
        return self._row_of_admitted(user, cost, now_ns) >= 0

    def _row_of_admitted(self, user: bytes, cost: int, now_ns: int) -> int:
        key = np.frombuffer(user, np.int64)
        arrays = self.rows, self.counts, self.table, self.queue, self.book, self.terms
        row = int(self.kernel.admit(*arrays, key, cost, now_ns))
        if row == self.kernel.FULL:
            self._grow()
            return self._row_of_admitted(user, cost, now_ns)
        if row == self.kernel.OVERFLOW:
            raise too_many(self.node_id)
        self.admitted = row
        return row

    def pushed(self, user: bytes, now_ns: int) -> list[Effect]:
        """See ``CounterNode``."""
        if self.config.push == "none":
            return []
        chosen = np.array([self.admitted], np.int32)
        message = _delta(*self.kernel.pack(self.rows, self.counts, chosen, self.kernel.LIMIT))
        return [Send(neighbour, message) for neighbour in self.neighbours]

    def receive(self, message: Delta | TaggedDelta, sender: int, now_ns: int) -> list[Effect]:
        """See ``CounterNode``."""
        assert isinstance(message, Delta)
        self._merge(message, self.terms, sender)
        return []

    def _merge(self, message: Delta, terms: Int64, sender: int) -> None:
        columns = (
            np.frombuffer(message.users, np.int64),
            np.frombuffer(message.sizes, np.uint16),
            np.frombuffer(message.limits, np.int64),
            np.frombuffer(message.nodes, np.uint16),
            np.frombuffer(message.counts, np.uint32),
        )
        begin = np.zeros(3, np.int64)
        while not self.kernel.merge(
            self.rows, self.counts, self.table, self.queue, self.book, terms, *columns, begin, sender
        ):
            self._grow()

    def _grow(self) -> None:
        """Room for twice as many users."""
        users = len(self.rows)
        self.rows, self.counts = _doubled(self.rows), _doubled(self.counts)
        self.queue = np.concatenate((self.queue, np.zeros_like(self.queue)), axis=1)
        self.table = np.full(4 * users, -1, np.int32)
        self.kernel.rehash(self.rows, self.table, users)

    def queued_counts(self) -> list[int]:
        """See ``CounterNode``."""
        counts: list[int] = self.book[self.kernel.LENGTHS :].tolist()
        return counts

    def flush(self, place: int) -> Message:
        """See ``CounterNode``."""
        return _delta(*self.kernel.flush(self.rows, self.counts, self.queue, self.book, place))

    def state_bytes(self) -> int:
        """Local and delta states in the model of A18, kept as they change; or as terms, counted anew."""
        if self.config.memory == "columns":
            return int(self.book[self.kernel.BYTES])
        users = int(self.book[self.kernel.USERS])
        return self.term_bytes(users, *map(int, self.kernel.weigh(self.rows, users)))

    def allocated_bytes(self) -> int:
        """The arrays."""
        return sum(a.nbytes for a in (self.rows, self.counts, self.table, self.queue, self.book))


def _table(users: int, width: int, dtype: type[Scalar] | np.dtype[Scalar]) -> NDArray[Scalar]:
    """Zeros (users, ``width`` or more): rows of up to a line of cache in one, and of more in as few as can be."""
    line = _LINE_BYTES // np.dtype(dtype).itemsize
    part = next((part for part in (4, 8, 16, 32) if part >= width and part < line), line)
    columns = -(-width // part) * part
    spare = np.zeros(users * columns + line, dtype)
    first = -spare.ctypes.data % _LINE_BYTES // spare.itemsize
    return spare[first : first + users * columns].reshape(users, columns)


def _doubled(table: NDArray[Scalar]) -> NDArray[Scalar]:
    grown = _table(2 * len(table), table.shape[1], table.dtype)
    grown[: len(table)] = table
    return grown


def _delta(columns: NDArray[np.uint8], users: int, counters: int) -> Delta:
    """The message in the buffer that ``crdt_counter_kernel.pack`` fills."""
    content, values_at = columns.tobytes(), 40 * users
    nodes_at = values_at + 4 * (counters + 1)
    sizes_at = nodes_at + 2 * (counters + 1)
    return Delta(
        users=content[: 16 * users],
        sizes=content[sizes_at:],
        limits=content[16 * users : values_at],
        nodes=content[nodes_at : nodes_at + 2 * counters],
        counts=content[values_at : values_at + 4 * counters],
    )
