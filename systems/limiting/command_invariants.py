"""What holds of centralised-throttler: buckets are what requests and commands make of them, and so are reports."""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from core.units import SECOND_NS
from systems.api import (
    Arrival,
    Decide,
    Delivery,
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
from systems.limiting.command_messages import NEVER, PartsAsked, PartsTold, UserCommands, UsersReported
from systems.limiting.throttling_users import KnownUsers, UserBuckets
from systems.parts.portion import MILLION


@dataclass
class _Bucket:
    """A user's at one server: parts, tokens as of an instant, and the last cycle in which anybody asked for it."""

    parts: int
    tokens: Fraction
    at_ns: int
    asked_cycle: int


class _Server:
    """One life of a server.  Cycles and spans are read off ``UserBuckets``; tokens are counted apart from it."""

    def __init__(self, history: RunHistory, phase_ns: int):
        self.whole, self.config = MILLION * len(history.names), history.config
        self.spans = UserBuckets("", len(history.names), history.config, 0)
        self.spans.phase_ns = phase_ns
        self.buckets: dict[str, _Bucket] = {}
        self.obeyed: dict[str, int] = {}
        self.active: set[str] = set()

    def copies(self, users: dict[str, int], now_ns: int) -> None:
        """It begins with a peer's users, and without tokens."""
        for user, cycle in users.items():
            bucket = self._touched(user, cycle, now_ns)
            bucket.tokens, bucket.at_ns = Fraction(0), now_ns

    def admits(self, user: str, cost: int, now_ns: int) -> bool:
        """A request comes."""
        bucket = self._touched(user, self.spans.cycle_at(now_ns), now_ns)
        self._fill(bucket, now_ns)
        if bucket.tokens < cost:
            return False
        bucket.tokens -= cost
        return True

    def reports(self, cycle: int, now_ns: int) -> dict[str, tuple[int, int, int]]:
        """A cycle ends: what is said of each active user, but for its demand."""
        said = {}
        for user in self.active:
            bucket = self.buckets[user]
            self._fill(bucket, now_ns)
            said[user] = floor(bucket.tokens * MILLION), bucket.asked_cycle, self.obeyed.get(user, NEVER)
        self.active = {user for user in said if cycle - self.buckets[user].asked_cycle < self.spans.linger}
        return said

    def obeys(self, cycle: int, shares: dict[str, tuple[int, int, int]], now_ns: int) -> None:
        """A command, unless it was overtaken."""
        for user, (parts, millionths, asked_cycle) in shares.items():
            if cycle > self.obeyed.get(user, NEVER):
                self.obeyed[user] = cycle
                bucket = self._touched(user, asked_cycle, now_ns)
                self._fill(bucket, now_ns)
                bucket.parts = parts
                bucket.tokens = min(bucket.tokens + Fraction(millionths, MILLION), self._burst(parts))

    def tells(self, asked: dict[str, int], now_ns: int) -> dict[str, int]:
        """Its parts of users, whom somebody asked for."""
        return {user: self._touched(user, cycle, now_ns).parts for user, cycle in asked.items()}

    def forgets(self, now_ns: int) -> None:
        """Whom nobody asked for during c/r."""
        cycle = self.spans.cycle_at(now_ns)
        for user in [user for user, one in self.buckets.items() if cycle - one.asked_cycle > self.spans.forget]:
            del self.buckets[user]
            self.obeyed.pop(user, None)
            self.active.discard(user)

    def _touched(self, user: str, cycle: int, now_ns: int) -> _Bucket:
        bucket, current = self.buckets.get(user), self.spans.cycle_at(now_ns)
        if bucket is None or current - bucket.asked_cycle > self.spans.forget:
            bucket = self.buckets[user] = _Bucket(MILLION, self._burst(MILLION), now_ns, cycle)
        bucket.asked_cycle = max(bucket.asked_cycle, cycle)
        if current - bucket.asked_cycle <= self.spans.linger:
            self.active.add(user)
        return bucket

    def _burst(self, parts: int) -> Fraction:
        return max(Fraction(self.config.capacity * parts, self.whole), Fraction(self.config.minimum))

    def _fill(self, bucket: _Bucket, now_ns: int) -> None:
        if now_ns > bucket.at_ns:
            a_ns = self.config.limit.rate_rps * bucket.parts / self.whole / SECOND_NS
            bucket.tokens += a_ns * (now_ns - bucket.at_ns)
            bucket.at_ns = now_ns
        bucket.tokens = min(bucket.tokens, self._burst(bucket.parts))


def _by_commands(history: RunHistory) -> Violation | None:
    """A server decides by its share and by the tokens that commands brought, exactly, and reports what it has.

    The centre's own command is in no message: it is what those to all others leave, so that no cycle's make a token.
    """
    phases_ns = {
        (step.node, step.incarnation): effect.at_ns % UserBuckets("", 1, history.config, 0).cycle_ns
        for step in history.steps
        for effect in step.effects
        if isinstance(effect, SetTimer) and effect.name == "cycle"
    }
    servers: dict[str, _Server] = {}
    centre = history.config.centre or history.names[0]
    for step in history.steps:
        if isinstance(step.event, Start):  # a life that never ends a cycle is asked for nobody
            servers[step.node] = _Server(history, phases_ns.get((step.node, step.incarnation), 0))
        server, now_ns = servers[step.node], step.at_ns
        match step.event:
            case Start(KnownUsers(users)):
                server.copies(users, now_ns)
            case Arrival(request):
                admitted = server.admits(request.user, request.cost, now_ns)
                verdict = Decide(request.id, Verdict.ADMIT if admitted else Verdict.REJECT)
                if verdict not in step.effects:
                    what = f"does not {verdict.verdict.value} {request.user} {request.cost}"
                    return Violation(step.true_ns, step.node, what)
            case Timer("cycle", due_at_ns):
                has, said = server.reports(server.spans.cycle_at(due_at_ns) - 1, now_ns), _reported(step)
                if step.node != centre and said != has:
                    return Violation(step.true_ns, step.node, f"reports {said}, and has {has}")
                for cycle, shares in _own_commands(step, server.whole).items():
                    server.obeys(cycle, shares, now_ns)
            case Timer("forget", _):
                server.forgets(now_ns)
            case Delivery(_, UserCommands(cycle, shares)):
                server.obeys(cycle, shares, now_ns)
            case Delivery(source, PartsAsked(asked)):
                answer = Send(source, PartsTold(server.tells(asked, now_ns)))
                if answer not in step.effects:
                    return Violation(step.true_ns, step.node, f"does not tell {answer}")
    return None


def _reported(step: Step) -> dict[str, tuple[int, int, int]]:
    said: dict[str, tuple[int, int, int]] = {}
    for effect in step.effects:
        if isinstance(effect, Send) and isinstance(effect.message, UsersReported):
            said |= {user: told[1:] for user, told in effect.message.users.items()}
    return said


def _own_commands(step: Step, whole: int) -> dict[int, dict[str, tuple[int, int, int]]]:
    """Cycle -> the centre's command to itself: of each user the parts and tokens that the others' leave."""
    own: dict[int, dict[str, tuple[int, int, int]]] = {}
    for effect in step.effects:
        if isinstance(effect, Send) and isinstance(effect.message, UserCommands):
            mine = own.setdefault(effect.message.cycle, {})
            for user, (parts, millionths, asked_cycle) in effect.message.shares.items():
                parts_left, millionths_left, _ = mine.get(user, (whole, 0, asked_cycle))
                mine[user] = parts_left - parts, millionths_left - millionths, asked_cycle
    return own


BY_COMMANDS = Invariant("decides and reports by its commands", _by_commands)
