"""``testbed.virtual.topic_kernel`` message by message, in plain Python."""

from typing import Any, NamedTuple

from core.clients import Role
from core.seeds import generator
from core.units import NEVER_NS
from testbed.virtual.topic_kernel import UNFINISHED_NS, Roads
from testbed.virtual.topic_plane import VirtualTopicPlane


class Fate(NamedTuple):
    """A message that somebody is owed."""

    born_ns: int
    latency_ns: int
    late_count: int
    consumer_count: int


def fates(plane: VirtualTopicPlane, roads: Roads, until_ns: int, out_rps: float, seed: int) -> dict[str, list[Fate]]:
    """As the kernel's; a message costs its broker a whole number of nanoseconds, rounded up as time goes on."""
    accepted: list[tuple[int, int, str, int, str]] = []
    left: dict[str, list[int]] = {name: [] for name in plane.topics}
    for number, (name, topic) in enumerate(plane.topics.items()):
        for client, role in topic.wanted:
            if role is Role.PRODUCER:
                for born_ns, at_ns, broker in _sent(plane, topic, roads, client, until_ns, seed):
                    if broker:
                        accepted.append((at_ns, number, name, born_ns, broker))
                    elif born_ns < until_ns - UNFINISHED_NS:
                        left[name].append(born_ns)
    served: dict[str, list[tuple[int, int, int]]] = {name: [] for name in plane.topics}
    free_ns: dict[tuple[str, int], float] = {}  # broker, and when it ends
    for at_ns, _, name, born_ns, broker in sorted(accepted, key=lambda row: row[:2]):
        spans = [span for spans in plane.topics[name].subscribed.values() for span in spans]
        fanout = sum(span.start_ns <= at_ns < span.end_ns for span in spans)
        life = broker, next((end_ns for end_ns in plane.crashes_ns[broker] if end_ns > at_ns), NEVER_NS)
        free_ns[life] = max(free_ns.get(life, 0.0), at_ns) + fanout * 1e9 / out_rps
        served_ns = int(-(-(free_ns[life] - 1e-3) // 1))
        if served_ns < life[1]:
            served[name].append((served_ns, born_ns, life[1]))
        else:
            left[name].append(born_ns)
    return {
        name: sorted([*_fates(plane, plane.topics[name], roads, rows), *_missed(plane.topics[name], left[name])])
        for name, rows in served.items()
    }


def _missed(topic: Any, left: list[int]) -> list[Fate]:
    """Whoever had been subscribed, and wants the topic, is owed what nobody took."""
    found = []
    for born_ns in left:
        owed = 0
        for (client, role), wanted in topic.wanted.items():
            for span in wanted if role is Role.CONSUMER else []:
                starts = [one.start_ns for one in topic.subscribed.get(client, [])]
                mine = [start_ns for start_ns in starts if span.start_ns <= start_ns < span.end_ns]
                owed += bool(mine) and min(mine) <= born_ns < span.end_ns
        if owed:
            found.append(Fate(born_ns, -1, owed, owed))
    return found


def _site(plane: VirtualTopicPlane, client: str, at_ns: int) -> int:
    return [site for since_ns, site in plane.places[client] if since_ns <= at_ns][-1]


def _arrival(plane: VirtualTopicPlane, roads: Roads, client: str, broker: str, at_ns: int) -> int:
    site, number = _site(plane, client, at_ns), roads.brokers.index(broker)
    departs_ns = at_ns
    for start_ns, end_ns in roads.cuts.get((site, number), ()):
        if start_ns <= departs_ns < end_ns:
            departs_ns = end_ns
    return min(departs_ns + roads.access_ns + int(roads.delay_ns[site, number]), NEVER_NS)


def _sent(
    plane: VirtualTopicPlane, topic: Any, roads: Roads, client: str, until_ns: int, seed: int
) -> list[tuple[int, int, str]]:
    """(born, accepted, broker) of each message; broker is "" of those that none accepted."""
    phase = generator(seed, "messages", topic.load.name, client).random()
    found, last_ns = [], {}
    for wanted in topic.wanted[client, Role.PRODUCER]:
        number = 0
        while True:
            born_ns = wanted.start_ns + int((number + phase) * 1e9 / topic.load.rate_rps)
            if number + phase >= max(0, min(wanted.end_ns, until_ns) - wanted.start_ns) * topic.load.rate_rps / 1e9:
                break
            number += 1
            for i, span in enumerate(topic.attached.get(client, [])):
                if span.end_ns <= born_ns:
                    continue
                at_ns = _arrival(plane, roads, client, span.broker, max(born_ns, span.start_ns))
                at_ns = max(at_ns, last_ns.get(i, 0))
                last_ns[i] = at_ns
                opens = [one for one in topic.open if one.broker == span.broker and one.start_ns <= span.start_ns]
                if opens and at_ns < opens[-1].end_ns:
                    found.append((born_ns, at_ns, span.broker))
                    break
            else:
                found.append((born_ns, 0, ""))
    return found


def _fates(plane: VirtualTopicPlane, topic: Any, roads: Roads, served: list[tuple[int, int, int]]) -> list[Fate]:
    received: list[list[int]] = [[] for _ in served]
    served.sort(key=lambda row: row[0])
    for (client, role), wanted in topic.wanted.items():
        for span in wanted if role is Role.CONSUMER else []:
            mine = [one for one in topic.subscribed.get(client, []) if span.start_ns <= one.start_ns < span.end_ns]
            last_ns: dict[int, int] = {}
            for row, (served_ns, _, gone_ns) in enumerate(served):
                if not mine or not mine[0].start_ns <= served_ns < span.end_ns:
                    continue
                after = [i for i, one in enumerate(mine) if one.end_ns > served_ns]
                at_ns = NEVER_NS
                if after:
                    one = mine[after[0]]
                    at_ns = _arrival(plane, roads, client, one.broker, max(served_ns, one.start_ns))
                    at_ns = last_ns[after[0]] = max(at_ns, last_ns.get(after[0], 0))
                    at_ns = at_ns if max(served_ns, one.start_ns) < gone_ns else NEVER_NS
                received[row].append(at_ns)
    found = []
    for (_, born_ns, _), instants in zip(served, received, strict=True):
        if instants:
            late = sum(at_ns - born_ns > topic.load.bound_ns for at_ns in instants)
            last = max(instants)
            found.append(Fate(born_ns, -1 if last >= NEVER_NS else last - born_ns, late, len(instants)))
    return found
