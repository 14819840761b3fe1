"""What a testbed is told and gives back when a control plane places topics: the same on all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from core.clients import Happening, Joined, Moved
from systems.api import Message
from systems.placement.messages import AtSite, Wanted
from testbed.faults import Fault
from testbed.topologies.places import Site
from testbed.trust.evidence import NOTHING, Evidence

if TYPE_CHECKING:
    from testbed.virtual.topic_kernel import Fate


@dataclass(frozen=True)
class Bookies:
    """Where a broker's messages are persisted before they go on (``systems.parts.bookies``)."""

    count: int  # the ensemble
    quorum: int  # acknowledgements that a message waits for
    same_site: bool  # in racks of the broker's own site (ePulsar, 3.5); else on sites drawn at random
    rack_rtt_ns: int
    write_mean_ns: int


@dataclass(frozen=True)
class Placing:
    """One run.  ``out_rps``: messages a second that a broker can send out; ``record``: keep every message."""

    duration_ns: int
    access_ns: int  # client to site, one way
    seed: int
    warm_up_rounds: int = 600
    out_rps: float = 1_500_000.0
    faults: tuple[Fault, ...] = ()
    record: bool = False
    bookies: Bookies | None = None  # None: topics are not persistent


class Spell(NamedTuple):
    """A topic was accepted by a broker."""

    topic: str
    broker: str
    start_ns: int
    end_ns: int


class Recorded(NamedTuple):
    """A message of the control plane was sent, or got."""

    at_ns: int
    node: str
    way: str  # sent or got
    peer: str
    message: Message


@dataclass(frozen=True)
class PlacementJournal:
    """What a run showed: samples (at_ns, node, metric, value), ownership, clients, the fate of messages by topic."""

    samples: list[tuple[int, str, str, float]]
    spells: list[Spell]
    happenings: list[Happening]
    fates: "dict[str, Fate]"
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    messages: list[Recorded] = field(default_factory=list)
    evidence: Evidence = NOTHING


def wanted_report(happening: Happening, places: Sequence[Site]) -> AtSite | Wanted:
    """How a client's node is told what it does."""
    if isinstance(happening, Moved):
        return AtSite(places[happening.site].proxy)
    return Wanted(happening.topic, happening.role, isinstance(happening, Joined))
