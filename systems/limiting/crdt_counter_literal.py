"""The counter as the thesis lists it (Listings 3.1 to 3.4), in plain Python and unbounded integers.

It knows every switch, and is the twin that ``counter_fast`` is compared with.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from sys import getsizeof

import numpy as np

from systems.api import Effect, Message, Send
from systems.limiting.counter_common import Config, Delta, TaggedDelta
from systems.limiting.counter_node import (
    COUNT_MAXIMUM,
    COUNTER_BYTES,
    LIMIT_BYTES,
    CounterNode,
    too_many,
)
from systems.parts.erlang_terms import BUCKET_WORDS, STALE_WORDS, map_words
from systems.parts.limit import Limit
from systems.parts.options import span_ns
from systems.parts.user_key import KEY_BYTES, MODEL_BYTES

Slot = tuple[int, int]  # which node, and when that life of it began (0 with slots = "node")
_WINDOW_BYTES = 16  # urgent: a number of tokens and an instant for each queued bucket


@dataclass(frozen=True)
class CounterBucket:
    """A user's bucket, a value: ``counts`` is never changed in place (as in Erlang, so that copies need no copying)."""

    counts: dict[Slot, int]  # accepted tokens
    limit_ticks: int  # tokens allowed so far, in ticks of parts.limit: exact
    refilled_at_ns: int

    @property
    def accepted(self) -> int:
        """Tokens accepted by all nodes."""
        return sum(self.counts.values())

    def refilled(self, limit: Limit, capped: bool, now_ns: int) -> "CounterBucket":
        """Listing 3.1, 13-18; ``capped``: the bucket, not the refill, holds at most c (A6)."""
        grown = limit.ticks(now_ns - self.refilled_at_ns)
        if grown <= 0:
            return self
        full = limit.capacity * limit.token_ticks
        if capped:
            limit_ticks = min(self.limit_ticks + grown, self.accepted * limit.token_ticks + full)
        else:
            limit_ticks = self.limit_ticks + min(grown, full)
        return replace(self, limit_ticks=limit_ticks, refilled_at_ns=now_ns)

    def consumed(self, slot: Slot, cost: int) -> "CounterBucket":
        """Listing 3.2."""
        if cost == 0:
            return self
        return replace(self, counts={**self.counts, slot: self.counts.get(slot, 0) + cost})

    def merged(self, other: "CounterBucket") -> "CounterBucket":
        """Listing 3.4: the larger of each counter, and the larger limit with its instant.

        Of equal limits the later instant counts, so that the order of merging does not matter; the
        listing keeps its own.  The later one is the safe one: less is left to refill.
        """
        counts = dict(self.counts)
        for slot, count in other.counts.items():
            counts[slot] = max(counts.get(slot, 0), count)
        limit = max((self.limit_ticks, self.refilled_at_ns), (other.limit_ticks, other.refilled_at_ns))
        return CounterBucket(counts, *limit)

    def model_bytes(self) -> int:
        """What it weighs in the model of A18, with its user's key."""
        return MODEL_BYTES + LIMIT_BYTES + COUNTER_BYTES * len(self.counts)


