"""Brokers that place their own topics: known answers of one; of five, what a cut makes of their topics."""

from itertools import pairwise
from typing import Any

import pytest

from core.clients import Role
from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from harness.soak.schedule import SoakSchedule, Told
from harness.soak.trial import play
from studies.api import Journal
from systems.api import Actuate, Delivery, Effect, Message, Report, Send, SetTimer, Start, Timer
from systems.parts.vivaldi import origin
from systems.placement.epulsar import EPulsar, policy_of
from systems.placement.gossip_broker import Config, PlacerNode
from systems.placement.gossip_messages import (
    BrokerNews,
    Contested,
    GiveBack,
    Lapsed,
    Renew,
    Renewed,
    Reports,
    RequestVote,
    Vote,
)
from systems.placement.messages import Close, Connect, Connected, Fence, Found, Lookup, Open, Refused, Traffic
from tests.systems.placement.test_failures import instants_s, of_topics, placed, spells

BROKERS = ("broker1", "broker2", "broker3")
OPTIONS = Config()
LEASE_NS = 6 * SECOND_NS


def sent(effects: list[Effect], kind: type[Message]) -> list[tuple[str, Any]]:
    return [(one.target, one.message) for one in effects if isinstance(one, Send) and isinstance(one.message, kind)]


def commands(effects: list[Effect]) -> list[object]:
    return [one.command for one in effects if isinstance(one, Actuate)]


def broker(in_reach: tuple[str, ...] = BROKERS[1:], heard_ns: int = LEASE_NS) -> PlacerNode:
    """The first of three after its first lease, in whose reach these are."""
    node = PlacerNode("broker1", BROKERS, EPulsar(BROKERS, OPTIONS, policy_of(OPTIONS)), OPTIONS, 1)
    node.handle(Start(None), 0)
    for name in in_reach:
        node.handle(Delivery(name, Renewed(0, heard_ns)), heard_ns)
    return node


def owner() -> PlacerNode:
    """Of the topic red, by its own vote and broker2's; ann is there."""
    node = broker()
    asked = sent(node.handle(Delivery("ann", Connect("red", Role.CONSUMER)), LEASE_NS), RequestVote)
    assert asked == [(name, RequestVote(0, 1, "red")) for name in BROKERS[1:]]
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


def test_who_has_lost_names_the_winner_even_while_it_asks_again() -> None:
    node = broker()
    node.handle(Delivery("broker3", Renew(0, LEASE_NS, True)), LEASE_NS)
    for at_ns, ballot in ((LEASE_NS, 1), (LEASE_NS + 10, 2)):
        node.handle(Delivery("ann", Connect("red", Role.CONSUMER)), at_ns)
        if ballot == 1:
            for name in BROKERS[1:]:
                node.handle(Delivery(name, Vote(0, 1, "red", "broker3")), at_ns + 1)
        named = sent(node.handle(Delivery("ann", Lookup("red")), at_ns + 2), Found)
        assert named == [("ann", Found("red", "broker3"))]


def test_a_vote_without_a_claim_is_given_back_when_another_asks_for_it() -> None:
    voter = broker()
    for name in BROKERS[1:]:
        voter.handle(Delivery(name, Renew(0, LEASE_NS, True)), LEASE_NS)
    voter.handle(Delivery("broker2", RequestVote(0, 1, "red")), LEASE_NS)
    voter.handle(Delivery("broker2", GiveBack(0, "red", "broker3")), LEASE_NS)
    effects = voter.handle(Delivery("broker2", RequestVote(0, 2, "red")), LEASE_NS)
    assert sent(effects, Vote) == [("broker2", Vote(0, 2, "red", "broker3"))]
    assert sent(effects, Contested) == [("broker3", Contested("red"))]
    holder, candidate = broker(), owner()
    answer = sent(holder.handle(Delivery("broker2", Contested("red")), LEASE_NS), GiveBack)
    assert answer == [("broker2", GiveBack(0, "red", ""))]
    assert not candidate.handle(Delivery("broker2", Contested("red")), LEASE_NS + 2)


