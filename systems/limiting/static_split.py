"""static-split: every node limits alone, with its fixed share of each user's limit.

"Each distributed part of the bucket could be given a refill rate of r/n and a capacity of c/n"
(thesis, chapter 6, on Li et al., who then redistribute both); DST without links (g = 0).  No
messages.  The tokens c are divided by largest remainder, the rate is r/n exactly, so the nodes
together never admit more than c + r t in any span t; the price is false rejection, wherever a user's
requests do not spread evenly.  A crash forgets what was spent, as in every limiter here: at most the
node's share of c more, each time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from sys import getsizeof

from core.defaults import CAPACITY, RATE
from core.errors import SpecError
from core.units import SECOND_NS
from systems.api import (
    Arrival,
    Decide,
    Effect,
    Event,
    Message,
    Node,
    RunHistory,
    Start,
    System,
    UnexpectedEvent,
    Verdict,
)
from systems.invariants import Meter, Taking, as_one_bucket, config_limit, within
from systems.parts.limit import Limit, gcra, limit_of
from systems.parts.shares import largest_remainder

USER_BYTES = 32 + 16  # model: the user's key, and one instant beside the limit
_SWEEP_COUNT = 64  # full buckets are looked for from this many on


@dataclass(frozen=True)
class Config:
    """Options of static-split."""

    capacity: int = CAPACITY  # c, tokens of a user
    rate: str = RATE  # r, tokens a second
    minimum: int = 0  # ours: tokens that a node has at least; 1 over-admits by n - c where c < n


class NodeState(Message, frozen=True):
    """A node's state: for each user the instant at which its bucket is full again, in ticks of ``Limit``."""

    full_at_ticks: dict[str, int]


class SplitNode:
    """One token bucket a user, of the node's share."""

    def __init__(self, node_id: str, limit: Limit | None):
        self.node_id, self.limit = node_id, limit  # no limit: no token, all is rejected
        self.full_at: dict[str, int] = {}
        self._swept_at_count = _SWEEP_COUNT

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """One event in, effects out."""
        match event:
            case Start(None | NodeState() as snapshot):
                if snapshot is not None:
                    self.full_at = dict(snapshot.full_at_ticks)
                return []
            case Arrival(request):
                admitted = self._take(request.user, request.cost, now_ns)
                return [Decide(request.id, Verdict.ADMIT if admitted else Verdict.REJECT)]
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        """It never sends."""
        return True

    def state_bytes(self) -> int:
        """Model bytes of the buckets that are kept; full ones are dropped now and then."""
        return USER_BYTES * len(self.full_at)

    def allocated_bytes(self) -> int:
        """The table and its integers; the users' names belong to the requests."""
        return getsizeof(self.full_at) + 40 * len(self.full_at)

    def snapshot(self) -> Message:
        """Its state.  A peer's is as good an estimate of one's own as any: shares are alike."""
        return NodeState(dict(self.full_at))

    def _take(self, user: str, cost: int, now_ns: int) -> bool:
        if self.limit is None:
            return False
        now = self.limit.ticks(now_ns)
        full_at = gcra(now, self.full_at.get(user, now), self.limit, cost)
        if full_at is None:
            return False
        if len(self.full_at) >= self._swept_at_count:
            self.full_at = {other: instant for other, instant in self.full_at.items() if instant > now}
            self._swept_at_count = max(_SWEEP_COUNT, 2 * len(self.full_at))  # so that sweeps cost O(1) a request
        self.full_at[user] = full_at
        return True


def shares(limit: Limit, count: int, minimum: int = 0) -> list[Limit | None]:
    """The limit of each of ``count`` nodes; None where a node has no token at all."""
    tokens = (max(minimum, part) for part in largest_remainder(limit.capacity, [1] * count))
    return [replace(limit, capacity=part, token_ticks=limit.token_ticks * count) if part else None for part in tokens]


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """One node on each host."""
    if config.minimum < 0:
        raise SpecError(f"static-split: minimum = {config.minimum}", "give 0, or the least number of tokens of a node")
    limits = shares(limit_of(config.capacity, config.rate), len(names), config.minimum)
    return {name: SplitNode(name, limit) for name, limit in zip(names, limits, strict=True)}


def _asked(history: RunHistory) -> Iterator[Taking]:
    """Each node's buckets, of its share; a node that copies a peer's state goes on with the peer's buckets."""
    parts = shares(config_limit(history), len(history.names), history.config.minimum)
    limits = dict(zip(history.names, parts, strict=True))
    meters: dict[tuple[str, str], Meter] = {}
    for step in history.steps:
        limit = limits[step.node]
        match step.event:
            case Start(snapshot):
                meters = {key: meter for key, meter in meters.items() if key[0] != step.node}
                copied = snapshot.full_at_ticks if isinstance(snapshot, NodeState) and limit else {}
                for user, ticks in copied.items():
                    meters[step.node, user] = Meter(limit or config_limit(history))
                    meters[step.node, user].full_at(ticks)
            case Arrival(request):
                meter = meters.setdefault((step.node, request.user), Meter(limit)) if limit else None
                admitted = Decide(request.id, Verdict.ADMIT) in step.effects
                yield Taking(step, meter, limit.capacity if limit else 0, request.cost, admitted)


def _bound(history: RunHistory) -> Fraction:
    """Beyond c + r t: of each crash, a node's share of c; of a clock that was set, what it brings; the minimum."""
    limit, minimum = config_limit(history), history.config.minimum
    parts = shares(limit, len(history.names), minimum)
    most = {name: part.capacity if part else 0 for name, part in zip(history.names, parts, strict=True)}
    forgotten = sum(len(spans) * most[name] for name, spans in history.outages.items())
    stepped = limit.rate_rps * history.clocks_apart_ns / SECOND_NS if "clock-skew" in history.faults else Fraction(0)
    return sum(most.values()) - limit.capacity + forgotten + stepped


SYSTEM = System(
    "static-split",
    "a fixed share of each limit at every node, no messages (Li et al., thesis ch. 6)",
    config=Config,
    nodes=nodes,
    messages=(NodeState,),
    invariants=(within(_bound), as_one_bucket(_asked)),
)
