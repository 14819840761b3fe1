from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems.parts.shares import SHARES, fair_share, largest_remainder, proportional_share

MILLION = 10**6
WANTS = st.lists(st.integers(0, 10**6), min_size=1, max_size=12)


def test_the_vectors_of_doorman() -> None:
    wants = [1000 * MILLION, 50 * MILLION, 10 * MILLION]
    proportional = [round(grant / MILLION, 2) for grant in proportional_share(120 * MILLION, wants)]
    assert proportional == [69.69, 40.31, 10.0]
    assert fair_share(120 * MILLION, wants) == [60 * MILLION, 50 * MILLION, 10 * MILLION]


def test_the_proportional_share_by_hand() -> None:
    assert proportional_share(9, [6, 6, 3]) == [3, 3, 3]
    # The first leaves 2 of its 4, the others lack 5 and 2: 4 + 5 * 2/7 = 5.43 and 4 + 2 * 2/7 = 4.57.
    assert proportional_share(12, [2, 9, 6]) == [2, 5, 5]
    assert proportional_share(7 * 12, [7 * 2, 7 * 9, 7 * 6]) == [14, 38, 32]


@pytest.mark.parametrize("share", SHARES)
@given(capacity=st.integers(0, 10**6), wants=WANTS)
def test_nobody_gets_more_than_it_wants_and_nothing_is_left_over(share: str, capacity: int, wants: list[int]) -> None:
    grants = SHARES[share](capacity, wants)
    assert sum(grants) == min(capacity, sum(wants))
    assert all(0 <= grant <= want for grant, want in zip(grants, wants, strict=True))


@pytest.mark.parametrize("share", SHARES)
@given(capacity=st.integers(0, 10**6), wants=WANTS)
def test_who_wants_no_more_than_an_equal_share_gets_it(share: str, capacity: int, wants: list[int]) -> None:
    for grant, want in zip(SHARES[share](capacity, wants), wants, strict=True):
        assert grant >= min(want, capacity // len(wants))


@pytest.mark.parametrize("share", SHARES)
@given(capacity=st.integers(0, 10**6), wants=WANTS)
def test_who_wants_more_gets_no_less(share: str, capacity: int, wants: list[int]) -> None:
    ranked = sorted(zip(wants, SHARES[share](capacity, wants), strict=True))
    assert all(more + 1 >= less for (_, less), (_, more) in pairwise(ranked))  # 1: the part that cannot be divided


@given(capacity=st.integers(0, 10**6), wants=WANTS)
def test_a_fair_grant_could_grow_only_at_the_cost_of_a_smaller_one(capacity: int, wants: list[int]) -> None:
    grants = fair_share(capacity, wants)
    short = [grant for grant, want in zip(grants, wants, strict=True) if grant < want]
    assert not short or max(grants) - min(short) <= 1


@given(total=st.integers(0, 10**6), weights=WANTS.filter(any))
def test_largest_remainder_is_within_one_of_the_exact_share(total: int, weights: list[int]) -> None:
    parts = largest_remainder(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part * sum(weights) - total * weight) < sum(weights)


def test_largest_remainder_by_hand() -> None:
    assert largest_remainder(10, [1, 1, 1]) == [4, 3, 3]
    assert largest_remainder(2, [1, 1, 1]) == [1, 1, 0]
    assert largest_remainder(10, [6, 3, 3]) == [5, 3, 2]
