"""The plan of a study of coordinates: its options, and what they come down to on a topology."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import comb

from core.limits import ClientCount, RoundCount
from studies.api import check_least
from studies.coordinates.asked import Locating
from systems.parts.options import span_ns
from systems.placement.cast import AGENT
from testbed.faults import Handover
from testbed.topologies.places import sites
from testbed.topologies.topology import Topology


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    rounds: RoundCount = 600  # probes a node: ten minutes of Serf's profile lan, as in ePulsar 5.3
    interval: str = "1s"  # between two probes of a node
    reads: tuple[int, ...] = ()  # rounds after which estimates are kept, besides the last
    every: int = 0  # and besides those, every so many rounds …
    first: int = 0  # … from this one on
    clients: ClientCount = 0  # ours: mobile hosts, spread over the sites in turn
    access: str = "8ms"  # ours: one way, client to site
    handover: str = ""  # ours: mean time between two handovers of a client; empty: none
    still: RoundCount = 0  # ours: rounds before handovers begin
    proxied: bool = False  # clients run no agent, but stand behind their site's proxy (ePulsar, Section 4)

    def __post_init__(self) -> None:
        check_least("coordinates", self, rounds=1, every=0, first=0, clients=0, still=0)
        for option in ("interval", "access", "handover"):
            if getattr(self, option) or option != "handover":
                self.span_ns(option)

    def span_ns(self, option: str) -> int:
        """A span among the options, in nanoseconds."""
        return span_ns("study coordinates", option, getattr(self, option))


@dataclass(frozen=True)
class Plan:
    """What is done at a point: the agents' topology with its clients, who hands over when, who is paired."""

    config: Config
    topology: Topology
    seed: int
    homes: Mapping[str, str]  # client -> the site, a switch, where it begins
    handovers: tuple[Handover, ...]

    @cached_property
    def locating(self) -> Locating:
        """What the testbed is asked for."""
        config = self.config
        mobile = () if config.proxied else tuple(self.homes)
        every = range(config.first, config.rounds + 1, config.every) if config.every else ()
        reads = tuple(sorted({*config.reads, *every, config.rounds}))
        return Locating(
            (*agents(self.topology), *mobile), config.rounds, reads, config.span_ns("interval"),
            self.handovers if mobile else (),
        )  # fmt: skip

    @cached_property
    def brokers(self) -> list[str]:
        """The brokers' agents, with which clients are paired."""
        return [name for name in self.topology.node_names("broker") if name.endswith(AGENT)]

    @property
    def pair_count(self) -> int:
        """Pairs of which each read has a row."""
        return len(self.homes) * len(self.brokers) if self.homes else comb(len(self.locating.nodes), 2)

    @cached_property
    def behind(self) -> dict[str, tuple[str, int]]:
        """Of each site the proxy, and a client's round trip to it."""
        access_ns = self.config.span_ns("access")
        return {
            site.name: (site.proxy, 2 * (access_ns + self.topology.path(site.name, site.proxy).one_way_delay_ns))
            for site in sites(self.topology)
        }


def agents(topology: Topology) -> list[str]:
    """The nodes with a coordinate agent: on a topology with sites those of hosts and gateways, else all."""
    proxies = topology.node_names("proxy")
    nodes = [name for name in topology.node_names() if name.endswith(AGENT)] + proxies
    return nodes if proxies else topology.node_names()
