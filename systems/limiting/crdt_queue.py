"""crdt-queue: a token bucket as a replicated queue of accepted tokens (thesis, chapter 4).

Every node holds, per user, a queue of elements (birth, death): accepted tokens that are not yet back.
What it adds or learns it also queues in a delta state for each neighbour; every gossip interval one
neighbour is sent its delta state, which is then empty.  In exact terms, with no printed rule on:

* **Request.**  Refill the user's queue: drop head elements with ``death <= now``, but not the last
  ``keep_last``.  Accept if the living elements and the cost are at most c.  Each token taken is an
  element at the tail: birth = the clock's reading, or 1 ns after the last birth if that is later;
  death = max(now, last death) + 1/r (Eq. 4.2).  It is queued for every neighbour.
* **Frequency analysis** (F): then, where the user has at least w elements queued for a neighbour and
  the w-th newest of them is younger than w thresholds at the newest's birth, all are sent at once.
* **Receive**, user by user.  Merge by birth: equal births are one element, with the later death; going
  up, each death is at least the previous one + 1/r (Listing 4.3).  Updates are the elements that are
  new here or die later than before.  Each is queued for every neighbour, as the node knows it now; one
  element a birth.  Then no element is queued for the sender that the sender sent with a death not before
  ours (``identity``).  Refill; what has left the local queue of this user is queued for nobody any more (4.4).
* What is queued is sent with the death that the node itself knows last.  An element that leaves the
  local queue through a request stays queued, with its last death, until sent or until a message
  names its user.  Users without elements take no room.
* **LINF** (L): a round goes to a neighbour with most elements queued, ties at random.

Merging alone is a lattice join: union by birth, later death, closed under the chain of deaths.  The
whole is none: refilling forgets, so that an element that comes after its predecessor has gone
dies earlier than one that comes before (tests pin a case).  Deaths never exceed those of one queue
that has all accepted elements: with equal clocks a node rejects nothing that such a queue would accept.
Two nodes whose clocks are behind a third's may both go on with the birth after its last one: their tokens are
one element then, and one of them is counted nowhere (``key = "birth-node"`` tells them apart).
With ``births = "clock"``, as in the thesis, two elements of one node may have one birth, and a message with the
second alone makes it the first where both are known: that one's death is raised, the second's by the chain, both
are news to all, come back, and are raised again.  Nodes may talk on long after the load, until by luck all agree.

Nothing is sent twice: what is lost with a message or a crashed node is made up for only as far as
others forward it; a re-joining node may start from another's ``snapshot``.
"""

from dataclasses import dataclass

from core.defaults import CAPACITY, RATE
from systems.api import Node, System, Transport
from systems.limiting.crdt_queue_literal import LiteralQueueNode
from systems.limiting.queue_arrays import ArrayNode, workspace
from systems.limiting.queue_common import Elements, FineElements, Gossiping, Rule, living, rule_of
from systems.limiting.queue_invariants import queue_invariants
from systems.parts.erlang_terms import MEMORIES, UNITS
from systems.parts.gossip import Rounds
from systems.parts.limit import limit_of
from systems.parts.options import choice
from systems.parts.overlay import overlay

KEYS = ("birth", "birth-node")
IMPLEMENTATIONS = ("arrays", "lists")


