"""What a testbed is told and gives back when a control plane places topics: the same on all of them."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from core.clients import ClientLoad, Happening, Moved
from core.errors import SpecError
from core.limits import Factor, HostCount, MachineBytes, RoundCount, Rps
from core.records import Json, Sample
from core.units import duration_ns
from studies.api import check_least
from systems.api import Message, System
from systems.parts.options import choice, span_ns
from systems.placement.options import Options
from testbed.brokers.machine import BrokerMachine
from testbed.faults import Fault, Handover, read_faults
from testbed.topologies.places import EdgeSite, sites, with_clients
from testbed.topologies.topology import Topology
from testbed.trust.accounts import Fate
from testbed.trust.evidence import NOTHING, RunEvidence

BROKER = BrokerMachine()


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    duration: str = "60s"
    access: str = "8ms"  # ours: client to its site, one way; ePulsar does not say (LTE)
    warm_up_rounds: RoundCount = 600  # ePulsar 5.5.1: coordinates settle for 10 minutes, a probe a second
    out_rps: Rps = 1_500_000.0  # ePulsar 5.4: the knee of their broker, in messages sent out
    cores: Factor = BROKER.cores  # of a broker's machine, as the next three (3.4.2; 5.4): live
    memory_bytes: MachineBytes = BROKER.memory_bytes
    network_bytes: MachineBytes = BROKER.network_bytes  # ours: a second, each way
    topic_bytes: MachineBytes = BROKER.topic_bytes  # ours: of the memory, modelled
    window: str = "1s"  # of topics' counts and latencies
    faults: tuple[Json, ...] = ()  # tables as testbed.faults.read_faults takes them
    bookies: HostCount = 0  # nodes that a message is written to before it goes on (3.5); 0: topics are not persistent
    write_quorum: int = 2  # acknowledgements that it waits for
    bookie_site: str = "same"  # ePulsar 3.5: the broker's own site, racks apart; "any": drawn over all sites
    rack_rtt: str = "200us"  # ours: between racks of a site
    bookie_write: str = "1ms"  # ours: mean of a synced write, exponential
    record: bool = False  # keep every message of the control plane

    def __post_init__(self) -> None:
        read_faults(self.faults)
        for name, least in (
            ("duration", "1ns"),
            ("access", "0"),
            ("window", "1ns"),
            ("rack_rtt", "0"),
            ("bookie_write", "0"),
        ):
            span_ns("study placement", name, getattr(self, name), least)
        if self.bookies and not 1 <= self.write_quorum <= self.bookies:
            what = f"study placement: write_quorum = {self.write_quorum} of bookies = {self.bookies}"
            raise SpecError(what, "give at least 1, and at most as many as there are bookies")
        choice("study placement", "bookie_site", self.bookie_site, ("same", "any"))
        check_least("placement", self, warm_up_rounds=0)
        for name in ("out_rps", *BrokerMachine.__struct_fields__):
            if not getattr(self, name) > 0:
                raise SpecError(f"study placement: {name} = {getattr(self, name)}", "give a value above 0")


class _Rule(Protocol):
    @property
    def duration(self) -> str: ...

    @property
    def access(self) -> str: ...

    @property
    def window(self) -> str: ...


@dataclass(frozen=True)
class TopicsRequest:
    """Let ``system`` place the topics of ``load`` on the sites of ``without_clients``; clients come, go and move."""

    system: System
    config: Options
    without_clients: Topology
    load: ClientLoad
    seed: int
    rule: _Rule

    @cached_property
    def duration_ns(self) -> int:
        """Length of the run."""
        return duration_ns(self.rule.duration)

    @cached_property
    def access_ns(self) -> int:
        """Client to site, one way."""
        return duration_ns(self.rule.access)

    @cached_property
    def homes(self) -> dict[str, int]:
        """Clients' host -> the site where it begins: a host each."""
        return self.load.homes

    @cached_property
    def topology(self) -> Topology:
        """With the clients' hosts."""
        return with_clients(self.without_clients, self.homes, self.access_ns)

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


@dataclass(frozen=True)
class PlacementRequest(TopicsRequest):
    """On brokers of our own."""

    rule: Config
    faults: tuple[Fault, ...]  # those of ``rule``, read

    @cached_property
    def machine(self) -> BrokerMachine:
        """What each broker has."""
        return BrokerMachine(*(getattr(self.rule, name) for name in BrokerMachine.__struct_fields__))


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
    evidence: RunEvidence = NOTHING
