"""my-limiter: every user's limit is divided among the nodes by what each was asked for lately.

An example of an online protocol in one file.  Every node counts the requests of each user and tells all
others once a period; it then admits its share of the user's limit, its own count over everybody's.
"""

from collections import Counter
from dataclasses import dataclass

from core.units import SECOND_NS, duration_ns
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
    UnexpectedEvent,
    Verdict,
)
from systems.parts.limit import limit_of

FOOT = 0.2  # of a request


@dataclass(frozen=True)
class Config:
    """Options of my-limiter."""

    capacity: int = 3  # tokens that a user may save up, over all nodes
    rate: str = "5"  # tokens a second of each user, over all nodes
    period: str = "1s"  # ours: between counts; longer = cheaper and staler


class Asked(Message, frozen=True):
    """How many requests of each user the sender had in its last period."""

    counts: dict[str, int]


class LimiterNode:
    """A token bucket a user, whose rate and size follow the node's share of the user's demand."""

    def __init__(self, node_id: str, names: list[str], config: Config):
        self.node_id, self.peers = node_id, [name for name in names if name != node_id]
        self.limit, self.period_ns = limit_of(config.capacity, config.rate), duration_ns(config.period)
        self.asked: dict[str, Counter[str]] = {name: Counter() for name in names}  # what is known of each node
        self.counts: Counter[str] = Counter()  # of this node, in this period
        self.tokens: dict[str, tuple[float, int]] = {}  # user -> tokens, and when they were counted

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """One event in, effects out."""
        match event:
            case Start():
                return [SetTimer("count", now_ns + self.period_ns)]
            case Arrival(request):
                self.counts[request.user] += 1
                tokens = self._tokens(request.user, now_ns)
                admitted = tokens >= request.cost
                self.tokens[request.user] = tokens - request.cost * admitted, now_ns
                return [Decide(request.id, Verdict.ADMIT if admitted else Verdict.REJECT)]
            case Delivery(source, Asked(counts)):
                self.asked[source] = Counter(counts)
                return []
            case Timer("count", due_at_ns):
                self.asked[self.node_id], self.counts = self.counts, Counter()
                told = Asked(dict(self.asked[self.node_id]))
                return [SetTimer("count", due_at_ns + self.period_ns), *(Send(peer, told) for peer in self.peers)]
        raise UnexpectedEvent(self.node_id, event)

    def _tokens(self, user: str, now_ns: int) -> float:
        # FOOT more for every node, so that none is without a share where it was not asked lately
        share = (self.asked[self.node_id][user] + FOOT) / sum(counts[user] + FOOT for counts in self.asked.values())
        most = max(1.0, self.limit.capacity * share)
        tokens, since_ns = self.tokens.get(user, (most, now_ns))
        return min(most, tokens + float(self.limit.rate_rps) * share * (now_ns - since_ns) / SECOND_NS)


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """One node on each host."""
    return {name: LimiterNode(name, names, config) for name in names}


SYSTEM = System("my-limiter", "shares follow demand", config=Config, nodes=nodes, messages=(Asked,))
