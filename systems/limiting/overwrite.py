"""overwrite: every node counts what it hears of and sends each count to all others, where the last writer wins.

The twin of HAProxy's stick tables with peers (its community edition, which does not add counts up), as this has them:

    stick-table type string len 32 size 100k expire 10s peers p store gpc0,gpc0_rate(1s)
    http-request track-sc0 url_param(u) table t
    http-request return status 429 if { sc_gpc0_rate(0) ge 20 }
    http-request sc-inc-gpc0(0)

* A user's entry is a counter of two periods of c/r: this one's count, and that of the one before, which weighs as much
  as is left of this one (freq_ctr.c).  A period begins when the one before ends, or with the first request after that
  if a whole one has passed.  Where this one's count is 0, one of 1 before weighs wholly, so that it does not flap.
* ``counter``: ``admitted`` (gpc0_rate) rejects at c and counts what it admits; ``all`` (http_req_rate) counts what
  comes and rejects above c.
* Whatever is asked, even what is rejected, touches the entry, and every touch sends it, as it is by then, to every peer
  at once (stick_table.c, peers.c): the period's age, and both counts.
* What a peer sends replaces the entry; its period began so long ago on the own clock.  It is not sent on.
* Instants are whole milliseconds, and periods begin at even ones, rounded down (the lowest bit is a lock).  At each hop
  the way makes a period as much younger as it takes, and the rounding makes it older: 100 requests a second are many
  hops.
* Every node's milliseconds begin at instants of their own.  So they do on machines that know nothing of each other, and
  on one machine as soon as a process had to wait 100 ms for a core: HAProxy takes that for a clock that was set, and
  leaves it out (clock.c).  Rounding alone then makes a period older by about half a millisecond a hop.

So a node that hears nothing of a user admits less than c + 1 + r t of it in any span t, but together there is no bound:
counts that cross are lost.  Nobody is rejected whose tokens are at most c with all that were counted before.

Ours: a request takes ``cost`` counts, and ``admitted`` asks for as much room; a node whose clock is set back lets the
period begin anew (HAProxy's own clock never is).  Left out: that an entry is taught again when a connection to a peer
was broken.
"""

from dataclasses import dataclass
from fractions import Fraction
from sys import getsizeof

from core.defaults import CAPACITY, RATE
from core.errors import SpecError
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
    Start,
    System,
    Transport,
    UnexpectedEvent,
    Verdict,
    Violation,
)
from systems.invariants import Meter, config_limit, rejected_in_vain, tokens
from systems.parts.limit import limit_of
from systems.parts.options import choice, span_ns

COUNTERS = ("admitted", "all")
SHORTEST_EXPIRE_MS = 10_000  # by default
ENTRY_BYTES = 32 + 3 * 8 + 8  # model of A18: a user key; the period's beginning, two counts; when it was touched
GOLDEN = 0.618034  # the golden ratio's fraction: its multiples' fractions lie apart
_SWEEP_COUNT = 1_024  # entries, before old ones are forgotten


@dataclass(frozen=True)
class Config:
    """Options of overwrite."""

    capacity: int = CAPACITY  # c, requests of a user in a period
    rate: str = RATE  # r, tokens a second: a period is c/r long
    counter: str = "admitted"  # gpc0_rate; or "all": http_req_rate
    expire: str = ""  # of the table: entries that nobody touches are forgotten; "": 10 s, or two periods if longer


class TableEntry(Message, frozen=True):
    """A user's entry: how long ago its period began, what was counted in it, and what in the one before."""

    user: str
    age_ms: int
    count: int
    before: int


class StickTable(Message, frozen=True):
    """A node's table, for a peer that starts: rows of user, ``begun_ms``, ``count``, ``before``."""

    rows: tuple[tuple[str, int, int, int], ...]


