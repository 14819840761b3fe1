from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.records import Request
from core.units import SECOND_NS
from systems.api import Arrival, Decide, Start, Verdict
from systems.conformance import check_system
from systems.limiting.static_split import SYSTEM, Config, SplitNode, nodes, shares
from systems.parts.limit import gcra, limit_of
from testbed.virtual.bench import VirtualBench

RATES = st.sampled_from(["0.3", "1", "1/3", "2.5", "40"])
OFFERED = st.lists(  # (ns since the last request, node, cost)
    st.tuples(st.integers(0, 3 * SECOND_NS), st.integers(0, 99), st.integers(1, 3)), min_size=1, max_size=60
)


def split(count: int, capacity: int, rate: str, minimum: int = 0) -> list[SplitNode]:
    made = nodes([f"n{i}" for i in range(count)], Config(capacity, rate, minimum), 1).values()
    return [node for node in made if isinstance(node, SplitNode)]


def ask(node: SplitNode, at_ns: int, cost: int = 1, user: str = "u") -> bool:
    (decided,) = node.handle(Arrival(Request(0, user, at_ns, cost)), at_ns)
    assert isinstance(decided, Decide)
    return decided.verdict is Verdict.ADMIT


def test_it_conforms() -> None:
    check_system(SYSTEM, VirtualBench())
    check_system(SYSTEM, VirtualBench(), Config(capacity=2, rate="1"))  # the third node has no token


@given(OFFERED, st.integers(1, 6), st.integers(1, 12), RATES)
def test_all_nodes_together_admit_at_most_c_plus_rt_in_any_span(
    offered: list[tuple[int, int, int]], count: int, capacity: int, rate: str
) -> None:
    made = split(count, capacity, rate)
    admitted: list[tuple[int, int]] = []
    now_ns = 0
    for gap_ns, where, cost in offered:
        now_ns += gap_ns
        if ask(made[where % count], now_ns, cost):
            admitted.append((now_ns, cost))
    for first, (begin_ns, _) in enumerate(admitted):
        total = 0
        for end_ns, cost in admitted[first:]:
            total += cost
            assert total <= capacity + Fraction(rate) * Fraction(end_ns - begin_ns, SECOND_NS)


@given(OFFERED, st.integers(1, 12), RATES)
def test_one_node_alone_is_the_centralised_bucket(
    offered: list[tuple[int, int, int]], capacity: int, rate: str
) -> None:
    (node,) = split(1, capacity, rate)
    limit = limit_of(capacity, rate)
    now_ns = 0
    full_at = {"a": 0, "b": 0}
    for gap_ns, where, cost in offered:
        now_ns += gap_ns
        user = "ab"[where % 2]
        expected = gcra(limit.ticks(now_ns), full_at[user], limit, cost)
        assert ask(node, now_ns, cost, user) == (expected is not None)
        full_at[user] = full_at[user] if expected is None else expected


@given(st.integers(1, 40), st.integers(1, 100), RATES)
def test_the_shares_are_the_whole(count: int, capacity: int, rate: str) -> None:
    limit = limit_of(capacity, rate)
    parts = shares(limit, count)
    assert sum(part.capacity for part in parts if part) == capacity
    assert all(part.rate_rps * count == limit.rate_rps for part in parts if part)
    assert (
        max(part.capacity if part else 0 for part in parts) - min(part.capacity if part else 0 for part in parts) <= 1
    )


def test_a_node_without_a_token_rejects_unless_it_is_given_one() -> None:
    assert [ask(node, 0) for node in split(3, 2, "1")] == [True, True, False]
    assert [ask(node, 0) for node in split(3, 2, "1", minimum=1)] == [True, True, True]
    with pytest.raises(SpecError, match="minimum = -1"):
        split(3, 2, "1", minimum=-1)


def test_a_share_refills_at_its_share_of_the_rate() -> None:
    node = split(2, 4, "1")[0]
    assert [ask(node, 0) for _ in range(3)] == [True, True, False]
    assert not ask(node, 2 * SECOND_NS - 1)
    assert ask(node, 2 * SECOND_NS)


def test_full_buckets_are_dropped_and_nothing_changes() -> None:
    node = split(1, 2, "1")[0]
    for number in range(500):
        assert ask(node, number * SECOND_NS, user=f"user-{number}")
    assert len(node.full_at) < 100
    assert node.state_bytes() == 48 * len(node.full_at)
    assert node.allocated_bytes() > 0 and node.idle()


def test_a_node_comes_back_empty_or_with_the_state_of_a_peer() -> None:
    peer, other = split(2, 4, "1")
    assert [ask(peer, 0) for _ in range(2)] == [True, True]
    other.handle(Start(peer.snapshot()), SECOND_NS)
    assert not ask(other, SECOND_NS)
    other.handle(Start(peer.snapshot()), SECOND_NS)
    assert not ask(peer, SECOND_NS) and ask(peer, 2 * SECOND_NS)
    assert not ask(other, SECOND_NS) and ask(other, 2 * SECOND_NS)  # the copy has a life of its own
