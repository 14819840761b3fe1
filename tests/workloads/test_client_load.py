"""What holds for every workload of clients."""

from typing import Any

import pytest

from core.clients import ChangingLoad, ClientLoad, Joined, Left, Moved, Role
from core.errors import SpecError
from core.units import SECOND_NS
from workloads import load
from workloads.client_load import in_order

CASES: list[tuple[str, dict[str, Any]]] = [
    ("uav-swarms", {}),
    ("uav-swarms", {"swarms": 3, "zones": 9, "pause": "5s", "city_km": 2.0}),
    ("mmog", {"avatars": 24, "groups": 4}),
    ("mmog", {"avatars": 12, "groups": 5, "stay": "exponential:3s"}),
    ("mmog", {"avatars": 9, "groups": 3, "stay": "forever"}),
    ("static-topics", {"producers": 2, "consumers": 3, "placement": "random"}),
    ("topic-churn", {"topics": 5}),
    ("topic-churn", {"topics": 4, "topic_life": "5s", "topic_gap": "3s", "consumer_life": "2s", "consumer_gap": "1s"}),
]
UNTIL_NS = 90 * SECOND_NS


def client_load(key: str, options: dict[str, Any], seed: int = 3) -> ClientLoad:
    workload = load(key)
    made: ClientLoad = workload.make(workload.configure(options), seed)
    return made


@pytest.mark.parametrize(("key", "options"), CASES)
def test_what_happens_is_in_order_and_makes_sense(key: str, options: dict[str, Any]) -> None:
    made = client_load(key, options)
    assert all(0 <= home < made.site_count for home in made.homes.values())
    names = [topic.name for topic in made.topics]
    assert len(set(names)) == len(names)
    at, on = dict(made.homes), set()
    happenings = made.happenings(UNTIL_NS)
    instants = [one.at_ns for one in happenings]
    assert instants == sorted(instants) and instants[0] >= 0 and instants[-1] <= UNTIL_NS
    for one in happenings:
        if isinstance(one, Moved):
            assert 0 <= one.site < made.site_count and one.site != at[one.client] and one.at_ns > 0
            at[one.client] = one.site
            continue
        who = one.client, one.topic, one.role
        assert one.client in made.homes and one.topic in names
        if isinstance(one, Joined):
            assert who not in on
            on.add(who)
        else:
            assert isinstance(one, Left)
            on.remove(who)  # it had joined


@pytest.mark.parametrize(("key", "options"), CASES)
def test_a_longer_ask_begins_with_the_shorter_one(key: str, options: dict[str, Any]) -> None:
    made = client_load(key, options)
    whole = made.happenings(UNTIL_NS)
    for until_ns in (0, SECOND_NS, 40 * SECOND_NS, *{one.at_ns for one in whole[-3:]}):
        part = client_load(key, options).happenings(until_ns)
        assert part == made.happenings(until_ns) == [one for one in whole if one.at_ns <= until_ns]
    assert whole == made.happenings(UNTIL_NS)


@pytest.mark.parametrize(("key", "options"), [case for case in CASES if case[1].get("placement") != "round-robin"])
def test_another_seed_is_another_load(key: str, options: dict[str, Any]) -> None:
    one, other = client_load(key, options, 1), client_load(key, options, 2)
    assert (one.homes, one.happenings(UNTIL_NS)) != (other.homes, other.happenings(UNTIL_NS))


@pytest.mark.parametrize("key", ["uav-swarms", "mmog", "static-topics", "topic-churn"])
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"rate_rps": 0}, "rate_rps = 0"),
        ({"size_bytes": -1}, "size_bytes=-1"),
        ({"bound": "0ms"}, "bound='0ms'"),
        ({"bound": "soon"}, "bound='soon'"),
    ],
)
def test_topics_that_cannot_be_are_spec_errors(key: str, options: dict[str, Any], what: str) -> None:
    with pytest.raises(SpecError, match=what):
        load(key).configure(options)


def test_one_nanosecond_has_moves_first_then_leaving_then_joining() -> None:
    made = client_load("static-topics", {"topics": 2})
    producer, consumer = Role.PRODUCER, Role.CONSUMER
    mixed = [
        Joined(5, "producer-1-1", "topic-2", consumer),
        Joined(5, "producer-1-1", "topic-1", consumer),
        Joined(5, "producer-1-1", "topic-1", producer),
        Left(5, "producer-2-1", "topic-1", producer),
        Moved(5, "consumer-2-1", 1),
        Joined(7, "producer-1-1", "topic-1", producer),
        Joined(3, "producer-2-1", "topic-1", producer),
    ]
    ordered = in_order(mixed, made.homes, made.topics, 6)
    assert ordered == [mixed[6], mixed[4], mixed[3], mixed[2], mixed[1], mixed[0]]


@pytest.mark.parametrize(("key", "options"), CASES)
def test_what_is_expected_is_about_what_happens_or_more(key: str, options: dict[str, Any]) -> None:
    made, until_ns = client_load(key, options), 10 * UNTIL_NS
    count = sum(one.at_ns > 0 for one in made.happenings(until_ns))
    expected = made.change_rps * until_ns / SECOND_NS if isinstance(made, ChangingLoad) else 0.0
    assert count <= 1.2 * expected <= 12 * count
