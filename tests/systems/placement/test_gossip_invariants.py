"""What placements by vote are judged by: histories by hand, with one thing wrong in each."""

from systems.api import Actuate, Delivery, Effect, Event, Report, RunHistory, Send, Step, Timer, Violation
from systems.placement.gossip_broker import Config
from systems.placement.gossip_messages import GiveBack, Vote
from systems.placement.gossip_placer import SYSTEM
from systems.placement.messages import Drained, Fence, Open

NAMES = ("broker1", "broker2", "broker3")
DRAINED = Report(Drained("red"))
VOTED = Delivery("broker3", Vote(0, 1, "red", "broker2"))
PLACED = Timer("place", 1)


def step(at_ns: int, node: str, event: Event, *effects: Effect) -> Step:
    return Step(at_ns, node, 0, event, effects, at_ns)


def given_back(successor: str) -> list[Effect]:
    return [Send(name, GiveBack(0, "red", successor)) for name in NAMES[1:]]


def lost(*steps: Step, drain: bool = True, crashed_ns: int | None = None) -> Violation | None:
    (invariant,) = [one for one in SYSTEM.invariants if one.name == "nothing acknowledged is lost"]
    outages = {} if crashed_ns is None else {"broker1": ((crashed_ns, 100),)}
    opens = step(50, "broker2", VOTED, Actuate(Open("red")))
    return invariant.broken(RunHistory(SYSTEM, Config(drain=drain), NAMES, (*steps, opens), outages=outages))


def test_who_names_a_successor_in_the_step_of_the_fence_has_not_drained() -> None:
    hasty = step(10, "broker1", PLACED, Actuate(Fence("red")), *given_back("broker2"))
    violation = lost(hasty)
    assert violation is not None and (violation.at_ns, violation.node) == (50, "broker2")
    assert "broker1" in violation.what
    assert lost(hasty, drain=False) is None


def test_nobody_waits_for_whose_lease_has_run_out() -> None:
    lapsed = step(10, "broker1", Timer("lapse", 10), *given_back(""), Actuate(Fence("red")))
    assert lost(lapsed) is None


def test_a_topic_is_opened_after_it_is_drained() -> None:
    fence = step(10, "broker1", PLACED, Actuate(Fence("red")))
    drained = step(20, "broker1", DRAINED, *given_back("broker2"))
    assert lost(fence) is not None
    assert lost(fence, drained) is None


def test_nobody_waits_for_who_has_crashed() -> None:
    fence = step(10, "broker1", PLACED, Actuate(Fence("red")))
    assert lost(fence, crashed_ns=30) is None
    assert lost(fence, crashed_ns=70) is not None
