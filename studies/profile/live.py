"""Profiles one real broker: many topics, several producers and consumers each, at a fixed rate, open loop.

Each consumer has a channel of its own on every topic, so that it gets every message: the fan-out.  Consumer number k
of all topics is one process, and producers are spread over the publishers' hosts.  The broker has a core to itself
where there are several, so that it, and not its clients, is what the load fills.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import reduce
from itertools import count, cycle
from operator import add

import numpy as np

from core.clients import ClientLoad, Joined, Role, TopicLoad, instants
from core.errors import MachineError
from core.records import Block
from core.seeds import generator
from core.units import SECOND_NS
from studies.profile.asked import Profiled, ProfileRequest, broker_of
from studies.profile.fold import FanOut, folded
from testbed.brokers.launcher import Brokers
from testbed.brokers.publish_load import BODY_BYTES_MINIMUM
from testbed.brokers.traffic import CONNECT_S, STATUS_S, Columns, Crew, Deliveries, Publishers
from testbed.hosts.groups import confined
from testbed.hosts.pipes import PipedProcess
from testbed.hosts.site import Program, Site, python_agent
from testbed.play import LEAD_NS, Observer, Play, Progress
from testbed.trust.accounts import shifted

LEAD_OF_MESSAGE_NS = 20_000  # for each message of the loads, from their handing over to the first instant
DRAIN_S, STILL_S = 30.0, 2.0  # at most; nothing came for so long: nothing will
_ROOM = 1.1
_SPARE_ROWS = 10_000
CLIENTS = "clients"  # a node of samples: all clients' processes


def run(site: Site, asked: ProfileRequest) -> Profiled:
    """Offer the load, whose clients all join at 0, to the site's only broker, and measure."""
    return _Bench(site, asked).carry_out()


