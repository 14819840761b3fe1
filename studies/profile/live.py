"""Profiles one real broker: many topics, several producers and consumers each, at a fixed rate, open loop.

Each consumer has a channel of its own on every topic, so that it gets every message: the fan-out.  Consumer number k
of all topics is one process, and producers are spread over the publishers' hosts.  The broker has a core to itself
where there are several, so that it, and not its clients, is what the load fills.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from collectors import procfs
from collectors.writer import read_logs
from core.clients import ClientLoad, Joined, Role, TopicLoad
from core.errors import MachineError
from core.records import Block, Int64
from core.seeds import generator
from core.units import SECOND_NS
from studies.profile.asked import Profiled, Profiling, Row, check_profiling
from testbed.brokers.launcher import Brokers
from testbed.brokers.publish_load import ABSENT, BODY_BYTES_MINIMUM
from testbed.brokers.traffic import COLLECT_S, CONNECT_S, STATUS_S, Columns, Crew, Publishers
from testbed.hosts.core_share import confined
from testbed.hosts.process import python_agent
from testbed.hosts.site import Program, Site
from testbed.hosts.watch import SiteWatch
from testbed.trust.accounts import DeliveryAccount, account
from testbed.trust.observed import Findings
from testbed.virtual.topic_kernel import instants
from testbed.virtual.topic_plane import Span

LEAD_NS = SECOND_NS // 2  # from the handing over of the loads to the first instant, and for each of their messages …
LEAD_OF_MESSAGE_NS = 20_000
DRAIN_S, STILL_S = 30.0, 2.0  # at most; nothing came for so long: nothing will
_ROOM = 1.1
_SPARE_ROWS = 10_000
_TICK_S = 0.1
CLIENTS = "clients"  # a node of samples: all clients' processes


def run_profile_live(site: Site, load: ClientLoad, profiling: Profiling) -> Profiled:
    """Offer ``load``, whose clients all join at 0, to the site's only broker, and measure."""
    return _Run(site, load, profiling).carry_out()


