"""crdt-counter: every node counts what it admits, and gossips its counts (thesis 3.1, the baseline).

A user's bucket is one counter a node, and a *limit*: how many tokens the user may have had by now.  It
merges by the larger counter and the larger limit, so that buckets form a lattice.  A node admits on
what it knows; what others admitted meanwhile it learns by gossip, and is then in debt.

``crdt_counter_literal`` is the listings in plain Python, with all switches; ``counter_fast`` is the
same over arrays.  Both send the same messages.
"""

from collections.abc import Callable
from dataclasses import dataclass

from core.errors import SpecError
from systems.api import Message, Node, System, Transport
from systems.parts.limit import limit_of
from systems.parts.options import choice, span_ns
from systems.parts.overlay import overlay

CHOICES = {
    "refill_cap": ("bucket", "literal"),
    "queued": ("newest", "literal"),
    "slots": ("node", "incarnation"),
    "push": ("none", "urgent", "broadcast"),
    "body": ("auto", "fast", "literal"),
}


@dataclass(frozen=True)
class Config:
    """Options of the counter."""

    capacity: int = 300  # thesis, Table 4.1: c (secret there; see the digest), tokens a user
    rate: str = "0.3"  # thesis, Table 4.1: 0.001 c tokens a second
    overlay: str = "full-mesh"  # thesis, Table 4.1; others are ours
    gossip: str = "300ms"  # thesis, Table 4.1: between rounds; longer = cheaper and staler
    phase: str = "random"  # ours (A19): of the nodes' rounds; or "aligned"
    choice: str = "pending"  # ours (A13): a round's neighbour is one that lacks something; or any of "all"
    # A6.  Listing 3.1 bounds each refill, not the bucket ("literal"): tokens pile up without bound.
    refill_cap: str = "bucket"
    # A7.  False: admit on any fraction of a token, as printed (a burst of c + 1).
    whole_tokens: bool = True
    # Ours: a bucket that is already queued for a neighbour is brought up to date when that neighbour sends news of
    # it, so that one bucket serves all queues; "literal": that neighbour's copy stays as it was (Listing 3.3, 13).
    queued: str = "newest"
    # What a restarted node counts in: the slot that it had ("node"), which it learns back from others, or one of
    # its own for each "incarnation" (ours).  See CounterNode.
    slots: str = "node"
    # Ours (A21).  "urgent": what the thesis does for its queue (4.2.3), for counters; "broadcast": every change is
    # sent to all at once, and nothing is gossiped, as in Limitador's distributed storage.
    push: str = "none"
    window: int = 0  # push = "urgent", thesis 4.3.3: tokens not yet sent; 0: c / n, at least 1
    threshold: str = "2400ms"  # push = "urgent", thesis 4.3.3: mean gap between them
    body: str = "auto"  # ours: arrays where they know the switches, or "fast", or "literal"; the answers are the same


@dataclass(frozen=True)
class Delta(Message):
    """What a neighbour lacks: columns of little-endian numbers, one row a user, or a counter.

    ``users``: 16 bytes each (``parts.user_key``).  ``sizes``: uint16, counters of the user.
    ``limits``: three int64 each: the limit in tokens, ticks (``parts.limit``) beyond them, and the
    instant of the last refill, ns on the clock of the node that made it.  ``nodes``, uint16, and
    ``counts``, uint32, have one row a counter that is not 0: which node, by its place among the names.
    """

    users: bytes
    sizes: bytes
    limits: bytes
    nodes: bytes
    counts: bytes


@dataclass(frozen=True)
class TaggedDelta(Message):
    """A ``Delta`` of ``slots = "incarnation"``: int64 for each counter, when its node began."""

    delta: Delta
    incarnations: bytes


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """One node on each host.  SpecError on options that make no sense."""
    _check(config, len(names))
    neighbours = overlay(config.overlay, names)
    body = _body(config)
    return {name: body(name, names, neighbours[name], config, seed) for name in names}


def _body(config: Config) -> Callable[..., Node]:
    """The class of the nodes: arrays where they know the switches."""
    known = config.queued == "newest" and config.slots == "node"
    known = known and (config.push == "none" or (config.push == "broadcast" and config.overlay == "full-mesh"))
    if config.body == "fast" and not known:
        raise SpecError("crdt-counter: body = 'fast' does not know these switches", 'give body = "auto"')
    if known and config.body != "literal":
        from systems.limiting.counter_fast import FastNode

        return FastNode
    from systems.limiting.crdt_counter_literal import LiteralNode

    return LiteralNode


def _check(config: Config, count: int) -> None:
    for option, known in CHOICES.items():
        choice("crdt-counter", option, getattr(config, option), known)
    if count > 65_535:
        raise SpecError(f"crdt-counter: {count} nodes", "a counter's node has 16 bits: give at most 65,535")
    if config.window < 0:
        raise SpecError(f"crdt-counter: window = {config.window}", "give tokens, or 0 for c / n")
    span_ns("crdt-counter", "threshold", config.threshold)
    limit_of(config.capacity, config.rate)


def shared(config: Config, snapshot: Delta | TaggedDelta, now_ns: int) -> frozenset[tuple[bytes, int, int, int]]:
    """(user, node, its life, tokens accepted).  Refills are left out: those of rejected requests are not sent."""
    from systems.limiting.crdt_counter_literal import unpacked

    buckets = unpacked(snapshot, limit_of(config.capacity, config.rate))
    return frozenset((user, *slot, count) for user, bucket in buckets.items() for slot, count in bucket.counts.items())


SYSTEM = System(
    "crdt-counter",
    "token buckets of replicated counters, gossiped",
    config=Config,
    nodes=nodes,
    messages=(Delta, TaggedDelta),
    transport=Transport.STREAM,
    shared=shared,
)
