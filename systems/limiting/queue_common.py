"""What the nodes of ``crdt-queue`` and ``sliding-log`` share: the rule in integers, users, the message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np

from core.errors import SpecError
from core.units import SECOND_NS
from systems.api import Message
from systems.parts.erlang_terms import CONS_WORDS, ELEMENT_WORDS, node_words, queue_message_bytes, weight_bytes
from systems.parts.limit import Limit, limit_of
from systems.parts.options import choice, span_ns
from systems.parts.user_key import KEY_BYTES

INSTANT_BYTES = 8
ELEMENT_BYTES = 2 * INSTANT_BYTES  # birth and death
TIMER = "gossip"
_LATEST = 2**62  # instants as they are sent, in ticks or ns: what is added to them still fits in 64 bits
BIRTHS = {"unique": 1, "clock": 0}  # option births -> ns that births of one node and user are apart, at least
IDENTITIES = ("exact", "birth", "not-later")  # option identity: what of a delta state its neighbour has sent itself
COARSE_TICKS_PER_NS = _LATEST // (30 * 86_400 * SECOND_NS)  # 1779: so fine that 30 days of ticks fit


@dataclass(frozen=True)
class Rule:
    """How elements live, and what the extensions do, with every quantity an exact integer.

    An element added at ``now`` dies at ``max(now + life, last.death + step)``, in ticks: token bucket
    life = step = 1/r (Eq. 4.2), sliding log life = c/r (Eq. 4.1) and step = 0.  ``literal`` holds
    the names of the thesis' printed rules that are on; a node that has any is a literal node.
    """

    limit: Limit
    life_ticks: int
    step_ticks: int
    frequency: bool
    window: int  # w, elements
    span_ns: int  # w newest elements younger than this are urgent: threshold times gaps
    keep_last: int
    resolution_ns: int
    apart_ns: int  # between births of one node and user: 1, or 0 where equal readings of the clock are equal births
    identity: str  # of IDENTITIES
    memory: str = "columns"  # of parts.erlang_terms.MEMORIES
    unit: str = "encoded"  # of parts.erlang_terms.UNITS
    literal: frozenset[str] = frozenset()

    @property
    def fine(self) -> bool:
        """Whether instants in ticks outgrow 64 bits within 30 days: then nodes are lists, and send ``FineElements``."""
        return self.limit.ticks_per_ns > COARSE_TICKS_PER_NS

    @property
    def latest_ns(self) -> int:
        """The farthest from 0 that a node's clock may be: 30 days or more (146 years if ``fine``)."""
        return _LATEST if self.fine else _LATEST // self.limit.ticks_per_ns

    def birth_ns(self, now_ns: int, last_birth_ns: int | None) -> int:
        """The birth of an element added now: the clock's reading, later than every birth in the queue (``apart_ns``).

        So births of one node and user differ though instants are equal, and a node whose clock is
        behind still adds at the tail.
        """
        clock = now_ns - now_ns % self.resolution_ns
        return clock if last_birth_ns is None else max(clock, last_birth_ns + self.apart_ns)


class Elements(Message, frozen=True):
    """Queues by user: a delta state, or (of ``snapshot``) a local state.

    Columns, little-endian: ``users`` 16 bytes each (BLAKE2b of the text), ``counts`` uint32 elements
    of each user, then ``births`` int64 in ns and ``deaths`` int64 in ticks of all elements, user after
    user, ascending by birth; ``origins`` int32, the number of the accepting node, if that is part of
    an element's key.
    """

    users: bytes
    counts: bytes
    births: bytes
    deaths: bytes
    origins: bytes = b""


class FineElements(Message, frozen=True):
    """``Elements`` of a rate so fine that an instant in ticks does not fit in 64 bits (``Rule.fine``).

    ``deaths`` are in ns there, rounded down, and ``ticks``, int32, is what each is later than that.
    """

    elements: Elements
    ticks: bytes


Queues = dict[bytes, list[tuple[int, int, int]]]  # user -> (birth in ns, death in ticks, origin) of each element


class Gossiping(Protocol):
    """The options that say who gossips with whom, and when."""

    @property
    def overlay(self) -> str:
        """See ``systems.parts.overlay``."""
        ...

    @property
    def gossip(self) -> str:
        """The interval."""
        ...

    @property
    def phase(self) -> str:
        """See ``systems.parts.gossip``."""
        ...

    @property
    def choice(self) -> str:
        """See ``systems.parts.gossip``."""
        ...

    @property
    def linf(self) -> bool:
        """Least informed neighbour first."""
        ...

    @property
    def implementation(self) -> str:
        """``arrays`` or ``lists``."""
        ...


