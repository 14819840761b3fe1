"""What a testbed is told and gives back when a control plane places topics: the same on all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from core.clients import ClientLoad, Happening, Joined, Moved
from core.units import SECOND_NS
from systems.api import Message, System
from systems.placement.messages import AtSite, Wanted
from systems.placement.options import Options
from testbed.faults import Fault
from testbed.topologies.places import EdgeSite, with_clients
from testbed.topologies.topology import Topology
from testbed.trust.accounts import Fate
from testbed.trust.evidence import NOTHING, RunEvidence


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
    window_ns: int = SECOND_NS  # of what is told of topics


@dataclass(frozen=True)
class PlacementRequest:
    """Let ``system`` place the topics of ``load`` on the sites of ``without_clients``; clients come, go and move."""

    system: System
    config: Options
    without_clients: Topology
    load: ClientLoad
    placing: Placing

    @cached_property
    def topology(self) -> Topology:
        """With the clients' hosts."""
        return with_clients(self.without_clients, self.load.homes, self.placing.access_ns)

    @property
    def seed(self) -> int:
        """See ``studies.api.Asked``."""
        return self.placing.seed


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
    fates: dict[str, Fate]
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    messages: list[Recorded] = field(default_factory=list)
    evidence: RunEvidence = NOTHING


def wanted_report(happening: Happening, places: Sequence[EdgeSite]) -> AtSite | Wanted:
    """How a client's node is told what it does."""
    if isinstance(happening, Moved):
        return AtSite(places[happening.site].proxy)
    return Wanted(happening.topic, happening.role, isinstance(happening, Joined))
