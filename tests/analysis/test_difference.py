"""Pairs of values: what is called significant, and how often where nothing differs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.difference import ERROR, Comparison, holm


def _family_differs(rng: np.random.Generator, draws: int, shift: float, points: int = 1, families: int = 8) -> bool:
    """Points of very different sizes, heavy-tailed; in the first comparison alone the second value is larger.

    Those of a draw share its load.
    """
    comparisons, of_pairs = [], np.repeat(np.arange(draws), points)
    for number in range(families):
        size = 10.0 ** rng.uniform(0, 6, draws * points)
        one, other = (size * rng.lognormal(0.0, 0.5, draws)[of_pairs] for _ in range(2))
        comparisons.append(Comparison(tuple(one), tuple(other * (1 + shift * (number == 0))), tuple(of_pairs)))
    return min(holm([each.p for each in comparisons])) <= ERROR


@pytest.mark.parametrize(("draws", "points"), [(3, 1), (6, 1), (8, 1), (12, 1), (60, 1), (5, 4), (12, 4)])
def test_where_nothing_differs_at_most_five_percent_of_families_say_so(draws, points):
    rng = np.random.default_rng(7)
    wrong = sum(_family_differs(rng, draws, 0.0, points) for _ in range(300))
    assert wrong <= 26  # 15 expected at most; 26 or more of 300 at 5 % come once in 300 times


def test_pairs_of_one_draw_decide_nothing_and_have_no_interval():
    one_draw = Comparison((1.0, 2.0, 3.0), (1.5, 3.0, 4.5), ("a", "a", "a"))
    assert one_draw.p == 1.0 and one_draw.draw_count == one_draw.difference.count == 1


def test_what_differs_much_is_found():
    rng = np.random.default_rng(7)
    assert sum(_family_differs(rng, 40, 1.0) for _ in range(50)) == 50


@pytest.mark.parametrize("pairs", [4, 6, 9, 11, 12, 20])
def test_more_pairs_do_not_make_a_clear_difference_unclear_among_many_comparisons(pairs):
    rng = np.random.default_rng(7)
    one = rng.uniform(90.0, 110.0, pairs)
    clear = Comparison(tuple(one), tuple(one * rng.uniform(1.9, 2.1, pairs)))
    assert holm([clear.p, *[1.0] * 90])[0] <= ERROR


def test_the_same_values_are_never_different_and_one_pair_decides_nothing():
    assert Comparison((1.0, 2.0, 3.0), (1.0, 2.0, 3.0)).is_same
    assert Comparison((1.0, 2.0, 3.0), (1.0, 2.0, 3.0)).p == 1.0
    assert Comparison((1.0,), (9.0,)).p == 1.0


def test_differences_that_are_all_alike_say_nothing_of_their_spread():
    assert Comparison((4.0,) * 3, (2.0,) * 3).p == 0.25  # the signs: 2 of 8
    assert Comparison((4.0,) * 6, (2.0,) * 6).p == pytest.approx(2 / 64)
    assert Comparison((4.0, 5.0), (6.0, 7.0)).p == 0.5  # the steps of a clock


@settings(max_examples=25)  # exact ranks take long
@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=2, max_size=10))
def test_it_does_not_matter_which_side_is_first_nor_in_which_unit(pairs):
    one, other = (tuple(side) for side in zip(*pairs, strict=True))
    forth, back = Comparison(one, other), Comparison(other, one)
    assert 0.0 <= forth.p <= 1.0 and forth.p == pytest.approx(back.p)
    scaled = Comparison(tuple(4.0 * value for value in one), tuple(4.0 * value for value in other))
    assert scaled.p == pytest.approx(forth.p)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_rejects_what_its_steps_reject(probabilities):
    """Literally: from the smallest on, as long as p_(k) <= 5 % / (m - k)."""
    rejected = set()
    for step, i in enumerate(sorted(range(len(probabilities)), key=lambda i: probabilities[i])):
        if probabilities[i] > ERROR / (len(probabilities) - step):
            break
        rejected.add(i)
    adjusted = holm(probabilities)
    near = [abs(p - ERROR) < 1e-12 for p in adjusted]
    assert {i for i, p in enumerate(adjusted) if p <= ERROR and not near[i]} <= rejected
    assert rejected <= {i for i, p in enumerate(adjusted) if p <= ERROR or near[i]}