def pack(queues: Mapping[bytes, Sequence[tuple[int, ...]]], rule: Rule) -> Elements | FineElements:
    """The message that carries ``queues``, see ``Queues``; what elements have beyond the three stays here."""
    rows = [element for queue in queues.values() for element in queue]
    births, deaths, origins, *_ = zip(*rows, strict=True) if rows else ((), (), ())
    ticks: list[int] = []
    if rule.fine:
        ticks = [death % rule.limit.ticks_per_ns for death in deaths]
        deaths = tuple(death // rule.limit.ticks_per_ns for death in deaths)
    elements = Elements(
        b"".join(queues),
        np.array([len(queue) for queue in queues.values()], "<u4").tobytes(),
        np.array(births, "<i8").tobytes(),
        np.array(deaths, "<i8").tobytes(),
        np.array(origins, "<i4").tobytes() if "key" in rule.literal else b"",
    )
    return FineElements(elements, np.array(ticks, "<i4").tobytes()) if rule.fine else elements


def unpack(message: Elements | FineElements, ticks_per_ns: int = 1) -> Queues:
    """What ``pack`` packed; origin 0 where the message has none.  Only ``FineElements`` need ``ticks_per_ns``."""
    columns = message.elements if isinstance(message, FineElements) else message
    users = [columns.users[at : at + KEY_BYTES] for at in range(0, len(columns.users), KEY_BYTES)]
    births = np.frombuffer(columns.births, "<i8").tolist()
    deaths = np.frombuffer(columns.deaths, "<i8").tolist()
    if isinstance(message, FineElements):
        beyond = np.frombuffer(message.ticks, "<i4").tolist()
        deaths = [at_ns * ticks_per_ns + ticks for at_ns, ticks in zip(deaths, beyond, strict=True)]
    origins = np.frombuffer(columns.origins, "<i4").tolist() or [0] * len(births)
    rows = iter(zip(births, deaths, origins, strict=True))
    counts = np.frombuffer(columns.counts, "<u4").tolist()
    return {user: list(islice(rows, count)) for user, count in zip(users, counts, strict=True)}


def queue_bytes(memory: str, maps: tuple[int, int, list[int], int], listed: int, elements: int) -> int:
    """What a node weighs as Erlang terms: ``maps`` as of ``node_words``; elements in all lists, and different ones."""
    words = node_words(*maps) + CONS_WORDS * listed + ELEMENT_WORDS * elements
    return weight_bytes(memory, words)


def message_bytes(unit: str, message: Elements | FineElements, encoded_bytes: int) -> int:
    """What a message counts as sent, in a unit of ``parts.erlang_terms.UNITS``.

    ``encoded_bytes``: what it takes on our wire.  Erlang's units leave out origins and ticks, which are ours.
    """
    if unit == "encoded":
        return encoded_bytes
    columns = message.elements if isinstance(message, FineElements) else message
    return queue_message_bytes(unit, len(columns.users) // KEY_BYTES, len(columns.births) // INSTANT_BYTES)


class Limited(Protocol):
    """The options that say what the limit is."""

    @property
    def capacity(self) -> int:
        """Tokens of a user."""
        ...

    @property
    def rate(self) -> str:
        """Tokens a second."""
        ...


def living(config: Limited, snapshot: Elements | FineElements, now_ns: int) -> frozenset[tuple[bytes, int, int, int]]:
    """(user, birth, origin, death in ticks) of a state or a message, but for the dead, which nodes drop in time."""
    limit = limit_of(config.capacity, config.rate)
    now_ticks = limit.ticks(now_ns)
    queues = unpack(snapshot, limit.ticks_per_ns)
    rows = ((user, *element) for user, queue in queues.items() for element in queue)
    return frozenset((user, birth, origin, death) for user, birth, death, origin in rows if death > now_ticks)


def too_late(node_id: str, now_ns: int) -> SpecError:
    """A clock beyond ``Rule.latest_ns``."""
    return SpecError(
        f"{node_id}: {now_ns} ns is too late for the rate's precision",
        "count time from the run's start, or give a rate of fewer digits",
    )


def rule_of(
    system: str,
    limit: Limit,
    node_count: int,
    life_ticks: int,
    step_ticks: int,
    *,
    frequency: bool,
    window: int,
    threshold: str,
    keep_last: int,
    resolution: str,
    births: str = "unique",
    identity: str = "not-later",
    true_gaps: bool = False,
    memory: str = "columns",
    unit: str = "encoded",
    literal: frozenset[str] = frozenset(),
) -> Rule:
    """The rule that a config's options make; SpecError for one that is out of range, named with its ``system``.

    ``window`` = 0 means a node's share of the bucket, c // n, but at least 1 (Table 4.3; A9).
    ``true_gaps``: w elements have w - 1 gaps; Listing 4.5 divides their span by w (A3).
    """
    choice(system, "births", births, BIRTHS)
    choice(system, "identity", identity, IDENTITIES)
    resolution_ns = span_ns(system, "resolution", resolution)
    if limit.token_ticks < limit.ticks_per_ns * resolution_ns:  # a birth could come again after its element's death
        what = f"{system}: rate = {float(limit.rate_rps):g}/s"
        raise SpecError(what, f"give at most one token in {resolution} (resolution)")
    for option, value in (("window", window), ("keep_last", keep_last)):
        if value < 0:
            raise SpecError(f"{system}: {option} = {value}", "give 0 or more elements")
    window = window or max(1, limit.capacity // max(1, node_count))
    gap_count = window - 1 if true_gaps else window
    if frequency and not gap_count:
        what = f"{system}: window = {window} with true_gaps: nobody would be urgent"
        raise SpecError(what, "give a window of 2 elements or more, or no true_gaps")
    urgent_ns = span_ns(system, "threshold", threshold) * gap_count
    extensions = frequency, window, urgent_ns, keep_last
    return Rule(
        limit, life_ticks, step_ticks, *extensions, resolution_ns, BIRTHS[births], identity, memory, unit, literal
    )
