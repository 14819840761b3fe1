"""Runs a control plane that places topics, with its clients, in virtual time."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np

from core.clients import Moved
from core.errors import SpecError
from core.records import Int64
from core.seeds import generator
from core.units import NEVER_NS, SECOND_NS, duration_ns
from studies.coordinates.asked import trips
from studies.placement.asked import PlacementJournal, PlacementRequest, Recorded, Spell
from studies.placement.script import deeds_of
from systems.api import Delivery, Node, Report, Send, System
from systems.parts.bookies import persisted_after_ns
from systems.parts.vivaldi import Vivaldi
from systems.placement.agent import AgentNode
from systems.placement.cast import cast_of
from systems.placement.options import Options
from testbed.api import Testbed
from testbed.faults import Crash, Handover, Heal, LinkDelay, Partition, Restart
from testbed.nodes.journal import NodeJournal
from testbed.nodes.member import node_seed
from testbed.topologies.places import EdgeSite
from testbed.topologies.topology import Topology
from testbed.virtual.network import Network
from testbed.virtual.scheduler import EventLoop
from testbed.virtual.topic_kernel import Persist, Roads, fates
from testbed.virtual.topic_plane import VirtualTopicPlane

REPORT_NS = SECOND_NS  # the data plane tells brokers their rates


def check(testbed: Testbed, asked: PlacementRequest) -> None:
    """SpecError where brokers are to wait until topics are drained, or a fault is not one of messages as well.

    Those go with a site: clients are on its side of a partition, and links take as long as the topology says.  What
    links lose is sent again, which takes the control plane longer, and clients, as modelled, not.  Clients are as the
    workload says: it tells them once what they want, and moves their messages with them.
    """
    if asked.config.drain:
        raise SpecError("modelled brokers deliver at once what they have accepted", "leave drain out")
    for fault in asked.faults:
        if isinstance(fault, Crash | Restart) and fault.node in asked.homes:
            raise SpecError(f"{fault}: clients are not crashed here", "crash a broker, a manager or the store")
        if isinstance(fault, Handover) and fault.host in asked.homes:
            raise SpecError(f"{fault}: its messages would not move", "give a workload whose clients move")
        if isinstance(fault, Partition) and (client := _apart(asked, fault)):
            what = f"partition of {', '.join(fault.side)[:100]}: {client} is on another side than its site's proxy"
            raise SpecError(what, "name a site's proxy and its clients together: messages take the site's way")
        if isinstance(fault, LinkDelay) and fault.hold_ns:
            raise SpecError(f"{fault}: modelled messages take as long as the topology says", "use --testbed mininet")


def _apart(asked: PlacementRequest, fault: Partition) -> str:
    """A client that a partition parts from a site at which it is at times, or ""."""
    host_of = asked.topology.host_of
    sites = {client: {home} for client, home in asked.load.homes.items()}
    for happening in asked.happenings:
        if isinstance(happening, Moved):
            sites[happening.client].add(happening.site)
    hosts = set(map(host_of, fault.side))
    cut_off = {number for number, place in enumerate(asked.places) if host_of(place.proxy) in hosts}
    apart = (
        client for client, its in sites.items() if its & cut_off and (its - cut_off or host_of(client) not in hosts)
    )
    beside = (client for client, its in sites.items() if not its & cut_off and host_of(client) in hosts)
    return next(chain(apart, beside), "")


def run(asked: PlacementRequest) -> PlacementJournal:
    """Deploy the system with the clients, and let happen what is to happen."""
    topology, until_ns = asked.topology, asked.duration_ns
    brokers = cast_of(topology.node_names()).brokers
    plane = VirtualTopicPlane(asked.load, brokers, asked.happenings, asked.machine, asked.rule.out_rps)
    network = Network(topology, asked.seed, asked.system.transport)
    boot = booted(asked.system, topology, asked.config, asked.seed, asked.rule.warm_up_rounds)
    loop = EventLoop(boot, network, asked.system.messages, plane, keep_steps=asked.rule.record)
    for client, deed in deeds_of(asked):
        loop.inject(client, deed.at_ns, Report(deed.report()))
    loop.fail([*asked.handovers(), *asked.faults])
    loop.report_every(REPORT_NS)
    journal = loop.run(until_ns)
    spells = [
        Spell(name, span.broker, span.start_ns, min(span.end_ns, until_ns))
        for name, topic in plane.topics.items()
        for span in topic.open
    ]
    of_messages = fates(
        plane, _roads(asked, brokers), until_ns, asked.rule.out_rps, asked.seed, _persist(asked, brokers)
    )
    return PlacementJournal(journal.samples, spells, of_messages, journal.faults, _messages(journal))


def booted(
    system: System, topology: Topology, config: Options, seed: int, warm_up_rounds: int
) -> Callable[[int], Mapping[str, Node]]:
    """Makes all nodes; at the start, and not after a crash, agents are where the warm-up left them (5.5.1: 10 min)."""
    names, make = topology.node_names(), system.nodes
    assert make is not None

    def boot(restart: int) -> Mapping[str, Node]:
        nodes = make(names, config, node_seed(seed, restart))
        if restart == 0:
            for name, vivaldi in _warmed_agents(topology, seed, warm_up_rounds).items():
                agent = nodes[name]
                assert isinstance(agent, AgentNode)
                agent.vivaldi = vivaldi
        return nodes

    return boot


def _warmed_agents(topology: Topology, seed: int, warm_up_rounds: int) -> dict[str, Vivaldi]:
    from systems.parts.vivaldi_kernel import begin, run_rounds, warmed

    names = cast_of(topology.node_names()).agents
    rng = generator(seed, "warm-up")
    state = begin(len(names), rng)
    run_rounds(state, trips(topology, names).rtt_ns / SECOND_NS, warm_up_rounds, rng)
    return {name: warmed(state, i, generator(seed, "vivaldi", name), names) for i, name in enumerate(names)}


def _roads(asked: PlacementRequest, brokers: Sequence[str]) -> Roads:
    pairs = [(s, b, place, broker) for s, place in enumerate(asked.places) for b, broker in enumerate(brokers)]
    delay_ns = [asked.topology.path(place.name, broker).one_way_delay_ns for _, _, place, broker in pairs]
    cuts = {(s, b): spans for s, b, place, broker in pairs if (spans := _cut_spans(asked, place, broker))}
    by_site = np.array(delay_ns, np.int64).reshape(-1, len(brokers))
    return Roads(tuple(brokers), asked.access_ns, by_site, cuts)


def _cut_spans(asked: PlacementRequest, place: EdgeSite, broker: str) -> tuple[tuple[int, int], ...]:
    """When partitions lie between a site and a broker; a site is where its proxy is."""
    host_of = asked.topology.host_of
    spans: list[tuple[int, int]] = []
    since_ns: dict[frozenset[str], int] = {}  # by hosts: several names may stand for one
    for fault in sorted(asked.faults, key=lambda fault: fault.at_ns):
        match fault:
            case Partition(at_ns, side):
                hosts = frozenset(map(host_of, side))
                if (host_of(place.proxy) in hosts) != (host_of(broker) in hosts):
                    since_ns.setdefault(hosts, at_ns)
            case Heal(at_ns, side):
                ended = [one for one in since_ns if one == frozenset(map(host_of, side)) or not side]
                spans += [(since_ns.pop(one), at_ns) for one in ended]
    return tuple([*spans, *((at_ns, NEVER_NS) for at_ns in since_ns.values())])


def _persist(asked: PlacementRequest, brokers: Sequence[str]) -> Persist | None:
    """The waits of messages for their bookies, a stream of draws a topic and broker."""
    rule, places = asked.rule, asked.places
    if not rule.bookies:
        return None

    def persist(topic: str, broker: int, count: int) -> Int64:
        rng = generator(asked.seed, "bookies", topic, brokers[broker])
        trips_ns = np.full(rule.bookies, duration_ns(rule.rack_rtt))
        if rule.bookie_site == "any":
            chosen = rng.permutation(len(places))[np.arange(rule.bookies) % len(places)]
            paths = [asked.topology.path(places[site].name, brokers[broker]) for site in chosen]
            trips_ns += np.array([2 * path.one_way_delay_ns for path in paths])
        return persisted_after_ns(trips_ns, rule.write_quorum, duration_ns(rule.bookie_write), count, rng)

    return persist


def _messages(journal: NodeJournal) -> list[Recorded]:
    messages = []
    for step in journal.steps:
        if isinstance(step.event, Delivery):
            messages.append(Recorded(step.at_ns, step.node, "got", step.event.source, step.event.message))
        sends = (effect for effect in step.effects if isinstance(effect, Send))
        messages += [Recorded(step.at_ns, step.node, "sent", effect.target, effect.message) for effect in sends]
    return messages