class LiteralCounterNode(CounterNode):
    """Dictionaries: user -> bucket, and one such for each neighbour."""

    def __init__(self, node_id: str, names: Sequence[str], neighbours: tuple[str, ...], config: Config, seed: int):
        super().__init__(node_id, names, neighbours, config, seed)
        self.slot: Slot = (self.own, 0)
        self.state: dict[bytes, CounterBucket] = {}
        self.queues: list[dict[bytes, CounterBucket]] = [{} for _ in neighbours]
        self.stale: dict[bytes, int] = {}  # user -> the place of the neighbour for whom an older bucket is queued
        self.unsent: list[dict[bytes, tuple[int, int]]] = [{} for _ in neighbours]  # urgent: tokens, since when
        self.window = config.window or max(1, config.capacity // len(names))
        self.threshold_ns = span_ns("crdt-counter", "threshold", config.threshold)

    def begin(self, now_ns: int) -> None:
        """See ``CounterNode``."""
        if self.config.slots == "incarnation":
            self.slot = (self.own, now_ns)

    def restore(self, snapshot: Message) -> None:
        """See ``CounterNode``."""
        assert isinstance(snapshot, Delta | TaggedDelta)
        self.state = unpacked(snapshot, self.limit)

    def snapshot(self) -> Message:
        """See ``systems.api.Node``."""
        return packed(self.state.items(), self.limit, self.config.slots == "incarnation")

    def admit(self, user: bytes, cost: int, now_ns: int) -> bool:
        """Listing 3.1."""
        bucket = self.state.get(user)
        if bucket is None:
            bucket = CounterBucket({}, self.limit.capacity * self.limit.token_ticks, now_ns)
        else:
            bucket = bucket.refilled(self.limit, self.config.refill_cap == "bucket", now_ns)
        self.state[user] = bucket
        left = bucket.limit_ticks - bucket.accepted * self.limit.token_ticks
        needed = cost * self.limit.token_ticks
        if left < needed if self.config.whole_tokens else left <= needed - self.limit.token_ticks:
            return False
        bucket = bucket.consumed(self.slot, cost)
        if bucket.counts.get(self.slot, 0) > COUNT_MAXIMUM:
            raise too_many(self.node_id)
        self.state[user] = bucket
        self._queue(user, bucket, cost, -1, now_ns)
        return True

    def pushed(self, user: bytes, now_ns: int) -> list[Effect]:
        """See ``CounterNode``; a bucket is urgent for a neighbour when tokens enough, close enough, wait for it."""
        if self.config.push == "none":
            return []
        places: Sequence[int] = range(len(self.neighbours))
        if self.config.push == "urgent":
            places = [place for place in places if self._is_urgent(*self.unsent[place][user], now_ns)]
            for place in places:
                del self.queues[place][user], self.unsent[place][user]
                self._is_sent(user, place)
        if not places:
            return []
        message = self._packed([(user, self.state[user])])
        return [Send(self.neighbours[place], message) for place in places]

    def _is_urgent(self, tokens: int, since_ns: int, now_ns: int) -> bool:
        return tokens >= self.window and now_ns - since_ns < self.threshold_ns * tokens

    def receive(self, message: Delta | TaggedDelta, sender: int, now_ns: int) -> list[Effect]:
        """Listing 3.3."""
        updates: dict[bytes, CounterBucket] = {}
        for user, received in unpacked(message, self.limit).items():
            local = self.state.get(user)
            bucket = received if local is None else local.merged(received)
            if bucket != local:
                self.state[user] = updates[user] = bucket
                grown = bucket.accepted - (local.accepted if local else 0)
                self._queue(user, bucket, grown, sender, now_ns)
        if self.config.push == "broadcast" and self.relays and updates:
            news = self._packed(updates.items())
            return [Send(neighbour, news) for place, neighbour in enumerate(self.neighbours) if place != sender]
        return []

    def _queue(self, user: bytes, bucket: CounterBucket, grown: int, sender: int, now_ns: int) -> None:
        """The bucket changed, by ``grown`` tokens: everybody but ``sender`` shall know."""
        if not self.gossips:
            return
        self.stale.pop(user, None)
        if sender >= 0 and user in self.queues[sender]:
            self.stale[user] = sender
        for place, queue in enumerate(self.queues):
            if place != sender:
                queue[user] = bucket
                if self.config.push == "urgent":
                    tokens, since_ns = self.unsent[place].get(user, (0, now_ns))
                    self.unsent[place][user] = tokens + grown, since_ns
            elif user in queue and self.config.queued == "newest":
                queue[user] = bucket

    def queued_counts(self) -> list[int]:
        """See ``CounterNode``."""
        return [len(queue) for queue in self.queues]

    def flush(self, place: int) -> Message:
        """See ``CounterNode``."""
        message = self._packed(self.queues[place].items())
        for user in self.queues[place]:
            self._is_sent(user, place)
        self.queues[place], self.unsent[place] = {}, {}
        return message

    def _is_sent(self, user: bytes, place: int) -> None:
        if self.stale.get(user) == place:
            del self.stale[user]

    def _packed(self, buckets: Iterable[tuple[bytes, CounterBucket]]) -> Message:
        return packed(buckets, self.limit, self.config.slots == "incarnation")

    def state_bytes(self) -> int:
        """Local and delta states in the model of A18, or as terms."""
        if self.config.memory != "columns":
            counts = {user: len(bucket.counts) for user, bucket in self.state.items()}
            words = sum(BUCKET_WORDS + map_words(entries) for entries in counts.values())
            stale = sum(STALE_WORDS + counts[user] for user in self.stale)
            queued = len(set().union(*self.queues))
            return self.term_bytes(len(counts), len(counts) + queued + len(self.stale), words + stale)
        windows = _WINDOW_BYTES * sum(len(unsent) for unsent in self.unsent)
        return windows + sum(bucket.model_bytes() for part in (self.state, *self.queues) for bucket in part.values())

    def allocated_bytes(self) -> int:
        """The dictionaries and the buckets; a queue's bucket counts if it is not the local one itself."""
        buckets = list(self.state.values())
        buckets += [bucket for queue in self.queues for user, bucket in queue.items() if bucket is not self.state[user]]
        tables = sum(getsizeof(table) for table in (self.state, *self.queues, *self.unsent))
        return tables + sum(getsizeof(bucket) + getsizeof(bucket.counts) for bucket in buckets)


# --- on the wire -----------------------------------------------------------------------------------


def packed(buckets: Iterable[tuple[bytes, CounterBucket]], limit: Limit, tagged: bool) -> Message:
    """Users and their buckets as a message."""
    users, sizes, limits, slots, counts = [], [], [], [], []
    for user, bucket in buckets:
        users.append(user)
        sizes.append(len(bucket.counts))
        limits += [*divmod(bucket.limit_ticks, limit.token_ticks), bucket.refilled_at_ns]
        for slot in sorted(bucket.counts):
            slots.append(slot)
            counts.append(bucket.counts[slot])
    columns = [(sizes, "<u2"), (limits, "<i8"), ([node for node, _ in slots], "<u2"), (counts, "<u4")]
    delta = Delta(b"".join(users), *(np.array(values, dtype).tobytes() for values, dtype in columns))
    if not tagged:
        return delta
    return TaggedDelta(delta, np.array([began_at_ns for _, began_at_ns in slots], "<i8").tobytes())


def unpacked(message: Delta | TaggedDelta, limit: Limit) -> dict[bytes, CounterBucket]:
    """What ``packed`` packed."""
    delta = message.delta if isinstance(message, TaggedDelta) else message
    sizes, limits, nodes, counts = (
        np.frombuffer(column, dtype).tolist()
        for column, dtype in ((delta.sizes, "<u2"), (delta.limits, "<i8"), (delta.nodes, "<u2"), (delta.counts, "<u4"))
    )
    began = (
        np.frombuffer(message.incarnations, "<i8").tolist() if isinstance(message, TaggedDelta) else [0] * len(nodes)
    )
    buckets, first = {}, 0
    for row, size in enumerate(sizes):
        user = delta.users[KEY_BYTES * row : KEY_BYTES * (row + 1)]
        rows = range(first, first + size)
        tokens, ticks, refilled_at_ns = limits[3 * row : 3 * row + 3]
        slots = {(nodes[i], began[i]): counts[i] for i in rows}
        buckets[user] = CounterBucket(slots, tokens * limit.token_ticks + ticks, refilled_at_ns)
        first += size
    return buckets