class _Run:
    """One run."""

    def __init__(self, site: Site, load: ClientLoad, profiling: Profiling):
        self._site, self._profiling = site, profiling
        self._name = check_profiling(site.topology)
        self._topics = list(load.topics)
        self._producers, self._consumers = _members(load)
        self._blocks = blocks_of(load, profiling.seed, profiling.duration_ns)
        self._findings = Findings(profiling.scale_ns, site.verify())
        self._begin_ns = 0  # CLOCK_REALTIME of the load's time 0

    def carry_out(self) -> Profiled:
        """Bring everybody up, play the load, take the records home."""
        with ExitStack() as stack:
            own, others = _cores()
            brokers = Brokers(self._site, [self._name], cores=own)
            stack.callback(brokers.close)
            self._broker = brokers.all[0]
            for topic in self._topics:
                self._broker.client.open(topic.name, self._channels(topic))
            hosts = {role: [host.name for host in self._site.topology.hosts if host.role == role]
                     for role in ("publisher", "subscriber")}  # fmt: skip
            self._publishers = Publishers(self._site, hosts["publisher"])
            self._subscribers = self._start_consumers(hosts["subscriber"])
            for agent in (*self._publishers.agents.values(), *self._subscribers.agents.values()):
                _pin(agent.pid, others)
            self._connect()
            stack.enter_context(confined(self._site, self._broker.agent.pid, self._profiling.core_share))
            with self._site.watched() as watch:
                cpu = self._play()
                self._drain()
                return self._taken_home(watch, cpu)

    # --- who is there ----------------------------------------------------------------------------------

    def _channels(self, topic: TopicLoad) -> list[str]:
        return [_channel(number) for number in range(len(self._consumers[topic.name]))]

    def _start_consumers(self, hosts: Sequence[str]) -> Crew:
        """A process for each number of a consumer, on the subscribers' hosts in turn."""
        most = max(len(clients) for clients in self._consumers.values())
        messages = sum(block.message_count for block in self._blocks.values())
        command = python_agent("testbed.brokers.subscribe_host", str(int(messages * _ROOM) + _SPARE_ROWS))
        names = {number: f"subscribe-{_channel(number)}" for number in range(most)}
        return Crew(
            {name: self._site.start(hosts[k % len(hosts)], Program(name, command)) for k, name in names.items()}
        )

    def _connect(self) -> None:
        """Consumers first: a channel's messages wait for them, but latency would count."""
        for topic in self._topics:
            for number, channel in enumerate(self._channels(topic)):
                agent = self._subscribers.agents[f"subscribe-{channel}"]
                found = agent.ask(
                    "subscribe", CONNECT_S, brokers=[self._broker.nsqd], topic=topic.name, channel=channel
                )
                if found["failed"]:
                    raise MachineError(f"{topic.name}, consumer {number}: {found['last_problem']}", "see the logs")
        numbers = [number for its in self._producers.values() for number in its.values()]
        failed = self._publishers.connect(dict.fromkeys(numbers, self._broker.ingress))
        if failed:
            raise MachineError(f"{len(failed)} producers cannot reach the broker", "see the logs")

    # --- the load --------------------------------------------------------------------------------------

    def _play(self) -> dict[str, float]:
        """Hand out the loads and wait until all is due; returns processor time in the measured span, by node."""
        messages = sum(block.message_count for block in self._blocks.values())
        self._begin_ns = time.time_ns() + LEAD_NS * (1 + len(self._topics) // 4) + LEAD_OF_MESSAGE_NS * messages
        for tag, topic in enumerate(self._topics, 1):
            self._publishers.bring(self._blocks[topic.name], tag)
            self._publishers.load(self._begin_ns, topic.name, tag)
        _sleep_until(self._begin_ns + self._profiling.warm_up_ns)
        before = self._cpu_ns()
        _sleep_until(self._begin_ns + self._profiling.duration_ns)
        after = self._cpu_ns()
        self._findings.played(self._begin_ns, self._begin_ns + self._profiling.duration_ns)
        return {node: after[node] - before[node] for node in after}

    def _cpu_ns(self) -> dict[str, float]:
        clients = [*self._publishers.agents.values(), *self._subscribers.agents.values()]
        pids = {self._name: [self._broker.agent.pid], CLIENTS: [agent.pid for agent in clients]}
        return {node: sum(procfs.process_counters(pid).get("cpu_ns", 0.0) for pid in its) for node, its in pids.items()}

    def _drain(self) -> None:
        """Until every copy has come, or nothing comes any more."""
        wanted = sum(
            self._blocks[topic.name].message_count * len(self._consumers[topic.name]) for topic in self._topics
        )
        came, until_s, since_s = -1, time.monotonic() + DRAIN_S, time.monotonic()
        while time.monotonic() < until_s and time.monotonic() - since_s < STILL_S:
            answers = self._subscribers.ask_all("status", STATUS_S, lambda name: {})
            found = sum(answer["delivery_count"] for answer in answers.values())
            if found >= wanted and self._publishers.done():
                return
            if found != came:
                came, since_s = found, time.monotonic()
            time.sleep(_TICK_S)

    # --- the records -------------------------------------------------------------------------------------

    def _taken_home(self, watch: SiteWatch, cpu_ns: Mapping[str, float]) -> Profiled:
        sent = {topic.name: _joined(self._publishers.collect(tag)) for tag, topic in enumerate(self._topics, 1)}
        got, dropped_rows, out_of_order_count = self._deliveries()
        self._check_alive()
        counts = dict.fromkeys(("in_count", "in_bytes", "out_count", "out_bytes", "offered_count", "lost_count"), 0)
        latencies, fate = [np.empty(0, np.int64)], None
        for tag, topic in enumerate(self._topics, 1):
            rows, size = sent[topic.name], int(self._blocks[topic.name].size_bytes)
            accepted = int(self._within(rows["acknowledged_at_ns"]).sum())
            counts["in_count"] += accepted
            counts["in_bytes"] += accepted * size
            due = self._within(rows["intended_at_ns"])
            for channel in self._channels(topic):
                mine = _of(got[channel], topic.name, tag)
                out = int(self._within(mine["received_at_ns"]).sum())
                counts["out_count"] += out
                counts["out_bytes"] += out * size
                counts["offered_count"] += int(due.sum())
                counts["lost_count"] += int((due & ~np.isin(rows["message"], mine["message"])).sum())
                chosen = self._within(mine["intended_at_ns"])
                latencies.append(mine["received_at_ns"][chosen] - mine["intended_at_ns"][chosen])
                found = _fate(rows, mine)
                fate = found if fate is None else fate + found
            was_sent = rows["sent_at_ns"] != ABSENT
            self._findings.late(rows["sent_at_ns"][was_sent] - rows["intended_at_ns"][was_sent])
        if fate is not None:
            self._findings.accounted(0, fate, {"dropped_rows": dropped_rows, "out_of_order": out_of_order_count})
        return Profiled(np.concatenate(latencies), self._samples(counts, cpu_ns), self._evidence(watch))

    def _deliveries(self) -> tuple[dict[str, Columns], int, int]:
        """The rows of each channel; rows without room; messages that overtook another."""
        folder = self._publishers.folder
        answers = self._subscribers.ask_all("collect", COLLECT_S, lambda name: {"path": str(folder / f"{name}.npz")})
        found = {}
        for name in answers:
            with np.load(folder / f"{name}.npz") as columns:
                found[name.removeprefix("subscribe-")] = {key: columns[key] for key in columns.files}
        dropped = sum(answer["dropped_rows"] for answer in answers.values())
        return (
            found,
            dropped,
            sum(its["out_of_order_count"] for answer in answers.values() for its in answer["sequences"]),
        )

    def _check_alive(self) -> None:
        """What is left of a run that lost a process is no profile."""
        lost = [*self._publishers.lost, *self._subscribers.lost, *([] if self._broker.alive else [self._name])]
        if lost:
            raise MachineError(f"ended during the load: {', '.join(lost)}", "see the logs")

    def _within(self, at_ns: Int64) -> Any:
        """Which instants of CLOCK_REALTIME are in the measured span."""
        first_ns = self._begin_ns + self._profiling.warm_up_ns
        return (at_ns >= first_ns) & (at_ns < self._begin_ns + self._profiling.duration_ns)

    def _samples(self, counts: Mapping[str, int], cpu_ns: Mapping[str, float]) -> list[Row]:
        end_ns = self._profiling.duration_ns
        rows: list[Row] = [(end_ns, self._name, f"span_{name}", float(value)) for name, value in counts.items()]
        rows.append((end_ns, self._name, "span_ns", float(end_ns - self._profiling.warm_up_ns)))
        return rows + [(end_ns, node, "span_cpu_ns", value) for node, value in cpu_ns.items()]

    def _evidence(self, watch: SiteWatch) -> Any:
        watch.stop()
        self._findings.broker_stats[self._name] = self._broker.client.stats()
        self._findings.site_counters = self._site.counters()
        return self._findings.evidence(watch.seen(), read_logs(self._site.folder / "logs"))


def blocks_of(load: ClientLoad, seed: int, until_ns: int) -> dict[str, Block]:
    """The messages of each topic, every producer's evenly spaced; producers are numbered over all topics."""
    producers, _ = _members(load)
    return {topic.name: _block(topic, producers[topic.name], seed, until_ns) for topic in load.topics}


def _block(topic: TopicLoad, producers: Mapping[str, int], seed: int, until_ns: int) -> Block:
    at_ns, publisher = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for client, number in producers.items():
        phase = generator(seed, "messages", topic.name, client).random()
        found = instants(Span(0, until_ns), topic.rate_rps, phase, until_ns)
        at_ns.append(found)
        publisher.append(np.full(len(found), number, np.int32))
    instants_ns, publishers = np.concatenate(at_ns), np.concatenate(publisher)
    order = np.lexsort((publishers, instants_ns))
    ones = np.ones(len(order), np.int32)
    return Block(instants_ns[order], publishers[order], ones, max(topic.size_bytes, BODY_BYTES_MINIMUM))


def _channel(number: int) -> str:
    return f"consumer{number + 1}"


def _members(load: ClientLoad) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    """Producers of each topic with their numbers, and its consumers."""
    producers: dict[str, dict[str, int]] = {topic.name: {} for topic in load.topics}
    consumers: dict[str, list[str]] = {topic.name: [] for topic in load.topics}
    number = 0
    for joined in load.happenings(0):
        assert isinstance(joined, Joined) and joined.at_ns == 0
        if joined.role is Role.PRODUCER:
            producers[joined.topic][joined.client] = number
            number += 1
        else:
            consumers[joined.topic].append(joined.client)
    return producers, consumers


def _cores() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The broker's, the last one that we may use, and the clients'; none where there is no choice."""
    usable = sorted(os.sched_getaffinity(0))
    return ((usable[-1],), tuple(usable[:-1])) if len(usable) > 1 else ((), ())


def _pin(pid: int, cores: Sequence[int]) -> None:
    """All threads that a process has; those that it makes later are born with their maker's cores."""
    for thread in os.listdir(f"/proc/{pid}/task") if cores else ():
        os.sched_setaffinity(int(thread), cores)


def _joined(parts: Sequence[Columns]) -> Columns:
    """The rows of all publishers' hosts."""
    names = ("message", "intended_at_ns", "sent_at_ns", "acknowledged_at_ns")
    return {name: np.concatenate([np.empty(0, np.int64), *(part[name] for part in parts)]) for name in names}


def _of(rows: Columns, topic: str, tag: int) -> Columns:
    """What came of one topic's load."""
    names = rows["topics"].tolist()
    mine = np.zeros(len(rows["tag"]), bool)
    if topic in names:
        mine = (rows["topic"] == names.index(topic)) & (rows["tag"] == tag)
    return {name: rows[name][mine] for name in ("message", "intended_at_ns", "received_at_ns")}


def _fate(sent: Columns, got: Columns) -> DeliveryAccount:
    """Of one topic and consumer."""
    return account(
        np.sort(sent["message"]),
        sent["message"][sent["sent_at_ns"] != ABSENT],
        sent["message"][sent["acknowledged_at_ns"] != ABSENT],
        got["message"],
    )


def _sleep_until(at_ns: int) -> None:
    left_ns = at_ns - time.time_ns()
    if left_ns > 0:
        time.sleep(left_ns / SECOND_NS)
