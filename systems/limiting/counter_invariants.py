"""What holds of the counter: it decides by all that it was told and took itself, and says no more than it knows."""

from dataclasses import dataclass, field, replace

from systems.api import Arrival, Decide, Delivery, Invariant, RunHistory, Send, Start, Verdict, Violation
from systems.invariants import NO_VAIN_REJECTION, admissions, config_limit
from systems.limiting.counter_common import Config, Delta, TaggedDelta
from systems.limiting.crdt_counter_literal import Slot, unpacked
from systems.parts.limit import Limit
from systems.parts.user_key import user_key


@dataclass(frozen=True)
class _Account:
    """A user at one node, as thesis 3.1 has it; ``allowed``: ticks, as of ``at_ns`` on some node's clock."""

    allowed: int
    at_ns: int
    counts: dict[Slot, int] = field(default_factory=dict)

    def of_now(self, limit: Limit, now_ns: int) -> "_Account":
        """Refilled; what is allowed is never more than a bucket beyond what is known to be taken."""
        if now_ns <= self.at_ns:
            return self
        most = (sum(self.counts.values()) + limit.capacity) * limit.token_ticks
        grown = self.allowed + (now_ns - self.at_ns) * limit.ticks_per_ns
        return replace(self, allowed=grown if grown < most else most, at_ns=now_ns)

    def joined(self, other: "_Account") -> "_Account":
        """The least that is as much as both."""
        newer = other if (other.allowed, other.at_ns) > (self.allowed, self.at_ns) else self
        slots = {*self.counts, *other.counts}
        counts = {slot: max(self.counts.get(slot, 0), other.counts.get(slot, 0)) for slot in slots}
        return _Account(newer.allowed, newer.at_ns, counts)

    def has_room(self, cost: int, limit: Limit) -> bool:
        """Whether whole tokens are there."""
        return (sum(self.counts.values()) + cost) * limit.token_ticks <= self.allowed


Accounts = dict[bytes, _Account]


def _told(message: object, limit: Limit) -> Accounts:
    if not isinstance(message, Delta | TaggedDelta):
        return {}
    rows = unpacked(message, limit).items()
    return {user: _Account(bucket.limit_ticks, bucket.refilled_at_ns, dict(bucket.counts)) for user, bucket in rows}


def _by_what_it_knows(history: RunHistory) -> Violation | None:
    """Every verdict follows from what the node was told and took itself, and no message holds more than that."""
    config, limit = history.config, config_limit(history)
    if config.refill_cap != "bucket" or not config.whole_tokens:
        return None  # printed rules, which bound nothing
    known: dict[str, Accounts] = {}
    own: dict[str, Slot] = {}
    for step in history.steps:
        mine = known.setdefault(step.node, {})
        match step.event:
            case Start(snapshot):
                own[step.node] = history.names.index(step.node), _born(config, step.at_ns)
                known[step.node] = mine = _told(snapshot, limit)
            case Delivery(_, message):
                for user, account in _told(message, limit).items():
                    mine[user] = mine[user].joined(account) if user in mine else account
            case Arrival(request):
                user = user_key(request.user)
                account = mine.get(user) or _Account(limit.capacity * limit.token_ticks, step.at_ns)
                account, slot = account.of_now(limit, step.at_ns), own[step.node]
                admitted = Decide(request.id, Verdict.ADMIT) in step.effects
                if admitted != account.has_room(request.cost, limit):
                    taken, room = sum(account.counts.values()), account.allowed / limit.token_ticks
                    what = f"{'admits' if admitted else 'rejects'} {request.user} {request.cost}"
                    return Violation(step.true_ns, step.node, what + f" after {taken} known, of {room:.6g}")
                counts = {**account.counts, slot: account.counts.get(slot, 0) + request.cost * admitted}
                mine[user] = replace(account, counts=counts)
        for effect in step.effects:
            said = _told(effect.message, limit) if isinstance(effect, Send) else {}
            for user, account in said.items():
                mine_now = mine.get(user, _Account(0, 0))
                more = any(count > mine_now.counts.get(slot, 0) for slot, count in account.counts.items())
                if more or account.allowed > mine_now.allowed:
                    what = "more tokens taken" if more else "more tokens allowed"
                    return Violation(step.true_ns, step.node, f"tells of {what} than it knows of")
    return None


def _all_is_counted(history: RunHistory) -> Violation | None:
    """At rest, where nobody crashed, every node has counted all that was admitted anywhere."""
    if not history.at_rest or history.crash_count:
        return None
    admitted: dict[bytes, int] = {}
    for _, request, _, _ in admissions(history):
        admitted[user_key(request.user)] = admitted.get(user_key(request.user), 0) + request.cost
    for node, state in history.states.items():
        counted = {user: sum(account.counts.values()) for user, account in _told(state, config_limit(history)).items()}
        for user, count in admitted.items():
            if counted.get(user, 0) != count:
                what = f"has counted {counted.get(user, 0)} of {count} tokens that a user was admitted"
                return Violation(history.end_ns, node, what)
    return None


def _born(config: Config, at_ns: int) -> int:
    return at_ns if config.slots == "incarnation" else 0


COUNTER_INVARIANTS = (
    Invariant("decides by what it knows", _by_what_it_knows),
    Invariant("all is counted at rest", _all_is_counted),
    NO_VAIN_REJECTION,
)
