"""The study of network coordinates: agents probe each other, and their estimates are kept beside the truth.

The table ``coordinates`` has each pair at each read, ``agents`` how far each agent's coordinate has moved.  Mobile
clients, if there are any, are paired with the brokers, else every agent with every other.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import isfinite

import numpy as np

from core.errors import SpecError
from core.limits import HAPPENINGS, ROWS, check_product
from core.records import Columns, Float64, Int64
from core.seeds import generator
from core.units import SECOND_NS
from studies.api import SECONDS_PER_NODE, Journal, Point, Study, expected_s
from studies.coordinates.asked import Located, TripTable, check_locating
from studies.coordinates.plan import Config, Plan, agents
from studies.spec import RunSpec
from systems.parts.coordinates import Coordinates, distances_s, raised
from testbed.faults import Handover
from testbed.topologies.places import sites, with_clients

SECONDS_PER_PROBE = 2e-6  # of an agent, and its share of what is kept


def asked(point: Point, config: Config) -> Plan:
    """The plan of a point; SpecError where the options do not fit the topology."""
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
    begins = {client: names[n] for client, n in homes.items()}
    plan = Plan(config, topology, point.spec.seed, begins, tuple(moves))
    check_locating(topology, plan.locating)
    for count in ({"pairs": plan.pair_count}, {"agents": len(plan.locating.nodes)}):
        check_product("study coordinates", ROWS, reads=len(plan.locating.reads), **count)
    return plan


def _handovers(config: Config, homes: Mapping[str, int], places: list[str], seed: int) -> Iterator[Handover]:
    """Of each client by itself: spans uniform around the mean, by half of it; the next site any of the others."""
    if not config.handover:
        return
    mean_ns, interval_ns = config.span_ns("handover"), config.span_ns("interval")
    each = max(0, config.rounds - config.still) * interval_ns // mean_ns
    check_product("study coordinates", HAPPENINGS, clients=config.clients, handovers=each)
    for client, home in homes.items():
        rng = generator(seed, "handovers", client)
        at_ns = config.still * interval_ns + int(mean_ns * rng.random())  # in the midst of a span
        while at_ns < config.rounds * interval_ns:
            home = (home + 1 + int(rng.integers(len(places) - 1))) % len(places)
            yield Handover(at_ns, client, places[home])
            at_ns += int(mean_ns * rng.uniform(0.5, 1.5))


def journal(point: Point, plan: Plan, located: Located) -> Journal:
    """The tables of a run: every read."""
    return Journal({"coordinates": pair_rows(plan, located), "agents": shift_rows(located)}, evidence=located.evidence)


def pair_rows(plan: Plan, located: Located) -> Columns:
    """Columns of ``coordinates``, read by read: estimates and truths; null where an agent was lost."""
    nodes = [*plan.homes, *agents(plan.topology)]
    here, there = np.triu_indices(len(nodes), 1)
    if plan.homes:
        brokers = [nodes.index(name) for name in plan.brokers]
        here, there = (ends.ravel() for ends in np.meshgrid(np.arange(len(plan.homes)), brokers, indexing="ij"))
    rows: dict[str, list[int | float | str | None]] = {
        name: [] for name in ("at_ns", "a", "b", "estimated_rtt_ns", "true_rtt_ns")
    }
    for at_ns, estimated_ns, true_ns in _reads(plan, located, nodes):
        rows["at_ns"] += [at_ns] * len(here)
        rows["a"] += [nodes[i] for i in here]
        rows["b"] += [nodes[j] for j in there]
        rounded = np.rint(estimated_ns[here, there]).tolist()
        rows["estimated_rtt_ns"] += [value if isfinite(value) else None for value in rounded]
        rows["true_rtt_ns"] += true_ns[here, there].tolist()
    return rows


def shift_rows(located: Located) -> Columns:
    """Columns of ``agents``: how far each coordinate is from where it was at the read before; without lost agents."""
    rows: dict[str, list[int | str]] = {"at_ns": [], "agent": [], "shift_ns": []}
    for at_ns, (before, now) in zip(located.at_ns[1:], pairwise(located.coordinates), strict=True):
        shift_s = np.linalg.norm(now.vec - before.vec, axis=1) + np.abs(now.height - before.height)
        known = np.flatnonzero(np.isfinite(shift_s))
        rows["at_ns"] += [at_ns] * len(known)
        rows["agent"] += [located.nodes[i] for i in known]
        rows["shift_ns"] += np.rint(shift_s[known] * SECOND_NS).astype(np.int64).tolist()
    return rows


def _reads(plan: Plan, located: Located, nodes: list[str]) -> Iterator[tuple[int, Float64, Int64]]:
    """Of each read the instant, and the round trips between all ``nodes``, estimated and true: (n, n)."""
    table = TripTable(plan.topology, nodes, plan.handovers)
    for at_ns, coordinates in zip(located.at_ns, located.coordinates, strict=True):
        truth_ns = table.before(at_ns).rtt_ns
        where = _coordinates_of(plan, nodes, coordinates, table.attached)
        yield at_ns, distances_s(where, where) * SECOND_NS, truth_ns


def _coordinates_of(plan: Plan, nodes: list[str], coordinates: Coordinates, attached: Mapping[str, str]) -> Coordinates:
    """A row for each of ``nodes``: clients behind a proxy have its coordinate, and their round trip to it on top."""
    rows, above_s = [], np.zeros(len(nodes))
    row_of = {node: row for row, node in enumerate(plan.locating.nodes)}
    for n, node in enumerate(nodes):
        if node not in row_of:
            proxy, rtt_ns = plan.behind[attached.get(node, plan.homes[node])]
            node, above_s[n] = proxy, rtt_ns / SECOND_NS
        rows.append(row_of[node])
    return raised(Coordinates(*(part[rows] for part in coordinates)), above_s)


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Live its rounds and its agents' processes, else its probes."""
    rounds = float(spec.study_options.get("rounds") or Config.rounds)
    options = {"nodes": 10, **spec.topology_options}
    nodes = float(options.get("fanout") or options["nodes"]) + float(spec.study_options.get("clients", 0))
    if real_time:
        return rounds * expected_s(spec, Config, "interval") + nodes * SECONDS_PER_NODE
    return rounds * nodes * SECONDS_PER_PROBE


STUDY = Study(
    "coordinates",
    "coordinate agents that estimate round trips",
    Config,
    asked,
    journal,
    expected_seconds,
    virtual="studies.coordinates.virtual",
    live="studies.coordinates.live",
)
