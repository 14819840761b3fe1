"""What holds of the queue and of the sliding log: what a node was told counts, and nothing else makes it reject."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from systems.api import Arrival, Decide, Delivery, Invariant, RunHistory, Send, Start, Verdict, Violation
from systems.invariants import admissions
from systems.limiting.queue_common import Elements, FineElements, Rule, living, unpack
from systems.parts.user_key import user_key

RuleOf = Callable[[Any, int], Rule]


@dataclass
class _Known:
    """One user at one node's present life: elements that it was told of, and a lower bound on its own ones' deaths."""

    told: dict[int, int] = field(default_factory=dict)  # birth -> latest death, ticks
    own: set[int] = field(default_factory=set)  # births of its own that it has sent: they come back as echoes
    deaths: list[int] = field(default_factory=list)  # of what it accepted itself

    def living(self, now_ticks: int, apart_ns: int | None = None) -> int:
        """How many cannot have died by now.

        ``apart_ns``: of births, where clocks disagree.  A node whose clock is behind gives its element the birth after
        the last that it knows, and another one may have done the same: two elements of one birth are one.
        """
        told = [birth for birth, death in self.told.items() if death > now_ticks and birth not in self.own]
        accepted = len(self.deaths) - bisect_right(self.deaths, now_ticks)
        if apart_ns is None:
            return len(told) + accepted
        after_another = sum(birth - apart_ns in self.told or birth - apart_ns in self.own for birth in told)
        return len(told) - after_another + max(after_another, accepted)

    def add(self, count: int, now_ticks: int, rule: Rule) -> None:
        """So many elements at the tail (Eq. 4.1, 4.2); others in the queue make them die later, never earlier."""
        for _ in range(count):
            last = self.deaths[-1] + rule.step_ticks if self.deaths else 0
            self.deaths.append(max(now_ticks + rule.life_ticks, last))


def _what_it_was_told(rule_of: RuleOf) -> Callable[[RunHistory], Violation | None]:
    def broken(history: RunHistory) -> Violation | None:
        rule = rule_of(history.config, len(history.names))
        limit = rule.limit
        apart_ns = rule.apart_ns if history.clocks_apart_ns else None
        known: dict[str, dict[bytes, _Known]] = {}
        latest_ns: dict[str, int] = {}  # a clock that was set back finds what died before it was
        for step in history.steps:
            match step.event:
                case Start(snapshot):
                    known[step.node], latest_ns[step.node] = defaultdict(_Known), step.at_ns
                    _learn(known[step.node], snapshot, limit.ticks_per_ns)
                case Delivery(_, message):
                    _learn(known[step.node], message, limit.ticks_per_ns)
            latest_ns[step.node] = max(latest_ns[step.node], step.at_ns)
            if isinstance(step.event, Arrival):
                request = step.event.request
                user = known[step.node][user_key(request.user)]
                if Decide(request.id, Verdict.ADMIT) in step.effects:
                    living = user.living(limit.ticks(latest_ns[step.node]), apart_ns)
                    if living + request.cost > limit.capacity:
                        what = f"admits {request.user} {request.cost} though it knows of {living} of {limit.capacity}"
                        return Violation(step.true_ns, step.node, what)
                    user.add(request.cost, limit.ticks(step.at_ns), rule)
            for effect in step.effects:
                if isinstance(effect, Send) and isinstance(effect.message, Elements | FineElements):
                    for key, rows in unpack(effect.message, limit.ticks_per_ns).items():
                        mine = known[step.node][key]
                        mine.own.update(birth for birth, _, _ in rows if birth not in mine.told)
        return None

    return broken


def _learn(known: dict[bytes, _Known], message: object, ticks_per_ns: int) -> None:
    if isinstance(message, Elements | FineElements):
        for key, rows in unpack(message, ticks_per_ns).items():
            for birth, death, _ in rows:
                known[key].told[birth] = max(death, known[key].told.get(birth, death))


def _nothing_else(rule_of: RuleOf) -> Callable[[RunHistory], Violation | None]:
    def broken(history: RunHistory) -> Violation | None:
        """With equal clocks a node rejects nothing that one queue with all accepted elements would accept."""
        if getattr(history.config, "literal_refill", False):
            return None  # as printed, the dead stay in a queue and count (``crdt_queue.Config``)
        if getattr(history.config, "births", "unique") == "clock":
            return None  # of two elements of one birth one may be taken for the other, and die later than it should
        rule = rule_of(history.config, len(history.names))
        limit, apart_ticks = rule.limit, rule.limit.ticks(history.clocks_apart_ns)
        one: dict[str, _Known] = defaultdict(_Known)
        for step, request, verdict, _ in history.decisions:
            now_ticks, queue = limit.ticks(step.true_ns), one[request.user]
            if verdict is Verdict.ADMIT:
                queue.add(request.cost, now_ticks, rule)
            elif (living := queue.living(now_ticks - apart_ticks)) + request.cost <= limit.capacity:
                what = f"rejects {request.user} {request.cost} with {living} of {limit.capacity} alive anywhere"
                return Violation(step.true_ns, step.node, what)
        return None

    return broken


def _all_is_known(rule_of: RuleOf) -> Callable[[RunHistory], Violation | None]:
    def broken(history: RunHistory) -> Violation | None:
        """At rest, where nobody crashed and clocks agree, every node holds what any accepted that cannot have died."""
        if not history.at_rest or history.crash_count or history.clocks_apart_ns:
            return None
        rule = rule_of(history.config, len(history.names))
        accepted: dict[tuple[str, bytes], _Known] = defaultdict(_Known)
        for step, request, _, _ in admissions(history):
            key = step.node, user_key(request.user)
            accepted[key].add(request.cost, rule.limit.ticks(step.at_ns), rule)
        for node, state in history.states.items():
            assert isinstance(state, Elements | FineElements)
            held = Counter(user for user, *_ in living(history.config, state, history.end_ns))
            for (other, user), known in accepted.items():
                count = known.living(rule.limit.ticks(history.end_ns))
                if held[user] < count:
                    what = f"holds {held[user]} of {count} tokens that {other} accepted and that live"
                    return Violation(history.end_ns, node, what)
        return None

    return broken


def queue_invariants(rule_of: RuleOf) -> tuple[Invariant, ...]:
    """Of a system whose options make the rule ``rule_of(config, nodes)``."""
    return (
        Invariant("what it was told counts", _what_it_was_told(rule_of)),
        Invariant("no rejection without cause", _nothing_else(rule_of)),
        Invariant("all that lives is known at rest", _all_is_known(rule_of)),
    )
