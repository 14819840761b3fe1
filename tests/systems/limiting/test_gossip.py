from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import MILLISECOND_NS
from systems.parts.gossip import Rounds

COUNTS = st.lists(st.integers(0, 5), min_size=1, max_size=8)
INTERVAL_NS = 300 * MILLISECOND_NS


def rounds(seed: int = 1, phase: str = "random", choice: str = "pending", least_informed: bool = False) -> Rounds:
    return Rounds("n1", "300ms", seed, phase, choice, least_informed, system="crdt-queue")


@given(st.integers(-(10**12), 10**12), st.integers(0, 100))
def test_the_first_round_falls_within_an_interval(now_ns: int, seed: int) -> None:
    assert now_ns < rounds(seed).first_at_ns(now_ns) <= now_ns + INTERVAL_NS


@given(st.integers(-(10**12), 10**12))
def test_aligned_rounds_fall_on_multiples_of_the_interval(now_ns: int) -> None:
    first = rounds(phase="aligned").first_at_ns(now_ns)
    assert first % INTERVAL_NS == 0 and now_ns < first <= now_ns + INTERVAL_NS


def test_nodes_have_phases_of_their_own() -> None:
    firsts = {Rounds(f"n{i}", "300ms", 1, system="crdt-queue").first_at_ns(0) for i in range(20)}
    assert len(firsts) == 20


@given(st.integers(-(10**12), 10**12), st.integers(-5, 10**10))
def test_rounds_keep_their_beat_and_are_never_in_the_past(due_at_ns: int, late_ns: int) -> None:
    following = rounds().next_at_ns(due_at_ns, due_at_ns + late_ns)
    assert (following - due_at_ns) % INTERVAL_NS == 0
    assert following > max(due_at_ns, due_at_ns + late_ns)
    assert following <= max(due_at_ns, due_at_ns + late_ns) + INTERVAL_NS


@given(COUNTS, st.integers(0, 50))
def test_pending_draws_only_neighbours_that_lack_something(counts: list[int], seed: int) -> None:
    chosen = rounds(seed).choose(counts)
    assert (chosen is None) == (not any(counts))
    assert chosen is None or counts[chosen] > 0
    assert rounds(seed).choose(np.array(counts)) == chosen  # arrays are as good as lists


@given(COUNTS, st.integers(0, 50))
def test_linf_takes_the_least_informed(counts: list[int], seed: int) -> None:
    chosen = rounds(seed, least_informed=True).choose(counts)
    assert (chosen is None) == (not any(counts))
    assert chosen is None or counts[chosen] == max(counts)


def test_draws_are_uniform() -> None:
    one, among_all, linf = rounds(), rounds(choice="all"), rounds(least_informed=True)
    pending = Counter(one.choose([3, 0, 1, 9]) for _ in range(3_000))
    assert set(pending) == {0, 2, 3} and min(pending.values()) > 900
    drawn = Counter(among_all.choose([3, 0, 1, 9]) for _ in range(4_000))
    assert set(drawn) == {0, None, 2, 3} and min(drawn.values()) > 900  # a quarter of the rounds is wasted
    ties = Counter(linf.choose([9, 0, 1, 9]) for _ in range(2_000))
    assert set(ties) == {0, 3} and min(ties.values()) > 900


@pytest.mark.parametrize(
    ("gossip", "phase", "choice"),
    [("300", "random", "all"), ("0ms", "random", "all"), ("1s", "late", "all"), ("1s", "random", "some")],
)
def test_bad_options_are_named(gossip: str, phase: str, choice: str) -> None:
    with pytest.raises(SpecError, match=r"^crdt-queue: (gossip|phase|choice) = "):
        Rounds("n1", gossip, 1, phase, choice, system="crdt-queue")