def test_a_vote_for_oneself_without_a_claim_goes_to_whoever_asks() -> None:
    node = broker()
    for name in BROKERS[1:]:
        node.handle(Delivery(name, Renew(0, LEASE_NS, True)), LEASE_NS)
    node.handle(Delivery("broker2", RequestVote(0, 1, "red")), LEASE_NS)
    node.handle(Delivery("broker2", GiveBack(0, "red", "broker1")), LEASE_NS)
    voted = sent(node.handle(Delivery("broker3", RequestVote(0, 1, "red")), LEASE_NS), Vote)
    assert voted == [("broker3", Vote(0, 1, "red", "broker3"))]


def test_a_client_whose_broker_loses_the_vote_finds_the_owner() -> None:
    """Seed 32662 of the soak, shrunk: two clients are sent to two brokers, and nothing fails.

    The loser named itself whenever it was asked, as its own next vote was under way; so the client went round for ever.
    """
    brokers = ("broker1", "broker2", "broker3")
    told = (
        Told(0, "clientb", proxy="proxy3"),
        Told(349943989, "clientb", topic="blue", role="producer"),
        Told(1093090442, "clientc", topic="blue", role="consumer"),
        Told(3403249531, "clientc", topic="blue", role="producer"),
    )
    options = {"locate": "2s", "report": "1s", "place": "2s", "session": "3s", "answer": "1s", "dead": "6s"}
    schedule = SoakSchedule(
        seed=32662,
        system="gossip-placer",
        options={**options, "guard": "2s", "out_maximum_rps": 200.0},
        nodes=(*brokers, *(f"{name}-agent" for name in brokers), "proxy3", "clientb", "clientc"),
        load_end_ns=14 * SECOND_NS,
        delay_ns=20 * MILLISECOND_NS,
        homes={"broker2": "left", **dict.fromkeys(("broker1", "broker3", "proxy3", "clientb", "clientc"), "right")},
        told=told,
    )
    assert not play(schedule).breaches


def test_a_vote_that_nobody_wins_is_held_again_later() -> None:
    node = broker()
    node.handle(Delivery("ann", Connect("red", Role.CONSUMER)), LEASE_NS)
    node.handle(Delivery("broker2", Vote(0, 1, "red", "broker2")), LEASE_NS + 1)
    effects = node.handle(Delivery("broker3", Vote(0, 1, "red", "broker3")), LEASE_NS + 2)
    assert sent(effects, GiveBack) and not sent(effects, Refused)
    (again,) = [one.at_ns for one in effects if isinstance(one, SetTimer) and one.name == "claims"]
    assert LEASE_NS < again <= LEASE_NS + 2 + 200 * MILLISECOND_NS
    asked = sent(node.handle(Timer("claims", again), again), RequestVote)
    assert asked == [(name, RequestVote(0, 2, "red")) for name in BROKERS[1:]]


def test_a_lease_ends_at_its_owner_a_tenth_before_it_ends_at_its_voter() -> None:
    node = owner()
    ends_ns = LEASE_NS + LEASE_NS - LEASE_NS // 10
    effects = node.handle(Timer("lapse", ends_ns), ends_ns)
    assert Fence("red") in commands(effects)
    assert sent(effects, Close) == [("ann", Close("red", ""))]


def test_a_lease_that_is_renewed_goes_on() -> None:
    node = owner()
    effects = node.handle(Delivery("broker2", Renewed(0, LEASE_NS + SECOND_NS)), LEASE_NS + SECOND_NS + 5)
    ends_ns = LEASE_NS + LEASE_NS - LEASE_NS // 10
    assert effects == [SetTimer("lapse", ends_ns + SECOND_NS)]
    assert not commands(node.handle(Timer("renew", ends_ns), ends_ns))


def test_an_owner_whose_voter_has_forgotten_it_stops_at_once() -> None:
    effects = owner().handle(Delivery("broker2", Lapsed(0)), LEASE_NS + 5)
    assert Fence("red") in commands(effects)
    (renewed,) = [message for name, message in sent(effects, Renew) if name == "broker2"]
    assert renewed.opens and renewed.session > 0