@dataclass(frozen=True)
class Config:
    """Options of crdt-queue; those that begin with ``literal`` restore a rule as the thesis prints it."""

    capacity: int = CAPACITY  # c, tokens of a user
    rate: str = RATE  # r, tokens a second
    overlay: str = "full-mesh"  # Table 4.1
    gossip: str = "300ms"  # Table 4.1
    phase: str = "random"  # ours: rounds of different nodes; 5.4 reckons with "aligned"
    choice: str = "pending"  # ours: draw among neighbours with something queued, or "all"
    frequency: bool = False  # F, 4.2.3
    linf: bool = False  # L, 4.2.4
    window: int = 0  # w, Table 4.3; 0: a node's share of the bucket, c // n, at least 1
    threshold: str = "2400ms"  # mean gap below which a user is urgent, Table 4.3
    keep_last: int = 0  # elements of a user that refilling leaves, dead or not: the remedy of 5.4
    key: str = "birth"  # what identifies an element, 4.1.2; "birth-node" tells equal births of two nodes apart
    resolution: str = "1ns"  # of births; the thesis' clock has "1ms"
    births: str = "unique"  # ours: of one node and user no two are equal; "clock": as it reads, equal or not (4.2.2)
    identity: str = "not-later"  # A11: what the sender has sent itself: that birth ("birth", 4.1.2) and death ("exact")
    true_gaps: bool = False  # divide the span of w elements by its w - 1 gaps; Listing 4.5 divides by w
    literal_refill: bool = False  # Listing 4.1: drops heads that die later than now, that is, the living
    literal_threshold: bool = False  # Listing 4.5: urgent if the gap is above the threshold
    literal_keep_sent: bool = False  # Listing 4.5: what was sent urgently stays queued
    literal_merge: bool = False  # Listing 4.2: delta states keep equal births and chain them: elements breed endlessly
    literal_priorities: bool = False  # Listings 4.6-4.8: LINF's counters, which purges and duplicates mislead
    memory: str = "columns"  # by which model the state is weighed, see parts.erlang_terms
    unit: str = "encoded"  # in which what is sent is counted, see parts.erlang_terms
    implementation: str = "arrays"  # ours: "lists" is the slow twin, serves every literal option, and very fine rates


def literal_rules(config: Config) -> frozenset[str]:
    """The printed rules that are on, and what else only the literal node knows."""
    names = ("refill", "threshold", "keep_sent", "merge", "priorities")
    on = {name for name in names if getattr(config, f"literal_{name}")}
    return frozenset(on | ({"key"} if config.key == "birth-node" else set()))


def rule(config: Config, node_count: int) -> Rule:
    """The config in exact integers; SpecError for an option out of range."""
    choice("crdt-queue", "key", config.key, KEYS)
    choice("crdt-queue", "implementation", config.implementation, IMPLEMENTATIONS)
    choice("crdt-queue", "memory", config.memory, MEMORIES)
    choice("crdt-queue", "unit", config.unit, UNITS)
    limit = limit_of(config.capacity, config.rate)
    return rule_of(
        "crdt-queue",
        limit,
        node_count,
        life_ticks=limit.token_ticks,
        step_ticks=limit.token_ticks,
        frequency=config.frequency,
        window=config.window,
        threshold=config.threshold,
        keep_last=config.keep_last,
        resolution=config.resolution,
        births=config.births,
        identity=config.identity,
        true_gaps=config.true_gaps,
        memory=config.memory,
        unit=config.unit,
        literal=literal_rules(config),
    )


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """One replica on each host."""
    return replicas("crdt-queue", names, rule(config, len(names)), config, seed)


def replicas(system: str, names: list[str], its_rule: Rule, config: Gossiping, seed: int) -> dict[str, Node]:
    """The nodes of a system's rule: on arrays, or on lists.

    Lists, slow but of unbounded integers, where the config says so, a printed rule is on, or the rate is so
    fine that instants in ticks outgrow 64 bits within 30 days: r, in lowest terms a nanosecond, has a
    numerator above 1779, as ``rate = "0.123457"`` has.
    """
    neighbours = overlay(config.overlay, names)
    lists = bool(its_rule.literal) or its_rule.fine or config.implementation == "lists"
    space = None if lists else workspace(max(map(len, neighbours.values())))
    made: dict[str, Node] = {}
    for number, name in enumerate(names):
        rounds = Rounds(name, config.gossip, seed, config.phase, config.choice, config.linf, system=system)
        if space is None:
            made[name] = LiteralQueueNode(name, number, neighbours[name], its_rule, rounds)
        else:
            made[name] = ArrayNode(name, neighbours[name], its_rule, rounds, space)
    return made


SYSTEM = System(
    "crdt-queue",
    "replicated queue of accepted tokens, spread by gossip",
    config=Config,
    nodes=nodes,
    messages=(Elements, FineElements),
    transport=Transport.STREAM,  # a delta state outgrows a datagram
    shared=living,
    invariants=queue_invariants(rule),
)
