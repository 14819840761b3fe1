"""What became of every message of a run of topics, topic by topic over arrays.

A producer sends a message at its instant, or as soon as it is attached again; on a connection nothing overtakes.  A
broker accepts what arrives before it fences the topic; what comes later is sent again to the next broker.  Each broker
serves what it accepts first come first served, ``1 / out_rps`` of a second for each consumer to be served.  A consumer
that is subscribed gets a message a path's delay later; one that is cut off, when it is subscribed again: the
subscription outlives the move.  A message's latency counts from its instant until the last consumer has it (ePulsar,
5.8); a consumer is owed what is served from its first subscription on, until it leaves, and what was to be sent in that
time and no broker ever accepted: a topic that nobody serves is late with everything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.clients import Role, instants
from core.records import Int64
from core.seeds import generator
from core.units import NEVER_NS, SECOND_NS
from testbed.trust.accounts import Fate, of_topic
from testbed.virtual.topic_plane import Span, TopicSpans, VirtualTopicPlane

UNFINISHED_NS = 10 * SECOND_NS  # ours, as paper_figs.epulsar.windows has it: what a move takes, and more


@dataclass(frozen=True)
class Roads:
    """Delays between sites and brokers, one way.

    ``delay_ns``: int64 (sites, brokers); ``cuts``: (site, broker) -> spans, by their ends, in which nothing passes
    between them: what is sent then arrives after the end.
    """

    brokers: tuple[str, ...]
    access_ns: int
    delay_ns: Int64
    cuts: Mapping[tuple[int, int], tuple[tuple[int, int], ...]]

    def arrivals(self, sent_ns: Int64, site: Int64, broker: int) -> Int64:
        """When what is sent between sites and a broker is there: int64 of the shape of ``sent_ns``."""
        departs = sent_ns.copy()
        for (cut_site, cut_broker), spans in self.cuts.items():
            if cut_broker == broker:
                for start_ns, end_ns in spans:
                    departs[(site == cut_site) & (departs >= start_ns) & (departs < end_ns)] = end_ns
        there_ns: Int64 = departs + self.access_ns + self.delay_ns[site, broker]
        return there_ns


class Messages(NamedTuple):
    """A topic's messages: int64 arrays (n,), in the order of acceptance."""

    born_ns: Int64
    accepted_ns: Int64
    broker: Int64  # its number


_NO_MESSAGES = Messages(*[np.zeros(0, np.int64)] * 3)
Persist = Callable[[str, int, int], Int64]  # topic, broker's number, messages -> how long each waits, int64 (messages,)


def fates(
    plane: VirtualTopicPlane, roads: Roads, until_ns: int, out_rps: float, seed: int, persist: Persist | None = None
) -> dict[str, Fate]:
    """What became of the messages born before ``until_ns``, by topic; ``out_rps``: of each broker.

    ``persist``: how long messages wait in their broker until they are stored, beside the queue; they keep their order.
    """
    sent = {name: _accepted(plane, spans, roads, until_ns, seed) for name, spans in plane.topics.items()}
    accepted = {name: messages for name, (messages, _) in sent.items()}
    served = _served(accepted, plane.topics, len(roads.brokers), out_rps)
    if persist is not None:
        for name, messages in accepted.items():
            for broker in range(len(roads.brokers)):
                mine = np.flatnonzero(messages.broker == broker)
                stored_ns = served[name][mine] + persist(name, broker, len(mine))
                served[name][mine] = np.maximum.accumulate(stored_ns)
    return {
        name: of_topic(
            [_fate(plane, spans, roads, accepted[name], served[name]), _fate_of_left(spans, sent[name][1], until_ns)]
        )
        for name, spans in plane.topics.items()
    }


# --- to the broker -----------------------------------------------------------------------------------


