"""centralised: one node keeps every user's bucket, and every other node asks it.

What people deploy (Envoy's rate limit service before Redis; redis-cell is the very algorithm): the
exact end of the accuracy axis, at the price of two messages and a round trip a request, and of
nothing at all while the server cannot be reached.  With no delay it is the oracle that the thesis
compares with (4.3.1): the decisions are GCRA's in the order of arrival at the server.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from sys import getsizeof

from core.defaults import CAPACITY, RATE
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
    Step,
    System,
    Timer,
    Transport,
    UnexpectedEvent,
    Verdict,
    Violation,
)
from systems.invariants import Meter, Taking, as_one_bucket, config_limit
from systems.parts.limit import Limit, gcra, limit_of
from systems.parts.options import choice, span_ns
from systems.parts.questions import WAITING_BYTES, Questions

FAILURES = {"open": Verdict.ADMIT, "closed": Verdict.REJECT}
BUCKET_BYTES = 32 + 8  # model of A18: a user key, and one instant where others keep a limit and its instant
_SWEEP_MINIMUM = 1_024  # buckets, before full ones are forgotten


@dataclass(frozen=True)
class Config:
    """Options of the centralised limiter."""

    capacity: int = CAPACITY  # c, tokens of a user
    rate: str = RATE  # r, tokens a second
    server: str = ""  # ours: the node that keeps the buckets; "": the first
    timeout: str = "1s"  # ours: a node that has no answer by then decides alone
    on_failure: str = "open"  # what it then decides: "open" admits, as Envoy's filter does by default; or "closed"
    line: bool = False  # ours, for brokers that delay: who finds no token waits at the server, in order, for its own


class TokenRequest(Message, frozen=True):
    """Node to server: whether this request may pass."""

    request_id: int
    user: str
    cost: int


class Answer(Message, frozen=True):
    """Server to node."""

    request_id: int
    admitted: bool


class CentralState(Message, frozen=True):
    """A snapshot: the instant, in ticks, at which each user's bucket is full again.  Only the server's holds any."""

    full_at_ticks: dict[str, int]


class TokenServer:
    """One GCRA instant a user; full buckets are forgotten."""

    def __init__(self, limit: Limit):
        self.limit = limit
        self.full_at_ticks: dict[str, int] = {}
        self._sweep_at = _SWEEP_MINIMUM

    def admits(self, user: str, cost: int, now_ns: int) -> bool:
        """Take ``cost`` tokens of ``user`` if they are there."""
        now_ticks = self.limit.ticks(now_ns)
        full_at = gcra(now_ticks, self.full_at_ticks.get(user, now_ticks), self.limit, cost)
        if full_at is None:
            return False
        self._take(user, full_at, now_ticks)
        return True

    def due_ns(self, user: str, cost: int, now_ns: int) -> int | None:
        """Take ``cost`` tokens of ``user`` when they are there, after all that were taken so: when; None: never."""
        if cost > self.limit.capacity:
            return None
        now_ticks = self.limit.ticks(now_ns)
        full_at = max(self.full_at_ticks.get(user, now_ticks), now_ticks) + cost * self.limit.token_ticks
        self._take(user, full_at, now_ticks)
        return max(now_ns, self.limit.instant_ns(full_at - self.limit.capacity * self.limit.token_ticks))

    def _take(self, user: str, full_at: int, now_ticks: int) -> None:
        """A full bucket is as good as none; swept when the number has doubled, so at no cost on average."""
        self.full_at_ticks[user] = full_at
        if len(self.full_at_ticks) > self._sweep_at:
            self.full_at_ticks = {user: at for user, at in self.full_at_ticks.items() if at > now_ticks}
            self._sweep_at = max(_SWEEP_MINIMUM, 2 * len(self.full_at_ticks))


def timeout_ns(config: Config) -> int:
    """How long a node waits; SpecError where that is no span."""
    return span_ns("centralised", "timeout", config.timeout)


class CentralisedNode:
    """The server, or a node that asks it.

    The server's clock alone counts.  A request at the server's own node is decided at once; elsewhere
    it waits for the answer, at most ``timeout`` on the asking node's clock (see ``parts.questions``).  A
    later answer is ignored, but its tokens are gone.  A server that restarts begins with full buckets, or
    with those of the snapshot that it is given: users may then take up to c tokens too many.  A network
    that doubles messages costs no tokens: streams keep their order, so a copy follows its original.

    With ``line`` the server has a request wait for its tokens, those of a user in the order in which they came; one
    that asks for more than c is rejected.  Whom its node has given up meanwhile keeps its place, and its tokens.
    """

    def __init__(self, node_id: str, server: str, config: Config):
        self.node_id, self.server_id = node_id, server
        self.limit = limit_of(config.capacity, config.rate)
        self.questions = Questions(timeout_ns(config), FAILURES[config.on_failure])
        self.server = TokenServer(self.limit)
        self.asked: dict[str, int] = {}  # node -> its last question
        self.in_line = config.line
        self.line: list[tuple[int, int, str, int]] = []  # a heap: when it is due, place, who asked, request
        self._place = 0

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Arrival(request):
                if self.node_id == self.server_id:
                    return self._served(self.node_id, request.id, request.user, request.cost, now_ns)
                ask = Send(self.server_id, TokenRequest(request.id, request.user, request.cost))
                return [ask, *self.questions.asked(request.id, now_ns)]
            case Delivery(source, TokenRequest(request_id, user, cost)):
                if self.asked.get(source) == request_id:
                    return []
                self.asked[source] = request_id
                return self._served(source, request_id, user, cost, now_ns)
            case Delivery(_, Answer(request_id, admitted)):
                return self.questions.answered(request_id, _verdict(admitted))
            case Timer("timeout", _):
                return self.questions.rung(now_ns)
            case Timer("line", _):
                return self._moved_up(now_ns)
            case Start(None):
                return []
            case Start(CentralState(full_at_ticks)):
                self.server.full_at_ticks = dict(full_at_ticks)
                return []
        raise UnexpectedEvent(self.node_id, event)

    def _served(self, source: str, request_id: int, user: str, cost: int, now_ns: int) -> list[Effect]:
        """The answer, or a place in the line."""
        if not self.in_line:
            return [self._answer(source, request_id, self.server.admits(user, cost, now_ns))]
        due_ns = self.server.due_ns(user, cost, now_ns)
        if due_ns is None or due_ns <= now_ns:
            return [self._answer(source, request_id, due_ns is not None)]
        self._place += 1
        heappush(self.line, (due_ns, self._place, source, request_id))
        return [SetTimer("line", self.line[0][0])]

    def _moved_up(self, now_ns: int) -> list[Effect]:
        """Admit all whose tokens are there."""
        effects: list[Effect] = []
        while self.line and self.line[0][0] <= now_ns:
            _, _, source, request_id = heappop(self.line)
            effects.append(self._answer(source, request_id, True))
        return [*effects, SetTimer("line", self.line[0][0])] if self.line else effects

    def _answer(self, source: str, request_id: int, admitted: bool) -> Effect:
        if source == self.node_id:
            return Decide(request_id, _verdict(admitted))
        return Send(source, Answer(request_id, admitted))

    def idle(self) -> bool:
        """Nobody waits for an answer."""
        return not self.questions.waiting and not self.line

    def state_bytes(self) -> int:
        """The server's buckets, and the requests that wait here."""
        waiting = WAITING_BYTES * len(self.line) + self.questions.state_bytes()
        return BUCKET_BYTES * len(self.server.full_at_ticks) + waiting

    def allocated_bytes(self) -> int:
        """The server's table, its users' names and instants, and what waits."""
        users = sum(getsizeof(user) + getsizeof(at) for user, at in self.server.full_at_ticks.items())
        line = getsizeof(self.line) + sum(map(getsizeof, self.line))
        return users + getsizeof(self.server.full_at_ticks) + line + self.questions.allocated_bytes()

    def snapshot(self) -> CentralState:
        """The buckets; a node that is not the server has none."""
        return CentralState(dict(self.server.full_at_ticks))


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """A node on each host, one of them the server.  SpecError on options that make no sense."""
    server = choice("centralised", "server", config.server or names[0], names)
    choice("centralised", "on_failure", config.on_failure, FAILURES)
    return {name: CentralisedNode(name, server, config) for name in names}


