"""owner-global: a node answers from its copy of a user's bucket, which the user's owner puts right now and then.

The twin of Gubernator's GLOBAL behaviour with its leaky bucket (Mailgun; v2.13), **not checked against its server**:
made from its documentation and the rules of its source (gubernator.go, global.go, algorithms.go).

* A user's owner is a node, by the hash of its name.
* Any node decides at once, on a bucket of its own: the user's at the owner, elsewhere a copy that fills and empties as
  if nobody else were asked.  The hits of all requests, rejected ones as well, are added up and go to the owner about
  every ``sync``.
* The owner takes hits off its bucket, dated by the first of them; hits of more than is there empty it
  (DRAIN_OVER_LIMIT).  As often it tells all others how many whole tokens each changed bucket has, and when it will be
  full; that replaces their copies.
* Whoever has sent hits, or state, waits for all answers, at most ``TIMEOUT_NS``, before it gathers for the next time:
  see ``parts.gather_loop``.  Over long ways hits get old in this queue.
* A bucket (c, r) leaks when a whole token or more has come back, as of the request's date; it is cut to c only where it
  has c + 1.  Taking the last whole token takes the fraction too.
* A bucket is full again c/r after the date of the last request.  Hits that are older than that make a bucket full which
  they should have emptied.

So between two messages from the owner a node admits less than it was told is there, 1 and r t; but each node gains r a
second for itself, and what all admit together has no bound.  Nobody is rejected whose tokens are at most c with all
that was ever asked for.

Ours: a user's owner is found by CRC-32 and equal ranges (Gubernator: 512 points a node, FNV-1); instants are not cut to
milliseconds.  Left out: batches are not cut at 1,000 users; hits that nobody answers for are not sent again, as there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from sys import getsizeof

from core.defaults import CAPACITY, RATE
from core.seeds import generator
from core.units import MILLISECOND_NS
from systems.api import (
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Node,
    Send,
    SetTimer,
    Start,
    System,
    Timer,
    Transport,
    UnexpectedEvent,
    Verdict,
)
from systems.limiting.owner_invariants import INVARIANTS
from systems.limiting.owner_messages import HITS, STATES, Gathered, TakenIn
from systems.parts.consistent_hash import name_hash, range_of
from systems.parts.gather_loop import GatherLoop
from systems.parts.limit import Limit, limit_of
from systems.parts.options import span_ns

TIMEOUT_NS = 500 * MILLISECOND_NS  # GUBER_GLOBAL_TIMEOUT, by default
USER_BYTES, WAITING_BYTES = 32 + 3 * 8, 32 + 8  # model of A18: a user key; tokens, two instants; hits or a date
_SWEEP_COUNT = 1_024  # buckets, before those that are full again are forgotten


@dataclass(frozen=True)
class Config:
    """Options of owner-global."""

    capacity: int = CAPACITY  # c: limit and burst
    rate: str = RATE  # r, tokens a second: the duration is c/r
    sync: str = "100ms"  # GUBER_GLOBAL_SYNC_WAIT


@dataclass(slots=True)
class LeakyBucket:
    """In ticks: what is there (a token is ``token_ticks``), when it last leaked, until when it is kept."""

    left: int
    leaked_at: int
    kept_until: int


class LeakyTable:
    """Gubernator's cache of leaky buckets."""

    def __init__(self, limit: Limit):
        self.limit, self.token = limit, limit.token_ticks
        self.full = limit.capacity * limit.token_ticks
        self.buckets: dict[str, LeakyBucket] = {}
        self._sweep_at = _SWEEP_COUNT

    def hit(self, user: str, hits: int, date_ns: int, now_ns: int, drain: bool = False) -> bool:
        """Take ``hits`` tokens, as of ``date_ns``; whether they were there.  0 asks how things are."""
        date, now = self.limit.ticks(date_ns), self.limit.ticks(now_ns)
        bucket = self.buckets.get(user)
        if bucket is None or bucket.kept_until < now:
            left = max(0, self.full - hits * self.token)
            self._keep(user, LeakyBucket(left, date, date + self.full), now)
            return hits * self.token <= self.full
        if hits:
            bucket.kept_until = date + self.full
        if date - bucket.leaked_at >= self.token:
            bucket.left += date - bucket.leaked_at
            bucket.leaked_at = date
        if bucket.left >= self.full + self.token:
            bucket.left = self.full
        whole = bucket.left // self.token
        if whole == hits or (hits > whole > 0 and drain):
            bucket.left = 0
        elif hits < whole:
            bucket.left -= hits * self.token
        return hits <= whole

    def state(self, user: str, date_ns: int, now_ns: int) -> tuple[str, int, int]:
        """As it is told: whole tokens, and when they will be c."""
        self.hit(user, 0, date_ns, now_ns)
        whole = self.buckets[user].left // self.token
        lacking = self.full - whole * self.token
        return user, whole, date_ns + self.limit.instant_ns(lacking)

    def replace(self, user: str, whole: int, full_at_ns: int, now_ns: int) -> None:
        """What the owner says."""
        now = self.limit.ticks(now_ns)
        self._keep(user, LeakyBucket(whole * self.token, now, self.limit.ticks(full_at_ns)), now)

    def _keep(self, user: str, bucket: LeakyBucket, now: int) -> None:
        self.buckets[user] = bucket
        if len(self.buckets) > self._sweep_at:
            self.buckets = {u: kept for u, kept in self.buckets.items() if kept.kept_until >= now or u == user}
            self._sweep_at = max(_SWEEP_COUNT, 2 * len(self.buckets))  # so that sweeps cost nothing on average


