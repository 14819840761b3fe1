"""Brokers that place their own topics: known answers of one, and of five what becomes of topics when others are cut off."""

from typing import Any

import pytest

from core.clients import Role
from core.units import MILLISECOND_NS, SECOND_NS
from studies.api import Journal
from systems.api import Actuate, Delivery, Effect, Message, Report, Send, Start, Timer
from systems.parts.vivaldi import origin
from systems.placement.epulsar import EPulsar, policy_of
from systems.placement.gossip_broker import Config, PlacerNode
from systems.placement.gossip_messages import Ask, GiveBack, Lapsed, Renew, Renewed, Reports, Told, Vote
from systems.placement.messages import Close, Connect, Connected, Fence, Found, Lookup, Open, Refused
from tests.systems.placement.test_failures import instants_s, of_topics, placed, spells

BROKERS = ("broker1", "broker2", "broker3")
OPTIONS = Config()
LEASE_NS = 6 * SECOND_NS


def sent(effects: list[Effect], kind: type[Message]) -> list[tuple[str, Any]]:
    return [(one.target, one.message) for one in effects if isinstance(one, Send) and isinstance(one.message, kind)]


def commands(effects: list[Effect]) -> list[object]:
    return [one.command for one in effects if isinstance(one, Actuate)]


def broker(in_reach: tuple[str, ...] = BROKERS[1:]) -> PlacerNode:
    """The first of three after its first lease, in whose reach these are."""
    node = PlacerNode("broker1", BROKERS, EPulsar(BROKERS, OPTIONS, policy_of(OPTIONS)), OPTIONS, 1)
    node.handle(Start(None), 0)
    for name in in_reach:
        node.handle(Delivery(name, Renewed(0, LEASE_NS)), LEASE_NS)
    return node


def owner() -> PlacerNode:
    """Of the topic red, by its own vote and broker2's; ann is there."""
    node = broker()
    asked = sent(node.handle(Delivery("ann", Connect("red", Role.CONSUMER)), LEASE_NS), Ask)
    assert asked == [(name, Ask(0, 1, "red")) for name in BROKERS[1:]]
    effects = node.handle(Delivery("broker2", Vote(0, 1, "red", "broker1")), LEASE_NS + 1)
    assert Open("red") in commands(effects)
    assert sent(effects, Connected) == [("ann", Connected("red", Role.CONSUMER))]
    return node


def test_two_votes_of_three_make_an_owner() -> None:
    owner()


def test_a_late_vote_of_another_ballot_does_not_count() -> None:
    node = broker()
    node.handle(Delivery("ann", Connect("red", Role.CONSUMER)), LEASE_NS)
    assert not commands(node.handle(Delivery("broker2", Vote(0, 9, "red", "broker1")), LEASE_NS + 1))
    assert not commands(node.handle(Delivery("broker2", Vote(7, 1, "red", "broker1")), LEASE_NS + 1))


def test_who_hears_that_another_has_the_majority_refuses_clients_and_gives_votes_back() -> None:
    node = broker()
    node.handle(Delivery("ann", Connect("red", Role.CONSUMER)), LEASE_NS)
    node.handle(Delivery("broker2", Vote(0, 1, "red", "broker3")), LEASE_NS + 1)
    effects = node.handle(Delivery("broker3", Vote(0, 1, "red", "broker3")), LEASE_NS + 2)
    assert sent(effects, Refused) == [("ann", Refused("red", Role.CONSUMER))]
    assert sent(effects, GiveBack) == [(name, GiveBack(0, "red", "")) for name in BROKERS[1:]]


def test_a_vote_that_nobody_wins_is_held_again_later() -> None:
    node = broker()
    node.handle(Delivery("ann", Connect("red", Role.CONSUMER)), LEASE_NS)
    node.handle(Delivery("broker2", Vote(0, 1, "red", "broker2")), LEASE_NS + 1)
    effects = node.handle(Delivery("broker3", Vote(0, 1, "red", "broker3")), LEASE_NS + 2)
    assert sent(effects, GiveBack) and not sent(effects, Refused)
    (again,) = [one.at_ns for one in effects if getattr(one, "name", "") == "claims"]
    assert LEASE_NS < again <= LEASE_NS + 2 + 200 * MILLISECOND_NS
    asked = sent(node.handle(Timer("claims", again), again), Ask)
    assert asked == [(name, Ask(0, 2, "red")) for name in BROKERS[1:]]


def test_a_lease_ends_at_its_owner_a_tenth_before_it_ends_at_its_voter() -> None:
    node = owner()
    ends_ns = LEASE_NS + LEASE_NS - LEASE_NS // 10
    effects = node.handle(Timer("lapse", ends_ns), ends_ns)
    assert Fence("red") in commands(effects)
    assert sent(effects, Close) == [("ann", Close("red", ""))]


