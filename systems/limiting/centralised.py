"""centralised: one node keeps every user's bucket, and every other node asks it.

What people deploy (Envoy's rate limit service before Redis; redis-cell is the very algorithm): the
exact end of the accuracy axis, at the price of two messages and a round trip a request, and of
nothing at all while the server cannot be reached.  With no delay it is the oracle that the thesis
compares with (4.3.1): the decisions are GCRA's in the order of arrival at the server.
"""

from collections import deque
from dataclasses import dataclass, field
from sys import getsizeof

from systems.api import (
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Message,
    Node,
    Send,
    SetTimer,
    Start,
    System,
    Timer,
    Transport,
    UnexpectedEvent,
    Verdict,
)
from systems.parts.limit import Limit, gcra, limit_of
from systems.parts.options import choice, span_ns

FAILURES = {"open": Verdict.ADMIT, "closed": Verdict.REJECT}
BUCKET_BYTES = 32 + 8  # model of A18: a user key, and one instant where others keep a limit and its instant
WAITING_BYTES = 16  # a request that waits for its answer: its number and its deadline
_SWEEP_MINIMUM = 1_024  # buckets, before full ones are forgotten


@dataclass(frozen=True)
class Config:
    """Options of the centralised limiter."""

    capacity: int = 300  # thesis, Table 4.1: c (secret there; see the digest), tokens a user
    rate: str = "0.3"  # thesis, Table 4.1: 0.001 c tokens a second
    server: str = ""  # ours: the node that keeps the buckets; "": the first
    timeout: str = "1s"  # ours: a node that has no answer by then decides alone
    on_failure: str = "open"  # what it then decides: "open" admits, as Envoy's filter does by default; or "closed"


@dataclass(frozen=True)
class Ask(Message):
    """Node to server: whether this request may pass."""

    request_id: int
    user: str
    cost: int


@dataclass(frozen=True)
class Answer(Message):
    """Server to node."""

    request_id: int
    admitted: bool


@dataclass(frozen=True)
class Buckets(Message):
    """A snapshot: the instant, in ticks, at which each user's bucket is full again.  Only the server's holds any."""

    full_at_ticks: dict[str, int] = field(default_factory=dict)


class Server:
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
        self.full_at_ticks[user] = full_at
        if len(self.full_at_ticks) > self._sweep_at:
            self._forget_full(now_ticks)
        return True

    def _forget_full(self, now_ticks: int) -> None:
        """A full bucket is as good as none; swept when the number has doubled, so at no cost on average."""
        self.full_at_ticks = {user: at for user, at in self.full_at_ticks.items() if at > now_ticks}
        self._sweep_at = max(_SWEEP_MINIMUM, 2 * len(self.full_at_ticks))


