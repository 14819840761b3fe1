"""What a testbed is told and gives back when a control plane places topics: the same on all of them."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from collectors.rows import Sample
from core.clients import ClientLoad, Happening, Moved
from core.units import SECOND_NS
from systems.api import Message, System
from systems.placement.options import Options
from testbed.faults import Fault, Handover
from testbed.topologies.places import EdgeSite, sites, with_clients
from testbed.topologies.topology import Topology
from testbed.trust.accounts import Fate
from testbed.trust.evidence import NOTHING, Evidence


@dataclass(frozen=True)
class Bookies:
    """Where a broker's messages are persisted before they go on (``systems.parts.bookies``)."""

    count: int  # the ensemble
    quorum: int  # acknowledgements that a message waits for
    same_site: bool  # in racks of the broker's own site (ePulsar, 3.5); else on sites drawn at random
    rack_rtt_ns: int
    write_mean_ns: int


@dataclass(frozen=True)
class PlacementRequest:
    """Let ``system`` place the topics of ``load`` on the sites of ``without_clients``; clients come, go and move."""

    system: System
    config: Options
    without_clients: Topology
    load: ClientLoad
    duration_ns: int
    access_ns: int  # client to site, one way
    seed: int
    warm_up_rounds: int = 600
    out_rps: float = 1_500_000.0  # messages a second that a broker can send out
    faults: tuple[Fault, ...] = ()
    record: bool = False  # keep every message of the control plane
    bookies: Bookies | None = None  # None: topics are not persistent
    window_ns: int = SECOND_NS  # of what is told of topics

    @cached_property
    def topology(self) -> Topology:
        """With the clients' hosts."""
        return with_clients(self.without_clients, self.load.homes, self.access_ns)

    @cached_property
    def places(self) -> list[EdgeSite]:
        """The sites."""
        return sites(self.without_clients)

    @cached_property
    def happenings(self) -> list[Happening]:
        """What clients do, in order."""
        return self.load.happenings(self.duration_ns)

    def handovers(self) -> list[Handover]:
        """Of clients, to the switch of another site."""
        moves = (happening for happening in self.happenings if isinstance(happening, Moved))
        return [Handover(move.at_ns, move.client, self.places[move.site].name) for move in moves]


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
    """What a run showed: samples, ownership, the fate of messages by topic."""

    samples: list[Sample]
    spells: list[Spell]
    fates: dict[str, Fate]
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    messages: list[Recorded] = field(default_factory=list)
    evidence: Evidence = NOTHING
