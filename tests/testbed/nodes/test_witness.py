"""Decisions without the answer that was asked for are known as such, whether the node says so or not."""

from collections.abc import Callable
from typing import Any

import pytest

from core.records import Request
from systems.api import Arrival, Decide, Delivery, Event, Message, Report, System, Timer, Verdict
from testbed.nodes.witness import Witness


class Told(Message, frozen=True):
    """Whatever another node says."""


def system(servers: tuple[str, ...] = (), timeout_ns: Callable[[Any], int] | None = None) -> System:
    return System("s", "", object, nodes=lambda names, config, seed: {}, servers=servers, timeout_ns=timeout_ns)


SERVED = system(("redis-server",))
ASKING = system(timeout_ns=lambda config: 5)
TIMER, ANSWER, MESSAGE = Timer("timeout", 5), Report("5"), Delivery("n2", Told())


def arrival(number: int) -> Event:
    return Arrival(Request(number, "u", 0))


def alone(of: System, *history: tuple[Event, tuple[int | str, ...]]) -> list[int]:
    """Requests that were decided alone.  Of each step its event, and the effects: "ask", or a request to be decided."""
    witness, found = Witness(of), []
    for event, effects in history:
        witness.saw(event)
        for effect in effects:
            if effect == "ask":
                witness.asked()
            elif witness.judged(Decide(int(effect), Verdict.ADMIT)).unanswered:
                found.append(int(effect))
    return found


@pytest.mark.parametrize(("of", "answer"), [(SERVED, ANSWER), (SERVED, MESSAGE), (ASKING, MESSAGE)])
def test_what_a_timer_decides_was_not_answered_and_what_an_answer_decides_was(of: System, answer: Event) -> None:
    asked = [(arrival(number), ("ask",)) for number in (1, 2, 3)]
    assert alone(of, *asked, (answer, (1,)), (TIMER, (2,)), (answer, (3,))) == [2]


def test_a_node_that_never_heard_of_its_server_decides_alone_when_and_how_it_ever_does() -> None:
    assert alone(SERVED, (arrival(1), ("ask", 1)), (arrival(2), (2,)), (TIMER, (3,))) == [1, 2, 3]
    assert alone(SERVED, (ANSWER, ()), (arrival(1), ("ask", 1)), (arrival(2), (2,))) == [], "by what it has heard"


def test_one_that_had_no_answer_and_asks_no_more_decides_alone_until_it_hears_again() -> None:
    """As an author's circuit breaker does, for a while."""
    broken = (ANSWER, ()), (arrival(1), ("ask",)), (TIMER, (1,)), (arrival(2), (2,)), (arrival(3), (3,))
    assert alone(SERVED, *broken, (ANSWER, ()), (arrival(4), (4,))) == [1, 2, 3]


def test_a_node_that_others_ask_need_hear_nothing_to_decide() -> None:
    assert alone(ASKING, (arrival(1), (1,)), (TIMER, (2,))) == []


def test_who_asks_nobody_decides_when_it_likes() -> None:
    assert alone(system(), (arrival(1), ("ask",)), (arrival(2), (2,)), (TIMER, (1,))) == []


def test_a_timer_may_decide_what_was_never_asked() -> None:
    """A request that waits for its turn, of a node that has its share of the limit."""
    assert alone(SERVED, (ANSWER, ()), (arrival(1), ()), (TIMER, ("ask", 1))) == []


def test_what_a_node_says_of_itself_stays() -> None:
    witness = Witness(system())
    witness.saw(ANSWER)
    assert witness.judged(Decide(1, Verdict.REJECT, unanswered=True)) == Decide(1, Verdict.REJECT, unanswered=True)
    assert witness.judged(Decide(2, Verdict.REJECT)) == Decide(2, Verdict.REJECT)


def test_what_another_arrival_decides_was_not_answered() -> None:
    """As a node does that sets no timer, and sees at each request which ones are overdue."""
    overdue = ((ANSWER, ()), (arrival(1), ("ask",)), (arrival(2), ("ask", 1)), (arrival(3), ("ask", 2)))
    assert alone(SERVED, *overdue, (ANSWER, (3,))) == [1, 2]
    assert alone(SERVED, (ANSWER, ()), (arrival(1), ("ask", 1)), (arrival(2), ("ask", 2))) == [], "on their own"


def test_nothing_is_kept_of_what_is_decided_or_handed_on() -> None:
    witness = Witness(SERVED)
    for number in (1, 2, 3):
        witness.saw(arrival(number))
        if number == 1:  # decided, and then told to others
            witness.judged(Decide(number, Verdict.ADMIT))
            witness.asked()
        elif number == 2:
            witness.asked()
            witness.released(number)
        else:
            witness.released(number)
            witness.asked()
    assert not witness._asked
