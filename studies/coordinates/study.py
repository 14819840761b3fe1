"""The study of network coordinates: agents probe each other, and their estimates are kept beside the truth.

The table ``coordinates`` has each pair at each read, ``agents`` how far each agent's coordinate has moved.  Mobile
clients, if there are any, are paired with the brokers, else every agent with every other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from core.errors import SpecError
from core.records import Int64
from core.registry import configure
from core.seeds import generator
from core.units import SECOND_NS, duration_ns
from studies.api import Journal, Point, Study
from studies.coordinates.asked import Located, Locating, TripTable
from studies.coordinates.tables import PairRead, pair_rows, shift_rows
from systems.parts.coordinates import Coordinates, distances_s, raised
from systems.placement.cast import AGENT
from testbed.faults import Handover
from testbed.topologies.places import sites, with_clients
from testbed.topologies.topology import Topology


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    rounds: int = 600  # probes a node: ten minutes of Serf's profile lan, as in ePulsar 5.3
    interval: str = "1s"  # between two probes of a node
    reads: tuple[int, ...] = ()  # rounds after which estimates are kept, besides the last
    every: int = 0  # and besides those, every so many rounds …
    first: int = 0  # … from this one on
    clients: int = 0  # ours: mobile hosts, spread over the sites in turn
    access: str = "8ms"  # ours: one way, client to site
    handover: str = ""  # ours: mean time between two handovers of a client; empty: none
    still: int = 0  # ours: rounds before handovers begin
    proxied: bool = False  # clients run no agent, but stand behind their site's proxy (ePulsar, Section 4)

    def __post_init__(self) -> None:
        """SpecError for numbers and spans that make no sense."""
        if min(self.rounds - 1, self.every, self.first, self.clients, self.still) < 0:
            raise SpecError(f"study coordinates: {self}", "give counts from 0 on, and at least 1 round")
        for option in ("interval", "access", "handover"):
            text = getattr(self, option)
            if (text or option != "handover") and self.span_ns(option) <= 0:
                raise SpecError(f"study coordinates: {option} = {text!r}", "give a length above zero")

    def span_ns(self, option: str) -> int:
        """A duration among the options, in nanoseconds."""
        try:
            return duration_ns(getattr(self, option))
        except ValueError as error:
            raise SpecError(f"study coordinates: {option}: {error}", "") from None


@dataclass(frozen=True)
class Plan:
    """What is done at a point: the agents' topology with its clients, who hands over when, who is paired."""

    config: Config
    topology: Topology
    clients: tuple[str, ...]
    homes: Mapping[str, str]  # client -> the site, a switch, where it begins
    handovers: tuple[Handover, ...]

    @cached_property
    def locating(self) -> Locating:
        """What the testbed is asked for."""
        config = self.config
        mobile = () if config.proxied else self.clients
        every = range(config.first, config.rounds + 1, config.every) if config.every else ()
        reads = tuple(sorted({*config.reads, *every, config.rounds}))
        return Locating(
            (*agents(self.topology), *mobile), config.rounds, reads, config.span_ns("interval"),
            self.handovers if mobile else (),
        )  # fmt: skip

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


def configured(point: Point) -> Plan:
    """The plan of a point; SpecError where the options do not fit the topology."""
    config: Config = configure("study coordinates", Config, point.spec.study_options)
    places = sites(point.topology) if config.clients else []
    if config.clients and not (places and point.topology.node_names("broker")):
        raise SpecError(f"topology {point.topology.name} has no sites with brokers for clients", "use city-mec")
    if config.handover and len(places) < 2:
        raise SpecError(
            f"topology {point.topology.name}: clients cannot hand over", "give clients, and 2 sites or more"
        )
    homes = {f"client{n + 1}": n % len(places) for n in range(config.clients)}
    topology = with_clients(point.topology, homes, config.span_ns("access")) if homes else point.topology
    names = [site.name for site in places]
    moves = sorted(_handovers(config, homes, names, point.spec.seed), key=lambda move: move.at_ns)
    plan = Plan(config, topology, tuple(homes), {client: names[n] for client, n in homes.items()}, tuple(moves))
    point.backend.check_locate(topology, plan.locating)
    return plan


def _handovers(config: Config, homes: Mapping[str, int], places: list[str], seed: int) -> Iterator[Handover]:
    """Of each client by itself: spans uniform around the mean, by half of it; the next site any of the others."""
    if not config.handover:
        return
    mean_ns, interval_ns = config.span_ns("handover"), config.span_ns("interval")
    for client, home in homes.items():
        rng = generator(seed, "handovers", client)
        at_ns = config.still * interval_ns + int(mean_ns * rng.random())  # in the midst of a span
        while at_ns < config.rounds * interval_ns:
            home = (home + 1 + int(rng.integers(len(places) - 1))) % len(places)
            yield Handover(at_ns, client, places[home])
            at_ns += int(mean_ns * rng.uniform(0.5, 1.5))


def run(point: Point, plan: Plan) -> Journal:
    """Let the agents probe, and keep every read."""
    found = point.backend.locate(plan.topology, point.spec.seed, plan.locating)
    pairs, reads = _pairs(plan, found)
    tables: dict[str, dict[str, Any]] = {"coordinates": pair_rows(pairs, reads), "agents": shift_rows(found)}
    return Journal(tables, "done", evidence=found.evidence)


def _pairs(plan: Plan, found: Located) -> tuple[list[tuple[str, str]], Iterator[PairRead]]:
    """The pairs, and the estimate and truth of each at every read."""
    nodes = [*plan.clients, *agents(plan.topology)]
    here, there = np.triu_indices(len(nodes), 1)
    if plan.clients:
        brokers = [nodes.index(name) for name in plan.topology.node_names("broker") if name.endswith(AGENT)]
        here, there = (ends.ravel() for ends in np.meshgrid(np.arange(len(plan.clients)), brokers, indexing="ij"))
    return [(nodes[i], nodes[j]) for i, j in zip(here, there, strict=True)], _reads(plan, found, nodes, here, there)


def _reads(plan: Plan, found: Located, nodes: list[str], here: Int64, there: Int64) -> Iterator[PairRead]:
    """Of the pairs of ``nodes`` by number; ``here`` and ``there``: int64 (pairs,)."""
    moves = list(plan.handovers)
    attached: dict[str, str] = {}
    table = TripTable(plan.topology, nodes)
    truth_ns = table.trips(attached).rtt_ns
    for at_ns, coordinates in zip(found.at_ns, found.coordinates, strict=True):
        due = [move for move in moves if move.at_ns < at_ns]
        if due:
            moves = moves[len(due) :]
            attached |= {move.host: move.point for move in due}
            truth_ns = table.trips(attached).rtt_ns
        where = _coordinates_of(plan, nodes, coordinates, attached)
        yield PairRead(at_ns, distances_s(where, where)[here, there] * SECOND_NS, truth_ns[here, there])


def _coordinates_of(plan: Plan, nodes: list[str], found: Coordinates, attached: Mapping[str, str]) -> Coordinates:
    """A row for each of ``nodes``: clients behind a proxy have its coordinate, and their round trip to it on top."""
    rows, above_s = [], np.zeros(len(nodes))
    row_of = {node: row for row, node in enumerate(plan.locating.nodes)}
    for n, node in enumerate(nodes):
        if node not in row_of:
            proxy, rtt_ns = plan.behind[attached.get(node, plan.homes[node])]
            node, above_s[n] = proxy, rtt_ns / SECOND_NS
        rows.append(row_of[node])
    return raised(Coordinates(*(part[rows] for part in found)), above_s)


STUDY = Study(configured, run)
