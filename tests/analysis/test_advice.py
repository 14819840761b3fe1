"""Rankings: who is best, what is a tie, what is open; identical systems never differ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.advice import Candidate, Choice, Relation, rank, turn

MARGIN = 0.01


def ranked(at_stake=1.0, **trials):
    """``name=(losses, bytes, waits)`` or losses alone, a number for the same in all repetitions."""
    made = []
    for name, values in trials.items():
        loss, *costs = values if isinstance(values, tuple) else (values, 0.0, 0.0)
        made.append(Candidate(name, series(loss), tuple(series(cost) for cost in costs)))
    return rank(made, MARGIN, at_stake)


def series(value):
    return tuple(value) if isinstance(value, list) else (value,) * 5


def test_the_least_loss_is_best():
    found = ranked(good=0.0, bad=0.2)
    assert found.best == "good" and [each.relation for each in found.standings] == [Relation.LEADER, Relation.WORSE]


def test_of_equals_the_cheapest_is_best_and_the_wait_comes_last():
    assert ranked(dear=(0.0, 100.0, 0.0), cheap=(0.005, 1.0, 9.0), bad=(0.2, 0.0, 0.0)).best == "cheap"
    assert ranked(slow=(0.0, 1.0, 9.0), quick=(0.0, 1.0, 0.0), bad=(0.2, 0.0, 0.0)).best == "quick"


def test_equals_that_cost_the_same_are_not_decided():
    found = ranked(one=(0.0, 1.0, 2.0), other=(0.0, 1.0, 2.0), bad=(0.2, 0.0, 0.0))
    assert found.answer is Choice.EQUAL_COST and set(found.names) == {"one", "other"} and not found.best


def test_nothing_at_stake_is_a_tie_whatever_it_costs():
    found = ranked(at_stake=0.001, one=(0.0, 100.0, 0.0), other=(0.0, 0.0, 0.0))
    assert found.answer is Choice.TIE and not found.best and set(found.names) == {"one", "other"}
    # Where something is, who costs less is the better one of two that are as good.
    assert ranked(at_stake=0.5, one=(0.0, 100.0, 0.0), other=(0.0, 0.0, 0.0)).best == "other"


def test_what_is_lost_in_the_intervals_is_open():
    noisy = [0.0, 0.1, 0.0, 0.12, 0.01]
    found = ranked(steady=0.02, noisy=noisy)
    assert found.answer is Choice.OPEN and set(found.names) == {"steady", "noisy"}


def test_what_is_open_and_costs_more_does_not_matter():
    noisy = [0.03, 0.1, 0.03, 0.12, 0.05]
    assert ranked(good=(0.0, 1.0, 0.0), noisy=(noisy, 2.0, 0.0), bad=(0.5, 0.0, 0.0)).best == "good"
    assert ranked(good=(0.0, 2.0, 0.0), noisy=(noisy, 1.0, 0.0), bad=(0.5, 0.0, 0.0)).answer is Choice.OPEN


def test_paired_differences_count_and_not_the_spread_of_each():
    days = [0.1, 0.5, 0.9, 0.2, 0.7]
    assert ranked(good=days, bad=[day + 0.05 for day in days]).best == "good"


def test_of_equal_systems_one_is_worse_or_dearer_in_no_more_than_one_ranking_of_twenty():
    """Who leads is found in the repetitions that compare: all pairs count, not those with one that was named before."""
    worse = dearer = 0
    for noise in np.random.default_rng(1).normal(size=(500, 7, 5)):
        rows = [(f"s{number}", tuple(row.tolist())) for number, row in enumerate(noise)]
        found = rank([Candidate(name, row) for name, row in rows], MARGIN)
        worse += any(each.relation is Relation.WORSE for each in found.standings)
        dearer += len(rank([Candidate(name, (0.0,) * 5, (row,)) for name, row in rows], MARGIN).names) < 7
    assert 0 < worse <= 25 and 0 < dearer <= 25


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=6),
    st.lists(st.floats(0, 100), min_size=2, max_size=6),
    st.floats(0, 1),
)
def test_identical_systems_never_differ(losses, costs, at_stake):
    count = min(len(losses), len(costs))
    twin = tuple(losses[:count]), (tuple(costs[:count]),)
    found = rank([Candidate("a", *twin), Candidate("b", *twin)], MARGIN, at_stake)
    assert not found.best and {each.relation for each in found.standings} == {Relation.LEADER, Relation.AS_GOOD}
    assert all(each.more.mean == 0 for each in found.standings)


@given(st.permutations(["a", "b", "c", "d"]), st.lists(st.floats(0, 1), min_size=12, max_size=12))
def test_the_order_of_systems_does_not_matter(order, numbers):
    trials = {name: Candidate(name, tuple(numbers[3 * n : 3 * n + 3])) for n, name in enumerate("abcd")}
    assert rank([trials[name] for name in order], MARGIN) == rank([trials[name] for name in "abcd"], MARGIN)


@pytest.mark.parametrize(
    ("there", "turns"),
    [
        ({"a": 0.0, "b": 0.2}, False),
        ({"a": 0.2, "b": 0.0}, True),  # another one is best
        ({"b": 0.0, "c": 0.2}, True),  # what was best cannot work there
        ({"a": [0.0, 0.1, 0.0, 0.12, 0.01], "b": 0.02}, False),  # open is no turn
    ],
)
def test_where_an_answer_turns(there, turns):
    assert turn("loss", "10 %", ranked(a=0.0, b=0.2), ranked(**there)).turns is turns
