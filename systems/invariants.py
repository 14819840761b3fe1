"""What holds in every run of every system, and what families share: pure functions over a ``RunHistory``.

A system's own invariants stand beside it (``System.invariants``); each is as tight as what the system's docstring
promises.  The conformance suite and ``ratebed soak`` judge by the same ones.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from core.units import NEVER_NS, duration_text
from systems.api import (
    Arrival,
    Decide,
    Decision,
    Delivery,
    Forward,
    Invariant,
    RunHistory,
    Send,
    SetTimer,
    Start,
    Step,
    Timer,
    Verdict,
    Violation,
)
from systems.parts.limit import Limit, limit_of


class Meter:
    """How much of a bucket is in use: what was taken, less what has come back since, in exact parts of a token.

    Written apart from what systems count with, so that an error there does not hide itself here.  ``faster``: how
    many times the rate comes back.  A clock that is set back makes more be in use, by as much as it was set back.
    """

    def __init__(self, limit: Limit, faster: Fraction | int = 1):
        times = Fraction(faster)
        self.token = limit.token_ticks * times.denominator
        self._a_ns = limit.ticks_per_ns * times.numerator
        self._used, self._at_ns = 0, -NEVER_NS  # full, however far behind its clock is

    def used(self, at_ns: int) -> Fraction:
        """Tokens in use at an instant."""
        return Fraction(max(0, self._used - (at_ns - self._at_ns) * self._a_ns), self.token)

    def full_at(self, ticks: int) -> None:
        """Whatever was taken: the bucket is full again at this instant, in ticks."""
        self._used, self._at_ns = ticks, 0

    def take(self, at_ns: int, cost: int) -> Fraction:
        """Take tokens; how many are in use then."""
        used = self.used(at_ns) + cost
        self._used, self._at_ns = int(used * self.token), at_ns
        return used


def config_limit(history: RunHistory) -> Limit:
    """(c, r) of the run's users."""
    return limit_of(history.config.capacity, history.config.rate)


def tokens(amount: Fraction) -> str:
    """An amount of tokens, to be read."""
    return f"{float(amount):.6g} token{'s' * (amount != 1)}"


# --- of every system -------------------------------------------------------------------------------


def _one_verdict(history: RunHistory) -> Violation | None:
    """A request has at most one verdict."""
    decided: set[int] = set()
    for step in history.steps:
        for effect in step.effects:
            if isinstance(effect, Decide):
                if effect.request_id in decided:
                    return Violation(step.true_ns, step.node, f"request {effect.request_id} has two verdicts")
                decided.add(effect.request_id)
    return None


def undecided(history: RunHistory, since_ns: int = 0) -> Violation | None:
    """The first request, from ``since_ns`` on, that has no verdict although its node has not crashed since."""
    open_at = {}
    for step in history.steps:
        if isinstance(step.event, Arrival) and step.event.request.at_ns >= since_ns:
            open_at[step.event.request.id] = step
        for effect in step.effects:
            if isinstance(effect, Decide):
                open_at.pop(effect.request_id, None)
            elif isinstance(effect, Forward):
                open_at.pop(effect.request.id, None)
    for request_id, step in open_at.items():
        if not any(begin_ns >= step.true_ns for begin_ns, _ in history.outages.get(step.node, ())):
            return Violation(step.true_ns, step.node, f"left request {request_id} undecided")
    return None


def _every_verdict(history: RunHistory) -> Violation | None:
    """A request that arrived at a node is decided, unless the run was cut short, which is a violation itself."""
    return undecided(history) if history.at_rest is not False else None


