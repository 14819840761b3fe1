"""ePulsar's arithmetic by hand, and its arrays beside plain loops."""

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.seeds import generator
from systems.parts import topic_placement as tp
from systems.parts.coordinates import stacked
from systems.parts.topic_placement_twin import BrokerLoad, Move, expected_s, placed
from systems.parts.vivaldi import Coordinate, distance_s

POLICIES = [
    tp.Policy(),
    tp.Policy(literal=True),
    tp.Policy(shortcut=True),
    tp.Policy(stay=False),
    tp.Policy(hysteresis_s=0.005),
]


def at(x: float, height: float = 0.0, adjustment: float = 0.0) -> Coordinate:
    """A place on the first axis, in seconds."""
    return Coordinate((x, *[0.0] * 7), 0.1, adjustment, height)


def drawn(seed: int, count: int) -> list[Coordinate]:
    """Places at random, heights and adjustments too."""
    rng = generator(seed, "places")
    return [
        Coordinate(
            tuple(rng.normal(0, 0.03, 8).tolist()), 0.2, float(rng.normal(0, 0.002)), float(rng.uniform(0, 0.01))
        )
        for _ in range(count)
    ]


def test_a_summary_by_hand() -> None:
    producers, consumers, broker = [at(0.0, 0.001)], [at(0.010), at(0.030)], at(0.050)
    found = tp.summarised(producers, consumers, broker, in_rps=1.0, out_rps=2.0)
    assert found.consumers == at(0.020)
    assert found.deviation_s == pytest.approx((0.002 + 0.010) / 2)  # a height counts twice, of a client alone too
    assert found.worst_s == pytest.approx((0.051 + 0.040) / 2)
    assert (found.in_rps, found.out_rps) == (1.0, 2.0)
    literal = tp.summarised(producers, consumers, broker, tp.Policy(literal=True))
    assert literal.deviation_s == pytest.approx(2 * found.deviation_s)
    assert literal.worst_s == pytest.approx(2 * found.worst_s)
    expected = tp.expected_s(tp.collected([found]), stacked([broker, at(0.020)]))
    assert expected == pytest.approx(np.array([[0.051 + 0.030, 0.021 + 0.0]]) / 2 + found.deviation_s)


def test_the_public_codes_shortcut_forgets_heights() -> None:
    here, other = at(0.0, 0.016), at(0.0, 0.001)
    quick = tp.Policy(shortcut=True)
    assert tp.delay_s(here, other, quick) == 0.0 and tp.delay_s(here, other) == pytest.approx(0.0085)
    assert tp.delays_s(stacked([here]), stacked([other]), quick)[0, 0] == 0.0
    assert tp.summarised([here], [here], other, quick).deviation_s == 0.0


@pytest.mark.parametrize("empty", ["producers", "consumers", "both"])
def test_a_role_without_clients_counts_nothing(empty: str) -> None:
    clients, brokers = drawn(3, 2), drawn(4, 3)
    producers = clients if empty == "consumers" else []
    consumers = clients if empty == "producers" else []
    found = tp.summarised(producers, consumers, brokers[0])
    assert (found.producers is None, found.consumers is None) == (not producers, not consumers)
    expected = tp.expected_s(tp.collected([found]), stacked(brokers))
    centre = tp.centroid(clients)
    for number, broker in enumerate(brokers):
        alone = 0.0 if empty == "both" or centre is None else distance_s(centre, broker) / 2
        assert expected[0, number] == pytest.approx(alone + found.deviation_s)


