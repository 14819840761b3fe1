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
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import (
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Invariant,
    Message,
    Node,
    RunHistory,
    Send,
    SetTimer,
    Start,
    System,
    Timer,
    Transport,
    UnexpectedEvent,
    Verdict,
    Violation,
)
from systems.invariants import Meter, config_limit, rejected_in_vain, tokens
from systems.parts.consistent_hash import name_hash, range_of
from systems.parts.gather_loop import GatherLoop
from systems.parts.limit import Limit, limit_of
from systems.parts.options import span_ns

TIMEOUT_NS = 500 * MILLISECOND_NS  # GUBER_GLOBAL_TIMEOUT, by default
USER_BYTES, WAITING_BYTES = 32 + 3 * 8, 32 + 8  # model of A18: a user key; tokens, two instants; hits or a date
HITS, STATES = "hits", "states"
_SWEEP_COUNT = 1_024  # buckets, before those that are full again are forgotten


@dataclass(frozen=True)
class Config:
    """Options of owner-global."""

    capacity: int = CAPACITY  # c: limit and burst
    rate: str = RATE  # r, tokens a second: the duration is c/r
    sync: str = "100ms"  # GUBER_GLOBAL_SYNC_WAIT


class Gathered(Message, frozen=True):
    """A node to an owner, rows of user, hits, and the date of the first; or an owner to all: user, tokens, full at."""

    kind: str
    number: int
    rows: tuple[tuple[str, int, int], ...]


class TakenIn(Message, frozen=True):
    """The answer."""

    kind: str
    number: int


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


# --- what holds ------------------------------------------------------------------------------------


def _as_told(history: RunHistory) -> Violation | None:
    """A node admits no more than it was last told is there, and r t; all of c once that is said to be full.

    Less than a token more, which is not cut, and what clocks that are apart bring.  On the node's own clock.
    """
    limit = config_limit(history)
    life_ns = limit.instant_ns(limit.capacity * limit.token_ticks)
    extra = 1 + limit.rate_rps * history.clocks_apart_ns / SECOND_NS
    meters: dict[tuple[str, str], Meter] = {}
    full_at_ns: dict[tuple[str, str], int] = {}
    for step in history.steps:
        match step.event:
            case Start():
                meters = {key: meter for key, meter in meters.items() if key[0] != step.node}
            case Delivery(_, Gathered(kind, _, rows)):
                for user, count, at_ns in rows:
                    key = step.node, user
                    if kind == STATES or full_at_ns.get(key, step.at_ns) < step.at_ns:
                        meters[key] = Meter(limit)
                    if kind == STATES:
                        meters[key].take(step.at_ns, limit.capacity - count)
                    full_at_ns[key] = at_ns if kind == STATES else at_ns + life_ns
            case Arrival(request):
                key = step.node, request.user
                if key not in meters or full_at_ns.get(key, step.at_ns) < step.at_ns:
                    meters[key] = Meter(limit)
                full_at_ns[key] = step.at_ns + life_ns
                if Decide(request.id, Verdict.ADMIT) not in step.effects:
                    continue
                used = meters[key].take(step.at_ns, request.cost)
                if used >= limit.capacity + extra:
                    what = f"admits {request.user} {tokens(used - limit.capacity)} above what it was told, and r t"
                    return Violation(step.true_ns, step.node, what)
    return None


def _in_vain(history: RunHistory) -> Violation | None:
    return rejected_in_vain(history, all_asked=True)


def _hits_told(history: RunHistory) -> Violation | None:
    """At rest, where nobody crashed, owners have been told of all hits, those of rejected requests as well."""
    if not history.at_rest or history.crash_count:
        return None
    owed: dict[str, int] = {}
    for step in history.steps:
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, Gathered) and effect.message.kind == HITS:
                for user, hits, _ in effect.message.rows:
                    owed[user] = owed.get(user, 0) - hits
        if isinstance(step.event, Arrival):
            request = step.event.request
            if history.names[range_of(name_hash(request.user), len(history.names))] != step.node:
                owed[request.user] = owed.get(request.user, 0) + request.cost
    for user, hits in owed.items():
        if hits:
            return Violation(history.end_ns, "", f"{hits} hits of {user} were not told to its owner")
    return None


def _copies(history: RunHistory) -> Violation | None:
    """At rest all others hold what an owner said last, after all hits that it knows of; unless the owner crashed."""
    if not history.at_rest:
        return None
    said: dict[tuple[str, str, str], tuple[str, int, int]] = {}  # (owner, node, user) -> row
    heard: dict[tuple[str, str, str], tuple[str, int, int]] = {}
    untold: dict[tuple[str, str, str], None] = {}  # has not been told since the last hit
    for step in history.steps:
        hits: list[str] = []
        match step.event:
            case Start():
                said = {key: row for key, row in said.items() if step.node not in key[:2]}
            case Arrival(request) if history.names[range_of(name_hash(request.user), len(history.names))] == step.node:
                hits = [request.user]
            case Delivery(source, Gathered(kind, _, rows)) if kind == STATES:
                heard |= {(source, step.node, row[0]): row for row in rows}
            case Delivery(_, Gathered(_, _, rows)):
                hits = [row[0] for row in rows]
        untold |= {(step.node, name, user): None for name in history.names if name != step.node for user in hits}
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, Gathered) and effect.message.kind == STATES:
                for row in effect.message.rows:
                    said[step.node, effect.target, row[0]] = row
                    untold.pop((step.node, effect.target, row[0]), None)
    behind = [*untold, *(key for key, row in said.items() if heard.get(key) != row)]
    crashed = {name for name, spans in history.outages.items() if spans}
    for owner, node, user in (key for key in behind if key[0] not in crashed):
        return Violation(history.end_ns, node, f"does not know what {owner} knows of {user}")
    return None


SYSTEM = System(
    "owner-global",
    "nodes admit on copies of an owner's buckets (twin of Gubernator GLOBAL, not checked against its server)",
    config=Config,
    nodes=nodes,
    messages=(Gathered, TakenIn),
    transport=Transport.STREAM,
    invariants=(
        Invariant("no more than it was told", _as_told),
        Invariant("no rejection below capacity", _in_vain),
        Invariant("all hits are told", _hits_told),
        Invariant("copies equal at rest", _copies),
    ),
)
