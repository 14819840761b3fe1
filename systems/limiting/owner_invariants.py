"""What holds of owner-global: buckets decide, and are told of; owners hear of all hits; copies follow their owner."""

from fractions import Fraction
from typing import NamedTuple

from core.units import SECOND_NS
from systems.api import Arrival, Decide, Delivery, Invariant, RunHistory, Send, Start, Verdict, Violation
from systems.invariants import Meter, config_limit, rejected_in_vain, tokens
from systems.limiting.owner_messages import HITS, STATES, Gathered
from systems.parts.consistent_hash import name_hash, range_of
from systems.parts.limit import Limit


def _owner(history: RunHistory, user: str) -> str:
    return history.names[range_of(name_hash(user), len(history.names))]


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


class _Bucket(NamedTuple):
    """A user's at a node: tokens, when they last leaked, and until when it is kept."""

    left: Fraction
    leaked_ns: int
    kept_ns: Fraction


def _after(
    bucket: _Bucket | None, limit: Limit, hits: int, date_ns: int, now_ns: int, drains: bool = False
) -> tuple[_Bucket, bool]:
    """The bucket after so many ``hits``, and whether they were there."""
    a_ns = limit.rate_rps / SECOND_NS
    full_ns = date_ns + limit.capacity / a_ns
    if bucket is None or bucket.kept_ns < now_ns:
        return _Bucket(Fraction(max(0, limit.capacity - hits)), date_ns, full_ns), hits <= limit.capacity
    left, leaked_ns, kept_ns = bucket
    if (date_ns - leaked_ns) * a_ns >= 1:
        left, leaked_ns = left + (date_ns - leaked_ns) * a_ns, date_ns
    if left >= limit.capacity + 1:
        left = Fraction(limit.capacity)
    whole = int(left)
    if hits == whole or (drains and 0 < whole < hits):
        left = Fraction(0)
    elif hits < whole:
        left -= hits
    return _Bucket(left, leaked_ns, full_ns if hits else kept_ns), hits <= whole


class _Table:
    """One life of a node: its buckets, the dates of what its owned users were asked for, the last messages heard."""

    def __init__(self, limit: Limit):
        self.limit = limit
        self.buckets: dict[str, _Bucket] = {}
        self.dates: dict[str, set[int]] = {}
        self.heard: dict[tuple[str, str], int] = {}

    def hit(self, user: str, hits: int, date_ns: int, now_ns: int, drains: bool = False) -> bool:
        """Whether they were there."""
        self.buckets[user], are_there = _after(self.buckets.get(user), self.limit, hits, date_ns, now_ns, drains)
        return are_there

    def hear(self, source: str, message: Gathered, now_ns: int) -> None:
        """Hits, or what an owner says; of what comes twice, the first."""
        if self.heard.get((source, message.kind)) == message.number:
            return
        self.heard[source, message.kind] = message.number
        for user, count, at_ns in message.rows:
            if message.kind == STATES:
                self.buckets[user] = _Bucket(Fraction(count), now_ns, Fraction(at_ns))
            else:
                self.hit(user, count, at_ns, now_ns, drains=True)
                self.dates.setdefault(user, set()).add(at_ns)

    def tells(self, user: str, whole: int, full_at_ns: int, now_ns: int) -> bool:
        """Whether that is how things are, as of a date at which the user was asked for."""
        lacking = (self.limit.capacity - whole) * self.limit.token_ticks
        date_ns = full_at_ns - self.limit.instant_ns(lacking)
        self.hit(user, 0, date_ns, now_ns)
        return date_ns in self.dates.get(user, ()) and int(self.buckets[user].left) == whole


def _by_its_table(history: RunHistory) -> Violation | None:
    """A node decides by what it took from a user's bucket, and heard of it; that is what an owner tells."""
    limit, tables = config_limit(history), dict[str, _Table]()
    for step in history.steps:
        if isinstance(step.event, Start):
            tables[step.node] = _Table(limit)
        table, now_ns = tables[step.node], step.at_ns
        match step.event:
            case Delivery(source, Gathered() as message):
                table.hear(source, message, now_ns)
            case Arrival(request):
                is_there = table.hit(request.user, request.cost, now_ns, now_ns)
                if _owner(history, request.user) == step.node:
                    table.dates.setdefault(request.user, set()).add(now_ns)
                verdict = Decide(request.id, Verdict.ADMIT if is_there else Verdict.REJECT)
                if verdict not in step.effects:
                    what = f"does not {verdict.verdict.value} {request.user} {request.cost}"
                    return Violation(step.true_ns, step.node, what)
        for told in (effect.message for effect in step.effects if isinstance(effect, Send)):
            for row in told.rows if isinstance(told, Gathered) and told.kind == STATES else ():
                if not table.tells(*row, now_ns):
                    return Violation(step.true_ns, step.node, f"tells {row}, which is not what its bucket has")
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
            if _owner(history, request.user) != step.node:
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
            case Arrival(request) if _owner(history, request.user) == step.node:
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


INVARIANTS = (
    Invariant("no more than it was told", _as_told),
    Invariant("decides and tells by its table", _by_its_table),
    Invariant("no rejection below capacity", _in_vain),
    Invariant("all hits are told", _hits_told),
    Invariant("copies equal at rest", _copies),
)