def _accepted(
    plane: VirtualTopicPlane, topic: TopicSpans, roads: Roads, until_ns: int, seed: int
) -> tuple[Messages, Int64]:
    """What brokers accepted, and when those were born, in order, that none did."""
    parts, left_ns = [], [np.zeros(0, np.int64)]
    for (client, role), wanted in topic.wanted.items():
        if role is Role.PRODUCER:
            phase = generator(seed, "messages", topic.load.name, client).random()
            born_ns = np.concatenate(
                [instants(span.start_ns, min(span.end_ns, until_ns), topic.load.rate_rps, phase) for span in wanted]
            )
            messages, rest_ns = _sent(plane, topic, roads, client, born_ns)
            parts.append(messages)
            left_ns.append(rest_ns)
    together = _together(parts)
    order = np.argsort(together.accepted_ns, kind="stable")
    return Messages(*(column[order] for column in together)), np.sort(np.concatenate(left_ns))


def _together(parts: list[Messages]) -> Messages:
    columns = zip(_NO_MESSAGES, *parts, strict=True)
    return Messages(*map(np.concatenate, columns))


def _sent(
    plane: VirtualTopicPlane, topic: TopicSpans, roads: Roads, client: str, born_ns: Int64
) -> tuple[Messages, Int64]:
    """A producer's messages, through its connections one after the other, and those that none of them brought."""
    accepted_parts, rest = [], born_ns
    for span in topic.attached.get(client, []):
        ready = np.searchsorted(rest, span.end_ns)
        mine, rest = rest[:ready], rest[ready:]
        broker = roads.brokers.index(span.broker)
        sent_ns = np.maximum(mine, span.start_ns)
        arrived_ns = np.maximum.accumulate(roads.arrivals(sent_ns, _sites(plane, client, sent_ns), broker))
        accepted = np.searchsorted(arrived_ns, _fenced_ns(topic, span))
        accepted_parts.append(Messages(mine[:accepted], arrived_ns[:accepted], np.full(accepted, broker)))
        rest = np.concatenate([mine[accepted:], rest])
    return _together(accepted_parts), rest


def _fenced_ns(topic: TopicSpans, attached: Span) -> int:
    """When the broker stopped to accept what a producer sends that was let in at the start of ``attached``."""
    ends = [span.end_ns for span in topic.open if span.broker == attached.broker and span.start_ns <= attached.start_ns]
    return ends[-1] if ends else 0


def _sites(plane: VirtualTopicPlane, client: str, at_ns: Int64) -> Int64:
    since_ns, site = (np.array(column) for column in zip(*plane.places[client], strict=True))
    sites: Int64 = site[np.searchsorted(since_ns, at_ns, side="right") - 1]
    return sites


# --- in the broker -----------------------------------------------------------------------------------


def _served(
    accepted: Mapping[str, Messages], topics: Mapping[str, TopicSpans], brokers: int, out_rps: float
) -> dict[str, Int64]:
    """When each message is served: int64 arrays as ``accepted``; one queue a broker for all topics."""
    works = {name: _fanout(topics[name], messages) * (SECOND_NS / out_rps) for name, messages in accepted.items()}
    instants_ns = {name: np.zeros(len(messages.born_ns), np.int64) for name, messages in accepted.items()}
    for broker in range(brokers):
        mine = {name: np.flatnonzero(messages.broker == broker) for name, messages in accepted.items()}
        arrived_ns = np.concatenate([accepted[name].accepted_ns[rows] for name, rows in mine.items()])
        work_ns = np.concatenate([works[name][rows] for name, rows in mine.items()])
        order = np.argsort(arrived_ns, kind="stable")
        served_ns = np.empty(len(order), np.int64)
        served_ns[order] = _queue(arrived_ns[order], work_ns[order])
        start = 0
        for name, rows in mine.items():
            instants_ns[name][rows] = served_ns[start : start + len(rows)]
            start += len(rows)
    return instants_ns


def _queue(arrived_ns: Int64, work_ns: NDArray[np.float64]) -> Int64:
    """When a server that takes one after the other is done with each (Lindley's recursion)."""
    if not len(arrived_ns):
        return arrived_ns
    origin_ns = arrived_ns[0]
    total_ns = np.cumsum(work_ns)
    begun_ns = np.maximum.accumulate(arrived_ns - origin_ns - (total_ns - work_ns))
    served_ns: Int64 = origin_ns + np.ceil(begun_ns + total_ns - 1e-3).astype(np.int64)
    return served_ns


