"""``topic_placement`` in plain Python, Algorithm 1 line by line: what tests and benchmarks compare it with."""

from collections.abc import Sequence
from typing import NamedTuple

from systems.parts.topic_placement import POLICY, UNPLACED, Policy, Summary, delay_s
from systems.parts.vivaldi import Coordinate


class Move(NamedTuple):
    """A topic, as in ``topic_placement.Topics``, and whether it must not be moved."""

    broker: int
    bound_s: float
    worst_s: float
    in_rps: float
    out_rps: float
    is_held: bool


class BrokerLoad(NamedTuple):
    """The brokers: marks of the output rate, and which may be given topics."""

    marks: list[float]
    candidates: list[bool]


def expected_s(summary: Summary, brokers: Sequence[Coordinate], policy: Policy = POLICY) -> list[float]:
    """W(t, b) of one topic for every broker."""
    centres = [centre for centre in (summary.producers, summary.consumers) if centre is not None]
    return [sum(delay_s(centre, broker, policy) for centre in centres) + summary.deviation_s for broker in brokers]


def placed(topics: list[Move], expected_s: list[list[float]], brokers: BrokerLoad, policy: Policy) -> list[int]:
    """The broker of each topic, as PERFORMREPARTITIONING and PLACETOPICS have it."""
    placement = [topic.broker for topic in topics]
    migrating = [t for t, topic in enumerate(topics) if topic.worst_s > topic.bound_s and not topic.is_held]
    leaving = []
    for b, mark in enumerate(brokers.marks):
        leaving += to_migrate(b, mark, topics)
    unplaced = [t for t, topic in enumerate(topics) if topic.broker == UNPLACED]
    migrating = sorted({*migrating, *leaving, *unplaced})
    feasible = {t: ranked(expected_s[t], topics[t].bound_s, brokers.candidates) for t in migrating}
    for t in sorted(migrating, key=lambda t: len(feasible[t])):
        here = placement[t]
        target = here
        for b in feasible[t]:
            if b == here and not policy.stay:
                continue
            if can_host(b, t, placement, topics, brokers.marks):
                target = b
                break
        may_stay = t not in leaving or can_host(here, t, placement, topics, brokers.marks)
        if policy.stay and here != UNPLACED and may_stay:
            gains = expected_s[t][target] < expected_s[t][here] - policy.hysteresis_s
            target = target if gains else here
        placement[t] = target
    return placement


def to_migrate(broker: int, mark: float, topics: list[Move]) -> list[int]:
    """Topics of a broker in descending order of rate, until it is not above its mark."""
    load = sum(topic.out_rps for topic in topics if topic.broker == broker)
    mine = [t for t, topic in enumerate(topics) if topic.broker == broker and not topic.is_held]
    leaving = []
    for t in sorted(mine, key=lambda t: -(topics[t].in_rps + topics[t].out_rps)):
        if load <= mark:
            break
        leaving.append(t)
        load -= topics[t].out_rps
    return leaving


def ranked(expected_s: list[float], bound_s: float, candidates: list[bool]) -> list[int]:
    """The feasible brokers, or all where there is none, by expected delay."""
    usable = [b for b, may in enumerate(candidates) if may]
    feasible = [b for b in usable if expected_s[b] < bound_s] or usable
    return sorted(feasible, key=lambda b: expected_s[b])


def can_host(broker: int, topic: int, placement: list[int], topics: list[Move], marks: list[float]) -> bool:
    """Whether the broker with the topic would not be overloaded."""
    others = sum(topics[t].out_rps for t, b in enumerate(placement) if b == broker and t != topic)
    return others + topics[topic].out_rps <= marks[broker]
