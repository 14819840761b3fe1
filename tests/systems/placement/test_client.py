"""A client alone: whom it asks, and what it does with answers."""

import pytest

from core.clients import Role
from core.errors import SpecError
from core.units import SECOND_NS
from systems.api import Delivery, Effect, Report, Send, SetTimer, Timer
from systems.parts.vivaldi import Coordinate
from systems.placement.client import ClientNode
from systems.placement.messages import (
    AtSite,
    ClientLocation,
    Connect,
    Connected,
    Disconnect,
    Found,
    Here,
    Lookup,
    Noted,
    Wanted,
)
from systems.placement.options import Options

MANAGERS = ("manager1", "manager2", "manager3")


def asked(effects: list[Effect]) -> list[tuple[str, str]]:
    """Manager and topic of every look-up."""
    return [(of.target, of.message.topic) for of in effects if isinstance(of, Send) and isinstance(of.message, Lookup)]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("topics", [1, 2, 3])
@pytest.mark.parametrize("answers", [True, False])
def test_every_manager_gets_its_turn(count: int, topics: int, answers: bool) -> None:
    """Whoever answers that it knows nobody, or not at all, is followed by the next one: for each topic by itself."""
    managers = MANAGERS[:count]
    client = ClientNode("client", managers, Options(), 1)
    turns: dict[str, list[str]] = {f"topic-{n}": [] for n in range(topics)}
    due_ns, now_ns, queries = 0, 0, []
    for topic in turns:
        queries += asked(effects := client.handle(Report(Wanted(topic, Role.CONSUMER)), 0))
        due_ns = max(of.at_ns for of in effects if isinstance(of, SetTimer))
    for _ in range(2 * count):
        for manager, topic in queries:
            turns[topic].append(manager)
            for effect in client.handle(Delivery(manager, Found(topic, "")), now_ns) if answers else ():
                due_ns = max(due_ns, effect.at_ns) if isinstance(effect, SetTimer) else due_ns
        now_ns = due_ns
        effects = client.handle(Timer("retry", now_ns), now_ns)
        queries = asked(effects)
        due_ns = max(of.at_ns for of in effects if isinstance(of, SetTimer))
    for of_topic in turns.values():
        assert len(of_topic) == 2 * count
        assert set(of_topic[:count]) == set(of_topic[count:]) == set(managers)


def test_no_timer_is_set_into_the_past() -> None:
    """An answer comes when another question's time is over, and its timer has not rung yet: the clock was set ahead."""
    client = ClientNode("client", MANAGERS, Options(), 1)
    for topic in ("one", "other"):
        client.handle(Report(Wanted(topic, Role.CONSUMER)), 0)
    effects = client.handle(Delivery(MANAGERS[0], Found("one", "")), 5_000_000_000)
    assert [of.at_ns for of in effects if isinstance(of, SetTimer)] == [5_000_000_000]


def test_a_clock_that_is_set_back_makes_nobody_wait() -> None:
    client, answer_ns, back_ns = ClientNode("client", MANAGERS, Options(), 1), Options().span("answer"), 60 * SECOND_NS
    client.handle(Report(Wanted("one", Role.CONSUMER)), 100 * SECOND_NS)
    due_ns = 100 * SECOND_NS + answer_ns - back_ns
    effects = client.handle(Timer("retry", due_ns), due_ns)
    assert len(asked(effects)) == 1 and SetTimer("retry", due_ns + answer_ns) in effects


def test_nobody_is_taken_for_dead_who_was_told_nothing() -> None:
    client = ClientNode("client", MANAGERS, Options(), 1)
    client.handle(Report(Wanted("one", Role.CONSUMER)), 0)
    client.handle(Delivery(MANAGERS[0], Found("one", "broker1")), 1)
    client.handle(Delivery("broker1", Connected("one", Role.CONSUMER)), 2)
    late_ns = 20 * Options().span("dead")
    client.handle(Timer("locate", late_ns), late_ns)  # its proxy has never said where it is
    assert client.idle()


def test_a_client_that_is_heard_of_too_seldom_to_be_alive_is_refused() -> None:
    with pytest.raises(SpecError, match="locate = '12s' with dead = '12s'"):
        Options(locate="12s", dead="12s")


def test_a_broker_is_not_taken_for_dead_where_the_proxy_is() -> None:
    options = Options()
    client, locate_ns = ClientNode("client", MANAGERS, options, 1), options.span("locate")
    client.handle(Report(AtSite("proxy1")), 0)
    client.handle(Report(Wanted("one", Role.CONSUMER)), 0)
    client.handle(Delivery("manager1", Found("one", "b")), 10)
    client.handle(Delivery("b", Connected("one", Role.CONSUMER)), 20)
    here = Coordinate((0.0,) * 8, 1.5, 0.0, 1e-5)
    client.handle(Delivery("proxy1", Here(here)), 30)
    told = 0
    for turn in range(1, 20):  # the proxy says nothing more
        at_ns = turn * locate_ns
        sent = [of for of in client.handle(Timer("locate", at_ns), at_ns) if isinstance(of, Send)]
        if any(of.target == "b" and of.message == ClientLocation(here) for of in sent):
            client.handle(Delivery("b", Noted((("one", Role.CONSUMER),))), at_ns + 1)
            told += 1
        assert Send("b", Disconnect("one", Role.CONSUMER)) not in sent
    assert told == 18 and client.idle()
    for turn in range(20, 25):  # nor does the broker
        client.handle(Timer("locate", turn * locate_ns), turn * locate_ns)
    assert not client.idle()


def test_who_was_of_help_is_asked_first() -> None:
    client = ClientNode("client", MANAGERS, Options(), 1)
    client.handle(Report(Wanted("one", Role.CONSUMER)), 0)
    client.handle(Delivery("manager1", Found("one", "")), 10)
    effects = client.handle(Timer("retry", 2_000_000_010), 2_000_000_010)
    assert asked(effects) == [("manager2", "one")]
    (found,) = [of for of in client.handle(Delivery("manager2", Found("one", "b")), 2_100_000_000) if type(of) is Send]
    assert (found.target, found.message) == ("b", Connect("one", Role.CONSUMER))
    assert asked(client.handle(Report(Wanted("two", Role.CONSUMER)), 2_200_000_000)) == [("manager2", "two")]
