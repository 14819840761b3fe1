"""The thesis' listings and examples, and what its printed rules do."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.records import Request
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Arrival, Delivery
from systems.conformance import check_system
from systems.limiting.crdt_queue import SYSTEM, Config, nodes
from systems.limiting.crdt_queue_literal import (
    Element,
    LiteralQueueNode,
    Queue,
    merge,
    refill,
    remove_duplicates,
    union,
)
from systems.limiting.queue_common import Elements, FineElements, pack
from systems.parts.user_key import user_key
from testbed.virtual.bench import VirtualBench
from tests.systems.limiting.queue_common import ask, content, gossip, sent

STEP = 20


def elements(*pairs: tuple[int, int]) -> Queue:
    return [Element(birth, death) for birth, death in pairs]


def closed(births: dict[int, int]) -> Queue:
    """A queue as merging leaves it: chained."""
    return merge([], [Element(birth, birth + STEP + more) for birth, more in sorted(births.items())], STEP)[0]


QUEUES = st.dictionaries(st.integers(0, 60), st.integers(0, 50), max_size=8).map(closed)


def node(name: str = "n1", count: int = 3, seed: int = 1, **options: object) -> LiteralQueueNode:
    config = Config(**{"implementation": "lists", **options})  # type: ignore[arg-type]
    made = nodes([f"n{i + 1}" for i in range(count)], config, seed)[name]
    assert isinstance(made, LiteralQueueNode)
    return made


def message_of(rows: list[tuple[int, int, int]]) -> Elements | FineElements:
    """A message with the queue of user u; of a rate whose ticks are ns."""
    return pack({user_key("u"): rows}, node(rate="1").rule)


# --- known answers --------------------------------------------------------------------------------


def test_the_merge_of_4_1_2() -> None:
    merged, updates = merge(elements((1, 21), (3, 41), (5, 61)), elements((2, 22), (4, 42)), STEP)
    assert merged == elements((1, 21), (2, 41), (3, 61), (4, 81), (5, 101))
    assert updates == merged[1:]  # all but the first are new or die later


@pytest.mark.parametrize(("local", "other"), [([1, 3, 5], [2, 4]), ([1, 2, 5], [2, 4])])
def test_timestamps_merge_like_sorted_sets(local: list[int], other: list[int]) -> None:
    queues = [elements(*((birth, birth + 100) for birth in births)) for births in (local, other)]
    merged, updates = merge(queues[0], queues[1], 0)  # without a chain: the sliding log
    assert [element.birth for element in merged] == sorted({*local, *other})
    assert [element.birth for element in updates] == sorted({*other} - {*local})


def test_figure_4_5_the_later_death_survives() -> None:
    b_alone, from_a = elements((60, 80)), elements((60, 100), (61, 120))  # A's first element is gone
    for queues in ((b_alone, from_a), (from_a, b_alone)):
        assert merge(*queues, STEP)[0] == from_a


def test_refilling_drops_the_dead_and_as_printed_the_living() -> None:
    queue = elements((1, 21), (2, 41), (3, 61))
    assert refill(queue, 40) == queue[1:] and refill(queue, 41) == queue[2:]  # a token is back after exactly 1/r
    assert refill(queue, 99, keep_last=2) == queue[1:]
    assert refill(queue, 5, as_printed=True) == [] and refill(queue, 21, as_printed=True) == queue


def test_duplicates_are_removed_only_where_the_sender_knows_our_death() -> None:
    ours, received = elements((1, 21), (2, 61), (3, 81)), elements((1, 21), (2, 41))
    assert remove_duplicates(ours, received) == ours[1:]
    assert remove_duplicates(ours, received, "birth") == ours[2:]
    assert remove_duplicates(received, ours) == [] and remove_duplicates(received, ours, "exact") == received[1:]


# --- merging is a join, until something is forgotten --------------------------------------------


@given(QUEUES, QUEUES, QUEUES)
def test_merging_is_commutative_associative_and_idempotent(a: Queue, b: Queue, c: Queue) -> None:
    ab, ba = merge(a, b, STEP)[0], merge(b, a, STEP)[0]
    assert ab == ba and merge(a, a, STEP)[0] == a and merge(ab, b, STEP)[0] == ab
    assert merge(ab, c, STEP)[0] == merge(a, merge(b, c, STEP)[0], STEP)[0]
    assert all(late.death - early.death >= STEP for early, late in pairwise(ab))


@given(QUEUES, QUEUES)
def test_updates_say_all_that_changed(a: Queue, b: Queue) -> None:
    merged, updates = merge(a, b, STEP)
    assert union(a, updates) == merged and merge(a, updates, STEP)[0] == merged


def test_refilling_makes_the_order_of_messages_matter() -> None:
    now, first, second = 22, elements((1, 21)), elements((5, 25))

    def receive(*messages: Queue) -> Queue:
        state: Queue = []
        for message in messages:
            state = refill(merge(state, message, STEP)[0], now)
        return state

    assert receive(first, second) == elements((5, 25))  # the first was forgotten before it could count
    assert receive(second, first) == elements((5, 41))


def test_merging_delta_states_as_printed_is_not_idempotent() -> None:
    queue = elements((1, 21), (2, 41))
    doubled, _ = merge(queue, queue, STEP, into_local_state=False)
    assert doubled == elements((1, 21), (1, 41), (2, 61), (2, 81)) and union(queue, queue) == queue


# --- nodes ------------------------------------------------------------------------------------------


def test_deaths_chain_at_one_node() -> None:
    alone = node(capacity=3, rate="1", count=1)
    assert [ask(alone, at_s) for at_s in (0, 0.5, 0.5, 0.9, 1.0, 1.0)] == [True, True, True, False, True, False]
    (queue,) = content(alone.snapshot()).values()
    assert [(birth, death / SECOND_NS) for birth, death, _ in queue] == [
        (SECOND_NS // 2, 2),
        (SECOND_NS // 2 + 1, 3),  # of one instant, yet two elements
        (SECOND_NS, 4),
    ]


def test_figure_4_2_the_bucket_accepts_at_4() -> None:
    alone = node(capacity=4, rate="1", count=1)
    assert all(ask(alone, at_s) for at_s in (1, 2, 3, 3.5, 4))


def test_a_request_of_many_tokens_takes_all_or_none() -> None:
    alone = node(capacity=4, rate="1", count=1)
    assert [ask(alone, 0, cost=cost) for cost in (5, 3, 2, 1, 1)] == [False, True, False, True, False]
    assert not ask(alone, 1.5, cost=2) and ask(alone, 2, cost=2)


def test_urgent_pushes_carry_a_window_and_clear_it() -> None:
    eager = node(frequency=True, window=3, threshold="1s")
    for number, at_s in enumerate((0, 2.0, 2.5, 2.8)):  # the third comes 2.5 s after the first, under 3 x 1 s
        effects = eager.handle(_arrival(number, at_s), round(at_s * SECOND_NS))
        assert set(sent(effects)) == ({"n2", "n3"} if number == 2 else set())
        assert all(len(queue) == 3 for message in sent(effects).values() for queue in content(message).values())
    assert not node(frequency=True, window=3, threshold="1s", true_gaps=True).rule.span_ns > 2 * SECOND_NS


def test_linf_serves_the_least_informed() -> None:
    linf = node(linf=True, frequency=False)
    ask(linf, 0)
    (first,) = gossip(linf, 0.3)
    ask(linf, 0.4)
    (second,) = gossip(linf, 0.6)
    assert first != second and gossip(linf, 0.9).keys() == {first} and linf.idle() and gossip(linf, 1.2) == {}


def test_what_came_is_passed_on_but_not_back() -> None:
    a, b = node("n1"), node("n2")
    ask(a, 0)
    message = message_of([(0, 10**10, 0)])
    b.handle(Delivery("n1", message), MILLISECOND_NS)
    assert list(b.delta_states["n3"].values()) == list(b.local_state.values()) and not b.delta_states["n1"]
    assert b.state_bytes() == 2 * (32 + 16)


def test_the_dead_are_sent_until_a_message_names_their_user() -> None:
    one = node(rate="1", count=2)
    ask(one, 0)
    assert ask(one, 5) and [birth for birth, _, _ in _queued(one, "n2")] == [0, 5 * SECOND_NS]
    one.handle(Delivery("n2", message_of([(SECOND_NS, 7 * SECOND_NS, 0)])), 5 * SECOND_NS)
    # the dead one goes; the other now dies a token after the received one, which the sender must learn
    assert _queued(one, "n2") == [(5 * SECOND_NS, 8 * SECOND_NS, 0)]


def test_keeping_the_last_lets_late_news_count() -> None:
    """5.4: an element that was forgotten cannot be made to die later."""
    for keep_last, deaths_s in ((0, []), (1, [2.0])):
        late = node("n2", count=2, rate="1", keep_last=keep_last)
        ask(late, 0.9)  # dies at 1.9 as far as n2 knows
        assert not ask(late, 1.92, cost=301)  # refills
        late.handle(Delivery("n1", message_of([(0, SECOND_NS, 0)])), round(1.95 * SECOND_NS))
        queues = content(late.snapshot()).values()
        assert [death / SECOND_NS for queue in queues for _, death, _ in queue] == deaths_s
        assert ask(late, 1.95, cost=300) == (keep_last == 0)  # the second dies at 2.0, after all


def test_kept_elements_neither_count_nor_make_new_ones_old() -> None:
    alone = node(count=1, capacity=2, rate="1", keep_last=2)
    assert [ask(alone, at_s) for at_s in (0, 0, 0, 9, 9, 9)] == [True, True, False] * 2


# --- printed rules ------------------------------------------------------------------------------------


def test_as_printed_refilling_never_limits() -> None:
    printed = node(count=1, capacity=2, rate="1", literal_refill=True)
    assert all(ask(printed, 0.1 * i) for i in range(20))


def test_as_printed_the_frequent_are_not_pushed() -> None:
    printed = node(frequency=True, window=2, literal_threshold=True)
    assert not sent(printed.handle(_arrival(0, 0), 0))
    assert not sent(printed.handle(_arrival(1, 0.1), SECOND_NS // 10))
    assert sent(printed.handle(_arrival(2, 9.9), round(9.9 * SECOND_NS)))


def test_as_printed_urgent_elements_are_sent_again_and_again() -> None:
    printed = node(frequency=True, window=2, literal_keep_sent=True)
    sizes = [
        [len(queue) for message in sent(printed.handle(_arrival(i, i), i * SECOND_NS)).values()
         for queue in content(message).values()]
        for i in range(4)
    ]  # fmt: skip
    assert sizes == [[], [2, 2], [3, 3], [4, 4]]


def test_as_printed_priorities_outlive_what_they_count() -> None:
    """A12: what is purged still counts, so that of two equally informed neighbours one always comes first."""
    for literal, targets in ((True, {"n3"}), (False, {"n2", "n3"})):
        first = set()
        for seed in range(20):
            one = node(count=3, seed=seed, rate="1", linf=True, literal_priorities=literal)
            ask(one, 0)
            ask(one, 6, user="v")
            one.handle(Delivery("n2", message_of([(0, SECOND_NS, 0)])), 6 * SECOND_NS)
            assert len(_queued(one, "n2")) == len(_queued(one, "n3")) == 1  # u is purged, v remains
            first |= set(gossip(one, 6.1))
        assert first == targets


def test_as_printed_one_request_breeds_elements() -> None:
    """A8: a delta state that keeps two of one birth makes its receiver count one request twice."""
    count = {}
    for literal in (True, False):
        a, b = (node(name, count=2, literal_merge=literal) for name in ("n1", "n2"))
        ask(a, 0)
        ask(b, 0.01)
        for turn in range(1, 5):
            for one, other in ((a, "n2"), (b, "n1")):
                for message in gossip(one, 0.3 * turn).values():
                    receiver, source = (b, "n1") if other == "n2" else (a, "n2")
                    receiver.handle(Delivery(source, message), round(0.3 * turn * SECOND_NS))
        count[literal] = sum(len(queue) for queue in content(a.snapshot()).values())
    assert count[False] == 2 < count[True]


def test_births_of_two_nodes_collide_unless_the_node_is_in_the_key() -> None:
    for key, tokens in (("birth", 1), ("birth-node", 2)):
        a, b = (node(name, count=2, key=key) for name in ("n1", "n2"))
        ask(a, 1)
        ask(b, 1)
        (message,) = gossip(a, 1.1).values()
        b.handle(Delivery("n1", message), 2 * SECOND_NS)
        (queue,) = content(b.snapshot()).values()
        assert len(queue) == tokens


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"frequency": True, "window": 2, "linf": True, "literal_priorities": True},
        {"key": "birth-node", "identity": "birth", "literal_keep_sent": True, "frequency": True},
        {"literal_refill": True, "literal_threshold": True, "frequency": True, "window": 2},
    ],
)
def test_literal_nodes_conform(options: dict[str, object]) -> None:
    config = Config(**{"implementation": "lists", "rate": "5", "capacity": 20, **options})  # type: ignore[arg-type]
    check_system(SYSTEM, VirtualBench(), config)


def _arrival(number: int, at_s: float) -> Arrival:
    return Arrival(Request(number, "u", round(at_s * SECOND_NS)))


def _queued(one: LiteralQueueNode, neighbour: str) -> list[tuple[int, int, int]]:
    return [
        (element.birth, element.death, element.origin)
        for queue in one.delta_states[neighbour].values()
        for element in queue
    ]


def test_rounds_send_everything_and_empty() -> None:
    one = node(count=2)
    for number, user in enumerate("abc"):
        ask(one, number, user)
    (message,) = gossip(one, 3.3).values()
    assert len(content(message)) == 3 and one.idle() and gossip(one, 3.6) == {}