def _fanout(topic: TopicSpans, messages: Messages) -> NDArray[np.float64]:
    """How many consumers were subscribed when each message was accepted."""
    spans = [span for spans in topic.subscribed.values() for span in spans]
    starts, ends = np.sort([span.start_ns for span in spans]), np.sort([span.end_ns for span in spans])
    at_ns = messages.accepted_ns
    return (np.searchsorted(starts, at_ns, side="right") - np.searchsorted(ends, at_ns, side="right")).astype(float)


# --- to the consumers --------------------------------------------------------------------------------


def _fate(plane: VirtualTopicPlane, topic: TopicSpans, roads: Roads, messages: Messages, served_ns: Int64) -> Fate:
    order = np.argsort(served_ns, kind="stable")
    served_ns, born_ns = served_ns[order], messages.born_ns[order]
    count = len(order)
    last_ns, late, consumers = np.full(count, -1, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    for (client, role), wanted in topic.wanted.items():
        if role is not Role.CONSUMER:
            continue
        for span in wanted:
            spans = _spans_in(topic, client, span)
            if not spans:
                continue
            low, high = np.searchsorted(served_ns, (spans[0].start_ns, span.end_ns))
            received_ns = _received(plane, roads, client, spans, served_ns[low:high])
            consumers[low:high] += 1
            late[low:high] += received_ns - born_ns[low:high] > topic.load.bound_ns
            last_ns[low:high] = np.maximum(last_ns[low:high], received_ns)
    mine = np.flatnonzero(consumers)
    mine = mine[np.argsort(born_ns[mine], kind="stable")]
    latency_ns = np.where(last_ns[mine] >= NEVER_NS, -1, last_ns[mine] - born_ns[mine])
    return Fate(born_ns[mine], latency_ns, late[mine], consumers[mine])


def _fate_of_left(topic: TopicSpans, born_ns: Int64, until_ns: int) -> Fate:
    """Of messages that no broker accepted: whoever is owed them never had them.

    Without those of the last seconds of the run: somebody may be about to take them.
    """
    born_ns = born_ns[born_ns < until_ns - UNFINISHED_NS]
    consumers = np.zeros(len(born_ns), np.int64)
    for (client, role), wanted in topic.wanted.items():
        for span in wanted if role is Role.CONSUMER else ():
            spans = _spans_in(topic, client, span)
            if spans:
                consumers[slice(*np.searchsorted(born_ns, (spans[0].start_ns, span.end_ns)))] += 1
    owed = consumers > 0
    return Fate(born_ns[owed], np.full(np.count_nonzero(owed), -1), consumers[owed], consumers[owed])


def _spans_in(topic: TopicSpans, client: str, wanted: Span) -> list[Span]:
    """When a consumer was subscribed in a span in which it wanted the topic."""
    return [one for one in topic.subscribed.get(client, []) if wanted.start_ns <= one.start_ns < wanted.end_ns]


def _received(plane: VirtualTopicPlane, roads: Roads, client: str, spans: list[Span], served_ns: Int64) -> Int64:
    """When a consumer has each message; ``NEVER_NS`` where it was cut off and did not come back."""
    starts, ends = (np.array([getattr(span, name) for span in spans]) for name in ("start_ns", "end_ns"))
    number = np.searchsorted(ends, served_ns, side="right")
    received_ns = np.full(len(served_ns), NEVER_NS, np.int64)
    for i, span in enumerate(spans):
        low, high = np.searchsorted(number, (i, i + 1))
        departs_ns = np.maximum(served_ns[low:high], starts[i])
        broker = roads.brokers.index(span.broker)
        arrivals_ns = roads.arrivals(departs_ns, _sites(plane, client, departs_ns), broker)
        received_ns[low:high] = np.maximum.accumulate(arrivals_ns)
    return received_ns
