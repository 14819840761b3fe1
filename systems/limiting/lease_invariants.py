"""What holds of leases: no more is lent than there is, and no more admitted than the docstring of ``leases`` says."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from core.units import NEVER_NS, duration_ns
from systems.api import Arrival, Decide, Delivery, Invariant, RunHistory, Send, Start, Step, Verdict, Violation
from systems.invariants import Meter, config_limit, first_is_admitted, tokens, within
from systems.limiting.lease_messages import LeaseRequest, Lend
from systems.parts.lease_book import Grant, LeaseClaim
from systems.parts.portion import MILLION


@dataclass
class _Leases:
    """Of one client, by user: its last question that is unanswered, and its lease: parts, and its end in true time.

    What the client beside the allocator is told is in no message: of its leases nothing is known.
    """

    lease_ns: int
    asked: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # its birth, the number, when it was asked
    held: dict[str, tuple[int, int]] = field(default_factory=dict)

    def follow(self, step: Step) -> None:
        """An event of the client, and what it asked by that.  Answers count from when they were asked for."""
        match step.event:
            case Start():
                self.asked, self.held = {}, {}
            case Delivery(_, Lend(born_ns, number, rows)):
                for grant in (Grant(*row) for row in rows):
                    if self.asked.get(grant.user, ())[:2] == (born_ns, number):
                        until_ns = self.asked.pop(grant.user)[2] + self.lease_ns
                        if grant.parts and until_ns > step.true_ns:
                            self.held[grant.user] = grant.parts, until_ns
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, LeaseRequest):
                ask = effect.message
                for claim in (LeaseClaim(*row) for row in ask.claims):
                    if claim.wants:
                        self.asked[claim.user] = ask.born_ns, ask.number, step.true_ns
                    else:
                        self.asked.pop(claim.user, None)
                        self.held.pop(claim.user, None)

    def parts(self, user: str, now_ns: int) -> int:
        """What it has by a lease."""
        parts, until_ns = self.held.get(user, (0, 0))
        return parts if now_ns < until_ns else 0


def _followed(history: RunHistory) -> Iterator[tuple[Step, dict[str, _Leases]]]:
    """Step by step, the leases of all clients; nothing where a clock was set, which makes leases longer or shorter."""
    if "clock-skew" in history.faults:
        return
    lease_ns = duration_ns(history.config.lease)
    clients = {name: _Leases(lease_ns) for name in history.names}
    for step in history.steps:
        clients[step.node].follow(step)
        yield step, clients


def _not_lent_twice(history: RunHistory) -> Violation | None:
    """At no time have clients more parts of a user's bucket by leases than there are."""
    whole = MILLION * len(history.names)
    for step, clients in _followed(history):
        if isinstance(step.event, Delivery) and isinstance(step.event.message, Lend):
            for grant in (Grant(*row) for row in step.event.message.grants):
                lent = sum(client.parts(grant.user, step.true_ns) for client in clients.values())
                if lent > whole:
                    what = f"has a lease of {grant.user}'s, of which {lent} of {whole} parts are lent"
                    return Violation(step.true_ns, step.node, what)
    return None


def _by_leases(history: RunHistory) -> Violation | None:
    """In any span t clients with leases admit at most c + r t of a user, and the minima."""
    limit = config_limit(history)
    allowed = limit.capacity + _minima(history)
    meters: dict[str, Meter] = {}
    for step, clients in _followed(history):
        if isinstance(step.event, Arrival):
            request = step.event.request
            if Decide(request.id, Verdict.ADMIT) in step.effects and clients[step.node].parts(
                request.user, step.true_ns
            ):
                used = meters.setdefault(request.user, Meter(limit)).take(step.true_ns, request.cost)
                if used > allowed:
                    what = f"admits {request.user} {tokens(used - allowed)} above {allowed} + r t, by leases alone"
                    return Violation(step.true_ns, step.node, what)
    return None


def _safe(history: RunHistory) -> Fraction:
    return Fraction(history.config.safe) if history.config.safe else Fraction(1, len(history.names))


def _faster(history: RunHistory) -> Fraction:
    """1 + (n - 1) s: each of the others may be without a lease."""
    return 1 + (len(history.names) - 1) * _safe(history)


def _minima(history: RunHistory) -> int:
    """The minimum of each client, and of each new life."""
    minimum: int = history.config.minimum
    return minimum * (len(history.names) + history.crash_count)


def _extra(history: RunHistory) -> Fraction:
    """Each crash forgets what was spent of a safe share."""
    return history.crash_count * _safe(history) * config_limit(history).capacity + _minima(history)


def _without_a_lease(history: RunHistory) -> Fraction:
    """What a client's safe share holds; without any, nothing."""
    safe, minimum = _safe(history), Fraction(history.config.minimum)
    return max(safe * config_limit(history).capacity, minimum) if safe else safe


def _allocator_falls_ns(history: RunHistory) -> int:
    """When the allocator first crashes: from then on no first request need be admitted.

    Back from a crash, it takes the pools of users of whom nobody tells it to be empty, and the client beside it hears
    so before it decides.
    """
    server = history.config.server or history.names[0]
    return min((begin_ns for begin_ns, _ in history.outages.get(server, ())), default=NEVER_NS)


def _answered(history: RunHistory) -> Violation | None:
    """Where nothing goes wrong, whoever asks for a user's lease has some answer by the time that all are at rest."""
    if not history.at_rest or history.faults:
        return None
    asked: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)  # (client, user) -> births and numbers
    answered: set[tuple[str, str]] = set()
    for step in history.steps:
        match step.event:
            case Delivery(_, Lend(born_ns, number, rows)):
                of = [(step.node, Grant(*row).user) for row in rows]
                answered.update(key for key in of if (born_ns, number) in asked[key])
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, LeaseRequest):
                ask = effect.message
                for claim in (LeaseClaim(*row) for row in ask.claims):
                    if claim.wants:
                        asked[step.node, claim.user].add((ask.born_ns, ask.number))
    for node, user in (key for key, questions in asked.items() if questions and key not in answered):
        return Violation(history.end_ns, node, f"has no answer about a lease of {user}'s")
    return None


LEASE_INVARIANTS = (
    within(_extra, _faster),
    Invariant("no more is lent than there is", _not_lent_twice),
    Invariant("no more than the limit by leases", _by_leases),
    Invariant("questions are answered", _answered),
    first_is_admitted(_without_a_lease, _allocator_falls_ns),
)