@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(0, 4), st.sampled_from(POLICIES))
@settings(max_examples=100, deadline=None)
def test_arrays_are_the_sums_one_by_one(seed: int, producers: int, consumers: int, policy: tp.Policy) -> None:
    clients, brokers = drawn(seed, producers + consumers), drawn(seed + 1, 3)
    of, to = clients[:producers], clients[producers:]
    found = tp.summarised(of, to, brokers[0], policy)
    expected = tp.expected_s(tp.collected([found, found]), stacked(brokers), policy)
    pairs = tp.expected_pairs_s(2, members(1, of), members(1, to), stacked(brokers), policy)
    assert (pairs[0] == 0.0).all()  # nobody
    assert expected[1] == pytest.approx(np.array(expected_s(found, brokers, policy)))
    for number, broker in enumerate(brokers):
        there = [tp.delay_s(one, broker, policy) for one in of] or [0.0]
        back = [tp.delay_s(one, broker, policy) for one in to] or [0.0]
        worst = max(one + other for one in there for other in back)
        assert pairs[1, number] == pytest.approx(worst)
    assert pairs[1, 0] == pytest.approx(found.worst_s)  # AllPairs expects of the present broker what E(t) is


def members(topic: int, clients: Sequence[Coordinate]) -> tp.Members:
    """All of one topic."""
    return tp.Members(np.full(len(clients), topic), stacked(clients))


