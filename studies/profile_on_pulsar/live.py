"""Profiles one broker of a real Pulsar, as study ``profile`` does one of ours: open loop, at a fixed rate.

Producer number k of all topics is a process of Pulsar's own client, and so is consumer number k, which has a
subscription of its own on each topic: the fan-out.  The broker has a core to itself where there are several; ZooKeeper,
the bookie and the clients share the others.  It is confined when it is warm.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import reduce
from itertools import cycle
from operator import add
from secrets import token_hex

import numpy as np

from collectors.procfs import process_counters
from core.clients import instants
from core.records import Int64
from core.seeds import generator
from core.units import SECOND_NS
from studies.placement.accounts import NOTHING
from studies.placement_on_pulsar.accounts import excused
from studies.profile.asked import ROLES, Profiled, broker_of
from studies.profile.fold import FanOut, folded
from studies.profile.live import CLIENTS, members_of, pin
from studies.profile_on_pulsar.study import PulsarProfile
from testbed.api import Testbed
from testbed.hosts.groups import confined
from testbed.hosts.site import Site
from testbed.play import Observer, Play
from testbed.servers.pulsar.admin import Topic
from testbed.servers.pulsar.client_host import DUE
from testbed.servers.pulsar.cluster import PulsarCluster, PulsarWanted, check_place, cluster_on
from testbed.servers.pulsar.transfers import (
    LEAD_NS,
    Hiring,
    SeenByClients,
    TopicTraffic,
    let_go,
    make_topics,
    put_topics,
    rest_all,
)
from testbed.trust.accounts import shifted

FIRST = 10_000_000  # number of the first message of the load: those before it warm the broker up
REST_S, STILL_S = 60.0, 3.0  # for what was sent to come


def check(testbed: Testbed, asked: PulsarProfile) -> None:
    """SpecError on a testbed to whose machines Pulsar is not brought."""
    check_place(testbed)


def servers(asked: PulsarProfile) -> PulsarWanted:
    """The only broker, and what it needs."""
    name = broker_of(asked.topology)
    return PulsarWanted((name,), name)


def run(site: Site, asked: PulsarProfile) -> Profiled:
    """Offer the load to the only broker, and measure.  MachineError where a process ends on its own."""
    hosts = {role: site.topology.node_names(role) for role in ROLES}
    return run_on(cluster_on(site), asked, Observer(site, asked.scale_ns), hosts, divides_cores=True)


def run_on(
    cluster: PulsarCluster,
    asked: PulsarProfile,
    observer: Observer,
    hosts: Mapping[str, Sequence[str]],
    divides_cores: bool = False,
) -> Profiled:
    """The same on a cluster that is up, in a fresh tenant, so that it may carry several.

    ``hosts``: of clients, by role.  ``divides_cores``: the broker's processes and clients are pinned to cores.
    """
    with ExitStack() as stack:
        bench = _Bench(cluster, asked, hosts, stack)
        if divides_cores:
            bench.divide_cores()
        bench.warm_up()
        stack.enter_context(confined(cluster.site.state, bench.broker_pid, asked.core_share))
        with observer.watch:
            play, cpu_ns = bench.play()
            bench.rest()
        observer.findings.lost_agents = tuple(part.name for _, part in cluster.processes if not part.alive)
        observer.findings.played(play.epoch_ns, play.epoch_ns + asked.duration_ns)
        return bench.taken_home(observer, play.epoch_ns, cpu_ns)


class _Bench:
    """The topics, and their clients."""

    def __init__(
        self, cluster: PulsarCluster, asked: PulsarProfile, hosts: Mapping[str, Sequence[str]], stack: ExitStack
    ):
        self._cluster, self._asked, self._name = cluster, asked, broker_of(asked.topology)
        producers, consumer_count = members_of(asked.load)
        tenant = f"run-{token_hex(4)}"
        self._topics = [Topic(tenant, topic.name, "t", asked.persistent) for topic in asked.load.topics]
        self._rate_rps, self._size_bytes = asked.load.topics[0].rate_rps, asked.load.topics[0].size_bytes
        make_topics(cluster.admin, self._topics)
        stack.callback(let_go, cluster.admin, self._topics)
        every = range(len(self._topics))

        def hire(role: str, count: int, hiring: Hiring) -> list[TopicTraffic]:
            crews = []
            for number, host in zip(range(count), cycle(hosts[role]), strict=False):
                subscription = f"consumer{number + 1}"
                whom = hiring._replace(subscription=subscription, sender=number)
                crews.append(TopicTraffic(cluster, host, self._topics, f"pulsar-{role}-{number + 1}", whom))
                stack.callback(crews[-1].close)
            return crews

        self._consumers = hire("subscriber", max(consumer_count.values()), Hiring(every, ()))
        self._producers = hire("publisher", max(map(len, producers.values())), Hiring((), every))
        put_topics(cluster.admin, [(topic, cluster.id_of(self._name)) for topic in self._topics])
        self.broker_pid = cluster.pid_of(self._name)

    @property
    def _clients(self) -> list[TopicTraffic]:
        return [*self._producers, *self._consumers]

    def divide_cores(self) -> None:
        """The broker to the last core that we may use, all others to the rest, where there is one."""
        usable = sorted(os.sched_getaffinity(0))
        if len(usable) > 1:
            others = [part.pid for _, part in self._cluster.processes if part.pid != self.broker_pid]
            pin(self.broker_pid, usable[-1:])
            for pid in (*others, *(crew.agent.pid for crew in self._clients)):
                pin(pid, usable[:-1])

    def warm_up(self) -> None:
        """A broker that is cold takes many times as long."""
        for crew in self._producers:
            crew.play(self._rate_rps, self._size_bytes)
        time.sleep(self._asked.heat_ns / SECOND_NS)
        for crew in self._producers:
            crew.end()
        self.rest()

    def play(self) -> tuple[Play, dict[str, float]]:
        """The load, from time 0 to its end; returns processor time in the measured span, by node."""
        play = Play()
        epoch_ns = self._cluster.site.epoch_ns = play.begin(LEAD_NS)
        for number, crew in enumerate(self._producers):
            crew.offer(self._due(number), epoch_ns, self._size_bytes)
        play.until(self._asked.warm_up_ns)
        before = self._cpu_ns()
        play.until(self._asked.duration_ns)
        after = self._cpu_ns()
        for crew in self._producers:
            crew.end()
        return play, {node: after[node] - before[node] for node in after}

    def rest(self) -> None:
        """Until all has come, or nothing comes any more."""
        rest_all(self._clients, REST_S, STILL_S)

    def _cpu_ns(self) -> dict[str, float]:
        clients = (process_counters(crew.agent.pid)["cpu_ns"] for crew in self._clients)
        return {self._name: process_counters(self.broker_pid)["cpu_ns"], CLIENTS: sum(clients)}

    def _due(self, number: int) -> dict[str, Int64]:
        """What producer ``number`` of each topic sends, by the columns ``DUE``."""
        parts = [np.empty((0, len(DUE)), np.int64)]
        for place, born_ns in enumerate(self._born_ns(number)):
            numbers = FIRST + np.arange(len(born_ns))
            parts.append(np.stack([np.full(len(born_ns), place), numbers, born_ns], axis=1))
        rows = np.concatenate(parts)
        rows = rows[np.argsort(rows[:, 2], kind="stable")]
        return {name: rows[:, column] for column, name in enumerate(DUE)}

    def _born_ns(self, number: int) -> list[Int64]:
        """When the messages of producer ``number`` of each topic are due."""
        asked = self._asked
        phases = (generator(asked.seed, "messages", topic.name, number).random() for topic in asked.load.topics)
        return [instants(0, asked.duration_ns, self._rate_rps, phase) for phase in phases]

    # --- the records -------------------------------------------------------------------------------------

    def taken_home(self, observer: Observer, epoch_ns: int, cpu_ns: Mapping[str, float]) -> Profiled:
        """What was measured, and whether it can be believed."""
        asked, findings = self._asked, observer.findings
        fold = folded(self._fan_outs(epoch_ns), (asked.warm_up_ns, asked.duration_ns), self._name, cpu_ns)
        for late_ns in fold.late_ns:
            findings.late(late_ns)
        findings.accounted(0, excused(reduce(add, fold.accounts, NOTHING), asked.persistent), {})
        return Profiled(fold.latency_ns, fold.samples, observer.evidence())

    def _fan_outs(self, epoch_ns: int) -> Iterator[FanOut]:
        """Of each producer, topic by topic."""
        got = [crew.seen() for crew in self._consumers]
        for number, crew in enumerate(self._producers):
            sent = crew.seen().sent
            for topic, born_ns in enumerate(self._born_ns(number)):
                rows = _of_topic(sent, topic)
                sent_ns, acknowledged_ns = (
                    shifted(rows[name], epoch_ns) for name in ("sent_at_ns", "acknowledged_at_ns")
                )
                deliveries = [_deliveries(told, topic, number, epoch_ns) for told in got]
                yield FanOut(self._size_bytes, born_ns, rows["message"], sent_ns, acknowledged_ns, deliveries)


def _of_topic(sent: Mapping[str, Int64], topic: int) -> dict[str, Int64]:
    """Rows of the load, its messages numbered from 0."""
    mine = (sent["topic"] == topic) & (sent["message"] >= FIRST)
    rows = {name: column[mine] for name, column in sent.items()}
    return {**rows, "message": rows["message"] - FIRST}


def _deliveries(told: SeenByClients, topic: int, sender: int, epoch_ns: int) -> tuple[Int64, Int64]:
    """Of the load, to one consumer: numbers and instants of the run."""
    mine = (told.got["topic"] == topic) & (told.got["sender"] == sender) & (told.got["message"] >= FIRST)
    return told.got["message"][mine] - FIRST, told.got["received_at_ns"][mine] - epoch_ns
