"""Limiters that divide a limit, as they are, beside real brokers: a node's part of it is its broker's sub-bucket.

In virtual time ``testbed.virtual.gates.GrantedLoop`` is this plug.  Here the node is put into another that takes a
broker's reports and sets its bucket, as TB Adaptor's nodes do.  The node inside hears of each message once, and what it
decides about it does not matter: who asked again would count twice.  Messages of one report are heard of together.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.records import Envelope, Json, Request
from core.registry import configure
from systems.api import Actuate, Arrival, Decide, Effect, Event, Node, Report, Sample, SetBucket, System
from systems.distribution.commands import MessagesCame
from systems.limiting import leases, throttler
from systems.parts.portion import MILLION
from systems.parts.token_bucket import MAXIMUM_CAPACITY, MAXIMUM_RATE, RATE_PER_RPS, TOKEN

LEAST_RPS = 0.001  # of a sub-bucket: the integer step's least
MOST_RPS, MOST_COUNT = MAXIMUM_RATE / RATE_PER_RPS, MAXIMUM_CAPACITY / TOKEN  # and its most, which no broker carries
Part = Callable[[Node, str], int | None]  # of a node and a topic, in millionths of an even share; None: none yet


def leased(node: Node, topic: str) -> int | None:
    """What a client of leases may use: its lease, or its safe share."""
    assert isinstance(node, leases.LeaseNode)
    borrowed = node.client.users.get(topic)
    return None if borrowed is None else borrowed.portion.parts


def throttled(node: Node, topic: str) -> int | None:
    """What a server has of the limit."""
    assert isinstance(node, throttler.ThrottlerNode)
    bucket = node.buckets.users.get(topic)
    return None if bucket is None else max(0, bucket.parts)


def part_of(part: int, whole: Envelope, nodes: int) -> Envelope:
    """The sub-bucket of so many millionths of an even share: it holds a token at least, and never stands still.

    A law that hears late may give a node several times the whole limit, and others less than nothing.
    """
    share = part / (MILLION * nodes)
    rate_rps, burst_count = share * whole.rate_rps, share * whole.burst_count
    return Envelope(min(MOST_RPS, max(LEAST_RPS, rate_rps)), min(MOST_COUNT, max(1.0, burst_count)))


@dataclass(frozen=True)
class Config:
    """Options of a limiter beside brokers."""

    options: Json = field(default_factory=dict)  # of the limiter; capacity and rate are the topic's, in whole tokens
    topic: str = "topic"
    rate_rps: float = 1_000.0  # of the topic's bucket
    burst_count: float = 100.0


class GrantedNode:
    """``node``, one of so many, as a controller's node: reports in, commands out; else it says what that one says."""

    def __init__(self, node: Node, nodes: int, config: Config, part: Part):
        self._node, self._nodes, self._part = node, nodes, part
        self._topic, self._whole = config.topic, Envelope(config.rate_rps, config.burst_count)
        self._told: int | None = None
        self._heard_count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        effects: list[Effect] = []
        for inner in self._inside(event, now_ns):
            effects += (one for one in self._node.handle(inner, now_ns) if not isinstance(one, Decide))
        part = self._part(self._node, self._topic)
        if part is not None and part != self._told:
            self._told = part
            bucket = part_of(part, self._whole, self._nodes)
            effects += [
                Actuate(SetBucket(self._topic, bucket.rate_rps, bucket.burst_count)),
                Sample("bucket_rate_rps", bucket.rate_rps),
                Sample("bucket_burst_count", bucket.burst_count),
            ]
        return effects

    def _inside(self, event: Event, now_ns: int) -> list[Event]:
        match event:
            case Report(MessagesCame(_, message_count)):
                first, self._heard_count = self._heard_count, self._heard_count + message_count
                numbers = range(first, self._heard_count)
                return [Arrival(Request(number, self._topic, now_ns)) for number in numbers]
        return [event]


def _beside(limiter: System, part: Part) -> System:
    """The limiter, beside brokers."""

    def nodes(names: list[str], config: Config, seed: int) -> Mapping[str, Node]:
        assert limiter.nodes is not None
        inner = configure(f"system {limiter.key}", limiter.config, config.options)
        made = limiter.nodes(names, inner, seed)
        return {name: GrantedNode(node, len(names), config, part) for name, node in made.items()}

    return System(
        f"{limiter.key}-beside-brokers",
        f"{limiter.summary}; parts of the limit are brokers' sub-buckets",
        config=Config,
        nodes=nodes,  # type: ignore[arg-type]
        messages=limiter.messages,
        transport=limiter.transport,
        inputs=(Report,),
        plane="testbed.brokers.plane:grant_plane",
    )


LEASES = _beside(leases.SYSTEM, leased)
THROTTLER = _beside(throttler.SYSTEM, throttled)
