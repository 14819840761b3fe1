"""Runs a quota on brokers of a real Pulsar, on the hosts of a site, with Pulsar's own clients beside each broker."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from secrets import token_hex

import msgspec
import numpy as np

from core.records import Columns, Int64
from core.units import MILLISECOND_NS
from studies.quota.asked import ADAPTED, GROUP, QuotaRequest, QuotaShown
from studies.quota.planes import ADAPTOR_ON_PULSAR, TOPIC, AdaptorOnPulsar, QuotaScript
from systems.distribution.tb_adaptor import ADAPTOR
from testbed.api import Testbed
from testbed.hosts.site import Site
from testbed.nodes.fleet import NodeFleet
from testbed.play import Observer, Play
from testbed.servers.found import check_servers
from testbed.servers.pulsar.admin import Topic
from testbed.servers.pulsar.client_host import DUE, SUBSCRIPTION
from testbed.servers.pulsar.cluster import PulsarCluster, PulsarWanted, check_place, cluster_on
from testbed.servers.pulsar.settings import group_settings
from testbed.servers.pulsar.transfers import (
    LEAD_NS,
    SeenByClients,
    TopicTraffic,
    let_go,
    make_topics,
    put_topics,
    rest_all,
)
from testbed.trust.accounts import ABSENT, DeliveryAccount, account, lateness_ns, shifted

SCALE_NS = 100 * MILLISECOND_NS  # ours: quotas are shared once a second
# Ours: to each topic, before anybody limits it: a cold broker is slow.  A group is made before that: by
# Pulsar's AbstractTopic, a topic gets no limiter whose namespace joins one of which its broker has not heard yet.
WARM_UP_S, WARM_UP_RPS = 5.0, 20.0
FIRST = 1_000_000  # number of the first message of the load: those before it warm brokers up
CLIENTS_KNOW = ("sent_at_ns", "acknowledged_at_ns")
REST_S = 120.0  # for what was sent to be acknowledged and delivered, when nothing is limited any more


def check(testbed: Testbed, asked: QuotaRequest) -> None:
    """SpecError on a testbed to whose machines Pulsar is not brought."""
    check_servers(ADAPTOR_ON_PULSAR, testbed.name, commands=True)
    check_place(testbed)


def servers(asked: QuotaRequest) -> PulsarWanted:
    """The cluster; its brokers tell each other of groups as often as asked."""
    told = group_settings(asked.rule.interval_s)
    return PulsarWanted(tuple(asked.names), asked.names[0], broker_options=told)


def run(site: Site, asked: QuotaRequest) -> QuotaShown:
    """LinkError where a path is not as the topology wants it; MachineError where a process ends on its own."""
    return run_on(cluster_on(site), asked, Observer(site, SCALE_NS))


def run_on(cluster: PulsarCluster, asked: QuotaRequest, observer: Observer) -> QuotaShown:
    """The same on a cluster that is up and has ``group_settings``; in a fresh tenant, so that it may carry several."""
    brokers = {cluster.node_of(broker): broker for broker in cluster.brokers}
    script = QuotaScript(f"run-{token_hex(4)}", brokers, asked.rule.interval_s)
    topics = [script.topic(node) for node in asked.names]
    make_topics(cluster.admin, topics, [(topic, SUBSCRIPTION) for topic in topics])
    put_topics(cluster.admin, [(script.topic(node), brokers[node]) for node in asked.names])
    with ExitStack() as stack:
        stack.callback(let_go, cluster.admin, topics)
        crews = [TopicTraffic(cluster, node, [script.topic(node)], f"clients-{node}") for node in asked.names]
        for crew in crews:
            stack.callback(crew.close)
            crew.play(WARM_UP_RPS)
        fleet = _adaptor(stack, cluster, asked, script) if asked.rule.sharing == ADAPTED else None
        if asked.rule.sharing == GROUP:
            cluster.admin.make_group(script.tenant, asked.rule.quota_rps)
        time.sleep(WARM_UP_S)
        for crew in crews:
            crew.end()
        with observer.watch:
            with _shared(cluster, asked, topics):
                play = _play(cluster.site, asked, crews, fleet)
            rest_all(crews, REST_S)
            observer.findings.lost_agents = tuple(part.name for _, part in cluster.processes if not part.alive)
        findings, seen = observer.findings, [crew.seen() for crew in crews]
        messages = _messages(asked, seen, play.epoch_ns)
        findings.played(play.epoch_ns, play.epoch_ns + asked.duration_ns)
        findings.late(lateness_ns(messages["intended_at_ns"], messages["sent_at_ns"]))
        findings.account = _account(messages, seen)
        samples = [] if fleet is None else sorted(row for row in fleet.samples() if row[0] < asked.duration_ns)
        return QuotaShown(_rows(messages), samples, observer.evidence())


@contextmanager
def _shared(cluster: PulsarCluster, asked: QuotaRequest, topics: Sequence[Topic]) -> Iterator[None]:
    """The quota holds: as a group's, or in even parts to begin with; afterwards nothing is limited."""
    admin = cluster.admin
    for topic in topics:
        if asked.rule.sharing == GROUP:
            admin.join_group(topic, topic.tenant)
        else:
            admin.limit(topic, asked.part_rps)
    yield
    for topic in topics:
        if asked.rule.sharing == GROUP:
            admin.join_group(topic, "")
        else:
            admin.limit(topic, 0)


