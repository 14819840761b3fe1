"""Overlays: symmetric, connected, without loops, and what their names promise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from systems.parts.overlay import OVERLAYS, overlay


@given(st.sampled_from(sorted(OVERLAYS)), st.integers(1, 40))
def test_overlays_are_symmetric_connected_and_without_loops(kind: str, count: int) -> None:
    names = [f"n{i}" for i in range(count)]
    found = overlay(kind, names)
    assert list(found) == names
    assert all(name not in others and name in found[other] for name, others in found.items() for other in others)
    reached, edge = {names[0]}, [names[0]]
    while edge:
        edge = [other for name in edge for other in found[name] if other not in reached and not reached.add(other)]
    assert reached == set(names)


def test_overlays_have_their_degrees() -> None:
    names = [f"n{i}" for i in range(9)]
    degrees = {kind: sorted(len(others) for others in overlay(kind, names).values()) for kind in OVERLAYS}
    assert degrees["full-mesh"] == [8] * 9 and degrees["ring"] == [2] * 9
    assert degrees["line"] == [1, 1] + [2] * 7 and degrees["star"] == [1] * 8 + [8]
    assert sum(degrees["tree"]) == 16 and max(degrees["random"]) <= 4
    assert overlay("random", names) == overlay("random", names)


def test_an_unknown_overlay_is_a_spec_error() -> None:
    with pytest.raises(SpecError, match="did you mean 'ring'"):
        overlay("rings", ["a", "b"])
