from collections import Counter

import numpy as np
import pytest

from core.clients import Joined, Role
from core.errors import SpecError
from core.units import SECOND_NS
from workloads import load
from workloads.static_topics import StaticTopics, StaticTopicsConfig
from workloads.topic_churn import TopicChurn, TopicChurnConfig, _common

HOUR_NS = 3600 * SECOND_NS


def test_everybody_is_there_from_the_start() -> None:
    made = StaticTopics(StaticTopicsConfig(topics=2, producers=1, consumers=2), 1)
    assert made.happenings(HOUR_NS) == made.happenings(0) == [
        Joined(0, "producer-1-1", "topic-1", Role.PRODUCER),
        Joined(0, "consumer-1-1", "topic-1", Role.CONSUMER),
        Joined(0, "consumer-1-2", "topic-1", Role.CONSUMER),
        Joined(0, "producer-2-1", "topic-2", Role.PRODUCER),
        Joined(0, "consumer-2-1", "topic-2", Role.CONSUMER),
        Joined(0, "consumer-2-2", "topic-2", Role.CONSUMER),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("placement", "homes"),
    [("home", [2] * 6), ("round-robin", [0, 1, 2, 3, 0, 1]), ("by-topic", [0, 0, 0, 1, 1, 1])],
)
def test_clients_are_where_they_are_placed(placement: str, homes: list[int]) -> None:
    config = StaticTopicsConfig(topics=2, consumers=2, placement=placement, home=2)
    assert list(StaticTopics(config, 1).homes.values()) == homes


def test_random_places_are_uniform() -> None:
    counts = Counter(StaticTopics(StaticTopicsConfig(topics=1_000, placement="random"), 1).homes.values())
    assert set(counts) == {0, 1, 2, 3} and min(counts.values()) > 430  # of 500


@pytest.mark.parametrize("key", ["static-topics", "topic-churn"])
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"topics": 0}, "topics=0"),
        ({"producers": -1}, "producers=-1"),
        ({"producers": 0, "consumers": 0}, "consumers=0"),
        ({"placement": "north"}, "placement='north'"),
        ({"home": 4}, "home=4"),
        ({"sites": 0}, "sites=0"),
    ],
)
def test_bad_options_are_spec_errors(key: str, options: dict, what: str) -> None:
    with pytest.raises(SpecError, match=what):
        load(key).configure(options)


@pytest.mark.parametrize("option", ["topic_life", "topic_gap", "consumer_life", "consumer_gap"])
def test_spans_of_churn_are_checked(option: str) -> None:
    with pytest.raises(SpecError, match=f"{option}='0s'"):
        load("topic-churn").configure({option: "0s"})
    with pytest.raises(SpecError, match=f"{option}='often'"):
        load("topic-churn").configure({option: "often"})


def spans(made: TopicChurn, role: Role, until_ns: int) -> dict[tuple[str, str], list[list[int]]]:
    found: dict[tuple[str, str], list[list[int]]] = {}
    for one in made.happenings(until_ns):
        if one.role is role:
            row = found.setdefault((one.client, one.topic), [])
            if isinstance(one, Joined):
                row.append([one.at_ns, until_ns])
            else:
                row[-1][1] = one.at_ns
    return found


def test_topics_come_and_go_at_their_rates() -> None:
    made = TopicChurn(TopicChurnConfig(topics=60, consumers=0), 1)
    found = spans(made, Role.PRODUCER, HOUR_NS)
    alive_s = sum(end - start for row in found.values() for start, end in row) / 1e9
    assert alive_s / (60 * 3600) == pytest.approx(60 / 80, rel=0.03)
    births = sorted(start for row in found.values() for start, _ in row if start)
    assert len(births) == pytest.approx(60 * 3600 / 80, rel=0.05)
    gaps = np.diff(births)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(1, rel=0.1)  # as of a Poisson process
    there = sum(row[0][0] == 0 for row in found.values())
    assert 35 <= there <= 55  # of 60, three quarters: it has always been going on


def test_consumers_are_there_only_while_their_topic_is() -> None:
    made = TopicChurn(TopicChurnConfig(topics=10), 1)
    topics = {topic: row for (_, topic), row in spans(made, Role.PRODUCER, HOUR_NS).items()}
    for (_, topic), row in spans(made, Role.CONSUMER, HOUR_NS).items():
        assert all(any(low <= start and end <= high for low, high in topics[topic]) for start, end in row)


def test_what_lives_forever_never_goes() -> None:
    options = {"topics": 8, "consumers": 1, "placement": "round-robin"}
    churn = load("topic-churn").configure({**options, "topic_life": "forever", "consumer_life": "forever"})
    static = load("static-topics").configure(options)
    assert TopicChurn(churn, 1).happenings(HOUR_NS) == StaticTopics(static, 1).happenings(HOUR_NS)


def test_common_intervals_by_hand() -> None:
    assert _common([(0, 10), (20, None)], [(5, 20), (25, 30), (40, None)]) == [(5, 10), (25, 30), (40, None)]
    assert _common([(0, 5)], [(5, 7)]) == []
