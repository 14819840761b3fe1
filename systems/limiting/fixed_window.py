"""fixed-window: one store counts each user's requests in windows of fixed length, and every node asks it.

The twin of envoyproxy/ratelimit with Redis, the industry's default: what its fixed cache does, in virtual time.

* A window is c/r long and begins at a multiple of that on the clock of the node that asks: it is part of the key.
* A request is counted (INCRBY) before it is judged, so that rejected ones count too; it passes if the count is then
  at most c.
* With ``cache``, a node that was told of a count above c rejects that user at once until the window's end, and no
  longer asks, nor counts.
* A count is forgotten (EXPIRE) a window and ``JITTER_NS`` after it last grew.  The server draws a jitter up to that.

So at most c tokens of a user are admitted in each window, as the clocks of the nodes have it; where clocks agree and
answers come, at most 2 c + r t in any span t: one window's at its end, the next one's at its beginning.  A store that
restarts begins to count anew: c more in that window.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from sys import getsizeof

from core.defaults import CAPACITY, RATE
from core.units import SECOND_NS
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
    Step,
    System,
    Timer,
    Transport,
    UnexpectedEvent,
    Verdict,
    Violation,
)
from systems.invariants import config_limit
from systems.limiting.centralised import FAILURES, answered_or_alone
from systems.parts.limit import Limit, limit_of
from systems.parts.options import choice, span_ns
from systems.parts.questions import TIMER, Questions

JITTER_NS = 300 * SECOND_NS  # the server's EXPIRATION_JITTER_MAX_SECONDS, by default
COUNT_BYTES = 32 + 8 + 8  # model of A18: a user key; the window, the count
_SWEEP_COUNT = 1_024  # counts, before old ones are forgotten

Key = tuple[str, int]  # user, number of the window


@dataclass(frozen=True)
class Config:
    """Options of fixed-window: those of ``centralised``, and the cache."""

    capacity: int = CAPACITY  # c, requests of a user in a window
    rate: str = RATE  # r, tokens a second: a window is c/r long
    cache: bool = False  # LOCAL_CACHE_SIZE_IN_BYTES above 0
    server: str = ""  # ours: the node beside which the store is; "": the first
    timeout: str = "1s"  # ours: a node that has no answer by then decides alone
    on_failure: str = "open"  # what it then decides: "open" admits, as Envoy's filter does by default; or "closed"


class Increment(Message, frozen=True):
    """Node to store: count ``cost`` more of a user in a window."""

    request_id: int
    user: str
    window: int
    cost: int


class Total(Message, frozen=True):
    """Store to node: how many there are now, with those just asked about."""

    request_id: int
    count: int


def timeout_ns(config: Config) -> int:
    """How long a node waits; SpecError where that is no span."""
    return span_ns("fixed-window", "timeout", config.timeout)


def window_of(limit: Limit, at_ns: int) -> int:
    """The number of the window in which an instant is."""
    return limit.ticks(at_ns) // (limit.capacity * limit.token_ticks)


class WindowStore:
    """Redis, as far as it is asked: INCRBY and EXPIRE."""

    def __init__(self, limit: Limit):
        self.life_ns = limit.instant_ns(limit.capacity * limit.token_ticks) + JITTER_NS
        self.counts: dict[Key, tuple[int, int]] = {}  # the count, and when it is forgotten
        self._sweep_at = _SWEEP_COUNT

    def add(self, key: Key, cost: int, now_ns: int) -> int:
        """Count ``cost`` more; the count after that."""
        count, until_ns = self.counts.get(key, (0, now_ns))
        count = cost + (count if now_ns < until_ns else 0)
        self.counts[key] = count, now_ns + self.life_ns
        if len(self.counts) > self._sweep_at:
            self.counts = {other: kept for other, kept in self.counts.items() if now_ns < kept[1]}
            self._sweep_at = max(_SWEEP_COUNT, 2 * len(self.counts))  # so that sweeps cost nothing on average
        return count


class FixedWindowNode:
    """The store's node, or one that asks it and waits, at most ``timeout`` (see ``parts.questions``).

    At the store's own node a request is decided at once.  A network that doubles messages counts nothing twice:
    streams keep their order, so a copy follows its original.
    """

    def __init__(self, node_id: str, server: str, config: Config):
        self.node_id, self.server_id, self.is_cached = node_id, server, config.cache
        self.limit = limit_of(config.capacity, config.rate)
        self.questions = Questions(timeout_ns(config), FAILURES[config.on_failure])
        self.store = WindowStore(self.limit)
        self.asked: dict[str, int] = {}  # node -> its last question
        self.open: dict[int, Key] = {}  # request -> what its node asked about
        self.over: set[str] = set()  # users above c in ``window``, as far as was told
        self.window = 0

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Arrival(request):
                key = request.user, self._turn(now_ns)
                if request.user in self.over:
                    return [Decide(request.id, Verdict.REJECT)]
                if self.node_id == self.server_id:
                    return [Decide(request.id, self._judge(key, self.store.add(key, request.cost, now_ns)))]
                self.open[request.id] = key
                ask = Send(self.server_id, Increment(request.id, *key, request.cost))
                return [ask, *self.questions.asked(request.id, now_ns)]
            case Delivery(source, Increment(request_id, user, window, cost)):
                if self.asked.get(source) == request_id:
                    return []
                self.asked[source] = request_id
                return [Send(source, Total(request_id, self.store.add((user, window), cost, now_ns)))]
            case Delivery(_, Total(request_id, count)):
                asked_about = self.open.pop(request_id, None)
                return self.questions.answered(request_id, self._judge(asked_about, count)) if asked_about else []
            case Timer(name, _) if name == TIMER:
                effects = self.questions.rung(now_ns)
                self.open = {number: key for number, key in self.open.items() if number in self.questions.waiting}
                return effects
            case Start(_):
                return []
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        """Nobody waits for an answer."""
        return not self.questions.waiting

    def state_bytes(self) -> int:
        """The store's counts, what waits here, and whom the cache holds."""
        return COUNT_BYTES * (len(self.store.counts) + len(self.over)) + self.questions.state_bytes()

    def allocated_bytes(self) -> int:
        """Tables, keys and counts; the users' names belong to the requests."""
        tables = getsizeof(self.store.counts) + getsizeof(self.open) + getsizeof(self.over)
        return tables + 4 * 56 * len(self.store.counts) + self.questions.allocated_bytes()

    def _turn(self, now_ns: int) -> int:
        """The window of now; who was above c in another one is of no account any more."""
        window = window_of(self.limit, now_ns)
        if window != self.window:
            self.window = window
            self.over.clear()
        return window

    def _judge(self, key: Key, count: int) -> Verdict:
        user, window = key
        if count <= self.limit.capacity:
            return Verdict.ADMIT
        if self.is_cached and window == self.window:
            self.over.add(user)
        return Verdict.REJECT


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """A node on each host, one of them the store's.  SpecError on options that make no sense."""
    server = choice("fixed-window", "server", config.server or names[0], names)
    choice("fixed-window", "on_failure", config.on_failure, FAILURES)
    return {name: FixedWindowNode(name, server, config) for name in names}


