"""How a server divides its limit among clients: DST's Algorithms 1 and 2, corrected and as printed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from systems.parts.water_filling import RULES, divide, level, printed_level

SOUND = ("equal-ratio", "equal-amount", "water-filling")
AMOUNTS = st.one_of(st.just(0.0), st.floats(1e-3, 1e6), st.integers(0, 50).map(float))
DEMANDS = st.lists(AMOUNTS, min_size=1, max_size=30)


@given(DEMANDS, st.floats(-10.0, 2e6), st.sampled_from(SOUND))
def test_exactly_the_smaller_of_limit_and_demand_is_admitted(demands: list[float], limit: float, rule: str) -> None:
    admitted = divide(rule, demands, limit)
    assert admitted.sum() == pytest.approx(min(max(0.0, limit), sum(demands)), rel=1e-9, abs=1e-9)
    assert (admitted >= 0).all() and (admitted <= np.asarray(demands)).all()


@given(DEMANDS, st.floats(0.0, 1.0))
def test_algorithm_1_cuts_equal_ratios(demands: list[float], part: float) -> None:
    asked = np.asarray(demands)
    admitted = divide("equal-ratio", demands, part * asked.sum())
    np.testing.assert_allclose(admitted, part * asked, rtol=1e-9, atol=1e-9)


@given(DEMANDS, st.floats(0.0, 1.0))
def test_equal_amounts_are_cut_except_from_who_asks_for_less(demands: list[float], part: float) -> None:
    asked = np.asarray(demands)
    cut = asked - divide("equal-amount", demands, part * asked.sum())
    np.testing.assert_allclose(cut, np.minimum(asked, cut.max()), rtol=1e-6, atol=1e-6 * asked.max())


def brute_force_max_min(demands: list[int], limit: int) -> np.ndarray:
    """Max-min fairness by its definition: hand out small units, one at a time, to whoever has least and wants more."""
    units = 840  # a unit is 1/840, divisible by every number of clients up to 8
    got, want = [0] * len(demands), [demand * units for demand in demands]
    for _ in range(min(limit * units, sum(want))):
        hungry = [i for i in range(len(want)) if got[i] < want[i]]
        got[min(hungry, key=lambda i: got[i])] += 1
    return np.asarray(got) / units


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 12))
def test_algorithm_2_corrected_is_max_min_fair(demands: list[int], limit: int) -> None:
    found = divide("water-filling", [float(demand) for demand in demands], float(limit))
    np.testing.assert_allclose(found, brute_force_max_min(demands, limit), atol=1 / 840 + 1e-9)


@given(DEMANDS, st.floats(0.0, 1.0))
def test_more_for_one_below_the_level_is_less_for_one_who_has_less(demands: list[float], part: float) -> None:
    """The certificate of max-min fairness: whoever is cut has the largest share of all."""
    asked = np.asarray(demands)
    admitted = divide("water-filling", demands, part * asked.sum())
    short = admitted < asked
    if short.any():
        assert admitted[short].min() >= admitted.max() * (1 - 1e-12)


@pytest.mark.parametrize(
    ("rule", "admitted"),
    [
        ("equal-ratio", [0.75, 1.5, 6.75]),
        ("equal-amount", [0.0, 1.0, 8.0]),
        ("water-filling", [1.0, 2.0, 6.0]),
        ("printed", [1.0, 2.0, 8.0]),
    ],
)
def test_a_worked_example(rule: str, admitted: list[float]) -> None:
    """Demands 1, 2 and 9 against a limit of 9: the printed Algorithm 2 admits 11."""
    np.testing.assert_allclose(divide(rule, [1.0, 2.0, 9.0], 9.0), admitted)


def test_the_printed_algorithm_admits_too_much_and_divides_by_zero() -> None:
    assert printed_level(np.array([1.0, 2.0, 9.0]), 9.0) == (8.0, False)
    assert printed_level(np.array([1.0, 3.0, 5.0]), 8.0)[1]  # the level rises above the last client
    rng = np.random.default_rng(1)
    ratios, by_zero = [], 0
    for _ in range(500):
        demands = rng.exponential(size=rng.integers(2, 40))
        limit = float(rng.uniform(0.1, 0.99) * demands.sum())
        ratios.append(divide("printed", demands, limit).sum() / limit)
        by_zero += printed_level(demands, limit)[1]
    assert np.mean(np.array(ratios) > 1 + 1e-9) > 0.8 and max(ratios) > 1.3
    assert by_zero > 250


def test_the_level_uses_up_the_limit() -> None:
    demands = np.array([5.0, 1.0, 1.0, 3.0])
    assert level(demands, 8.0) == 3.0 and level(demands, 4.0) == 1.0 and level(demands, 99.0) == 5.0
    assert level(np.array([]), 3.0) == 0.0


@pytest.mark.parametrize("rule", RULES)
def test_what_fits_is_admitted_and_nobody_asking_is_fine(rule: str) -> None:
    assert divide(rule, [3.0, 1.0], 4.0).tolist() == [3.0, 1.0]
    assert divide(rule, [0.0, 0.0], 0.0).tolist() == [0.0, 0.0]
    assert divide(rule, [], 5.0).tolist() == []
    assert divide(rule, [2.0, 1.0], -3.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("demands", [[-1.0], [float("nan")], [float("inf")]])
def test_impossible_demands_are_refused(demands: list[float]) -> None:
    with pytest.raises(SpecError, match="demands are finite"):
        divide("water-filling", demands, 1.0)
