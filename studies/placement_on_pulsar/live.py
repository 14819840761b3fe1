"""Runs a control plane of the placement family beside the brokers of a real Pulsar, on the hosts of a site.

ZooKeeper is beside the store, a broker of Pulsar's beside each broker's node, a bookie beside the first or each, a Serf
agent beside each coordinate agent; a process of Pulsar's own client for each role at each site, or for each client.
Topics of a fresh tenant are each alone in a bundle, and moved about before time 0, so that nobody is cold.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from secrets import token_hex

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS, duration_ns
from studies.placement.live import Trouble
from studies.placement.script import write_script
from studies.placement_on_pulsar.accounts import Hired, logged_steps, moves_of, owned_of, spells_of, told_of
from studies.placement_on_pulsar.asked import EACH, ONE, ClientCrew, PulsarJournal, PulsarRequest
from studies.placement_on_pulsar.load import due_of
from studies.placement_on_pulsar.planes import PulsarScript
from studies.placement_on_pulsar.systems import deployed
from systems.placement.cast import cast_of
from testbed.api import Testbed
from testbed.faults import Crash, Heal, LinkFault, Partition, Restart
from testbed.hosts.site import Site
from testbed.nodes.fleet import NodeFleet
from testbed.play import Observer, Play
from testbed.servers.found import check_servers
from testbed.servers.pulsar.admin import Topic
from testbed.servers.pulsar.cluster import PulsarCluster, PulsarWanted, check_place, cluster_on
from testbed.servers.pulsar.settings import session_settings, shedding_settings
from testbed.servers.pulsar.transfers import LEAD_NS, Hiring, TopicTraffic, let_go, make_topics, put_topics, rest_all
from testbed.servers.serf import SerfCluster, profile_of
from testbed.servers.server import ServerProcess

SCALE_NS = 10 * MILLISECOND_NS  # ours: moves take tens of milliseconds
SETTLE_NS = SECOND_NS // 2  # ours: who is late sends what is due
REST_S = 120.0  # for what was sent to be acknowledged and delivered
TOURS_MOST, STEADY = 6, 0.9  # ours: around all brokers before time 0, until one takes this share of the one before


def check(testbed: Testbed, asked: PulsarRequest) -> None:
    """SpecError for what real processes cannot do, or where this machine has no Pulsar."""
    check_servers(deployed(asked.system), testbed.name, commands=True)
    check_place(testbed)
    cast = cast_of(asked.topology.node_names())
    for fault in asked.faults:
        match fault:
            case Partition() | Heal() | LinkFault():
                if not testbed.has_links:
                    raise SpecError(f"{fault}: there are no links to change", "use --testbed mininet")
            case Crash(node=node) if node in (*cast.managers, *cast.brokers):
                pass
            case Restart(node=node) if node in cast.managers:
                pass
            case _:
                fix = "crash a manager or a broker, restart a manager, or change a link"
                raise SpecError(f"{fault}: not beside Pulsar", fix)
    profile_of(asked.config.span("probe"))


def servers(asked: PulsarRequest) -> PulsarWanted:
    """The cluster, without anything of the control plane's."""
    cast, is_beside_each = cast_of(asked.topology.node_names()), asked.rule.bookies == EACH
    bookies = cast.brokers if is_beside_each else cast.brokers[:1]
    options = session_settings(duration_ns(asked.rule.broker_session) // MILLISECOND_NS)
    if asked.rule.shedding:
        options |= shedding_settings()
    return PulsarWanted(tuple(cast.brokers), cast.stores[0], tuple(bookies), options, is_beside_each)


def run(site: Site, asked: PulsarRequest) -> PulsarJournal:
    """LinkError where a path is not as the topology wants it; MachineError where a process ends on its own."""
    return run_on(cluster_on(site), asked, Observer(site, SCALE_NS))


def run_on(cluster: PulsarCluster, asked: PulsarRequest, observer: Observer) -> PulsarJournal:
    """The same on a cluster that is up, which may carry out several runs, in a fresh tenant each."""
    site, cast = cluster.site, cast_of(cluster.site.topology.node_names())
    with ExitStack() as stack:
        serf = stack.enter_context(SerfCluster(site, cast.agents, profile_of(asked.config.span("probe"))))
        serf.start()
        joined_s = time.monotonic()
        fleet = NodeFleet(site, deployed(asked.system), asked.config, asked.seed)
        stack.callback(fleet.stop)
        fleet.start([fault for fault in asked.faults if isinstance(fault, Restart)])
        script = _script(asked, cluster, serf, cast.stores[0])
        fleet.script = site.folder / "clients" / "script.json"
        write_script(fleet.script, script)
        topics = {topic.name: script.topic(topic.name) for topic in asked.load.topics}
        stored = asked.crews if asked.rule.persistent else ()
        waiting = [(topics[crew.topics[number]], crew.node) for crew in stored for number in crew.consuming]
        make_topics(cluster.admin, list(topics.values()), waiting)
        stack.callback(let_go, cluster.admin, list(topics.values()))
        crews = [
            Hired(crew, number, _hired(stack, cluster, crew, number, topics)) for number, crew in enumerate(asked.crews)
        ]
        _warm_up(cluster, list(topics.values()), asked.rule.warm_up_moves)
        fleet.connect()
        time.sleep(max(0.0, joined_s + asked.rule.warm_up_rounds - time.monotonic()))
        with observer.watch:
            killed: list[ServerProcess] = []
            trouble = Trouble(site, fleet, asked.handovers(), asked.faults, partial(_kill_beside, cluster, killed))
            _play(site, asked, fleet, trouble.play, crews)
            trouble.arrive()
            observer.findings.lost_agents = (*_lost(cluster, serf, killed), *trouble.never_up)
            fleet.statuses("finish")
            until_ns, epoch_ns = asked.duration_ns, trouble.play.epoch_ns
            moves = [move for move in moves_of(site, script) if move.asked_at_ns < epoch_ns + until_ns]
            told = told_of(asked, epoch_ns, crews, moves)
            samples = [row for row in fleet.samples() if row[0] <= until_ns]
            steps = [*told.requests, *logged_steps(map(cluster.log_of, script.brokers), script, epoch_ns, until_ns)]
            spells = spells_of(owned_of(site, script), epoch_ns, until_ns)
            trouble.tell(observer.findings, until_ns, told.lateness_ns, told.account)
            observer.findings.notes = [*told.notes, *trouble.notes]
            observer.findings.broker_killed = bool(killed)
        ordered = sorted([*samples, *trouble.samples, *told.samples], key=lambda row: row[:3])
        return PulsarJournal(
            ordered,
            spells,
            told.fates,
            trouble.faults,
            evidence=observer.evidence(),
            steps=sorted(steps, key=lambda step: (step.start_ns, step)),
            downtimes=sorted(told.downtimes, key=lambda one: (one.start_ns, one)),
            latency_ns=told.latency_ns,
        )


def _script(asked: PulsarRequest, cluster: PulsarCluster, serf: SerfCluster, store: str) -> PulsarScript:
    return PulsarScript(
        f"run-{token_hex(4)}",
        tuple(topic.name for topic in asked.load.topics),
        {cluster.node_of(broker): broker for broker in cluster.brokers},
        store,
        cluster.store,
        asked.config.span("session"),
        {name: server.reached_at() for name, server in serf.servers.items()},
        asked.whereabouts,
        asked.config.executors,
        asked.rule.persistent,
        cluster.grouped,
        asked.rule.namespaces == ONE,
    )


def _hired(
    stack: ExitStack, cluster: PulsarCluster, crew: ClientCrew, number: int, topics: Mapping[str, Topic]
) -> TopicTraffic:
    hiring = Hiring(crew.consuming, crew.producing, crew.node, crew.node, number)
    traffic = TopicTraffic(cluster, crew.node, [topics[name] for name in crew.topics], crew.name, hiring)
    stack.callback(traffic.close)
    return traffic


def _warm_up(cluster: PulsarCluster, topics: Sequence[Topic], least: int) -> None:
    """Each topic to the broker after its own, so many times, and then around all until that gets no faster.

    Brokers that have only just started compile what moves need, which many at a time feel and one at a time does not.
    MachineError where a topic does not go.
    """
    if least and len(cluster.brokers) > 1:
        turn_s = _go_round(cluster, topics, least)
        for _ in range(TOURS_MOST):
            before_s, turn_s = turn_s, _go_round(cluster, topics, len(cluster.brokers))
            if turn_s > STEADY * before_s:
                break


def _go_round(cluster: PulsarCluster, topics: Sequence[Topic], count: int) -> float:
    """Each topic to the broker after its own, so many times; returns how long a turn took, in s."""
    brokers, begun_s = cluster.brokers, time.monotonic()
    for _ in range(count):
        owners = [cluster.admin.owner_of(topic) for topic in topics]
        after = [brokers[(brokers.index(owner) + 1) % len(brokers)] for owner in owners]
        if cluster.grouped:
            for topic, broker in zip(topics, after, strict=True):
                cluster.admin.keep_on(topic, cluster.node_of(broker))
        put_topics(cluster.admin, zip(topics, after, strict=True))
    return (time.monotonic() - begun_s) / count


def _kill_beside(cluster: PulsarCluster, killed: list[ServerProcess], node: str) -> None:
    """A broker goes with its node."""
    if cluster.has(node):
        killed.append(cluster.kill_broker(node))


def _play(site: Site, asked: PulsarRequest, fleet: NodeFleet, play: Play, crews: Sequence[Hired]) -> None:
    """From time 0 until what was sent has come."""
    site.epoch_ns = epoch_ns = play.begin(LEAD_NS)
    for crew, number, traffic in crews:
        if crew.producing:
            traffic.offer(due_of(asked, crew, number), epoch_ns, asked.load.topics[0].size_bytes)  # all are alike
        if crew.changes:
            traffic.follow(crew.changes, epoch_ns)
    fleet.go(epoch_ns, {})
    play.until(asked.duration_ns + SETTLE_NS)
    for hired in crews:
        hired.traffic.end()
    rest_all([hired.traffic for hired in crews], REST_S)


def _lost(cluster: PulsarCluster, serf: SerfCluster, killed: Sequence[ServerProcess]) -> tuple[str, ...]:
    """The processes of servers that have ended, but for brokers that were killed; nobody here has told them to."""
    processes = [process for _, process in cluster.processes if process not in killed]
    processes += [server.process for server in serf.servers.values()]
    return tuple(sorted(process.name for process in processes if not process.alive))