# --- what holds ------------------------------------------------------------------------------------


def _server(history: RunHistory) -> str:
    return history.config.server or history.names[0]


def _counted(history: RunHistory) -> Violation | None:
    """The store counts all that it is told of since it began, but what it had time to forget; so does its own node."""
    server, limit = _server(history), config_limit(history)
    life_ns = WindowStore(limit).life_ns
    grew: dict[Key, list[tuple[int, int]]] = {}  # when, and by how much
    asked: set[tuple[str, int]] = set()
    held: set[Key] = set()  # in the cache of the store's own node, whose last request was in ``window``
    window = 0

    def total(key: Key, at_ns: int, cost: int) -> int:
        since = grew.setdefault(key, [])
        if since and since[-1][0] + life_ns <= at_ns:
            since.clear()
        since.append((at_ns, cost))
        return sum(cost for _, cost in since)

    for step in (step for step in history.steps if step.node == server):
        match step.event:
            case Start():
                grew, asked, held = {}, set(), set()
            case Delivery(source, Increment(request_id, user, its_window, cost)) if (source, request_id) not in asked:
                asked.add((source, request_id))
                count = total((user, its_window), step.at_ns, cost)
                if Send(source, Total(request_id, count)) not in step.effects:
                    return Violation(step.true_ns, server, f"does not answer {source} that {user} has {count}")
            case Arrival(request):
                if window_of(limit, step.at_ns) != window:
                    window, held = window_of(limit, step.at_ns), set()
                key = request.user, window
                count = 0 if key in held else total(key, step.at_ns, request.cost)
                verdict = Verdict.REJECT if key in held or count > limit.capacity else Verdict.ADMIT
                if Decide(request.id, verdict) not in step.effects:
                    return Violation(step.true_ns, server, f"does not {verdict.value} {request.user} with {count}")
                if history.config.cache and verdict is Verdict.REJECT:
                    held.add(key)
    return None


