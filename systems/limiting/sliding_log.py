"""sliding-log: a replicated log of accepted requests (thesis 4.1.1), the road that the thesis did not take.

An element lives c/r from its acceptance (Eq. 4.1), whatever came before it, and the living are at
most c.  Gossip, delta states, F and L are those of ``systems.limiting.crdt_queue``, with another rule:
death = now + c/r, and merging raises no death, so that an element is news to a node once only.  (Where
clocks differ, an element of a slow clock dies no earlier than its predecessor, which may be later than
c/r.)  The death travels with the element: births of one instant are a nanosecond apart, deaths are not.
"""

from dataclasses import dataclass

from core.defaults import CAPACITY, RATE
from systems.api import Node, System, Transport
from systems.limiting.crdt_queue import IMPLEMENTATIONS, replicas
from systems.limiting.queue_common import Elements, FineElements, Rule, living, rule_of
from systems.limiting.queue_invariants import queue_invariants
from systems.parts.limit import limit_of
from systems.parts.options import choice


@dataclass(frozen=True)
class Config:
    """Options of sliding-log."""

    capacity: int = CAPACITY  # c, requests of a user within c/r
    rate: str = RATE  # r, tokens a second
    overlay: str = "full-mesh"  # Table 4.1
    gossip: str = "300ms"  # Table 4.1
    phase: str = "random"  # ours: rounds of different nodes; 5.4 reckons with "aligned"
    choice: str = "pending"  # ours: draw among neighbours with something queued, or "all"
    frequency: bool = False  # F, 4.2.3, as in crdt-queue
    linf: bool = False  # L, 4.2.4, as in crdt-queue
    window: int = 0  # w; 0: a node's share, c // n, at least 1
    threshold: str = "2400ms"  # mean gap below which a user is urgent
    keep_last: int = 0  # elements of a user that refilling leaves, dead or not
    resolution: str = "1ns"  # of births; the thesis' clock has "1ms"
    births: str = "unique"  # as in crdt-queue
    identity: str = "not-later"  # as in crdt-queue
    implementation: str = "arrays"  # ours: "lists" is the slow twin, and serves very fine rates


def rule(config: Config, node_count: int) -> Rule:
    """The config in exact integers; SpecError for an option out of range."""
    choice("sliding-log", "implementation", config.implementation, IMPLEMENTATIONS)
    limit = limit_of(config.capacity, config.rate)
    return rule_of(
        "sliding-log",
        limit,
        node_count,
        life_ticks=limit.capacity * limit.token_ticks,
        step_ticks=0,
        frequency=config.frequency,
        window=config.window,
        threshold=config.threshold,
        keep_last=config.keep_last,
        resolution=config.resolution,
        births=config.births,
        identity=config.identity,
    )


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """One replica on each host."""
    return replicas("sliding-log", names, rule(config, len(names)), config, seed)


SYSTEM = System(
    "sliding-log",
    "replicated log of accepted requests, spread by gossip",
    config=Config,
    nodes=nodes,
    messages=(Elements, FineElements),
    transport=Transport.STREAM,
    shared=living,
    invariants=queue_invariants(rule),
)