def _verdict(admitted: bool) -> Verdict:
    return Verdict.ADMIT if admitted else Verdict.REJECT


def _asked(history: RunHistory) -> Iterator[Taking]:
    """The server's buckets: what was asked of each, and whether that was granted.

    From its start on; a server that copies a node to which it was copied before goes on with these buckets.
    """
    server, limit = history.config.server or history.names[0], config_limit(history)
    meters: dict[str, Meter] = {}
    asked: dict[tuple[str, int], tuple[str, int]] = {}  # who asked and its question -> user, cost
    done: set[tuple[str, int]] = set()  # questions that have had their answer: another one costs nothing
    for step in history.steps:
        if step.node != server:
            continue
        question: tuple[str, int] | None = None
        match step.event:
            case Start(snapshot):
                copied = snapshot.full_at_ticks if isinstance(snapshot, CentralState) else {}
                meters, asked, done = {user: Meter(limit) for user in copied}, {}, set()
                for user, ticks in copied.items():
                    meters[user].full_at(ticks)
            case Arrival(request):
                question = server, request.id
                asked[question] = request.user, request.cost
            case Delivery(source, TokenRequest(request_id, user, cost)) if (source, request_id) not in asked:
                question = source, request_id
                asked[question] = user, cost
        told = dict(_answered(step))
        if question is not None and (question in told or not history.config.line):
            told.setdefault(question, False)
        for answered, admitted in told.items():
            if answered in done:
                continue
            done.add(answered)
            user, cost = asked[answered]
            yield Taking(step, meters.setdefault(user, Meter(limit)), limit.capacity, cost, admitted)