class _Bench:
    def __init__(self, site: Site, asked: ProfileRequest):
        self._site, self._asked = site, asked
        self._name = broker_of(site.topology)
        self._topics = list(asked.load.topics)
        self._producers, self._consumer_count = members_of(asked.load)
        self._blocks = blocks_of(asked.load, asked.seed, asked.duration_ns)
        self._message_count = sum(block.message_count for block in self._blocks.values())
        self._observer = Observer(site, asked.scale_ns)
        self._findings = self._observer.findings
        self._timeline = Play()
        self._begin_ns = 0  # CLOCK_REALTIME of the load's time 0

    def carry_out(self) -> Profiled:
        """Bring everybody up, play the load, take the records home."""
        with ExitStack() as stack:
            self._publishers = Publishers(self._site, self._site.topology.node_names("publisher"))
            self._subscribers = self._start_consumers(self._site.topology.node_names("subscriber"))
            own, others = self._cores()
            brokers = Brokers(self._site, [self._name], cores=own)
            stack.callback(brokers.close)
            self._broker, self._token = brokers.all[0], brokers.token
            for topic in self._topics:
                self._broker.client.open(topic.name, self._channels(topic))
            for agent in (*self._publishers.agents.values(), *self._subscribers.agents.values()):
                pin(agent.pid, others)
            self._connect()
            if self._is_here:
                stack.enter_context(confined(self._site.state, self._broker.agent.pid, self._asked.core_share))
            with self._observer.watch:
                cpu = self._play()
                self._drain()
                return self._taken_home(cpu)

    @property
    def _is_here(self) -> bool:
        """Whether the hosts are on this machine, so that their processes can be pinned and confined."""
        return all(isinstance(agent.process, PipedProcess) for agent in self._publishers.agents.values())

    def _cores(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The broker's, the last one that we may use, and the clients'; none where there is no choice."""
        usable = sorted(os.sched_getaffinity(0))
        if self._is_here:
            return ((usable[-1],), tuple(usable[:-1])) if len(usable) > 1 else ((), ())
        share = self._asked.core_share
        confined_to = "" if share == 1 else f", nor confined to {share:g} of one"
        self._site.notes.append(f"the broker is not pinned to a core of its machine{confined_to}")
        return (), ()

    # --- who is there ----------------------------------------------------------------------------------

    def _channels(self, topic: TopicLoad) -> list[str]:
        return [_channel(number) for number in range(self._consumer_count[topic.name])]

    def _start_consumers(self, hosts: Sequence[str]) -> Crew:
        """A process for each number of a consumer, on the subscribers' hosts in turn."""
        rows = int(self._message_count * _ROOM) + _SPARE_ROWS
        command = python_agent("testbed.brokers.subscribe_host", str(rows))
        names = [f"subscribe-{_channel(number)}" for number in range(max(self._consumer_count.values()))]
        started = {
            name: self._site.start(host, Program(name, command))
            for name, host in zip(names, cycle(hosts), strict=False)
        }
        return Crew(self._site, started)

    def _connect(self) -> None:
        """Consumers first: a channel's messages wait for them, but latency would count."""
        for topic in self._topics:
            for number, channel in enumerate(self._channels(topic)):
                agent = self._subscribers.agents[f"subscribe-{channel}"]
                answer = agent.ask(
                    "subscribe",
                    CONNECT_S,
                    brokers=[self._broker.nsqd],
                    topic=topic.name,
                    token=self._token,
                    channel=channel,
                )
                if answer["failed"]:
                    raise MachineError(f"{topic.name}, consumer {number}: {answer['last_problem']}", "see the logs")
        numbers = [number for theirs in self._producers.values() for number in theirs.values()]
        failed = self._publishers.connect(dict.fromkeys(numbers, self._broker.ingress), self._token)
        if failed:
            raise MachineError(f"{len(failed)} producers cannot reach the broker", "see the logs")

    # --- the load --------------------------------------------------------------------------------------

    def _play(self) -> dict[str, float]:
        """Hand out the loads and wait until all is due; returns processor time in the measured span, by node."""
        for tag, topic in enumerate(self._topics, 1):
            self._publishers.bring(self._blocks[topic.name], tag)
        lead_ns = LEAD_NS * (1 + len(self._topics) // 4) + LEAD_OF_MESSAGE_NS * self._message_count
        self._begin_ns = self._timeline.begin(lead_ns)
        for tag, topic in enumerate(self._topics, 1):
            self._publishers.load(self._begin_ns, topic.name, tag)
        self._timeline.until(self._asked.warm_up_ns)
        before = self._cpu_ns()
        self._timeline.until(self._asked.duration_ns)
        after = self._cpu_ns()
        self._findings.played(self._begin_ns, self._begin_ns + self._asked.duration_ns)
        return {node: after[node] - before[node] for node in after}

    def _cpu_ns(self) -> dict[str, float]:
        broker_ns = self._broker.client.stats()["cpu_ns"]
        crews = (self._publishers, self._subscribers)
        answers = [answer for crew in crews for answer in crew.ask_all("status", STATUS_S).values()]
        return {self._name: float(broker_ns), CLIENTS: float(sum(answer["cpu_ns"] for answer in answers))}

    def _drain(self) -> None:
        wanted = sum(block.message_count * self._consumer_count[topic] for topic, block in self._blocks.items())
        end_ns = self._timeline.now_ns() + int(DRAIN_S * SECOND_NS)

        def progress() -> Progress:
            answers = self._subscribers.ask_all("status", STATUS_S)
            delivered = sum(answer["delivery_count"] for answer in answers.values())
            at_rest = delivered >= wanted and self._publishers.done()
            return Progress(delivered, at_rest, patience_ns=int(STILL_S * SECOND_NS))

        self._timeline.drain(progress, lambda: end_ns)

    # --- the records -------------------------------------------------------------------------------------

    def _taken_home(self, cpu_ns: Mapping[str, float]) -> Profiled:
        sent = {topic.name: _joined(self._publishers.collect(tag)) for tag, topic in enumerate(self._topics, 1)}
        answers, got = self._subscribers.collect_all("deliveries")
        lost = [*self._publishers.lost, *self._subscribers.lost, *([] if self._broker.alive else [self._name])]
        if lost:  # what is left is no profile
            raise MachineError(f"ended during the load: {', '.join(lost)}", "see the logs")
        loads = (self._fan_out(tag, topic, sent[topic.name], got) for tag, topic in enumerate(self._topics, 1))
        fold = folded(loads, (self._asked.warm_up_ns, self._asked.duration_ns), self._name, cpu_ns)
        for late_ns in fold.late_ns:
            self._findings.late(late_ns)
        if fold.accounts:
            beside = {
                "dropped_rows": sum(answer["dropped_rows"] for answer in answers.values()),
                "out_of_order": sum(answer["out_of_order_count"] for answer in answers.values()),
            }
            self._findings.accounted(0, reduce(add, fold.accounts), beside)
        self._observer.watch.stop()
        self._findings.broker_stats[self._name] = self._broker.client.stats()
        return Profiled(fold.latency_ns, fold.samples, self._observer.evidence())

    def _fan_out(self, tag: int, topic: TopicLoad, sent: Columns, got: Mapping[str, Columns]) -> FanOut:
        block, deliveries = self._blocks[topic.name], []
        for channel in self._channels(topic):
            mine = Deliveries([got[f"subscribe-{channel}"]]).of(topic.name, tag)
            deliveries.append((mine["message"], mine["received_at_ns"] - self._begin_ns))
        sent_ns, acknowledged_ns = (
            shifted(sent[name], self._begin_ns) for name in ("sent_at_ns", "acknowledged_at_ns")
        )
        intended_ns, _, _ = block.messages()
        return FanOut(int(block.size_bytes), intended_ns, sent["message"], sent_ns, acknowledged_ns, deliveries)


def blocks_of(load: ClientLoad, seed: int, until_ns: int) -> dict[str, Block]:
    """The messages of each topic, every producer's evenly spaced; producers are numbered over all topics."""
    producers, _ = members_of(load)
    return {topic.name: _block(topic, producers[topic.name], seed, until_ns) for topic in load.topics}


def _block(topic: TopicLoad, producers: Mapping[str, int], seed: int, until_ns: int) -> Block:
    at_ns, publisher = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for client, number in producers.items():
        phase = generator(seed, "messages", topic.name, client).random()
        at_ns.append(instants(0, until_ns, topic.rate_rps, phase))
        publisher.append(np.full(len(at_ns[-1]), number, np.int32))
    instants_ns, publishers = np.concatenate(at_ns), np.concatenate(publisher)
    order = np.lexsort((publishers, instants_ns))
    ones = np.ones(len(order), np.int32)
    return Block(instants_ns[order], publishers[order], ones, max(topic.size_bytes, BODY_BYTES_MINIMUM))


def _channel(number: int) -> str:
    return f"consumer{number + 1}"


def members_of(load: ClientLoad) -> tuple[dict[str, dict[str, int]], Counter[str]]:
    """Producers of each topic with their numbers, and how many consumers it has."""
    producers: dict[str, dict[str, int]] = {topic.name: {} for topic in load.topics}
    consumer_count = Counter({topic.name: 0 for topic in load.topics})
    number = count()
    for joined in load.happenings(0):
        assert isinstance(joined, Joined) and joined.at_ns == 0
        if joined.role is Role.PRODUCER:
            producers[joined.topic][joined.client] = next(number)
        else:
            consumer_count[joined.topic] += 1
    return producers, consumer_count


def pin(pid: int, cores: Sequence[int]) -> None:
    """All threads that a process has; those that it makes later are born with their maker's cores."""
    pinned = set[str]() if cores else set(os.listdir(f"/proc/{pid}/task"))
    while born := set(os.listdir(f"/proc/{pid}/task")) - pinned:  # of one that was not pinned yet, maybe
        for thread in born:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(int(thread), cores)
        pinned |= born


def _joined(parts: Sequence[Columns]) -> Columns:
    names = ("message", "sent_at_ns", "acknowledged_at_ns")
    return {name: np.concatenate([np.empty(0, np.int64), *(part[name] for part in parts)]) for name in names}
