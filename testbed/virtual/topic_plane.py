"""The data plane of topics in virtual time: who was connected where, and when; messages are reckoned out afterwards.

Rates are known in advance and nothing that a control plane sees depends on a single message, so that while the run
lasts only spans are kept: a broker accepts a topic, a producer is attached, a consumer is subscribed.  What became of
each message follows from them (``topic_kernel``).  What brokers use of their machines is reckoned from rates, too: the
processor by what is sent out, the memory by open topics and what waits, the network by bytes; only the first of them
slows anything down.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import mean

from core.clients import ClientLoad, Happening, Joined, Left, Moved, Role, TopicLoad
from core.errors import SystemFault
from core.units import SECOND_NS
from systems.placement.messages import (
    Attach,
    Detach,
    Fence,
    Follow,
    Open,
    Subscribed,
    Traffic,
    Unfollow,
    Unsubscribed,
    Used,
)
from testbed.brokers.machine import BrokerMachine, shares

UNLIMITED_RPS = 1e15
EVER_NS = 2**62  # the end of what has not ended


@dataclass
class Span:
    """From an instant up to another, with respect to a broker ("" where there is none)."""

    start_ns: int
    end_ns: int = EVER_NS
    broker: str = ""


@dataclass
class TopicSpans:
    """All that decides what becomes of a topic's messages.  Spans of one name are in order and do not overlap."""

    load: TopicLoad
    open: list[Span] = field(default_factory=list)  # accepted by a broker
    attached: dict[str, list[Span]] = field(default_factory=dict)  # producer -> connected to a broker
    subscribed: dict[str, list[Span]] = field(default_factory=dict)  # consumer -> served by a broker
    wanted: dict[tuple[str, Role], list[Span]] = field(default_factory=dict)  # client and role -> in use

    def leave(self, broker: str, now_ns: int) -> None:
        """The broker accepts and serves it no more."""
        for spans in (self.open, *self.subscribed.values()):
            _end(spans, now_ns, broker)


class VirtualTopicPlane:
    """The spans of a run; ``happenings``: what clients do, in order, all of it known in advance.

    ``out_rps``: what a broker's processor can send out, on a ``machine``.
    """

    def __init__(
        self,
        load: ClientLoad,
        brokers: Sequence[str],
        happenings: Sequence[Happening],
        machine: BrokerMachine | None = None,
        out_rps: float = UNLIMITED_RPS,
    ):
        self.brokers, self.now_ns = brokers, 0
        self.machine, self.out_rps = machine or BrokerMachine(), out_rps
        self.crashes_ns = {broker: list[int]() for broker in brokers}
        self._waiting_count = dict.fromkeys(brokers, 0.0)
        self._size_bytes = mean(topic.size_bytes for topic in load.topics)
        self._reported_ns = 0
        self.topics = {topic.name: TopicSpans(topic) for topic in load.topics}
        self.places = {client: [(0, site)] for client, site in load.homes.items()}  # client -> since when at which site
        for happening in happenings:
            match happening:
                case Moved(at_ns, client, site):
                    self.places[client].append((at_ns, site))
                case Joined(at_ns, client, topic, role):
                    self.topics[topic].wanted.setdefault((client, role), []).append(Span(at_ns))
                case Left(at_ns, client, topic, role):
                    self.topics[topic].wanted[client, role][-1].end_ns = at_ns

    def advance(self, until_ns: int) -> None:
        """Messages go on as the spans say."""
        self.now_ns = until_ns

    def report(self) -> Iterable[tuple[str, object]]:
        """The rates of now: what producers attached to a topic's broker send, and what its consumers get.

        Before them, what each broker uses of its machine.
        """
        rates = [(topic.open[-1].broker, *_rates(topic)) for topic in self.topics.values() if _lasts(topic.open)]
        span_s, self._reported_ns = (self.now_ns - self._reported_ns) / SECOND_NS, self.now_ns
        told: list[tuple[str, object]] = [(broker, self._used(broker, rates, span_s)) for broker in self.brokers]
        return [*told, *((broker, traffic) for broker, traffic, _ in rates)]

    def _used(self, broker: str, rates: list[tuple[str, Traffic, int]], span_s: float) -> Used:
        """Of a broker that has had these rates for so long; what it cannot send out waits."""
        mine = [(traffic, size) for name, traffic, size in rates if name == broker]
        out_rps = sum(traffic.out_rps for traffic, _ in mine)
        waiting = max(0.0, self._waiting_count[broker] + (out_rps - self.out_rps) * span_s)
        self._waiting_count[broker] = waiting
        memory_bytes = len(mine) * self.machine.topic_bytes + waiting * self._size_bytes
        received_bytes = sum(traffic.in_rps * size for traffic, size in mine)
        wanted_bytes = sum(traffic.out_rps * size for traffic, size in mine)
        sent_bytes = wanted_bytes * min(1.0, self.out_rps / out_rps) if out_rps else 0.0
        network = max(received_bytes, sent_bytes) / self.machine.network_bytes
        return shares(out_rps / self.out_rps, memory_bytes / self.machine.memory_bytes, network)

    def actuate(self, node: str, command: object, now_ns: int) -> None:
        """A broker opens or closes a topic or serves a client; a client connects to a broker or is cut off."""
        topic = self.topics.get(getattr(command, "topic", ""))
        if topic is None:
            raise SystemFault(f"{node} commanded {command}", f"topics are {', '.join(self.topics)}")
        match command:
            case Open():
                topic.open.append(Span(now_ns, broker=node))
            case Fence():
                topic.leave(node, now_ns)
            case Attach(_, broker):
                _end(topic.attached.setdefault(node, []), now_ns)
                topic.attached[node].append(Span(now_ns, broker=broker))
            case Detach():
                _end(topic.attached.get(node, []), now_ns)
            case Subscribed(_, client):
                _end(topic.subscribed.setdefault(client, []), now_ns)
                topic.subscribed[client].append(Span(now_ns, broker=node))
            case Unsubscribed(_, client):
                _end(topic.subscribed.get(client, []), now_ns, node)
            case Follow() | Unfollow():
                pass  # brokers deliver of their own accord
            case _:
                raise SystemFault(f"{node} commanded {command}", "see systems.placement.messages")

    def crash(self, node: str, now_ns: int) -> None:
        """What the node accepted, sent or served ends, and what waits in a broker goes with it."""
        if node in self.crashes_ns:
            self.crashes_ns[node].append(now_ns)
            self._waiting_count[node] = 0.0
        for topic in self.topics.values():
            topic.leave(node, now_ns)
            _end(topic.attached.get(node, []), now_ns)
            _end(topic.subscribed.get(node, []), now_ns)


def _rates(topic: TopicSpans) -> tuple[Traffic, int]:
    """At the broker that has the topic now; and its messages' size."""
    broker = topic.open[-1].broker
    producers, consumers = (
        sum(_lasts(spans) and spans[-1].broker == broker for spans in clients.values())
        for clients in (topic.attached, topic.subscribed)
    )
    in_rps = producers * topic.load.rate_rps
    return Traffic(topic.load.name, in_rps, in_rps * consumers), topic.load.size_bytes


def _lasts(spans: list[Span]) -> bool:
    return bool(spans) and spans[-1].end_ns == EVER_NS


def _end(spans: list[Span], now_ns: int, broker: str = "") -> None:
    """End what lasts, of that broker (or of any): another may have begun before."""
    own = [span for span in spans if broker in ("", span.broker)]
    if _lasts(own):
        own[-1].end_ns = now_ns