def _answered(step: Step) -> Iterator[tuple[tuple[str, int], bool]]:
    """What a step of the server's tells whom: (who asked, its question), whether it is admitted."""
    for effect in step.effects:
        match effect:
            case Decide(request_id, verdict) if not effect.unanswered:
                yield (step.node, request_id), verdict is Verdict.ADMIT
            case Send(source, Answer(request_id, admitted)):
                yield (source, request_id), admitted


Told = Callable[[Step], Iterator[tuple[int, Verdict]]]  # what a step tells its node of: the verdict on a request


def _teller(history: RunHistory) -> Told:
    """What the server answers."""

    def told(step: Step) -> Iterator[tuple[int, Verdict]]:
        if isinstance(step.event, Delivery) and isinstance(step.event.message, Answer):
            yield step.event.message.request_id, _verdict(step.event.message.admitted)

    return told


def answered_or_alone(history: RunHistory, teller: Callable[[RunHistory], Told] = _teller) -> Violation | None:
    """A verdict is what the node was first told, or ``on_failure``, unanswered, at the time-out."""
    server, wait_ns = history.config.server or history.names[0], timeout_ns(history.config)
    alone, told = FAILURES[history.config.on_failure], teller(history)
    heard: dict[int, Verdict] = {}
    came_ns: dict[int, tuple[int, int]] = {}
    for step in history.steps:
        if isinstance(step.event, Arrival):
            came_ns[step.event.request.id] = step.at_ns, step.true_ns
        for request_id, verdict in told(step):
            heard.setdefault(request_id, verdict)
        for effect in step.effects:
            if not isinstance(effect, Decide) or (step.node == server and not effect.unanswered):
                continue
            waited_ns = step.at_ns - came_ns[effect.request_id][0]
            if effect.unanswered:
                wrong = effect.verdict is not alone or effect.request_id in heard
                wrong = wrong or waited_ns + history.clocks_apart_ns < wait_ns
            else:
                wrong = effect.verdict is not heard.get(effect.request_id)
            if wrong or step.true_ns - came_ns[effect.request_id][1] > wait_ns + history.clocks_apart_ns:
                what = f"decides request {effect.request_id} as {effect.verdict.value} after {waited_ns} ns"
                said = heard.get(effect.request_id)
                return Violation(step.true_ns, step.node, what + f", told {said}, unanswered {effect.unanswered}")
    return None


ANSWERED = Invariant("decides what it was told", answered_or_alone)

SYSTEM = System(
    "centralised",
    "one node decides, all others ask it",
    config=Config,
    nodes=nodes,
    messages=(TokenRequest, Answer, CentralState),
    transport=Transport.STREAM,
    timeout_ns=timeout_ns,
    invariants=(as_one_bucket(_asked), ANSWERED),
)