def _timers(history: RunHistory) -> Violation | None:
    """A timer rings only in the incarnation that set it, and at the instant that it was last set to."""
    due: dict[tuple[str, int, str], int] = {}
    for step in history.steps:
        if isinstance(step.event, Timer):
            key = step.node, step.incarnation, step.event.name
            set_to_ns = due.pop(key, None)
            stepped = set_to_ns is not None and "clock-skew" in history.faults  # the clock, since it was set
            if set_to_ns != step.event.due_at_ns and not stepped:
                return Violation(step.true_ns, step.node, f"rang timer {step.event.name!r} unset")
        for effect in step.effects:
            if isinstance(effect, SetTimer):
                due[step.node, step.incarnation, effect.name] = effect.at_ns
    return None


def _rest(history: RunHistory) -> Violation | None:
    """Some time after the last fault and the last request everybody is idle."""
    if history.at_rest is not False:
        return None
    return Violation(history.end_ns, "", f"not at rest by {duration_text(history.end_ns)}")


Entries = dict[tuple[object, ...], int]  # what replicas share: ``System.shared``, the last field by the others


def _replicas(history: RunHistory) -> Violation | None:
    """At rest all replicas hold the same; see ``_lost_by_crashes``."""
    if history.system.shared is None or not history.at_rest:
        return None
    held = {name: _entries(history, [state]) for name, state in history.states.items()}
    for other, theirs in held.items():
        for name, mine in held.items():
            lacking = {key: value for key, value in mine.items() if not _knows(theirs, key, value)}
            if lacking and not _lost_by_crashes(history, other, lacking):
                return Violation(history.end_ns, other, f"lacks {len(lacking)} of {len(mine)} entries of {name}")
    return None


def _entries(history: RunHistory, contents: Iterable[object]) -> Entries:
    """What snapshots or messages hold together; the dead, which one clock drops earlier than another, are left out."""
    shared, newest = history.system.shared, Entries()
    assert shared is not None
    for content in contents:
        for *fields, value in shared(history.config, content, history.end_ns + history.clocks_apart_ns):
            key = tuple(fields)
            newest[key] = max(value, newest.get(key, value))
    return newest


def _knows(entries: Entries, key: tuple[object, ...], value: int) -> bool:
    return key in entries and entries[key] >= value


def _lost_by_crashes(history: RunHistory, node: str, lacking: Entries) -> bool:
    """Whether a node need not hold what it lacks: nothing is sent twice to whom it was sent once (each system says so).

    That is what went from it or to it before its last life, and did not come again.  Where several nodes crashed,
    talk to some by way of others only, or broadcast once what nobody passes on, it may be what went from or to any of
    those.
    """
    crashed = [name for name, spans in history.outages.items() if spans]
    is_meshed = getattr(history.config, "overlay", "full-mesh") == "full-mesh"
    if len(crashed) == 1 and is_meshed and getattr(history.config, "push", "") != "broadcast":
        crashed = [name for name in crashed if name == node]
    went = _entries(history, (content for name in crashed for content in _lives(history, name)[0]))
    told = _entries(history, _lives(history, node)[1])
    return all(_knows(went, *entry) and not _knows(told, *entry) for entry in lacking.items())


def _lives(history: RunHistory, node: str) -> tuple[list[object], list[object]]:
    """What went from or to a node before its last life, and what it was told in that one."""
    last = max((step.incarnation for step in history.steps if step.node == node), default=0)
    before, since, is_last = list[object](), list[object](), last == 0
    for step in history.steps:
        if step.node == node:
            is_last = step.incarnation == last
            match step.event:
                case Start(message) | Delivery(_, message) if message is not None:
                    (since if is_last else before).append(message)
        sent = [effect for effect in step.effects if isinstance(effect, Send)]
        before += [one.message for one in sent if not is_last and node in (step.node, one.target)]
    return before, since


ANYWHERE = (Invariant("one verdict a request", _one_verdict), Invariant("timers die in a crash", _timers))
AT_REST = (
    Invariant("every request decided", _every_verdict),
    Invariant("at rest after the last fault", _rest),
    Invariant("replicas equal at rest", _replicas),
)
COMMON = (*ANYWHERE, *AT_REST)


# --- of limiters -----------------------------------------------------------------------------------