@dataclass(slots=True)
class PeriodCounter:
    """Counts of this period and the one before."""

    begun_ms: int
    count: int = 0
    before: int = 0
    touched_ms: int = 0

    def rate(self, now_ms: int, period_ms: int) -> int:
        """Counts a period, rounded down."""
        count, before = self.count, self.before
        left_ms = self.begun_ms + period_ms - now_ms
        if left_ms < 0:
            left_ms += period_ms
            count, before = 0, count if left_ms >= 0 else 0
        if count == 0 and before <= 1:
            return before
        return (before * left_ms + count * period_ms) // period_ms

    def add(self, cost: int, now_ms: int, period_ms: int) -> None:
        """Count ``cost`` more, in a new period if this one is over, or if nothing was ever counted."""
        if not self.count and not self.before:
            self.begun_ms = even(now_ms)
        elif now_ms - self.begun_ms >= period_ms:
            self.count, self.before = 0, self.count
            begun_ms = self.begun_ms + period_ms
            if now_ms - begun_ms >= period_ms:
                begun_ms, self.before = now_ms, 0
            self.begun_ms = even(begun_ms)
        self.count += cost


def even(at_ms: int) -> int:
    """Rounded down."""
    return at_ms & ~1


def phase_of(number: int) -> int:
    """By how much a node's even milliseconds begin earlier than the first one's, ns: any few are spread over 2 ms."""
    return round(number * GOLDEN % 1 * 2 * MILLISECOND_NS)


class TableNode:
    """One HAProxy: decides by its own table, and tells all its peers."""

    def __init__(self, node_id: str, names: list[str], capacity: int, period_ms: int, expire_ms: int, counts_all: bool):
        self.node_id, self.capacity, self.counts_all = node_id, capacity, counts_all
        self.peers, self.phase_ns = [name for name in names if name != node_id], phase_of(names.index(node_id))
        self.period_ms, self.expire_ms = period_ms, expire_ms
        self.table: dict[str, PeriodCounter] = {}
        self._sweep_at = _SWEEP_COUNT

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        now_ms = (now_ns + self.phase_ns) // MILLISECOND_NS
        match event:
            case Arrival(request):
                entry = self._entry(request.user, now_ms)
                admitted = self._take(entry, request.cost, now_ms)
                verdict = Decide(request.id, Verdict.ADMIT if admitted else Verdict.REJECT)
                told = TableEntry(request.user, now_ms - entry.begun_ms, entry.count, entry.before)
                return [verdict, *(Send(peer, told) for peer in self.peers)]
            case Delivery(_, TableEntry(user, age_ms, count, before)):
                self.table[user] = PeriodCounter(even(now_ms - age_ms), count, before, now_ms)
                self._sweep(now_ms)
                return []
            case Start(None):
                return []
            case Start(StickTable(rows)):
                for user, begun_ms, count, before in rows:
                    self.table[user] = PeriodCounter(begun_ms, count, before, now_ms)
                return []
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        """What there is to tell is told at once."""
        return True

    def state_bytes(self) -> int:
        """Model bytes of the table."""
        return ENTRY_BYTES * len(self.table)

    def allocated_bytes(self) -> int:
        """The table, its entries and their integers; the users' names belong to the requests."""
        return getsizeof(self.table) + (64 + 4 * 32) * len(self.table)

    def snapshot(self) -> StickTable:
        """The table: a HAProxy that starts asks a peer for all of it."""
        return StickTable(tuple((user, e.begun_ms, e.count, e.before) for user, e in self.table.items()))

    def _entry(self, user: str, now_ms: int) -> PeriodCounter:
        """The user's entry, touched; a new one if there is none, or nobody touched it for too long."""
        entry = self.table.get(user)
        if entry is None or now_ms - entry.touched_ms >= self.expire_ms:
            entry = self.table[user] = PeriodCounter(even(now_ms), touched_ms=now_ms)  # or the sweep takes it
            self._sweep(now_ms)
        entry.begun_ms = min(entry.begun_ms, even(now_ms))
        entry.touched_ms = now_ms
        return entry

    def _take(self, entry: PeriodCounter, cost: int, now_ms: int) -> bool:
        if self.counts_all:
            entry.add(cost, now_ms, self.period_ms)
            return entry.rate(now_ms, self.period_ms) <= self.capacity
        if entry.rate(now_ms, self.period_ms) + cost > self.capacity:
            return False
        entry.add(cost, now_ms, self.period_ms)
        return True

    def _sweep(self, now_ms: int) -> None:
        if len(self.table) > self._sweep_at:
            self.table = {u: entry for u, entry in self.table.items() if now_ms - entry.touched_ms < self.expire_ms}
            self._sweep_at = max(_SWEEP_COUNT, 2 * len(self.table))  # so that sweeps cost nothing on average


