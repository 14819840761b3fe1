"""Who relieves an overloaded broker: when, whom it moves, how many at most, and that it conforms."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from core.errors import SpecError
from core.records import Envelope
from core.units import SECOND_NS
from systems.api import Actuate, Delivery, Effect, Report, RunHistory, Send, SetBucket, Start, Step, Timer, TopicReport
from systems.conformance import check_system
from systems.distribution import tb_adaptor
from systems.distribution.commands import MoveAway as MoveCommand
from systems.distribution.commands import PublisherReport
from systems.distribution.migrator import (
    SYSTEM,
    Config,
    Controller,
    MoveAnswer,
    MoveOrder,
    MovingAgent,
    nodes,
)
from systems.distribution.tb_adaptor import ADAPTOR, TopicStatistics
from testbed.virtual.bench import VirtualBench

NAMES = ["a", "b", "c"]
SPLITS = {"topic": dict.fromkeys(NAMES, Envelope(400.0, 10.0))}
CONFIG = Config(splits=SPLITS, capacities_rps=dict.fromkeys(NAMES, 600.0), enabled=False)


def controller(**options: Any) -> Controller:
    made = nodes(NAMES, replace(CONFIG, **options), 1)[ADAPTOR]
    assert isinstance(made, Controller)
    made.handle(Start(), 0)
    return made


def orders(effects: Sequence[Effect]) -> list[tuple[str, MoveOrder]]:
    return [
        (one.target, one.message) for one in effects if isinstance(one, Send) and isinstance(one.message, MoveOrder)
    ]


def tell(node: Controller, second: int, rates: Mapping[str, float]) -> list[tuple[str, MoveOrder]]:
    for name, rate in rates.items():
        node.handle(Delivery(name, TopicStatistics("topic", rate, 0.0)), second * SECOND_NS - 1)
    return orders(node.handle(Timer("adapt", second * SECOND_NS), second * SECOND_NS))


def test_it_conforms() -> None:
    check_system(SYSTEM, VirtualBench())


def test_nobody_moves_below_the_mark_however_uneven() -> None:
    node = controller()
    assert all(tell(node, second, {"a": 569.0, "b": 10.0, "c": 10.0}) == [] for second in range(1, 9))


def test_an_overloaded_broker_gives_its_excess_to_the_one_with_most_room() -> None:
    node = controller()
    ((source, order),) = tell(node, 1, {"a": 700.0, "b": 200.0, "c": 0.0})
    assert (source, order.target, order.most) == ("a", "c", 10)
    assert order.rate_rps == pytest.approx(300.0)  # c's room below its share; a has 400 more than its own
    assert tell(node, 2, {"a": 700.0, "b": 200.0, "c": 0.0}) == [], "an order is under way"
    node.handle(Delivery("a", MoveAnswer("c", 150.0, order.decided_at_ns)), 2 * SECOND_NS)
    ((_, order),) = tell(node, 3, {"a": 550.0, "b": 200.0, "c": 150.0})
    assert order.target == "c" and order.rate_rps == pytest.approx(150.0), "until it has its share"
    node.handle(Delivery("a", MoveAnswer("c", 0.0, order.decided_at_ns)), 3 * SECOND_NS)
    assert tell(node, 4, {"a": 550.0, "b": 200.0, "c": 150.0}) == [], "nobody fits any more"


def test_what_has_moved_counts_at_once() -> None:
    node = controller(enabled=True)
    ((_, order),) = tell(node, 1, {"a": 700.0, "b": 200.0, "c": 0.0})
    node.handle(Delivery("a", MoveAnswer("c", 400.0, order.decided_at_ns)), SECOND_NS + 1)
    due = Timer("adapt", 2 * SECOND_NS)
    effects = node.handle(due, 2 * SECOND_NS)
    assert orders(effects) == [], "what is left is 300, 200 and 400"
    limits = [one.message.rate_rps for one in effects if isinstance(one, Send)]  # type: ignore[attr-defined]
    assert limits == pytest.approx([400.0, 800 / 3, 1_600 / 3], rel=1e-4), "and tokens go along"


def test_a_broker_that_says_nothing_is_no_target() -> None:
    node = controller()
    ((_, order),) = tell(node, 1, {"a": 700.0, "b": 100.0})
    assert order.target == "b"


def test_no_capacity_no_migration_and_off_is_the_adaptor() -> None:
    rates = {"a": 5_000.0, "b": 1.0, "c": 1.0}
    assert tell(controller(capacities_rps={}), 1, rates) == []
    off, plain = controller(migrates=False, enabled=True), tb_adaptor.nodes(NAMES, tb_adaptor.Config(splits=SPLITS), 1)
    adaptor = plain[ADAPTOR]
    for node in (off, adaptor):
        node.handle(Start(), 0)
        for name, rate in rates.items():
            node.handle(Delivery(name, TopicStatistics("topic", rate, 3.0)), 1)
    assert off.handle(Timer("adapt", SECOND_NS), SECOND_NS) == plain[ADAPTOR].handle(
        Timer("adapt", SECOND_NS), SECOND_NS
    )


def agent(rates: Mapping[int, float]) -> MovingAgent:
    made = MovingAgent("a", CONFIG)
    made.handle(Report(PublisherReport("topic", rates)), SECOND_NS)
    return made


def test_the_busiest_go_as_long_as_they_come_nearer() -> None:
    node = agent({1: 10.0, 2: 50.0, 3: 40.0, 4: 10.0})
    effects = node.handle(Delivery(ADAPTOR, MoveOrder("topic", "b", 66.0, 9, 7)), SECOND_NS)
    assert Actuate(MoveCommand("topic", (2, 1, 4), "b")) in effects
    assert node.handle(Delivery(ADAPTOR, MoveOrder("topic", "b", 66.0, 9, 7)), SECOND_NS) == [], "it came twice"
    again = node.handle(Delivery(ADAPTOR, MoveOrder("topic", "b", 100.0, 1, 8)), SECOND_NS)
    assert Actuate(MoveCommand("topic", (3,), "b")) in again, "who has gone is not sent again, and one is most"


def test_an_agent_sets_buckets_as_before() -> None:
    effects = agent({}).handle(Delivery(ADAPTOR, tb_adaptor.NewLimit("topic", 5.0, 2.0, 1)), 1)
    assert Actuate(SetBucket("topic", 5.0, 2.0)) in effects
    told = agent({}).handle(Report(TopicReport("topic", 5.0, 1.0, 0.0)), 1)
    assert Send(ADAPTOR, TopicStatistics("topic", 5.0, 1.0)) in told


def test_churn_beyond_the_bound_is_found() -> None:
    (churn,) = [one for one in SYSTEM.invariants if one.name == "churn bounded"]

    def history(spacing_ns: int) -> RunHistory:
        steps = [
            Step(n * spacing_ns, ADAPTOR, 0, Timer("adapt", 0), (Send("a", MoveOrder("topic", "b", 1.0, 10, n)),))
            for n in range(5)
        ]
        return RunHistory(SYSTEM, CONFIG, tuple(NAMES), steps)

    assert churn.broken(history(SECOND_NS)) is None
    assert churn.broken(history(SECOND_NS // 2)) is not None


@pytest.mark.parametrize(
    ("options", "word"), [({"churn": 0.0}, "churn"), ({"order": 0}, "order"), ({"history": "soon"}, "history"),
                          ({"high": -1.0}, "high"), ({"splits": {**SPLITS, "other": SPLITS["topic"]}}, "2 topics")]
)  # fmt: skip
def test_what_makes_no_sense_is_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(SpecError, match=word):
        nodes(NAMES, replace(CONFIG, **options), 1)
