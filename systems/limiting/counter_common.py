"""What a counter's deployment and its nodes share: the options, and the messages."""

from dataclasses import dataclass

import numpy as np

from core.defaults import CAPACITY, RATE
from systems.api import Message
from systems.parts.erlang_terms import counter_message_bytes

_SMALL = 255  # the largest number of one byte


@dataclass(frozen=True)
class Config:
    """Options of the counter."""

    capacity: int = CAPACITY  # c, tokens of a user
    rate: str = RATE  # r, tokens a second
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
    memory: str = "columns"  # by which model the state is weighed, see parts.erlang_terms
    unit: str = "encoded"  # in which what is sent is counted, see parts.erlang_terms
    body: str = "auto"  # ours: arrays where they know the switches, or "fast", or "literal"; the answers are the same


class Delta(Message, frozen=True):
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


class TaggedDelta(Message, frozen=True):
    """A ``Delta`` of ``slots = "incarnation"``: int64 for each counter, when its node began."""

    delta: Delta
    incarnations: bytes


def message_bytes(unit: str, message: Delta | TaggedDelta, encoded_bytes: int) -> int:
    """What a message counts as sent, in a unit of ``parts.erlang_terms.UNITS``.

    ``encoded_bytes``: what it takes on our wire.  Erlang's units leave out lives of nodes, which are ours.
    """
    if unit == "encoded":
        return encoded_bytes
    delta = message.delta if isinstance(message, TaggedDelta) else message
    large = np.count_nonzero(np.frombuffer(delta.nodes, "<u2") >= _SMALL)  # Erlang's nodes are numbered from 1
    large += np.count_nonzero(np.frombuffer(delta.counts, "<u4") > _SMALL)
    return counter_message_bytes(unit, np.frombuffer(delta.sizes, "<u2").tolist(), int(large))