def test_a_lease_that_is_renewed_goes_on() -> None:
    node = owner()
    node.handle(Delivery("broker2", Renewed(0, LEASE_NS + SECOND_NS)), LEASE_NS + SECOND_NS + 5)
    ends_ns = LEASE_NS + LEASE_NS - LEASE_NS // 10
    assert not commands(node.handle(Timer("lapse", ends_ns), ends_ns))


def test_an_owner_whose_voter_has_forgotten_it_stops_at_once() -> None:
    effects = owner().handle(Delivery("broker2", Lapsed(0)), LEASE_NS + 5)
    assert Fence("red") in commands(effects)
    (renewed,) = [message for name, message in sent(effects, Renew) if name == "broker2"]
    assert renewed.opens and renewed.session > 0


def test_who_sees_no_majority_names_no_owner() -> None:
    alone = broker(in_reach=())
    assert sent(alone.handle(Delivery("ann", Lookup("red")), LEASE_NS), Found) == [("ann", Found("red", ""))]
    early = broker()
    assert sent(early.handle(Delivery("ann", Lookup("red")), LEASE_NS - 1), Found) == [("ann", Found("red", ""))]


def test_a_voter_names_whom_it_voted_for() -> None:
    node = broker()
    node.handle(Delivery("broker2", Renew(5, 1, True)), LEASE_NS)
    voted = sent(node.handle(Delivery("broker2", Ask(5, 3, "red")), LEASE_NS), Vote)
    assert voted == [("broker2", Vote(5, 3, "red", "broker2"))]
    assert sent(node.handle(Delivery("ann", Lookup("red")), LEASE_NS), Found) == [("ann", Found("red", "broker2"))]


def test_news_goes_on_once_to_those_who_lack_it() -> None:
    node = broker()
    news = Told("broker2", 7, origin(), 10.0, 0.1)
    node.handle(Delivery("broker2", Reports((news,))), LEASE_NS)
    rounds = [sent(node.handle(Timer("gossip", LEASE_NS + n), LEASE_NS + n), Reports) for n in range(6)]
    told = [(target, one) for each in rounds for target, message in each for one in message.news]
    assert ("broker3", news) in told and ("broker2", news) not in told
    assert len(told) == len(set(told))


# --- five brokers ------------------------------------------------------------------------------------------


def five(duration: str = "60s", faults: Any = (), **options: Any) -> Journal:
    load = {"topics": 10, "consumers": 1, "sites": 5, "placement": "by-topic", "rate_rps": 10.0, "bound": "40ms"}
    where = {"sites": 5, "managers": 1}
    return placed("gossip-placer", faults, duration, "static-topics", load=load, topology=where, **options)


def cut(side: list[str], from_s: int, until_s: int) -> list[dict[str, Any]]:
    return [{"kind": kind, "at": f"{at}s", "side": side} for kind, at in (("partition", from_s), ("heal", until_s))]


def test_nobody_asks_who_is_in_the_cloud() -> None:
    calm, alone = (five(faults=faults) for faults in ((), cut(["manager1", "store"], 10, 50)))
    assert spells(calm) == spells(alone)
    assert of_topics(alone, "lost_count") == 0


def test_who_is_cut_off_accepts_nothing_and_the_others_go_on() -> None:
    side = ["broker1", "proxy1", *(f"{role}-{topic}-1" for topic in (1, 6) for role in ("producer", "consumer"))]
    parted = spells(five(faults=cut(side, 20, 50)))
    cut_off = [(since, until) for topic, name, since, until in parted if topic in ("topic-1", "topic-6")]
    assert all(until <= 20 + 6 or since >= 50 for since, until in cut_off)
    assert any(until == 60 for since, until in cut_off)  # they are back
    others = [until - since for topic, name, since, until in parted if topic not in ("topic-1", "topic-6")]
    assert min(others) > 45


@pytest.mark.parametrize("drawn", ["all", "two"])
def test_no_topic_is_ever_at_two_brokers(drawn: str) -> None:
    faults = cut(["broker1", "broker2", "broker3"] if drawn == "all" else ["broker1", "broker2"], 20, 45)
    by_topic: dict[str, list[tuple[float, float]]] = {}
    for topic, _, since, until in spells(five("70s", faults, bound="10ms", stay=False)):
        by_topic.setdefault(topic, []).append((since, until))
    assert max(map(len, by_topic.values())) > 1  # topics did change hands
    for spans in by_topic.values():
        ordered = sorted(spans)
        assert all(one[1] <= other[0] for one, other in zip(ordered, ordered[1:], strict=False))


def test_topics_move_to_their_clients_without_anybody_in_the_middle() -> None:
    journal = five(first="hash")
    assert len(instants_s(journal, "migration_ns")) >= 4
    late = of_topics(journal, "late_pair_count", since_s=25)
    assert late == 0