def period_of(capacity: int, rate: str) -> int:
    """c/r in milliseconds; SpecError where it is not a whole number of them, two at least."""
    limit = limit_of(capacity, rate)
    period_ms = Fraction(capacity * 1_000) / limit.rate_rps
    if period_ms.denominator != 1 or period_ms < 2:
        fix = "give a limit whose c/r is a whole number of milliseconds, at least 2"
        raise SpecError(f"overwrite: capacity = {capacity}, rate = {rate!r}: a period of {float(period_ms):g} ms", fix)
    return int(period_ms)


def expire_of(config: Config, period_ms: int) -> int:
    """How long the table keeps what nobody touches, in milliseconds; SpecError where that is less than two periods."""
    if not config.expire:
        return max(SHORTEST_EXPIRE_MS, 2 * period_ms)
    expire_ms = span_ns("overwrite", "expire", config.expire) // MILLISECOND_NS
    if expire_ms < 2 * period_ms:
        fix = f"give at least two periods, {2 * period_ms}ms, or counts are forgotten that still weigh"
        raise SpecError(f"overwrite: expire = {config.expire!r}", fix)
    return expire_ms


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """A node on each host, each a peer of all others.  SpecError on options that make no sense."""
    period_ms = period_of(config.capacity, config.rate)
    counts_all = choice("overwrite", "counter", config.counter, COUNTERS) == "all"
    expire_ms = expire_of(config, period_ms)
    return {name: TableNode(name, names, config.capacity, period_ms, expire_ms, counts_all) for name in names}


# --- what holds ------------------------------------------------------------------------------------


def _alone(history: RunHistory) -> Violation | None:
    """A node that hears nothing of a user admits less than c + 1 + r t: the counter's rounding is less than 1.

    On its own clock; one that is set brings what comes back in as long a time.
    """
    limit = config_limit(history)
    stepped = limit.rate_rps * history.clocks_apart_ns / SECOND_NS if "clock-skew" in history.faults else Fraction(0)
    meters: dict[tuple[str, str], Meter] = {}
    for step in history.steps:
        match step.event:
            case Start():
                meters = {key: meter for key, meter in meters.items() if key[0] != step.node}
            case Delivery(_, TableEntry(user)):
                meters.pop((step.node, user), None)
            case Arrival(request) if Decide(request.id, Verdict.ADMIT) in step.effects:
                used = meters.setdefault((step.node, request.user), Meter(limit)).take(step.at_ns, request.cost)
                if used >= limit.capacity + 1 + stepped:
                    what = f"admits {request.user} {tokens(used - limit.capacity)} above {limit.capacity} + r t, alone"
                    return Violation(step.true_ns, step.node, what)
    return None


def _in_vain(history: RunHistory) -> Violation | None:
    """Of all that was counted."""
    return rejected_in_vain(history, all_asked=history.config.counter == "all")


Known = tuple[int, int, int, int]  # of a user: begun and touched, in ms, counts of this period and the one before


