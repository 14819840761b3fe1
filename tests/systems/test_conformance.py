"""The suite passes what is sound, and each canary breaks one rule and must be caught."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import force_setattr

from core.errors import SystemFault
from core.records import Request
from systems import SYSTEMS
from systems.api import (
    Arrival,
    Decide,
    Message,
    RunHistory,
    SetTimer,
    Start,
    Step,
    System,
    Timer,
    Verdict,
)
from systems.conformance import check_decided, check_invariants, check_message, check_same, check_system
from systems.loader import load_system
from testbed.virtual.bench import VirtualBench
from tests.systems.canaries import (
    Count,
    DecidesAlone,
    DecidesLate,
    DecidesStrangers,
    DecidesTwice,
    DrawsUnseeded,
    MisusesUnanswered,
    Needy,
    NeverDecides,
    NeverPasses,
    NotAfterACrash,
    SendsToStrangers,
    SendsUndeclared,
    SendsWrongType,
    SharesState,
    TimerInThePast,
    Unprepared,
    answers_something_else,
    counts_down,
    endless,
    fails,
    gives_up,
    invents_a_broker,
    leaves_one_out,
    limiter,
    loses_a_publisher,
    no_duration,
    no_nodes_at_all,
    returns_nothing,
    says_placed,
    searching,
    sound,
    the_same_nodes,
    too_few_nodes,
    unseeded,
    wrong_type,
)

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(str(path) for path in (ROOT / "docs" / "examples").glob("*.py") if "\nSYSTEM = " in path.read_text())
BENCH = VirtualBench()


@pytest.mark.parametrize("name", [*SYSTEMS, *EXAMPLES])
def test_registered_systems_and_examples_conform(name: str) -> None:
    check_system(load_system(name), BENCH)


def test_the_readme_lists_every_registered_system() -> None:
    text = (ROOT / "systems" / "README.md").read_text()
    assert [key for key in SYSTEMS if f"`{key}`" not in text] == []


# --- limiters ---------------------------------------------------------


def test_the_sound_limiter_conforms() -> None:
    check_system(limiter(), BENCH)


@pytest.mark.parametrize(
    ("cls", "rule"),
    [
        (DecidesTwice, "decided request .* which is not open there"),
        (DecidesStrangers, "decided request .* which is not open there"),
        (DecidesAlone, "in a calm network: n\\d had no answer about request"),
        (MisusesUnanswered, "decided with unanswered = 'yes'"),
        (NeverDecides, "in a calm network: n\\d left request .* undecided"),
        (DecidesLate, "in a calm network: .* undecided"),
        (NotAfterACrash, "in a crash: n2 left request .* undecided"),
        (TimerInThePast, "set timer 'tell' to"),
        (NeverPasses, "does not get past 100ms"),
        (SendsToStrangers, "unknown target .*n4"),
        (SendsUndeclared, "sent an undeclared Request"),
        (SendsWrongType, "cannot decode"),
        (Unprepared, "in a crash: .*ValueError: impossible count"),
        (SharesState, "runs with one seed part at step"),
        (DrawsUnseeded, "runs with one seed part at step"),
    ],
)
def test_a_canary_limiter_is_caught(cls: Any, rule: str) -> None:
    with pytest.raises(SystemFault, match=rule) as caught:
        check_system(limiter(cls), BENCH)
    assert str(caught.value).startswith("system canary: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"nodes": the_same_nodes}, "nodes\\(\\) returns the same n1 again"),
        ({"nodes": too_few_nodes}, "made none for n2, n3"),
        ({"nodes": no_nodes_at_all}, "n1 is a NoneType without handle"),
        ({"config": Needy}, "its config has no defaults"),
        ({"messages": ()}, "sent an undeclared Count"),
        ({"servers": ("redis-gcra",)}, "decides as if its servers had answered"),
    ],
)
def test_a_canary_deployment_is_caught(changes: dict, rule: str) -> None:
    with pytest.raises(SystemFault, match=rule):
        check_system(limiter(**changes), BENCH)


# --- messages ---------------------------------------------------------------------------------------


class Rich(Message, frozen=True):
    users: dict[str, tuple[int, float]]
    verdicts: tuple[Verdict, ...]
    inner: Count | None
    names: frozenset[str]
    raw: bytes
    pair: tuple[str, bool] = ("a", True)


def test_a_rich_message_is_fine() -> None:
    check_message(Rich)


class Loose(Message, frozen=True):
    value: Any

    def __post_init__(self) -> None:
        force_setattr(self, "value", (self.value,))


class Opaque(Message, frozen=True):
    value: object


class Array(Message, frozen=True):
    value: np.ndarray


class Thawed(Message, frozen=False):  # type: ignore[misc]
    value: int


@dataclass(frozen=True)
class Orphan:
    value: int


class Forgetful(Message, frozen=True):
    value: int

    def __post_init__(self) -> None:
        force_setattr(self, "value", self.value + 1)


@pytest.mark.parametrize("cls", [Loose, Opaque, Array, Thawed, Orphan, Forgetful])
def test_a_canary_message_is_caught(cls: type) -> None:
    with pytest.raises(SystemFault):
        check_message(cls)


# --- folds over hand-written histories ----------------------------------------------------------------


def history(*steps: Step) -> RunHistory:
    return RunHistory(limiter(), None, ("n1",), steps)


def test_a_timer_of_an_earlier_life_is_caught() -> None:
    first = Step(0, "n1", 0, Start(), (SetTimer("t", 10), SetTimer("t", 20)))
    again = Step(15, "n1", 1, Start(), ())
    check_invariants(history(first, Step(20, "n1", 0, Timer("t", 20), ())))
    for wrong in (Step(10, "n1", 0, Timer("t", 10), ()), Step(20, "n1", 1, Timer("t", 20), ())):
        with pytest.raises(SystemFault, match="rang timer 't' unset"):
            check_invariants(history(first, again, wrong))


class HauntedBench(VirtualBench):
    """Its timers outlive their nodes: after the crash each rings once more."""

    def run_nodes(self, system: System, *rest: Any) -> list[Step]:
        steps = super().run_nodes(system, *rest)
        reborn = next((step for step in steps if step.incarnation), None)
        ghost = Timer("tell", reborn.at_ns + 1) if reborn else None
        return [*steps, Step(ghost.due_at_ns, "n2", 1, ghost, ())] if ghost else steps


def test_a_bench_whose_timers_outlive_a_crash_is_caught() -> None:
    with pytest.raises(SystemFault, match="in a crash: n2 rang timer 'tell' unset"):
        check_system(limiter(), HauntedBench())


def test_verdicts_are_counted() -> None:
    arrival = Step(5, "n1", 0, Arrival(Request(1, "u", 5)), ())
    verdict = Step(6, "n1", 0, Timer("t", 6), (Decide(1, Verdict.ADMIT),))
    check_decided(history(arrival, verdict), 0)
    check_decided(history(arrival), 6)
    with pytest.raises(SystemFault, match="undecided"):
        check_decided(history(arrival), 5)
    with pytest.raises(SystemFault, match="two verdicts"):
        check_invariants(history(arrival, verdict, verdict))


def test_runs_are_compared_to_the_end() -> None:
    steps = [Step(n, "n1", 0, Timer("t", n), ()) for n in range(3)]
    check_same(steps, list(steps))
    with pytest.raises(SystemFault, match="part at step 2"):
        check_same(steps, [*steps[:2], Step(2, "n1", 0, Timer("u", 2), ())])
    with pytest.raises(SystemFault, match="differ in length"):
        check_same(steps, steps[:2])


# --- distributors -------------------------------------------------------------------------------------


def test_the_sound_search_conforms() -> None:
    check_system(searching(sound), BENCH)


@pytest.mark.parametrize(
    ("search", "rule"),
    [
        (endless, "with no trial meets the SLO: no answer after 300 trials"),
        (loses_a_publisher, r"trial 1 assigns \(239,\) publishers"),
        (leaves_one_out, "the answer leaves publishers unassigned"),
        (invents_a_broker, "names a broker that is not there"),
        (wrong_type, "make it int32"),
        (no_duration, "trial 1 lasts 0 ns"),
        (counts_down, "trial 2 is of iteration 1"),
        (says_placed, "with no trial meets the SLO: the search says placed"),
        (gives_up, "with every trial meets the SLO: the search says out-of-brokers"),
        (answers_something_else, "its answer violates the SLO"),
        (unseeded, "two searches with one seed differ"),
        (returns_nothing, "the search returned None"),
        (fails, "with one publisher: the search failed after 1 trials: AssertionError"),
    ],
)
def test_a_canary_distributor_is_caught(search: Any, rule: str) -> None:
    with pytest.raises(SystemFault, match=rule):
        check_system(searching(search), BENCH)
