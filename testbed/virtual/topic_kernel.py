"""What became of every message of a run of topics, topic by topic over arrays.

A producer sends a message at its instant, or as soon as it is attached again; on a connection nothing overtakes.  A
broker accepts what arrives before it fences the topic; what comes later is sent again to the next broker.  Each broker
serves what it accepts first come first served, ``1 / out_rps`` of a second for each consumer to be served.  A consumer
that is subscribed gets a message a path's delay later; one that is cut off, when it is subscribed again: the
subscription outlives the move.  What waits in a broker that crashes is lost, or, where it was stored, goes to whoever
has the topic next.  A message's latency counts from its instant until the last consumer has it (ePulsar, 5.8); a
consumer is owed what is served from its first subscription on, until it leaves, and what was to be sent in that time
and no broker ever accepted: a topic that nobody serves is late with everything.
"""

from collections.abc import Callable, Mapping, Sequence
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
    between them: what is sent then arrives after the end, or at ``NEVER_NS`` where that is it.
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
        there_ns: Int64 = np.minimum(departs + self.access_ns + self.delay_ns[site, broker], NEVER_NS)
        return there_ns


class Messages(NamedTuple):
    """A topic's messages: int64 arrays (n,), in the order of acceptance."""

    born_ns: Int64
    accepted_ns: Int64
    broker: Int64  # its number


class Turns(NamedTuple):
    """When a topic's messages had their turn, and when those that wait for a consumer went with their broker.

    int64 arrays (n,).  ``NEVER_NS``: had none before their broker crashed; are stored, or it never crashed.
    """

    at_ns: Int64
    gone_ns: Int64


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
    served = _served(plane, accepted, roads.brokers, out_rps, persist)
    return {
        name: of_topic(
            [
                _fate(plane, spans, roads, accepted[name], served[name]),
                _fate_of_left(spans, _left(*sent[name], served[name].at_ns, until_ns, persist is not None)),
            ]
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
    plane: VirtualTopicPlane,
    accepted: Mapping[str, Messages],
    brokers: Sequence[str],
    out_rps: float,
    persist: Persist | None,
) -> dict[str, Turns]:
    """When each message is served, in the order of ``accepted``; one queue a broker's life for all topics."""
    topics = [plane.topics[name] for name in accepted]
    works = [_fanout(*each) * (SECOND_NS / out_rps) for each in zip(topics, accepted.values(), strict=True)]
    counts = [len(work) for work in works]
    together, work_ns = _together(list(accepted.values())), np.concatenate(works)
    arrived_ns, broker = together.accepted_ns, together.broker  # where it waits, and since when
    topic, (served_ns, gone_ns) = np.repeat(np.arange(len(counts)), counts), np.full((2, len(arrived_ns)), NEVER_NS)
    lives = [(end_ns, number) for number, name in enumerate(brokers) for end_ns in (*plane.crashes_ns[name], NEVER_NS)]
    for end_ns, number in sorted(lives):  # what one leaves goes to one that ends later
        mine = np.flatnonzero((broker == number) & (arrived_ns < end_ns) & (served_ns == NEVER_NS))
        mine = mine[np.argsort(arrived_ns[mine], kind="stable")]
        done_ns = _queue(arrived_ns[mine], work_ns[mine])
        is_done = done_ns < end_ns
        served_ns[mine[is_done]], left = done_ns[is_done], mine[~is_done]
        arrived_ns[left] = NEVER_NS
        if persist is None:
            gone_ns[mine] = end_ns
            continue
        for which in np.unique(topic[left]).tolist():
            after = next((span for span in topics[which].open if span.end_ns > end_ns), None)
            if after is not None:
                its = left[topic[left] == which]
                arrived_ns[its], broker[its] = max(end_ns, after.start_ns), brokers.index(after.broker)
    served, gone, where = (np.split(column, np.cumsum(counts)[:-1]) for column in (served_ns, gone_ns, broker))
    if persist is not None:
        served = [_stored(*each, persist) for each in zip(accepted, served, where, strict=True)]
    return dict(zip(accepted, map(Turns, served, gone), strict=True))


def _stored(topic: str, served_ns: Int64, broker: Int64, persist: Persist) -> Int64:
    """When a topic's messages, whose turn came then, are stored and go on."""
    stored_ns = served_ns.copy()
    for number in np.unique(broker).tolist():
        mine = np.flatnonzero(broker == number)
        mine = mine[np.argsort(served_ns[mine], kind="stable")]
        stored_ns[mine] = np.maximum.accumulate(served_ns[mine] + persist(topic, number, len(mine)))
    return np.minimum(stored_ns, NEVER_NS)


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


def _fate(plane: VirtualTopicPlane, topic: TopicSpans, roads: Roads, messages: Messages, served: Turns) -> Fate:
    """Of messages that are served, if somebody is owed them."""
    order = np.argsort(served.at_ns, kind="stable")
    (served_ns, gone_ns), born_ns = (column[order] for column in served), messages.born_ns[order]
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
            mine = Turns(served_ns[low:high], gone_ns[low:high])
            received_ns = _received(plane, roads, client, spans, mine)
            consumers[low:high] += 1
            late[low:high] += received_ns - born_ns[low:high] > topic.load.bound_ns
            last_ns[low:high] = np.maximum(last_ns[low:high], received_ns)
    owed = np.flatnonzero(consumers)
    owed = owed[np.argsort(born_ns[owed], kind="stable")]
    latency_ns = np.where(last_ns[owed] >= NEVER_NS, -1, last_ns[owed] - born_ns[owed])
    return Fate(born_ns[owed], latency_ns, late[owed], consumers[owed])


def _left(messages: Messages, refused_ns: Int64, served_ns: Int64, until_ns: int, is_stored: bool) -> Int64:
    """When those were born, in order, that no broker accepted, or that went with one.

    Without those of the last seconds of the run that somebody may be about to take: what is stored, or not accepted.
    """
    gone_ns, until_ns = messages.born_ns[served_ns == NEVER_NS], until_ns - UNFINISHED_NS
    gone_ns = gone_ns[(gone_ns < until_ns) | (not is_stored)]
    return np.sort(np.concatenate([refused_ns[refused_ns < until_ns], gone_ns]))


def _fate_of_left(topic: TopicSpans, born_ns: Int64) -> Fate:
    """Of messages that nobody has: whoever is owed them never had them."""
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


def _received(plane: VirtualTopicPlane, roads: Roads, client: str, spans: list[Span], served: Turns) -> Int64:
    """When a consumer has each message; ``NEVER_NS`` where it was cut off and did not come back, or not in time."""
    starts, ends = (np.array([getattr(span, name) for span in spans]) for name in ("start_ns", "end_ns"))
    number = np.searchsorted(ends, served.at_ns, side="right")
    received_ns = np.full(len(number), NEVER_NS)
    for i, span in enumerate(spans):
        low, high = np.searchsorted(number, (i, i + 1))
        departs_ns = np.maximum(served.at_ns[low:high], starts[i])
        broker = roads.brokers.index(span.broker)
        arrivals_ns = roads.arrivals(departs_ns, _sites(plane, client, departs_ns), broker)
        is_there = departs_ns < served.gone_ns[low:high]
        received_ns[low:high] = np.where(is_there, np.maximum.accumulate(arrivals_ns), NEVER_NS)
    return received_ns