def _adaptor(stack: ExitStack, cluster: PulsarCluster, asked: QuotaRequest, script: QuotaScript) -> NodeFleet:
    """TB Adaptor beside the first broker, an agent of it beside each."""
    config = AdaptorOnPulsar(**vars(asked.adaptor(TOPIC)))
    fleet = NodeFleet(cluster.site, ADAPTOR_ON_PULSAR, config, asked.seed, [*asked.names, ADAPTOR])
    stack.callback(fleet.stop)
    fleet.start()
    fleet.script = fleet.folder / "script.json"
    fleet.script.write_bytes(msgspec.json.encode(script))
    fleet.connect()
    return fleet


def _play(site: Site, asked: QuotaRequest, crews: Sequence[TopicTraffic], fleet: NodeFleet | None) -> Play:
    """The load, from time 0 to its end."""
    play = Play(fleet.check if fleet else lambda: None)
    site.epoch_ns = play.begin(LEAD_NS)
    for crew, load in zip(crews, _loads(asked), strict=True):
        crew.offer(load, site.epoch_ns)
    if fleet:
        fleet.go(site.epoch_ns, {})
    play.until(asked.duration_ns)
    for crew in crews:
        crew.end()
    if fleet:
        fleet.statuses("finish")
    return play


def _loads(asked: QuotaRequest) -> list[dict[str, Int64]]:
    """What is due, for each broker: columns of ``client_host.DUE``, with the whole load's numbers."""
    at_ns, publisher, _ = asked.schedule.block(0, asked.duration_ns).messages()
    number, broker = np.arange(len(at_ns)), asked.broker_of(publisher)
    loads = []
    for one in range(len(asked.names)):
        mine = broker == one
        columns = np.zeros(np.count_nonzero(mine), np.int64), FIRST + number[mine], at_ns[mine]
        loads.append(dict(zip(DUE, columns, strict=True)))
    return loads


def _messages(asked: QuotaRequest, seen: Sequence[SeenByClients], epoch_ns: int) -> dict[str, Int64]:
    """Of each message of the load, by its number: broker, publisher and instants of the run, ``ABSENT`` where none."""
    at_ns, publisher, _ = asked.schedule.block(0, asked.duration_ns).messages()
    told = {name: np.full(len(at_ns), ABSENT) for name in (*CLIENTS_KNOW, "received_at_ns")}
    for one in seen:
        sent, got = (rows["message"] >= FIRST for rows in (one.sent, one.got))
        for name in CLIENTS_KNOW:
            told[name][one.sent["message"][sent] - FIRST] = shifted(one.sent[name][sent], epoch_ns)
        latest_first = np.argsort(-one.got["received_at_ns"][got], kind="stable")  # the first delivery stays
        number, received_ns = (one.got[name][got][latest_first] for name in ("message", "received_at_ns"))
        told["received_at_ns"][number - FIRST] = received_ns - epoch_ns
    return {
        "broker": asked.broker_of(publisher),
        "publisher": publisher.astype(np.int64),
        "intended_at_ns": at_ns,
        **told,
    }


def _account(messages: Mapping[str, Int64], seen: Sequence[SeenByClients]) -> DeliveryAccount:
    came = np.concatenate([one.got["message"] for one in seen]) - FIRST
    sent, known = (np.flatnonzero(messages[name] != ABSENT) for name in CLIENTS_KNOW)
    once = account(np.arange(len(messages["broker"])), sent, known, came[came >= 0])
    # Pulsar delivers again what a consumer had not acknowledged when it was closed: no fault of the run.
    return replace(once, delivered_count=once.delivered_count + once.duplicated_count, duplicated_count=0)


def _rows(messages: Mapping[str, Int64]) -> Columns:
    """Columns of ``messages``; brokers of Pulsar keep no record of one, so that two instants are never there."""
    count = len(messages["broker"])
    never = np.ma.masked_equal(np.full(count, ABSENT), ABSENT)
    instants = {name: np.ma.masked_equal(column, ABSENT) for name, column in messages.items() if name.endswith("_ns")}
    return {
        **messages,
        **instants,
        "message": np.arange(count),
        "topic": np.full(count, TOPIC, object),
        "arrived_at_ns": never,
        "released_at_ns": never,
    }