class CentralisedNode:
    """The server, or a node that asks it.

    The server's clock alone counts.  A request at the server's own node is decided at once; elsewhere
    it waits for the answer, at most ``timeout`` on the asking node's clock; if that clock is set back
    meanwhile, as long as before, or longer by the step where that is less than ``timeout``.  A later
    answer is ignored, but its tokens are gone.  A server that restarts begins with full buckets, or with those of the
    snapshot that it is given: users may then take up to c tokens too many.  A network that doubles
    messages costs no tokens: streams keep their order, so a copy follows its original.
    """

    def __init__(self, node_id: str, server: str, config: Config):
        self.node_id, self.server_id = node_id, server
        self.limit = limit_of(config.capacity, config.rate)
        self.timeout_ns = span_ns("centralised", "timeout", config.timeout)
        self.on_failure = FAILURES[config.on_failure]
        self.server = Server(self.limit)
        self.asked: dict[str, int] = {}  # node -> its last question
        self.waiting: set[int] = set()  # request ids
        self.deadlines: deque[tuple[int, int]] = deque()  # (deadline, request id) as asked, answered ones too
        self.set_back = False  # whether the clock was, so that deadlines are out of order

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Arrival(request):
                if self.node_id == self.server_id:
                    return [Decide(request.id, _verdict(self.server.admits(request.user, request.cost, now_ns)))]
                return self._ask(request.id, request.user, request.cost, now_ns)
            case Delivery(source, Ask(request_id, user, cost)):
                if self.asked.get(source) == request_id:
                    return []
                self.asked[source] = request_id
                return [Send(source, Answer(request_id, self.server.admits(user, cost, now_ns)))]
            case Delivery(_, Answer(request_id, admitted)):
                if request_id not in self.waiting:
                    return []
                self.waiting.remove(request_id)
                return [Decide(request_id, _verdict(admitted))]
            case Timer("timeout", _):
                if self.set_back or (self.deadlines and self.deadlines[0][0] > now_ns):
                    self._follow_clock_back(now_ns)
                return self._give_up(now_ns)
            case Start(None):
                return []
            case Start(Buckets(full_at_ticks)):
                self.server.full_at_ticks = dict(full_at_ticks)
                return []
        raise UnexpectedEvent(self.node_id, event)

    def _ask(self, request_id: int, user: str, cost: int, now_ns: int) -> list[Effect]:
        deadline_ns = now_ns + self.timeout_ns
        effects: list[Effect] = [Send(self.server_id, Ask(request_id, user, cost))]
        if not self.deadlines:  # one timer, for the oldest question
            effects.append(SetTimer("timeout", deadline_ns))
        elif deadline_ns < self.deadlines[-1][0]:
            self.set_back = True
        self.waiting.add(request_id)
        self.deadlines.append((deadline_ns, request_id))
        return effects

    def _follow_clock_back(self, now_ns: int) -> None:
        """The clock was set back: by as much as the oldest question's deadline is away, now that its timer has rung.

        Questions that seem to be asked later than now were asked before the step.  Of the others nobody
        knows, but none waits longer than those asked after it, nor than ``timeout`` from now.
        """
        step_ns, self.set_back = max(0, self.deadlines[0][0] - now_ns), False
        moved: deque[tuple[int, int]] = deque()
        latest_ns = now_ns + self.timeout_ns
        for deadline_ns, request_id in reversed(self.deadlines):
            asked_before = deadline_ns - self.timeout_ns > now_ns
            latest_ns = min(latest_ns, deadline_ns - step_ns if asked_before else deadline_ns)
            moved.appendleft((latest_ns, request_id))
        moved[0] = min(now_ns, moved[0][0]), moved[0][1]
        self.deadlines = moved

    def _give_up(self, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        while self.deadlines and (self.deadlines[0][0] <= now_ns or self.deadlines[0][1] not in self.waiting):
            _, request_id = self.deadlines.popleft()
            if request_id in self.waiting:
                self.waiting.remove(request_id)
                effects.append(Decide(request_id, self.on_failure))
        if self.deadlines:
            effects.append(SetTimer("timeout", self.deadlines[0][0]))
        return effects

    def idle(self) -> bool:
        """Nobody waits for an answer."""
        return not self.waiting

    def state_bytes(self) -> int:
        """The server's buckets, and the requests that wait here."""
        return BUCKET_BYTES * len(self.server.full_at_ticks) + WAITING_BYTES * len(self.waiting)

    def allocated_bytes(self) -> int:
        """The server's table, its users' names and instants, and what waits."""
        users = sum(getsizeof(user) + getsizeof(at) for user, at in self.server.full_at_ticks.items())
        return users + sum(getsizeof(part) for part in (self.server.full_at_ticks, self.waiting, self.deadlines))

    def snapshot(self) -> Buckets:
        """The buckets; a node that is not the server has none."""
        return Buckets(dict(self.server.full_at_ticks))


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """A node on each host, one of them the server.  SpecError on options that make no sense."""
    server = choice("centralised", "server", config.server or names[0], names)
    choice("centralised", "on_failure", config.on_failure, FAILURES)
    return {name: CentralisedNode(name, server, config) for name in names}


def _verdict(admitted: bool) -> Verdict:
    return Verdict.ADMIT if admitted else Verdict.REJECT


SYSTEM = System(
    "centralised",
    "one node decides, all others ask it",
    config=Config,
    nodes=nodes,
    messages=(Ask, Answer, Buckets),
    transport=Transport.STREAM,
)
