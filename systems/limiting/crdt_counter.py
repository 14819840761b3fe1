"""crdt-counter: every node counts what it admits, and gossips its counts (thesis 3.1, the baseline).

A user's bucket is one counter a node, and a *limit*: how many tokens the user may have had by now.  It
merges by the larger counter and the larger limit, so that buckets form a lattice.  A node admits on
what it knows; what others admitted meanwhile it learns by gossip, and is then in debt.

``crdt_counter_literal`` is the listings in plain Python, with all switches; ``counter_fast`` is the
same over arrays.  Both send the same messages.
"""

from collections.abc import Callable

from core.errors import SpecError
from systems.api import Node, System, Transport
from systems.limiting.counter_common import Config, Delta, TaggedDelta
from systems.limiting.counter_fast import FastNode
from systems.limiting.counter_invariants import COUNTER_INVARIANTS
from systems.limiting.crdt_counter_literal import LiteralCounterNode, unpacked
from systems.parts.erlang_terms import MEMORIES, UNITS
from systems.parts.limit import limit_of
from systems.parts.options import choice, span_ns
from systems.parts.overlay import overlay

CHOICES = {
    "refill_cap": ("bucket", "literal"),
    "queued": ("newest", "literal"),
    "slots": ("node", "incarnation"),
    "push": ("none", "urgent", "broadcast"),
    "memory": MEMORIES,
    "unit": UNITS,
    "body": ("auto", "fast", "literal"),
}


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
        return FastNode
    return LiteralCounterNode


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
    """(user, node, its life, tokens accepted) of a state or a message; refills of rejected requests are not sent."""
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
    invariants=COUNTER_INVARIANTS,
)
