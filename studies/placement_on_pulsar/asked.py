"""What a testbed is told and gives back when a control plane places the topics of a real Pulsar."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from collectors.metrics import Metric
from core.clients import ClientLoad, Joined, Role
from core.errors import SpecError
from core.limits import RoundCount
from core.records import Int64, Json, Sample
from core.units import duration_ns
from studies.api import check_least
from studies.placement.asked import Spell
from systems.api import System
from systems.parts.options import span_ns
from systems.placement.options import Options
from testbed.faults import Fault, read_faults
from testbed.topologies.places import EdgeSite, sites, with_clients
from testbed.topologies.topology import Topology
from testbed.trust.evidence import RunEvidence

NAME = "placement-on-pulsar"
METRICS_HERE = {  # beside those of ``collectors.metrics``, which are part of every run's id
    "delivery_gap_ns": Metric("ns", "the longest time without a delivery of a topic around its move", NAME),
    "landed_count": Metric("count", "of a move: 1 where the unit went as it was told to", NAME),
}


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    duration: str = "60s"
    access: str = "8ms"  # ours: client to its site, one way, as in study placement
    warm_up_rounds: RoundCount = 30  # ours: seconds that Serf's agents have before time 0
    warm_up_moves: RoundCount = 2  # ours: of each topic before time 0: a cold broker's first moves take seconds
    faults: tuple[Json, ...] = ()  # tables as testbed.faults.read_faults takes them

    def __post_init__(self) -> None:
        read_faults(self.faults)
        for name, least in (("duration", "1ns"), ("access", "0")):
            span_ns(f"study {NAME}", name, getattr(self, name), least)
        check_least(NAME, self, warm_up_rounds=0, warm_up_moves=0)


class ClientCrew(NamedTuple):
    """The clients of one role at one site: a process of Pulsar's own client, on the host of ``node``."""

    node: str
    proxy: str
    role: Role
    topics: tuple[str, ...]


@dataclass(frozen=True)
class PulsarRequest:
    """Let ``system`` place the topics of ``load`` on the sites of ``without_clients``; its clients stay where they are.

    SpecError for clients that one process a site and role cannot stand for.
    """

    system: System
    config: Options
    without_clients: Topology
    load: ClientLoad
    seed: int
    rule: Config

    @cached_property
    def duration_ns(self) -> int:
        """Length of the run."""
        return duration_ns(self.rule.duration)

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """What goes wrong."""
        return read_faults(self.rule.faults)

    @cached_property
    def topology(self) -> Topology:
        """With a host for the clients of each site that has any."""
        homes = {f"clients{site + 1}": site for site in sorted(set(self.load.homes.values()))}
        return with_clients(self.without_clients, homes, duration_ns(self.rule.access))

    @cached_property
    def places(self) -> list[EdgeSite]:
        """The sites."""
        return sites(self.without_clients)

    @cached_property
    def crews(self) -> list[ClientCrew]:
        """Who is where, consumers first: they miss nothing."""
        found: dict[tuple[Role, int], dict[str, None]] = {}
        producers: dict[str, None] = {}
        for one in self.load.happenings(self.duration_ns):
            if not isinstance(one, Joined) or one.at_ns > 0:
                raise SpecError(f"{one}: on Pulsar clients come at 0 and stay", "use a workload such as static-topics")
            topics = found.setdefault((one.role, self.load.homes[one.client]), {})
            if one.topic in topics or (one.role is Role.PRODUCER and one.topic in producers):
                what = f"several {one.role}s of {one.topic}"
                raise SpecError(what, "on Pulsar give a topic one producer, and one consumer a site")
            topics[one.topic] = None
            if one.role is Role.PRODUCER:
                producers[one.topic] = None
        if len({(topic.rate_rps, topic.size_bytes) for topic in self.load.topics}) > 1:
            raise SpecError("topics of several rates or sizes", "on Pulsar give all of them the same")
        if missing := [topic.name for topic in self.load.topics if topic.name not in producers]:
            raise SpecError(f"nobody sends to {missing[0]}", "on Pulsar give each topic a producer")
        return [
            ClientCrew(f"clients{site + 1}", self.places[site].proxy, role, tuple(topics))
            for (role, site), topics in sorted(
                found.items(), key=lambda pair: (pair[0][0] is Role.PRODUCER, pair[0][1])
            )
        ]


@dataclass(frozen=True)
class PulsarJournal:
    """What a run showed; latencies are of first deliveries, of all consumers, from when a message was due."""

    samples: Sequence[Sample]
    spells: Sequence[Spell]
    latency_ns: Int64
    evidence: RunEvidence
    faults: Sequence[tuple[int, Fault]] = ()