def _teller(history: RunHistory) -> Callable[[Step], Iterator[tuple[int, Verdict]]]:
    """What the store told of in time, or the cache held: the verdict on a request."""
    server, limit = _server(history), config_limit(history)
    windows: dict[int, Key] = {}  # of the requests that are still open
    held: dict[str, set[Key]] = {}  # node -> who is above c in the window of its last request

    def told(step: Step) -> Iterator[tuple[int, Verdict]]:
        match step.event:
            case Start():
                held.pop(step.node, None)
            case Arrival(request) if step.node != server:
                key = windows[request.id] = request.user, window_of(limit, step.at_ns)
                held[step.node] = {other for other in held.get(step.node, ()) if other[1] == key[1]}
                if history.config.cache and key in held[step.node]:
                    yield request.id, Verdict.REJECT
            case Delivery(_, Total(request_id, count)) if request_id in windows:
                if count > limit.capacity:
                    held.setdefault(step.node, set()).add(windows[request_id])
                yield request_id, Verdict.ADMIT if count <= limit.capacity else Verdict.REJECT
        for effect in step.effects:
            if isinstance(effect, Decide):
                windows.pop(effect.request_id, None)

    return told


def _restarts(history: RunHistory, window: int) -> int:
    """How often the store may have begun anew between two questions about a window.

    They are asked in the window, on clocks that are off, and answered in time: a clock that is set back meanwhile makes
    that longer.
    """
    limit, apart_ns = config_limit(history), history.clocks_apart_ns
    begin_ns, end_ns = (limit.instant_ns(turn * limit.capacity * limit.token_ticks) for turn in (window, window + 1))
    first_ns, last_ns = begin_ns - apart_ns, end_ns + 2 * apart_ns + timeout_ns(history.config)
    outages = history.outages.get(_server(history), ())
    return sum(first_ns <= down_ns and back_ns <= last_ns for down_ns, back_ns in outages)


def _of_window(history: RunHistory) -> Violation | None:
    """At most c in a window, once more for each restart of the store in it; nobody is rejected while c were asked for.

    Windows are those of the clocks of the nodes that were asked.
    """
    limit = config_limit(history)
    asked: Counter[Key] = Counter()
    admitted: Counter[Key] = Counter()
    windows: dict[int, Key] = {}
    for step in history.steps:
        if isinstance(step.event, Arrival):
            request = step.event.request
            windows[request.id] = request.user, window_of(limit, step.at_ns)
            asked[windows[request.id]] += request.cost
        for effect in step.effects:
            if not isinstance(effect, Decide) or effect.unanswered:
                continue
            key = windows[effect.request_id]
            if effect.verdict is Verdict.REJECT and asked[key] <= limit.capacity:
                return Violation(step.true_ns, step.node, f"rejects {key[0]}, of whom {asked[key]} are asked for")
    for decision in history.decisions:
        if decision.verdict is Verdict.ADMIT and not decision.unanswered:
            key = windows[decision.request.id]
            admitted[key] += decision.request.cost
            allowed = limit.capacity * (1 + _restarts(history, key[1]))
            if admitted[key] > allowed:
                what = f"admits {admitted[key]} of {key[0]} in a window, above {allowed}"
                return Violation(decision.step.true_ns, decision.step.node, what)
    return None


SYSTEM = System(
    "fixed-window",
    "one store counts requests in windows, all nodes ask it (twin of envoyproxy/ratelimit with Redis)",
    config=Config,
    nodes=nodes,
    messages=(Increment, Total),
    transport=Transport.STREAM,
    timeout_ns=timeout_ns,
    invariants=(
        Invariant("counts what it is told", _counted),
        Invariant("decides what it was told", lambda history: answered_or_alone(history, _teller)),
        Invariant("no more than c in a window", _of_window),
    ),
)
