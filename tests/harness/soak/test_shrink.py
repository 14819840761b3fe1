"""Shrinking: what is left is a schedule, and fails as the one did that it is made of."""

from collections.abc import Callable
from itertools import count
from math import inf

import pytest
from msgspec.structs import replace

from core.units import MILLISECOND_NS, SECOND_NS
from harness.soak.schedule import SoakRequest, SoakSchedule
from harness.soak.shrink import shrink
from harness.soak.trial import HISTORY, play
from systems.api import Arrival, Decide, Effect, Event, Sample, SetTimer
from systems.limiting.static_split import SplitNode
from testbed.faults import Handover
from testbed.virtual.scheduler import EventLoop

Answer = Callable[[int], list[Effect]]  # what a node answers a request at an instant
NODES = ("n1", "n2", "n3")
SCHEDULE = SoakSchedule(1, "static-split", {"capacity": 12, "rate": "1"}, NODES, 14 * SECOND_NS, 10 * MILLISECOND_NS)


def asked(*nodes: str) -> tuple[SoakRequest, ...]:
    return tuple(SoakRequest(place * SECOND_NS, node, "ann", 1) for place, node in enumerate(nodes, 1))


def fails_with_key(now_ns: int) -> list[Effect]:
    raise KeyError("key")


def fails_with_value(now_ns: int) -> list[Effect]:
    raise ValueError("value")


def samples_no_number(now_ns: int) -> list[Effect]:
    return [Sample("state_bytes", inf)]


def sets_a_timer_into_the_past(now_ns: int) -> list[Effect]:
    return [SetTimer("late", now_ns - 1)]


def test_what_is_no_schedule_does_not_fail_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who has a home can be handed over: without homes there is no trial."""

    def decide(loop: EventLoop, node: str, decision: Decide) -> None:
        if any(isinstance(fault, Handover) for _, fault in loop.journal.faults):
            raise KeyError(node)

    monkeypatch.setattr(EventLoop, "decide", decide)
    handover = ({"kind": "handover", "at": "500ms", "host": "n1", "point": "right"},)
    homes = dict.fromkeys(NODES, "left")
    failed = play(replace(SCHEDULE, homes=homes, troubles=(handover,), requests=asked("n2", "n3", "n1")))
    assert [breach.error for breach in failed.breaches] == ["KeyError"]
    small = shrink(failed).schedule
    assert (len(small.requests), small.troubles) == (1, (handover,))
    assert small.homes
    assert [breach.error for breach in play(small).breaches] == ["KeyError"]


@pytest.mark.parametrize(
    ("at_n2", "elsewhere"),
    [
        (fails_with_key, fails_with_value),
        (fails_with_value, fails_with_key),
        (samples_no_number, sets_a_timer_into_the_past),
        (sets_a_timer_into_the_past, samples_no_number),
        (fails_with_key, samples_no_number),
    ],
)
def test_another_failure_is_not_the_same(at_n2: Answer, elsewhere: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are faults of a system, by the same invariant."""
    handle = SplitNode.handle

    def failing(node: SplitNode, event: Event, now_ns: int) -> list[Effect]:
        if isinstance(event, Arrival):
            return (at_n2 if node.node_id == "n2" else elsewhere)(now_ns)
        return handle(node, event, now_ns)

    monkeypatch.setattr(SplitNode, "handle", failing)
    failed = play(replace(SCHEDULE, requests=asked("n2", "n1", "n1", "n1")))
    (wanted,) = failed.breaches
    small = shrink(failed)
    assert {one.node for one in small.schedule.requests} == {"n2"}
    assert [(breach.invariant, breach.error) for breach in small.breaches] == [(wanted.invariant, wanted.error)]


def test_the_same_failure_is_the_same_at_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and instants in what is said of it do not count."""
    handle = SplitNode.handle

    def failing(node: SplitNode, event: Event, now_ns: int) -> list[Effect]:
        return samples_no_number(now_ns) if isinstance(event, Arrival) else handle(node, event, now_ns)

    monkeypatch.setattr(SplitNode, "handle", failing)
    small = shrink(play(replace(SCHEDULE, requests=asked("n2", "n1", "n1"))))
    assert [one.node for one in small.schedule.requests] == ["n1"]


def test_what_differs_the_second_time_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each candidate is played twice: by one history nobody sees it."""
    handle, calls = SplitNode.handle, count()

    def counting(node: SplitNode, event: Event, now_ns: int) -> list[Effect]:
        effects = handle(node, event, now_ns)
        if isinstance(event, Arrival) and node.node_id == "n2":
            return [*effects, Sample("state_bytes", float(next(calls)))]
        return effects

    monkeypatch.setattr(SplitNode, "handle", counting)
    failed = play(replace(SCHEDULE, requests=asked("n1", "n2", "n3", "n2", "n1")), twice=True)
    assert [breach.invariant for breach in failed.breaches] == [HISTORY]
    small = shrink(failed)
    assert [one.node for one in small.schedule.requests] == ["n2"]
    assert [breach.invariant for breach in small.breaches] == [HISTORY]
