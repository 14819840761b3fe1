"""What holds of the counter: what a node was told counts, whatever else it may not know."""

from collections import defaultdict
from fractions import Fraction

from core.units import SECOND_NS
from systems.api import Arrival, Decide, Delivery, Invariant, RunHistory, Start, Verdict, Violation
from systems.invariants import NO_VAIN_REJECTION, Meter, config_limit, tokens
from systems.limiting.counter_common import Delta, TaggedDelta
from systems.limiting.crdt_counter_literal import Slot, unpacked
from systems.parts.limit import Limit
from systems.parts.user_key import user_key

Counts = dict[bytes, dict[Slot, int]]  # user -> slot -> tokens
Spent = dict[tuple[bytes, Slot], list[tuple[int, int]]]  # (true_ns, cost) of what was admitted in a slot, in order


def _what_it_was_told(history: RunHistory) -> Violation | None:
    """All that a node was told of, and took itself, fits into one bucket: it is in debt for what others admitted.

    A slot that was told to hold k tokens is taken for its first k, in all lives of its node: the earlier, the fewer
    of them are in use.  Clocks that are apart bring what is refilled between their readings.
    """
    limit, config = config_limit(history), history.config
    counts: dict[str, Counts] = {}
    own: dict[str, Slot] = {}
    spent: Spent = defaultdict(list)
    for step in history.steps:
        match step.event:
            case Start(snapshot):
                born = step.at_ns if config.slots == "incarnation" else 0
                own[step.node], counts[step.node] = (history.names.index(step.node), born), {}
                _learn(counts[step.node], snapshot, limit)
            case Delivery(_, message):
                _learn(counts[step.node], message, limit)
            case Arrival(request) if Decide(request.id, Verdict.ADMIT) in step.effects:
                user = user_key(request.user)
                known, slot = counts[step.node].setdefault(user, {}), own[step.node]
                known[slot] = known.get(slot, 0) + request.cost
                spent[user, slot].append((step.true_ns, request.cost))
                used = _in_use(known, user, spent, limit)
                allowed = limit.capacity + limit.rate_rps * history.clocks_apart_ns / SECOND_NS
                if used > allowed:
                    what = f"admits {request.user} {request.cost}, in all {tokens(used)} that it knows of"
                    return Violation(step.true_ns, step.node, what)
    return None


def _learn(counts: Counts, message: object, limit: Limit) -> None:
    if isinstance(message, Delta | TaggedDelta):
        for user, bucket in unpacked(message, limit).items():
            mine = counts.setdefault(user, {})
            for slot, count in bucket.counts.items():
                mine[slot] = max(mine.get(slot, 0), count)


def _in_use(known: dict[Slot, int], user: bytes, spent: Spent, limit: Limit) -> Fraction:
    """Tokens in use after the last of those known, each slot's first ones."""
    rows: list[tuple[int, int]] = []
    for slot, count in known.items():
        for at_ns, cost in spent[user, slot]:
            rows.append((at_ns, min(cost, count)))
            count -= cost
            if count <= 0:
                break
    meter, used = Meter(limit), Fraction(0)
    for at_ns, cost in sorted(rows):
        used = meter.take(at_ns, cost)
    return used


COUNTER_INVARIANTS = (Invariant("what it was told counts", _what_it_was_told), NO_VAIN_REJECTION)
