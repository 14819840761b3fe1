"""my-limiter: one limit for all nodes, divided anew each period by what each node was asked for.

An example of an online protocol in one file.  Every node counts its requests and tells all others;
it then admits its share of the limit, its own count over everybody's.
"""

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


@dataclass(frozen=True)
class Config:
    """Options of my-limiter."""

    limit_rps: float = 60.0  # ours: of all nodes together
    period: str = "200ms"  # ours: between counts; longer = cheaper and staler
    burst: str = "500ms"  # ours: a node saves up its share of the limit for this long


@dataclass(frozen=True)
class Asked(Message):
    """How many requests the sender was asked for in its last period."""

    count: int


class LimiterNode:
    """A token bucket whose rate follows the node's share of the demand."""

    def __init__(self, node_id: str, names: list[str], config: Config):
        self.node_id, self.peers, self.config = node_id, [name for name in names if name != node_id], config
        self.period_ns, self.burst_ns = duration_ns(config.period), duration_ns(config.burst)
        self.asked = dict.fromkeys(names, 1)  # until somebody says otherwise, all are asked alike
        self.asked_count = 0
        self.tokens, self.filled_at_ns = 0.0, 0

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """One event in, effects out."""
        match event:
            case Start():
                self.filled_at_ns = now_ns
                return [SetTimer("count", now_ns + self.period_ns)]
            case Arrival(request):
                self.asked_count += 1
                self._fill(now_ns)
                admitted = self.tokens >= request.cost
                self.tokens -= request.cost if admitted else 0
                return [Decide(request.id, Verdict.ADMIT if admitted else Verdict.REJECT)]
            case Delivery(source, Asked(count)):
                self.asked[source] = count
                return []
            case Timer("count", due_at_ns):
                self._fill(now_ns)
                count, self.asked_count = max(1, self.asked_count), 0  # 1 keeps a foot in the door
                self.asked[self.node_id] = count
                return [
                    SetTimer("count", due_at_ns + self.period_ns),
                    *(Send(peer, Asked(count)) for peer in self.peers),
                ]
        raise UnexpectedEvent(self.node_id, event)

    def _fill(self, now_ns: int) -> None:
        rate_rps = self.config.limit_rps * self.asked[self.node_id] / sum(self.asked.values())
        grown = self.tokens + rate_rps * (now_ns - self.filled_at_ns) / SECOND_NS
        self.tokens, self.filled_at_ns = min(grown, max(1.0, rate_rps * self.burst_ns / SECOND_NS)), now_ns


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """One node on each host."""
    return {name: LimiterNode(name, names, config) for name in names}


SYSTEM = System("my-limiter", "shares follow demand", config=Config, nodes=nodes, messages=(Asked,))
