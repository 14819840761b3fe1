"""The sliding log: Eq. 4.1, its kinship with the token bucket (claim T23), and what it does not resend (T24)."""

from collections import deque
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Delivery
from systems.conformance import check_system
from systems.limiting import crdt_queue, sliding_log
from systems.limiting.sliding_log import SYSTEM, Config
from testbed.virtual.bench import VirtualBench
from tests.systems.limiting.queue_common import ask, content, gossip


def log(count: int = 1, **options: Any) -> Any:
    return sliding_log.nodes([f"n{i + 1}" for i in range(count)], Config(**options), 1)["n1"]


def bucket(count: int = 1, **options: Any) -> Any:
    return crdt_queue.nodes([f"n{i + 1}" for i in range(count)], crdt_queue.Config(**options), 1)["n1"]


def test_figure_4_2_the_log_rejects_where_the_bucket_accepts() -> None:
    arrivals = (1, 2, 3, 3.5, 4)
    one, other = log(capacity=4, rate="1"), bucket(capacity=4, rate="1")
    assert [ask(one, at_s) for at_s in arrivals] == [True, True, True, True, False]
    assert [ask(other, at_s) for at_s in arrivals] == [True] * 5


@given(st.integers(1, 8), st.sampled_from([1, 2, 4, 5]), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_both_accept_equally_many_under_saturation(capacity: int, rate: int, turns: int) -> None:
    """T23, Fig. 4.1: with requests all the time both have accepted c (k + 1) by k c/r, the log in bursts."""
    instants = [Fraction(step, 4 * rate) for step in range(4 * capacity * turns + 1)]
    for node in (log(capacity=capacity, rate=str(rate)), bucket(capacity=capacity, rate=str(rate))):
        accepted = [at for at in instants for _ in range(capacity) if ask(node, float(at))]
        for turn in range(turns + 1):
            assert sum(at <= Fraction(turn * capacity, rate) for at in accepted) == capacity * (turn + 1)


def test_on_bursts_with_pauses_the_log_rejects_more_and_more() -> None:
    """T23: Fig. 4.2's traffic over and over."""
    one, other = log(capacity=4, rate="1"), bucket(capacity=4, rate="1")
    rejected = []
    for burst in range(5):
        instants = [20 * burst + at_s for at_s in (1, 2, 3, 3.5, 4)]
        rejected.append((sum(not ask(one, at_s) for at_s in instants), sum(not ask(other, at_s) for at_s in instants)))
    assert rejected == [(1, 0)] * 5


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 3)), max_size=50))
def test_one_node_is_the_sliding_log(capacity: int, steps: list[tuple[int, int]]) -> None:
    node, accepted, now_ms = log(capacity=capacity, rate="1"), deque[int](), 0
    for gap_ms, cost in steps:
        now_ms += gap_ms
        while accepted and accepted[0] + 1_000 * capacity <= now_ms:
            accepted.popleft()
        expected = len(accepted) + cost <= capacity
        accepted.extend([now_ms] * cost if expected else [])
        assert ask(node, now_ms / 1_000, cost=cost) == expected


def test_news_never_changes_deaths_and_is_passed_on_once() -> None:
    """T24: the queue sends an element again when its death is raised; the log has nothing to raise."""
    sent = {}
    for name, node in (("log", log(3, capacity=4, rate="1")), ("bucket", bucket(3, capacity=4, rate="1"))):
        ask(node, 1)
        first = [gossip(node, 1.1), gossip(node, 1.2)]
        (message,) = first[0].values()
        ((user, ((birth, death, _),)),) = content(message).items()
        older = sliding_log.Elements(
            message.users,
            message.counts,
            (birth - 500 * MILLISECOND_NS).to_bytes(8, "little"),
            (death - 500 * MILLISECOND_NS).to_bytes(8, "little"),
        )
        node.handle(Delivery("n2", older), round(1.3 * SECOND_NS))
        again = [content(message)[user] for at_s in (1.4, 1.5) for message in gossip(node, at_s).values()]
        sent[name] = sorted(len(elements) for elements in again)
    assert sent == {"log": [1], "bucket": [1, 2]}  # n3 lacks the older one; the bucket's own now dies later, too


@pytest.mark.parametrize("options", [{}, {"capacity": 5, "rate": "2", "frequency": True, "linf": True, "window": 2}])
@pytest.mark.parametrize("implementation", ["arrays", "lists"])
def test_it_conforms(options: dict[str, Any], implementation: str) -> None:
    check_system(SYSTEM, VirtualBench(), Config(implementation=implementation, **options))


def test_bad_options_are_named() -> None:
    with pytest.raises(SpecError, match="implementation"):
        log(implementation="tree")