class GlobalNode:
    """A Gubernator: owner of some users, and with copies of the others' buckets."""

    def __init__(self, node_id: str, names: list[str], limit: Limit, sync_ns: int, seed: int):
        self.node_id, self.names = node_id, names
        self.table = LeakyTable(limit)
        self.loops = {
            kind: GatherLoop(kind, sync_ns, kind == HITS, generator(seed, "select", kind, node_id))
            for kind in (HITS, STATES)
        }
        self.heard: dict[tuple[str, str], int] = {}  # (node, kind) -> the last message's number
        self.number = 0

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Arrival(request):
                admitted = self.table.hit(request.user, request.cost, now_ns, now_ns)
                kind = STATES if self._owner(request.user) == self.node_id else HITS
                self.loops[kind].queue.append((request.user, request.cost, now_ns))
                return [Decide(request.id, Verdict.ADMIT if admitted else Verdict.REJECT), *self._go_on(kind, now_ns)]
            case Delivery(source, Gathered(kind, number, rows)):
                if self.heard.get((source, kind)) == number:
                    return []  # a copy
                self.heard[source, kind] = number
                self._take_in(kind, rows, now_ns)
                return [Send(source, TakenIn(kind, number)), *self._go_on(STATES, now_ns)]
            case Delivery(source, TakenIn(kind, number)):
                self.loops[kind].awaited.discard((source, number))
                return self._go_on(kind, now_ns)
            case Timer(kind, _) if kind in self.loops:
                return [*self.loops[kind].rang(now_ns), *self._go_on(kind, now_ns)]
            case Timer(name, _) if name in LATE:
                self.loops[LATE[name]].awaited.clear()
                return self._go_on(LATE[name], now_ns)
            case Start(None):
                self.number = now_ns  # no life numbers its messages as the one before did
                return []
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        """Nothing waits, neither here nor for an answer."""
        return all(loop.is_idle for loop in self.loops.values())

    def state_bytes(self) -> int:
        """Model bytes of the buckets, and of what waits to be sent."""
        waiting = sum(len(loop.queue) + len(loop.gathered) for loop in self.loops.values())
        return USER_BYTES * len(self.table.buckets) + WAITING_BYTES * waiting

    def allocated_bytes(self) -> int:
        """Tables, buckets and their integers; the users' names belong to the requests."""
        waiting = [getsizeof(loop.queue) + getsizeof(loop.gathered) for loop in self.loops.values()]
        return getsizeof(self.table.buckets) + sum(waiting) + 3 * self.state_bytes()

    def _owner(self, user: str) -> str:
        return self.names[range_of(name_hash(user), len(self.names))]

    def _go_on(self, kind: str, now_ns: int) -> list[Effect]:
        """Gather what is queued, and send what is due."""
        loop, effects = self.loops[kind], list[Effect]()
        while loop.is_due(now_ns, effects):
            for target, rows in self._rows(kind, now_ns):
                self.number += 1
                loop.awaited.add((target, self.number))
                effects.append(Send(target, Gathered(kind, self.number, rows)))
            loop.gathered = {}
            if loop.awaited:
                effects.append(SetTimer(_late(kind), now_ns + TIMEOUT_NS))
        return effects

    def _rows(self, kind: str, now_ns: int) -> Iterable[tuple[str, tuple[tuple[str, int, int], ...]]]:
        """Whom to tell what."""
        waiting = self.loops[kind].gathered
        if kind == STATES:
            rows = tuple(self.table.state(user, date_ns, now_ns) for user, (_, date_ns) in waiting.items())
            return [(name, rows) for name in self.names if name != self.node_id]
        by_owner: dict[str, list[tuple[str, int, int]]] = {}
        for user, (hits, date_ns) in waiting.items():
            by_owner.setdefault(self._owner(user), []).append((user, hits, date_ns))
        return [(owner, tuple(rows)) for owner, rows in by_owner.items()]

    def _take_in(self, kind: str, rows: Iterable[tuple[str, int, int]], now_ns: int) -> None:
        for user, count, at_ns in rows:
            if kind == STATES:
                self.table.replace(user, count, at_ns, now_ns)
            else:
                self.table.hit(user, count, at_ns, now_ns, drain=True)
                self.loops[STATES].queue.append((user, count, at_ns))


def _late(kind: str) -> str:
    return f"{kind}, late"


LATE = {_late(kind): kind for kind in (HITS, STATES)}  # timers: answers are waited for no longer


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """A node on each host."""
    limit, sync_ns = limit_of(config.capacity, config.rate), span_ns("owner-global", "sync", config.sync)
    return {name: GlobalNode(name, names, limit, sync_ns, seed) for name in names}


SYSTEM = System(
    "owner-global",
    "nodes admit on copies of an owner's buckets (twin of Gubernator GLOBAL, not checked against its server)",
    config=Config,
    nodes=nodes,
    messages=(Gathered, TakenIn),
    transport=Transport.STREAM,
    invariants=INVARIANTS,
)