@given(st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_without_adjustments_a_summary_never_promises_too_much(seed: int) -> None:
    """W(t, b) is an upper bound of the worst pair's estimate: by the triangle inequality, and heights count twice."""
    clients = [replace(one, adjustment=0.0) for one in drawn(seed, 7)]
    brokers = stacked([replace(one, adjustment=0.0) for one in drawn(seed + 1, 4)])
    summary = tp.collected([tp.summarised(clients[:3], clients[3:], clients[0])])
    pairs = tp.expected_pairs_s(1, members(0, clients[:3]), members(0, clients[3:]), brokers)
    assert (tp.expected_s(summary, brokers) >= pairs - 1e-12).all()


# --- Algorithm 1 -----------------------------------------------------------------------------------


def topics_of(broker: list[int], worst: list[float], bound: float = 0.1, rate: float = 0.0) -> tp.Topics:
    """Topics of one bound and output rate."""
    count = len(broker)
    of_all = [np.full(count, value) for value in (bound, rate, rate)]
    return tp.Topics(np.array(broker), of_all[0], np.array(worst, float), *of_all[1:])


FREE = np.full(3, inf)


def test_violated_topics_go_to_the_best_and_others_stay() -> None:
    expected = np.array([[0.3, 0.09, 0.05], [0.3, 0.09, 0.05], [0.30, 0.40, 0.35]])
    found = tp.place(topics_of([0, 0, 1], [0.2, 0.1, 0.4]), expected, FREE)
    assert found.tolist() == [2, 0, 0]  # the second is at its bound, not beyond; the third has no feasible broker


def test_nobody_is_better() -> None:
    expected, topics = np.array([[0.30, 0.40, 0.35]]), topics_of([0], [0.25])
    assert tp.place(topics, expected, FREE).tolist() == [0]
    assert tp.place(topics, expected, FREE, tp.Policy(stay=False)).tolist() == [2]  # worse, and yet


def test_ties_go_to_the_first_broker() -> None:
    expected = np.array([[0.3, 0.05, 0.05]])
    assert tp.place(topics_of([0], [0.2]), expected, FREE).tolist() == [1]
    assert tp.place(topics_of([0], [0.2]), np.full((1, 3), 0.3), FREE).tolist() == [0]
    assert tp.place(topics_of([2], [0.2]), np.full((1, 3), 0.3), FREE).tolist() == [2]


def test_a_move_must_gain_the_hysteresis() -> None:
    expected, topics = np.array([[0.30, 0.29, 0.35]]), topics_of([0], [0.25])
    assert tp.place(topics, expected, FREE, tp.Policy(hysteresis_s=0.02)).tolist() == [0]
    assert tp.place(topics, expected, FREE, tp.Policy(hysteresis_s=0.005)).tolist() == [1]


def test_who_has_fewer_choices_chooses_first() -> None:
    """Broker 1 has room for one: for the topic that has no other feasible broker, not for the first one."""
    expected = np.array([[0.3, 0.05, 0.09], [0.3, 0.05, 0.20]])
    found = tp.place(topics_of([0, 0], [0.2, 0.2], rate=10.0), expected, np.array([inf, 10.0, inf]))
    assert found.tolist() == [2, 1]


def test_without_room_a_topic_is_left() -> None:
    expected = np.array([[0.3, 0.05, 0.2]])
    found = tp.place(topics_of([0], [0.2], rate=10.0), expected, np.array([inf, 9.0, inf]))
    assert found.tolist() == [0]  # broker 2 would do, but is not within the bound


def test_an_overloaded_broker_sheds_the_busiest() -> None:
    rates = np.array([5.0, 20.0, 10.0, 10.0])
    topics = tp.Topics(np.zeros(4, int), np.full(4, 0.1), np.zeros(4), rates, rates)
    marks = tp.marks_rps(tp.loads_rps(topics, 2), 20.0, np.zeros(2))
    assert tp.shed(topics, tp.loads_rps(topics, 2), marks, np.zeros(4, bool)).tolist() == [False, True, True, False]
    expected = np.array([[0.01, 0.02]] * 4)
    # Topic 1 finds the other broker empty; topic 2 finds it full, and broker 0 still above its mark: it is left.
    assert tp.place(topics, expected, marks).tolist() == [0, 1, 0, 0]
    assert tp.place(topics, expected, marks, held=rates == 20.0).tolist() == [1, 0, 1, 0]


def test_a_busy_processor_sets_the_mark() -> None:
    marks = tp.marks_rps(np.array([100.0, 100.0, 0.0]), 120.0, np.array([0.85, 0.95, 0.99]))
    assert marks == pytest.approx([120.0, 100 * 0.85 / 0.95, 0.0])


def test_some_brokers_take_no_topics() -> None:
    expected = np.array([[0.3, 0.05, 0.06]])
    found = tp.place(topics_of([0], [0.2]), expected, FREE, candidates=np.array([True, False, True]))
    assert found.tolist() == [2]
    assert tp.place(topics_of([0], [0.2]), expected, FREE, candidates=np.zeros(3, bool)).tolist() == [0]


def test_a_topic_that_is_nowhere_is_placed() -> None:
    expected = np.array([[0.3, 0.05, 0.06]])
    held = np.ones(1, bool)
    assert tp.place(topics_of([tp.UNPLACED], [0.0]), expected, FREE, tp.Policy(stay=False), held=held).tolist() == [1]


def test_nothing_to_place() -> None:
    nothing = tp.collected([])
    topics = tp.Topics(np.zeros(0, int), *[np.zeros(0)] * 4)
    assert tp.place(topics, tp.expected_s(nothing, stacked(drawn(1, 3))), FREE).tolist() == []


@given(
    st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 5), st.sampled_from(POLICIES),
    st.sampled_from([15.0, 40.0, inf]),
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_the_arrays_place_as_algorithm_1_does(
    seed: int, count: int, brokers: int, policy: tp.Policy, limit_rps: float
) -> None:
    rng = generator(seed, "topics")
    expected = rng.integers(1, 6, (count, brokers)) / 20  # so that ties are frequent
    rates = rng.integers(0, 10, (2, count)).astype(float)
    broker = rng.integers(-1, brokers, count)
    topics = tp.Topics(broker, rng.integers(1, 6, count) / 20, rng.integers(0, 6, count) / 20, *rates)
    held, candidates = rng.random(count) < 0.2, rng.random(brokers) < 0.8
    marks = tp.marks_rps(tp.loads_rps(topics, brokers), limit_rps, rng.choice([0.5, 0.85, 0.9, 1.0], brokers))
    rows = [Move(*(value.item() for value in row)) for row in zip(*topics, held, strict=True)]
    twin = placed(rows, expected.tolist(), BrokerLoad(marks.tolist(), candidates.tolist()), policy)
    assert tp.place(topics, expected, marks, policy, held, candidates).tolist() == twin