def admissions(history: RunHistory) -> Iterator[Decision]:
    """What was admitted, in order."""
    return (decision for decision in history.decisions if decision.verdict is Verdict.ADMIT)


def within(
    extra: Callable[[RunHistory], Fraction | int],
    faster: Callable[[RunHistory], Fraction | int] = lambda history: 1,
    counts: Callable[[Decision], bool] = lambda decision: True,
) -> Invariant:
    """In any span t all nodes together admit each user at most ``faster`` (c + r t) + ``extra`` tokens.

    ``counts``: which admissions.
    """

    def broken(history: RunHistory) -> Violation | None:
        limit, times, more = config_limit(history), Fraction(faster(history)), Fraction(extra(history))
        allowed = times * limit.capacity + more
        meters: dict[str, Meter] = defaultdict(lambda: Meter(limit, times))
        for step, request, _, unanswered in (one for one in admissions(history) if counts(one)):
            used = meters[request.user].take(step.true_ns, request.cost)
            if used > allowed:
                what = f"admits {request.user} {tokens(used - allowed)} above {tokens(allowed)} + r t"
                return Violation(step.true_ns, step.node, what + " (unanswered)" * unanswered)
        return None

    return Invariant("no more than the bound", broken)


class Taking(NamedTuple):
    """A bucket was asked for tokens; ``meter`` None: it can hold none."""

    step: Step
    meter: Meter | None
    capacity: int
    cost: int
    admitted: bool


def as_one_bucket(asked: Callable[[RunHistory], Iterator[Taking]]) -> Invariant:
    """Each bucket decides exactly as a token bucket does, on the clock of the node that keeps it."""

    def broken(history: RunHistory) -> Violation | None:
        for step, meter, capacity, cost, admitted in asked(history):
            used = meter.used(step.at_ns) if meter else Fraction(0)
            if (meter is not None and used + cost <= capacity) != admitted:
                what = f"{'admits' if admitted else 'rejects'} {cost}, with {tokens(used)} of {capacity} in use"
                return Violation(step.true_ns, step.node, what)
            if admitted and meter is not None:
                meter.take(step.at_ns, cost)
        return None

    return Invariant("decides as a token bucket", broken)


def rejected_in_vain(history: RunHistory, all_asked: bool = False) -> Violation | None:
    """Nobody is rejected whose tokens, with all that were ever admitted anywhere, are at most c.

    ``all_asked``: with all that were ever asked for, of limiters that count rejected requests as well.
    """
    capacity = config_limit(history).capacity
    spent: dict[str, int] = defaultdict(int)
    for step, request, verdict, unanswered in history.decisions:
        together = spent[request.user] + request.cost
        if verdict is Verdict.REJECT and not unanswered and together <= capacity:
            what = f"rejects {request.user} {request.cost} after {spent[request.user]} of {capacity} in all"
            return Violation(step.true_ns, step.node, what)
        if verdict is Verdict.ADMIT or all_asked:
            spent[request.user] = together
    return None


def first_is_admitted(
    tokens_of: Callable[[RunHistory], Fraction | int],
    until_ns: Callable[[RunHistory], int] = lambda history: NEVER_NS,
) -> Invariant:
    """A user's very first request, anywhere, finds the tokens that a node has for whom it does not know.

    ``until_ns``: from this instant on, in true time, nobody promises that.
    """

    def broken(history: RunHistory) -> Violation | None:
        seen: set[str] = set()
        end_ns = until_ns(history)
        for step, request, verdict, _ in history.decisions:
            if step.true_ns >= end_ns:
                return None
            if request.user not in seen and verdict is Verdict.REJECT and request.cost <= tokens_of(history):
                return Violation(step.true_ns, step.node, f"rejects {request.user}'s first request, of {request.cost}")
            seen.add(request.user)
        return None

    return Invariant("the first request is admitted", broken)


NO_VAIN_REJECTION = Invariant("no rejection below capacity", rejected_in_vain)
