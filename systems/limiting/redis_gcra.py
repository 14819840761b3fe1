"""redis-gcra: a real Redis decides for all nodes, with GCRA in a script: the deployed limiter, as a black box.

What Envoy's rate limit service, Stripe's and many others' limiters come to.  Against ``centralised``, its
model, it shows what a real server adds: its network stack, its event loop, its clock of microseconds.

The nodes are ordinary ones, and what they ask goes over their data plane: a command ``Evaluate``, and a
report ``Evaluated``.  Only a live testbed has the server (``System.servers``): virtual time refuses to run this.
"""

from dataclasses import dataclass
from math import gcd

from core.defaults import CAPACITY, RATE
from core.errors import SpecError
from core.units import SECOND_NS
from systems.api import (
    Actuate,
    Arrival,
    Effect,
    Event,
    Node,
    Report,
    Start,
    System,
    Timer,
    UnexpectedEvent,
    Verdict,
)
from systems.limiting.centralised import ANSWERED
from systems.parts.limit import limit_of
from systems.parts.options import choice, span_ns
from systems.parts.questions import TIMER, Questions
from systems.parts.scripts import Evaluate, Evaluated

FAILURES = {"open": Verdict.ADMIT, "closed": Verdict.REJECT}
EXACT = 2**53  # the integers that a Lua number, a double, holds exactly
LONGEST_RUN_US = 24 * 3_600 * 10**6  # since the server's origin: what stays exact

# KEYS: the user's.  ARGV: ticks a microsecond, ticks a token, capacity, cost, origin in s of the server's clock.
# The value is the instant, in ticks since the origin, at which the bucket is full again.  Every quantity is an
# integer below 2^53, so that doubles are exact; it is written by %.0f, for Lua prints but 14 digits of itself.
SCRIPT = """
local ticks_per_us, token_ticks = tonumber(ARGV[1]), tonumber(ARGV[2])
local capacity, cost = tonumber(ARGV[3]), tonumber(ARGV[4])
if cost > capacity then return 0 end
local time = redis.call('TIME')
local now = ((tonumber(time[1]) - tonumber(ARGV[5])) * 1000000 + tonumber(time[2])) * ticks_per_us
local full_at = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + cost * token_ticks
if full_at - now > capacity * token_ticks then return 0 end
local life_ms = math.ceil((full_at - now) / (ticks_per_us * 1000)) + 1
redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', string.format('%.0f', life_ms))
return 1
"""


@dataclass(frozen=True)
class Config:
    """Options; those of ``centralised``."""

    capacity: int = CAPACITY  # c, tokens of a user
    rate: str = RATE  # r, tokens a second
    server: str = ""  # ours: the node beside which Redis runs; "": the first
    timeout: str = "1s"  # ours: a node that has no answer by then decides alone
    on_failure: str = "open"  # what it then decides: "open" admits, as Envoy's filter does by default; or "closed"


def script_limit(capacity: int, rate: str) -> tuple[int, int]:
    """Ticks a microsecond and ticks a token; SpecError where a day's instants outgrow a double's integers."""
    limit = limit_of(capacity, rate)
    per_us = limit.ticks_per_ns * (SECOND_NS // 10**6)
    shared = gcd(per_us, limit.token_ticks)
    ticks_per_us, token_ticks = per_us // shared, limit.token_ticks // shared
    if LONGEST_RUN_US * ticks_per_us + 2 * capacity * token_ticks >= EXACT:
        raise SpecError(f"redis-gcra: capacity = {capacity}, rate = {rate!r}", "give a rate of fewer digits")
    return ticks_per_us, token_ticks


def timeout_ns(config: Config) -> int:
    """How long a node waits; SpecError where that is no span."""
    return span_ns("redis-gcra", "timeout", config.timeout)


class RedisNode:
    """Asks for every request, at the server's own node too, and waits at most ``timeout``.

    A later answer is ignored, but its tokens are gone, as with ``centralised``.
    """

    def __init__(self, node_id: str, config: Config):
        self.node_id = node_id
        self.arguments = (*script_limit(config.capacity, config.rate), config.capacity)
        self.questions = Questions(timeout_ns(config), FAILURES[config.on_failure])

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Arrival(request):
                ask = Actuate(Evaluate(request.id, SCRIPT, request.user, (*self.arguments, request.cost)))
                return [ask, *self.questions.asked(request.id, now_ns)]
            case Report(Evaluated(request_id, admitted)):
                return self.questions.answered(request_id, Verdict.ADMIT if admitted else Verdict.REJECT)
            case Timer(name, _) if name == TIMER:
                return self.questions.rung(now_ns)
            case Start(_):
                return []
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        """Nobody waits for an answer."""
        return not self.questions.waiting

    def state_bytes(self) -> int:
        """The requests that wait; the buckets are Redis' own."""
        return self.questions.state_bytes()


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """A node on each host.  SpecError on options that make no sense."""
    choice("redis-gcra", "server", config.server or names[0], names)
    choice("redis-gcra", "on_failure", config.on_failure, FAILURES)
    return {name: RedisNode(name, config) for name in names}


SYSTEM = System(
    "redis-gcra",
    "a real Redis decides for all nodes; live testbeds only",
    config=Config,
    nodes=nodes,
    inputs=(Arrival, Evaluated),
    servers=("redis",),
    plane="testbed.servers.redis:redis_plane",
    beside=lambda config: config.server,
    timeout_ns=timeout_ns,
    invariants=(ANSWERED,),
)