def test_who_sees_no_majority_names_no_owner() -> None:
    alone = broker(in_reach=())
    assert sent(alone.handle(Delivery("ann", Lookup("red")), LEASE_NS), Found) == [("ann", Found("red", ""))]
    early = broker(heard_ns=LEASE_NS - 1)
    assert sent(early.handle(Delivery("ann", Lookup("red")), LEASE_NS - 1), Found) == [("ann", Found("red", ""))]


def test_a_voter_names_whom_it_voted_for() -> None:
    node = broker()
    node.handle(Delivery("broker2", Renew(5, 1, True)), LEASE_NS)
    voted = sent(node.handle(Delivery("broker2", RequestVote(5, 3, "red")), LEASE_NS), Vote)
    assert voted == [("broker2", Vote(5, 3, "red", "broker2"))]
    assert sent(node.handle(Delivery("ann", Lookup("red")), LEASE_NS), Found) == [("ann", Found("red", "broker2"))]


def test_news_goes_on_once_to_those_who_lack_it() -> None:
    node = broker()
    news = BrokerNews("broker2", 7, origin(), 10.0, 0.1)
    node.handle(Delivery("broker2", Reports((news,))), LEASE_NS)
    rounds = [sent(node.handle(Timer("gossip", LEASE_NS + n), LEASE_NS + n), Reports) for n in range(6)]
    told = [(target, one) for each in rounds for target, message in each for one in message.news]
    assert ("broker3", news) in told and ("broker2", news) not in told
    assert len(told) == len(set(told))


def test_news_of_a_broker_whose_clock_is_set_back_is_news() -> None:
    node, told = broker(), set()
    for name in BROKERS[1:]:
        node.handle(Delivery("ann", Connect("red", Role.CONSUMER)), LEASE_NS)
        node.handle(Delivery(name, Vote(0, 1, "red", "broker1")), LEASE_NS)
    for out_rps, at_ns in ((10.0, 100 * SECOND_NS), (20.0, 40 * SECOND_NS)):
        node.handle(Report(Traffic("red", 1.0, out_rps)), at_ns)
        node.handle(Timer("report", at_ns), at_ns)
        rounds = [sent(node.handle(Timer("gossip", at_ns + n), at_ns + n), Reports) for n in range(1, 5)]
        told |= {(to, news.out_rps) for each in rounds for to, message in each for news in message.news}
    assert told == {(name, out_rps) for name in BROKERS[1:] for out_rps in (10.0, 20.0)}


def test_a_vote_is_asked_for_again_though_the_clock_is_set_back() -> None:
    node = broker()
    node.handle(Delivery("ann", Connect("red", Role.CONSUMER)), LEASE_NS)
    node.handle(Delivery("broker2", Vote(0, 1, "red", "broker2")), LEASE_NS + 1)
    effects = node.handle(Delivery("broker3", Vote(0, 1, "red", "broker3")), LEASE_NS + 2)
    (due_ns,) = [one.at_ns - 60 * SECOND_NS for one in effects if isinstance(one, SetTimer) and one.name == "claims"]
    asked = sent(node.handle(Timer("claims", due_ns), due_ns), RequestVote)
    assert asked == [(name, RequestVote(0, 2, "red")) for name in BROKERS[1:]]


def test_options_that_are_its_own() -> None:
    with pytest.raises(SpecError, match="gossip-placer: periodic = '3s'"):
        Config(periodic="3s")
    options = Config(guard="0s")
    assert PlacerNode("broker1", BROKERS, EPulsar(BROKERS, options, policy_of(options)), options, 1).guard_ns == 0


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
        assert all(one[1] <= other[0] for one, other in pairwise(ordered))


def test_topics_move_to_their_clients_without_anybody_in_the_middle() -> None:
    journal = five(first="hash")
    assert len(instants_s(journal, "migration_ns")) >= 4
    late = of_topics(journal, "late_pair_count", since_s=25)
    assert late == 0
