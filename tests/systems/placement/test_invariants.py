"""How many migrations a load manager may have under way: histories by hand, with one thing wrong in each."""

from typing import Any

import pytest

from core.units import SECOND_NS
from systems.api import Delivery, Effect, Event, RunHistory, Send, Start, Step, Timer
from systems.placement.epulsar import SYSTEM
from systems.placement.messages import Expired, Release, Released

(FEW,) = [one for one in SYSTEM.invariants if one.name == "few move at a time"]
PLACED = Timer("place", 1)
NAMES = ("manager1", "broker1", "broker2")


def step(at_s: float, event: Event, *units: str) -> Step:
    """Of the load manager, which lets these units move."""
    effects: tuple[Effect, ...] = tuple(Send("broker1", Release(unit, "broker2")) for unit in units)
    at_ns = int(at_s * SECOND_NS)
    return Step(at_ns, "manager1", 0, event, effects, at_ns)


def heard(at_s: float, unit: str, *units: str) -> Step:
    return step(at_s, Delivery("broker1", Released(unit)), *units)


def broken(*steps: Step, faults: frozenset[str] = frozenset(), **options: Any) -> str:
    config = SYSTEM.config(**{"executors": 2, "guard": "5s", **options})
    violation = FEW.broken(RunHistory(SYSTEM, config, NAMES, steps, faults))
    return "" if violation is None else violation.what


def test_no_more_are_under_way_than_there_are_executors() -> None:
    assert not broken(step(1, PLACED, "red", "blue"))
    assert "green beside 2" in broken(step(1, PLACED, "red", "blue", "green"))
    assert "green beside 2" in broken(step(1, PLACED, "red", "blue"), step(11, PLACED, "green"))
    assert not broken(step(1, PLACED, "red", "blue"), heard(2, "red", "green"))
    assert not broken(step(1, PLACED, "red", "blue"), step(11.001, PLACED, "green")), "both are given up"


@pytest.mark.parametrize("event", [Start(None), Delivery("store", Expired())])
def test_who_is_elected_anew_knows_of_none(event: Event) -> None:
    assert not broken(step(1, PLACED, "red", "blue"), step(2, event), step(3, PLACED, "red", "green"))


def test_a_unit_stays_while_it_is_on_its_way_and_when_it_has_just_arrived() -> None:
    first = step(1, PLACED, "red")
    assert "on its way" in broken(first, step(7, PLACED, "red"))
    assert "again after 4" in broken(first, heard(2, "red"), step(5, PLACED, "red"))
    assert not broken(first, heard(2, "red"), step(6, PLACED, "red"))
    assert not broken(first, heard(2, "red"), step(5, PLACED, "red"), periodic="3s")
    assert "on its way" in broken(first, step(5, PLACED, "red"), periodic="3s")


def test_nothing_is_said_where_a_clock_was_set() -> None:
    assert not broken(step(1, PLACED, "red"), step(2, PLACED, "red"), faults=frozenset({"clock-skew"}))
