"""Runs a control plane that places topics, with its clients, in virtual time."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from core.clients import ClientLoad, Happening, Moved
from core.errors import SpecError
from core.records import Int64
from core.seeds import generator
from core.units import SECOND_NS
from studies.api import VirtualBody
from studies.coordinates.asked import trips
from studies.placement.asked import PlacementJournal, PlacementRequest, Placing, Recorded, Spell, wanted_report
from systems.api import Delivery, Node, Report, Send, System
from systems.parts.bookies import persisted_after_ns
from systems.parts.vivaldi import Vivaldi
from systems.placement.agent import AgentNode
from systems.placement.cast import cast_of
from testbed.faults import Fault, Handover, Heal, Partition
from testbed.nodes.journal import NodeJournal
from testbed.nodes.member import node_seed
from testbed.topologies.places import EdgeSite, sites, with_clients
from testbed.topologies.topology import Topology
from testbed.virtual.network import Network
from testbed.virtual.scheduler import EventLoop
from testbed.virtual.topic_kernel import Persist, Roads, fates
from testbed.virtual.topic_plane import VirtualTopicPlane

REPORT_NS = SECOND_NS  # the data plane tells brokers their rates


def run_placement(
    system: System, config: Any, topology: Topology, load: ClientLoad, placing: Placing
) -> PlacementJournal:
    """Deploy ``system`` with the clients of ``load`` on the sites of ``topology``, and let ``placing`` happen.

    SpecError where the workload is for more sites than there are, or brokers are to wait until topics are drained.
    """
    if config.drain:
        raise SpecError("modelled brokers deliver at once what they have accepted", "leave drain out")
    places = sites(topology)
    if load.site_count > len(places):
        raise SpecError(
            f"clients at {load.site_count} sites, but topology {topology.name} has {len(places)}", "give more"
        )
    whole = with_clients(topology, load.homes, placing.access_ns)
    happenings = load.happenings(placing.duration_ns)
    brokers = whole.node_names("broker")
    plane = VirtualTopicPlane(load, brokers, happenings)
    loop = EventLoop(
        _boot(system, config, whole, placing),
        Network(whole, placing.seed, system.transport),
        system.messages,
        plane,
        keep_steps=placing.record,
    )
    _tell(loop, places, load, happenings)
    loop.fail([*_handovers(places, happenings), *placing.faults])
    loop.report_every(REPORT_NS)
    journal = loop.run(placing.duration_ns)
    roads = _roads(whole, places, brokers, placing)
    spells = [
        Spell(name, span.broker, span.start_ns, min(span.end_ns, placing.duration_ns))
        for name, topic in plane.topics.items()
        for span in topic.open
    ]
    found = fates(
        plane, roads, placing.duration_ns, placing.out_rps, placing.seed, _persist(whole, places, brokers, placing)
    )
    messages = _messages(journal) if placing.record else []
    return PlacementJournal(journal.samples, spells, happenings, found, journal.faults, messages)


def _boot(system: System, config: Any, topology: Topology, placing: Placing) -> Any:
    """Makes all nodes; at the start, and not after a crash, agents are where the warm-up left them (5.5.1: 10 min)."""
    assert system.nodes is not None
    names, make = topology.node_names(), system.nodes

    def boot(restart: int) -> Mapping[str, Node]:
        nodes = make(names, config, node_seed(placing.seed, restart))
        if restart == 0:
            for name, vivaldi in warmed_agents(topology, placing).items():
                agent = nodes[name]
                assert isinstance(agent, AgentNode)
                agent.vivaldi = vivaldi
        return nodes

    return boot


def warmed_agents(topology: Topology, placing: Placing) -> dict[str, Vivaldi]:
    """Each coordinate agent after ``placing.warm_up_rounds`` probes, by name."""
    from systems.parts.vivaldi_kernel import begin, run_rounds, warmed

    names = cast_of(topology.node_names()).agents
    rng = generator(placing.seed, "warm-up")
    state = begin(len(names), rng)
    run_rounds(state, trips(topology, names).rtt_ns / SECOND_NS, placing.warm_up_rounds, rng)
    return {name: warmed(state, i, generator(placing.seed, "vivaldi", name), names) for i, name in enumerate(names)}


def _tell(loop: EventLoop, places: Sequence[EdgeSite], load: ClientLoad, happenings: Iterable[Happening]) -> None:
    """Clients learn where they are, and what they want, at the instants at which it happens."""
    for client, home in load.homes.items():
        loop.inject(client, 0, Report(wanted_report(Moved(0, client, home), places)))
    for happening in happenings:
        loop.inject(happening.client, happening.at_ns, Report(wanted_report(happening, places)))


def _handovers(places: Sequence[EdgeSite], happenings: Iterable[Happening]) -> list[Fault]:
    moves = (happening for happening in happenings if isinstance(happening, Moved))
    return [Handover(move.at_ns, move.client, places[move.site].name) for move in moves]


def _roads(topology: Topology, places: Sequence[EdgeSite], brokers: Sequence[str], placing: Placing) -> Roads:
    delays = [[topology.path(place.name, broker).one_way_delay_ns for broker in brokers] for place in places]
    cuts = {}
    for s, place in enumerate(places):
        for b, broker in enumerate(brokers):
            if spans := _cut_spans(topology, place.name, broker, placing):
                cuts[s, b] = spans
    return Roads(tuple(brokers), placing.access_ns, np.array(delays, np.int64), cuts)


def _cut_spans(topology: Topology, site: str, broker: str, placing: Placing) -> tuple[tuple[int, int], ...]:
    """When partitions lie between a site and a broker; a site is where its proxy is."""
    found, since_ns = [], {}
    proxy = next(place.proxy for place in sites(topology) if place.name == site)
    for fault in sorted(placing.faults, key=lambda fault: fault.at_ns):
        match fault:
            case Partition(at_ns, side):
                hosts = {topology.host_of(name) for name in side}
                if (topology.host_of(proxy) in hosts) != (topology.host_of(broker) in hosts):
                    since_ns[side] = at_ns
            case Heal(at_ns, side):
                ended = [one for one in since_ns if one == side or not side]
                found += [(since_ns.pop(one), at_ns) for one in ended]
    return tuple([*found, *((at_ns, placing.duration_ns) for at_ns in since_ns.values())])


def _persist(
    topology: Topology, places: Sequence[EdgeSite], brokers: Sequence[str], placing: Placing
) -> Persist | None:
    """The waits of messages for their bookies, a stream of draws a topic and broker."""
    bookies = placing.bookies
    if bookies is None:
        return None

    def persist(topic: str, broker: int, count: int) -> Int64:
        rng = generator(placing.seed, "bookies", topic, brokers[broker])
        trips_ns = np.full(bookies.count, bookies.rack_rtt_ns)
        if not bookies.same_site:
            chosen = rng.permutation(len(places))[np.arange(bookies.count) % len(places)]
            paths = [topology.path(places[site].name, brokers[broker]) for site in chosen]
            trips_ns += np.array([2 * path.one_way_delay_ns for path in paths])
        return persisted_after_ns(trips_ns, bookies.quorum, bookies.write_mean_ns, count, rng)

    return persist


def _messages(journal: NodeJournal) -> list[Recorded]:
    """What nodes sent and got."""
    found = []
    for step in journal.steps:
        if isinstance(step.event, Delivery):
            found.append(Recorded(step.at_ns, step.node, "got", step.event.source, step.event.message))
        sends = (effect for effect in step.effects if isinstance(effect, Send))
        found += [Recorded(step.at_ns, step.node, "sent", effect.target, effect.message) for effect in sends]
    return found


def run(asked: PlacementRequest) -> PlacementJournal:
    """See ``run_placement``."""
    return run_placement(asked.system, asked.config, asked.without_clients, asked.load, asked.placing)


BODY = VirtualBody(run)