def _weighed(known: Known, now_ms: int, period_ms: int) -> int:
    """The counter as what is left of a period, in fractions."""
    begun_ms, _, count, before = known
    left = 1 - Fraction(now_ms - begun_ms, period_ms)
    if left >= 0:
        return before if count == 0 and before <= 1 else int(count + before * left)
    if left < -1:
        return 0
    return count if count <= 1 else int(count * (1 + left))


def _counted(known: Known, cost: int, now_ms: int, period_ms: int) -> Known:
    """What is known once ``cost`` more is counted."""
    begun_ms, _, count, before = known
    if not count and not before:
        return even(now_ms), now_ms, cost, 0
    match (now_ms - begun_ms) // period_ms:
        case 0:
            return begun_ms, now_ms, count + cost, before
        case 1:
            return even(begun_ms + period_ms), now_ms, cost, count
    return even(now_ms), now_ms, cost, 0


def _by_its_table(history: RunHistory) -> Violation | None:
    """A node decides by what it last heard or counted of a user, exactly, and that is what it tells."""
    config, capacity = history.config, history.config.capacity
    period_ms = period_of(capacity, config.rate)
    expire_ms, tables = expire_of(config, period_ms), dict[str, dict[str, Known]]()
    for step in history.steps:
        now_ms = (step.at_ns + phase_of(history.names.index(step.node))) // MILLISECOND_NS
        table = tables.setdefault(step.node, {})
        match step.event:
            case Start(snapshot):
                table.clear()
                for user, begun_ms, count, before in snapshot.rows if isinstance(snapshot, StickTable) else ():
                    table[user] = begun_ms, now_ms, count, before
            case Delivery(_, TableEntry(user, age_ms, count, before)):
                table[user] = even(now_ms - age_ms), now_ms, count, before
            case Arrival(request):
                begun_ms, touched_ms, count, before = table.get(request.user, (0, now_ms - expire_ms, 0, 0))
                if now_ms - touched_ms >= expire_ms:
                    begun_ms, count, before = even(now_ms), 0, 0
                known = min(begun_ms, even(now_ms)), now_ms, count, before
                more = _counted(known, request.cost, now_ms, period_ms)
                if config.counter == "all":
                    known = more
                    admitted = _weighed(known, now_ms, period_ms) <= capacity
                else:
                    admitted = _weighed(known, now_ms, period_ms) + request.cost <= capacity
                    known = more if admitted else known
                table[request.user] = known
                told = TableEntry(request.user, now_ms - known[0], known[2], known[3])
                verdict = Decide(request.id, Verdict.ADMIT if admitted else Verdict.REJECT)
                said = [effect.message for effect in step.effects if isinstance(effect, Send)]
                if verdict not in step.effects or any(message != told for message in said):
                    what = f"does not {verdict.verdict.value} {request.user} {request.cost} and tell {told}"
                    return Violation(step.true_ns, step.node, what)
    return None


def _told_at_once(history: RunHistory) -> Violation | None:
    """Every request makes its node tell all others of its user, once."""
    for step in history.steps:
        if isinstance(step.event, Arrival):
            said = [(effect.target, effect.message) for effect in step.effects if isinstance(effect, Send)]
            about = {message.user for _, message in said if isinstance(message, TableEntry)}
            others = [name for name in history.names if name != step.node]
            if sorted(target for target, _ in said) != sorted(others) or about - {step.event.request.user}:
                return Violation(step.true_ns, step.node, f"does not tell all others of {step.event.request.user}")
    return None


SYSTEM = System(
    "overwrite",
    "every node tells all others its counts, and the last one heard counts (twin of HAProxy's stick tables)",
    config=Config,
    nodes=nodes,
    messages=(TableEntry, StickTable),
    transport=Transport.STREAM,
    invariants=(
        Invariant("no more than a counter's bound, alone", _alone),
        Invariant("no rejection below capacity", _in_vain),
        Invariant("decides by its table", _by_its_table),
        Invariant("tells all at once", _told_at_once),
    ),
)
