"""How Apache Pulsar 4 moves a topic, in virtual time: fence, own, close; what each step takes.

A *transfer* (``unload?destinationBroker``): REST is asked, the owner **fences** the topic; the next broker comes to
**own** it, and only then the old one **closes** its clients and names the next, which opens the topic when they come.
That is another order than ePulsar's (release, close, own).  A *plain unload* fences and closes at once; somebody is
found to own the topic while clients wait.

A step takes round trips to the store, one after the other, and then time at a broker, of which a part is work of a
processor.  All brokers of a machine share its cores, first come, first served; so sixteen moves at a time each take
longer.  Clients come back at once, with what they have not had acknowledged: messages are late by what a topic was
fenced.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from core.clients import Role
from core.records import Sample
from core.seeds import generator
from core.units import MILLISECOND_NS, SECOND_NS
from studies.placement.asked import Spell
from studies.placement_on_pulsar.asked import Change, ClientCrew, ClientDowntime, PulsarRequest, StepSpan
from studies.placement_on_pulsar.modelled_messages import ClientWays, Fenced, TopicPast
from studies.placement_on_pulsar.nodes import Served, ServedTopic, Unload, Unloaded
from systems.api import Delivery, Event, Report
from systems.placement.messages import Write
from systems.placement.monitoring import OWNERS, Rates


class MoveStep(NamedTuple):
    """Part of a move: round trips to the store, then milliseconds at a broker, of which a share keeps a core busy."""

    trips: float
    work_ms: float


@dataclass(frozen=True)
class PulsarCosts:
    """Of the steps of a move; fitted to medians of live runs (``benchmarks.pulsar_model``)."""

    ask: MoveStep  # REST is asked: until the topic is fenced
    hand: MoveStep  # a transfer: until the next broker owns it, and the old one has closed its clients
    answer: MoveStep  # ... until REST answers
    free: MoveStep  # a plain unload, fenced and closed: until REST answers
    find: MoveStep  # ... until a broker owns it, which clients have found
    open: MoveStep  # clients are there: until they are let in
    flow: MoveStep  # ... until the first delivery
    busy_share: float  # of the milliseconds at a broker; the rest waits, for a disk or another thread
    cores: int = 2


class PulsarBody(Protocol):
    """The event loop, as far as a plane wants it."""

    now_ns: int

    def call_at(self, at_ns: int, action: Callable[..., None], *arguments: object) -> None:
        """See ``testbed.virtual.scheduler.EventLoop``, as the others."""

    def inject(self, node: str, at_ns: int, event: Event) -> None:
        """Give a node an event."""


class _Client(NamedTuple):
    """A client of a topic; ``number``: the topic's in its host's crew."""

    host: str
    number: int
    role: Role

    @property
    def name(self) -> str:
        """As Pulsar has it."""
        return f"{self.host}.{self.number}"


@dataclass
class _Topic:
    """A topic: who has it since when, who uses it, when it was fenced."""

    name: str
    broker: str
    since_ns: int = 0
    clients: dict[_Client, None] = field(default_factory=dict)
    fenced: list[Fenced] = field(default_factory=list)
    spells: list[Spell] = field(default_factory=list)


class _Move(NamedTuple):
    """REST was asked to unload a topic of ``source``; "" is the target of a plain unload until somebody owns it."""

    topic: _Topic
    source: str
    target: str
    asked_ns: int


class _Cores:
    """Work is done first come, first served."""

    def __init__(self, count: int):
        self._free_at_ns = [0] * count

    def done_ns(self, now_ns: int, work_ns: int) -> int:
        """When work that comes now is done; to be asked in order of time."""
        at_ns = max(now_ns, heapq.heappop(self._free_at_ns)) + work_ns
        heapq.heappush(self._free_at_ns, at_ns)
        return at_ns


class ModelledPulsar:
    """The data plane of the brokers ``names``, beside whose nodes it stands; ``store`` has the owners' entries."""

    def __init__(self, asked: PulsarRequest, names: Sequence[str], store: str, costs: PulsarCosts):
        self.asked, self.names, self.store, self.costs = asked, names, store, costs
        self.ways = ClientWays(asked, names)
        rng = generator(asked.seed, "pulsar")
        owners = rng.integers(len(names), size=len(asked.load.topics))
        self.topics = {
            topic.name: _Topic(topic.name, names[owner]) for topic, owner in zip(asked.load.topics, owners, strict=True)
        }
        for crew in asked.crews:
            for role, numbers in ((Role.PRODUCER, crew.producing), (Role.CONSUMER, crew.consuming)):
                for number in numbers:
                    self.topics[crew.topics[number]].clients[_Client(crew.node, number, role)] = None
        self.samples: list[Sample] = []
        self.steps: list[StepSpan] = []
        self.downtimes: list[ClientDowntime] = []
        self._rng, self._cores = rng, _Cores(costs.cores)
        self._trip_ns = {name: 2 * asked.topology.path(name, store).one_way_delay_ns for name in names}
        self._period_ns = round(SECOND_NS / asked.load.topics[0].rate_rps)  # topics are alike
        self._open_fences_ns: list[int] = []  # since when
        self._body: PulsarBody | None = None

    def begin(self, body: PulsarBody) -> None:
        """Every broker writes down what it has; consumers will come and go."""
        self._body = body
        for crew in self.asked.crews:
            for change in crew.changes:
                body.call_at(change.at_ns, self._change, crew, change)
        for topic in self.topics.values():
            body.inject(self.store, SECOND_NS, Delivery(topic.broker, Write(OWNERS + topic.name, topic.broker)))

    def _change(self, crew: ClientCrew, change: Change) -> None:
        client = _Client(crew.node, change.topic, Role.CONSUMER)
        clients = self.topics[crew.topics[change.topic]].clients
        if change.wanted:
            clients[client] = None
        else:
            clients.pop(client, None)

    # --- as a data plane -----------------------------------------------------------------------------

    def advance(self, until_ns: int) -> None:
        """Nothing happens between events."""

    def report(self) -> Iterable[tuple[str, object]]:
        """What is loaded at each broker."""
        rate_rps = self.asked.load.topics[0].rate_rps
        for name in self.names:
            here = {topic.name: topic for topic in self.topics.values() if topic.broker == name}
            yield name, Served({key: _served(topic, rate_rps) for key, topic in here.items()})

    def actuate(self, node: str, command: object, now_ns: int) -> None:
        """A broker's node asks REST to unload a topic of its own."""
        assert isinstance(command, Unload), command
        step = self._transfer if command.target else self._plain
        move = _Move(self.topics[command.unit], node, command.target, now_ns)
        self._after(node, self.costs.ask, step, move)

    def crash(self, node: str, now_ns: int) -> None:
        """Nobody who matters here: only load managers do, in virtual time."""

    # --- a move ------------------------------------------------------------------------------------------

    def _transfer(self, move: _Move) -> None:
        self._open_fences_ns.append(self._now_ns)
        self._after(move.source, self.costs.hand, self._handed, move, self._now_ns)

    def _handed(self, move: _Move, fenced_ns: int) -> None:
        self._owned(move.topic, move.target)
        self.steps.append(StepSpan(move.topic.name, "unload", move.asked_ns, self._now_ns))
        self._open(move, fenced_ns, self._now_ns)
        self._after(move.source, self.costs.answer, self._answered, move)

    def _plain(self, move: _Move) -> None:
        self._open_fences_ns.append(self._now_ns)
        target = self.names[int(self._rng.integers(len(self.names)))]  # by load, which is even
        self._after(move.source, self.costs.free, self._answered, move)
        self._after(target, self.costs.find, self._found, move._replace(target=target), self._now_ns)

    def _found(self, move: _Move, fenced_ns: int) -> None:
        self._owned(move.topic, move.target)
        self._open(move, fenced_ns, fenced_ns)

    def _owned(self, topic: _Topic, target: str) -> None:
        topic.spells.append(Spell(topic.name, topic.broker, topic.since_ns, self._now_ns))
        topic.broker, topic.since_ns = target, self._now_ns
        self._there.inject(self.store, self._now_ns, Delivery(target, Write(OWNERS + topic.name, target)))

    def _open(self, move: _Move, fenced_ns: int, closed_ns: int) -> None:
        """Clients come to its new broker; what is not persistent has no ledger, and is open once they are there."""
        topic = move.topic
        if self.asked.rule.persistent:
            self._after(topic.broker, self.costs.open, self._let_in, move, fenced_ns, closed_ns)
            return
        trips_ns = {client: 2 * self._way_ns(client.host, topic.broker) for client in topic.clients}
        for client, trip_ns in trips_ns.items():
            self._cut_off(topic, client, closed_ns, self._now_ns + trip_ns)
        self._there.call_at(self._now_ns + max(trips_ns.values(), default=0), self._flows, move, fenced_ns)

    def _way_ns(self, host: str, broker: str) -> int:
        number = self.ways.brokers[broker]
        return int(self.ways.ns(host, np.array([self._now_ns]), np.array([number]))[0])

    def _cut_off(self, topic: _Topic, client: _Client, closed_ns: int, back_ns: int) -> None:
        self.downtimes.append(ClientDowntime(client.host, topic.name, client.role, closed_ns, back_ns))

    def _let_in(self, move: _Move, fenced_ns: int, closed_ns: int) -> None:
        for client in move.topic.clients:
            self._cut_off(move.topic, client, closed_ns, self._now_ns)
        self._after(move.topic.broker, self.costs.flow, self._flows, move, fenced_ns)

    def _flows(self, move: _Move, fenced_ns: int) -> None:
        now_ns, topic = self._now_ns, move.topic
        topic.fenced.append(Fenced(fenced_ns, now_ns))
        self._open_fences_ns.remove(fenced_ns)
        before_ns = self._rng.integers(self._period_ns)  # since the last delivery
        gap_ns = max(now_ns - fenced_ns + int(before_ns), self._period_ns)
        self._sample(move.asked_ns, topic.name, "delivery_gap_ns", gap_ns)
        self._sample(move.asked_ns, topic.name, "migration_count", 1)

    def _answered(self, move: _Move) -> None:
        self._there.inject(move.source, self._now_ns, Report(Unloaded(move.topic.name)))
        self.steps.append(StepSpan(move.topic.name, "request", move.asked_ns, self._now_ns))

    def _sample(self, at_ns: int, node: str, metric: str, value: int) -> None:
        self.samples.append((at_ns, node, metric, float(value)))

    def _after(self, broker: str, step: MoveStep, then: Callable[..., None], *arguments: object) -> None:
        """Call ``then`` when the step is done."""
        work_ns = round(step.work_ms * MILLISECOND_NS)
        busy_ns = round(self.costs.busy_share * work_ns)
        at_ns = self._now_ns + round(step.trips * self._trip_ns[broker]) + work_ns - busy_ns
        self._there.call_at(at_ns, self._work, busy_ns, partial(then, *arguments))

    def _work(self, work_ns: int, then: Callable[[], None]) -> None:
        if work_ns:
            self._there.call_at(self._cores.done_ns(self._now_ns, work_ns), then)
        else:
            then()

    @property
    def _there(self) -> PulsarBody:
        assert self._body is not None, "begin first"
        return self._body

    @property
    def _now_ns(self) -> int:
        return self._there.now_ns

    # --- what came of it ---------------------------------------------------------------------------------

    def is_fenced(self, at_ns: int) -> bool:
        """Whether a topic was fenced before this instant that has not flowed since."""
        return any(fenced_ns < at_ns for fenced_ns in self._open_fences_ns)

    def pasts(self, until_ns: int) -> dict[str, TopicPast]:
        """Of all topics."""
        return {
            topic.name: TopicPast(
                [*topic.spells, Spell(topic.name, topic.broker, topic.since_ns, until_ns)], topic.fenced
            )
            for topic in self.topics.values()
        }


def _served(topic: _Topic, rate_rps: float) -> ServedTopic:
    producers, consumers = ([client.name for client in topic.clients if client.role is role] for role in Role)
    in_rps = rate_rps * len(producers)
    return ServedTopic(Rates(in_rps, in_rps * len(consumers)), producers, consumers)


# Of Pulsar 4.0.8, two brokers, ZooKeeper and a bookie on the two cores of one machine: see docs/pulsar.md.
FITTED = PulsarCosts(
    ask=MoveStep(0.4, 15.3),
    hand=MoveStep(5.4, 20.0),
    answer=MoveStep(2.3, 4.9),
    free=MoveStep(5.5, 23.9),
    find=MoveStep(8.0, 124.6),
    open=MoveStep(7.05, 35.7),
    flow=MoveStep(0.62, 14.0),
    busy_share=0.23,
)
