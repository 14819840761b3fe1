"""Topics that come and go, in virtual time: the distributor takes one after the other, in the order of arrival."""

import numpy as np

from core.errors import SpecError
from core.records import Float64
from studies.distribution.search import searched
from studies.distribution.virtual import PLAIN, check_near
from studies.topics.asked import Churned, Churning, ComingTopic, Stay
from studies.topics.newcomer import Newcomer
from systems.parts.assignment import rates_of
from testbed.api import Testbed
from testbed.brokers.model import load_calibration
from testbed.virtual.cluster import TopicCluster


def run(asked: Churning) -> Churned:
    """Find each topic a place when its turn comes, and count what residents send."""
    model = load_calibration(asked.calibration)
    slos_ns = np.array([topic.slo_ns for topic in asked.topics], np.int64)
    cluster = TopicCluster(model, len(asked.names), slos_ns, asked.window_ns, asked.duration_ns)
    stays = []
    for number, topic in enumerate(asked.topics):
        cluster.advance(topic.arrives_ns)
        if cluster.now_ns >= asked.duration_ns:
            break
        stays.append(_taken_in(asked, cluster, number, topic, asked.rule.mcap_rps or model.mcap_rps))
    cluster.advance(asked.duration_ns)
    return Churned(stays, cluster.message_count, cluster.late_count, cluster.latency, cluster.broker_latency)


def _taken_in(asked: Churning, cluster: TopicCluster, number: int, topic: ComingTopic, mcap_rps: float) -> Stay:
    """Refuse a topic for which all brokers together have no room left; else let the search place it."""
    loads_rps, looked_at_ns = _loads(asked, cluster), cluster.now_ns
    if topic.schedule.population.total_rps > np.maximum(mcap_rps - loads_rps, 0.0).sum():
        return Stay(topic, looked_at_ns, looked_at_ns)
    newcomer = Newcomer(asked.search_for(topic), cluster, number, loads_rps.tolist(), mcap_rps)
    search = searched(asked.search_for(topic), newcomer)
    if search.fresh.note:  # its bucket is too small for so many brokers
        return Stay(topic, looked_at_ns, cluster.now_ns, search=search)
    placed, admitted_ns = cluster.placed[number], cluster.now_ns
    placed.until_ns = admitted_ns + topic.life_ns
    cluster.admit(number)
    return Stay(topic, looked_at_ns, placed.until_ns, admitted_ns, placed.assignment, search)


def _loads(asked: Churning, cluster: TopicCluster) -> Float64:
    """Message rate of the residents on each broker."""
    loads_rps = np.zeros(len(asked.names))
    for its in cluster.placed.values():
        loads_rps += rates_of(its.schedule.population, its.assignment, len(asked.names))
    return loads_rps


def check(testbed: Testbed, asked: Churning) -> None:
    """SpecError for what modelled brokers cannot do with many topics."""
    only = {**PLAIN, "initial_loads_rps": (), "mcap_batch": 0, "broker_cores": ()}
    check_near(testbed, asked, "brokers with many topics", only)
    if asked.keeps_messages:
        raise SpecError("messages of topics that come and go are not kept", "leave keep out")
    if asked.rule.envelope not in ("profiled", "poisson-model"):
        raise SpecError(f"envelope = {asked.rule.envelope!r} of a topic that stays", "use profiled, or poisson-model")
