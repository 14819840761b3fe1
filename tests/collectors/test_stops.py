"""Who stood still: the fold over looks by hand and beside its literal twin."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.stops import Look, Stop, Stops


def told(*looks: tuple[int, str]) -> list[Stop]:
    """Stops of one process: of each look its instant, and whether it runs (.), stands (T) or went on since (c)."""
    stops = Stops()
    for at_ns, seen in looks:
        stops.look(at_ns, [Look("n1", 7, seen == "T", seen == "c")] if seen != "x" else [])
    return stops.all()


@pytest.mark.parametrize(
    ("looks", "stops"),
    [
        ([(0, "."), (10, "."), (20, ".")], []),
        ([(0, "."), (10, "T"), (20, "T"), (30, "c"), (40, ".")], [Stop("n1", 25, 20)]),
        ([(0, "."), (10, "T"), (20, ".")], [Stop("n1", 15, 10)]),  # by whoever is no child of ours
        ([(0, "."), (10, "c"), (20, ".")], [Stop("n1", 10, 5)]),  # all of it between two looks
        ([(0, "."), (10, "T"), (20, "T")], [Stop("n1", 20, 15)]),  # it lasts
        ([(0, "T"), (10, "T"), (20, "c")], [Stop("n1", 15, 15)]),
        ([(0, "."), (10, "T"), (20, "x")], [Stop("n1", 15, 10)]),  # it has ended
        ([(0, "."), (10, "T"), (20, "c"), (30, "T"), (40, "c")], [Stop("n1", 15, 10), Stop("n1", 35, 10)]),
    ],
)
def test_stops_by_hand(looks: list[tuple[int, str]], stops: list[Stop]) -> None:
    assert told(*looks) == stops


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=60))
def test_stops_are_the_time_between_the_states(steps: list[tuple[int, bool]]) -> None:
    """In all, a process stood still for as long as its state was that, each look's state lasting half-way to both."""
    stops, now_ns, states = Stops(), 0, []
    for gap_ns, stands in steps:
        now_ns += 2 * gap_ns
        states.append((now_ns, stands))
        stops.look(now_ns, [Look("n1", 7, stands, False), Look("n2", 8, False, False)])
    lasted_ns = 0
    for (before_ns, before), (after_ns, after) in pairwise(states):
        lasted_ns += (before + after) * (after_ns - before_ns) // 2
    assert sum(stop.span_ns for stop in stops.all()) == lasted_ns
    assert {stop.name for stop in stops.all()} <= {"n1"}
