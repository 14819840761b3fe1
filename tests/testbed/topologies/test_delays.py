import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from testbed.topologies.delays import Repairs, between, matrix_of, with_detours

FOUND = {("a", "b"): 100, ("b", "a"): 110, ("a", "c"): 50, ("c", "b"): 30, ("c", "d"): 7, ("d", "c"): 9}


def pair(a: str, b: str) -> frozenset[str]:
    return frozenset((a, b))


def test_both_directions_become_one() -> None:
    delays, repairs = between("t", FOUND, ["a", "b", "c"])
    assert delays == {pair("a", "b"): 105, pair("a", "c"): 50, pair("b", "c"): 30}
    assert repairs == Repairs(pairs=3, one_direction=2)
    uneven = {**FOUND, ("b", "a"): 112}
    assert between("t", uneven, ["a", "b"])[1] == Repairs(pairs=1, uneven=1)
    assert with_detours(repairs, delays, ["a", "b", "c"]).shortened == 1


def test_a_hole_is_refused_or_filled_by_the_best_detour() -> None:
    with pytest.raises(SpecError, match=r"t: nothing about a and d; .*repair = detour"):
        between("t", FOUND, ["a", "d"])
    delays, repairs = between("t", FOUND, ["a", "d", "b"], "detour")
    assert delays == {pair("a", "d"): 58, pair("d", "b"): 38, pair("a", "b"): 105}  # over c, which is not wanted itself
    assert repairs == Repairs(pairs=3, filled=2)
    assert repairs.notes() == ("of 3 pairs 2 were not measured: the best detour through a third place stands for them",)


def test_what_cannot_be_mended_is_a_spec_error() -> None:
    with pytest.raises(SpecError, match="no city 'e'"):
        between("t", FOUND, ["a", "e"])
    with pytest.raises(SpecError, match="nothing about a and y, and no detour"):
        between("t", {**FOUND, ("x", "y"): 1}, ["a", "y"], "detour")
    with pytest.raises(SpecError, match="repair = 'guess'"):
        between("t", FOUND, ["a", "b"], "guess")


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=6, max_size=6))
def test_detours_are_counted_as_by_hand(rows: list[tuple[int, int]]) -> None:
    names = ["a", "b", "c", "d"]
    ends = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    found = {}
    for (a, b), (there, back) in zip(ends, rows, strict=True):
        found[a, b], found[b, a] = there, back
    delays, repairs = between("t", found, names)
    assert (matrix_of(delays, names) == matrix_of(delays, names).T).all()
    count = 0
    for a, b in ends:
        c, d = (name for name in names if name not in (a, b))
        over = [delays[pair(a, x)] + delays[pair(x, b)] for x in (c, d)]
        over += [delays[pair(a, x)] + delays[pair(x, y)] + delays[pair(y, b)] for x, y in ((c, d), (d, c))]
        count += min(over) < delays[pair(a, b)]
    assert with_detours(repairs, delays, names).shortened == count
