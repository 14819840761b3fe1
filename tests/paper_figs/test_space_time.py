"""What the drawing of a trial says of disturbed links."""

from types import SimpleNamespace
from typing import Any

import pytest

from core.units import MILLISECOND_NS, SECOND_NS
from paper_figs import space_time
from testbed.faults import Fault, LinkDelay, LinkLoss

MS = MILLISECOND_NS


def bars(monkeypatch: pytest.MonkeyPatch, *faults: Fault) -> list[tuple[float, float, str, int]]:
    """From, until (s), text, and level of each bar, of a window that ends at 9 s."""
    drawn: list[tuple[float, float, str, int]] = []

    def bar(axes: Any, span: tuple[float, float], text: str, level: int, window: object) -> None:
        drawn.append((*span, text, level))

    monkeypatch.setattr(space_time, "_bar", bar)
    played: Any = SimpleNamespace(schedule=SimpleNamespace(faults=lambda: faults))
    axes: Any = None
    space_time._bars(axes, played, (0.0, 9.0))
    return drawn


def delay(at_s: int, hold_ns: int, a: str = "*", b: str = "*") -> LinkDelay:
    return LinkDelay(at_s * SECOND_NS, a, b, hold_ns)


def test_a_delay_that_changes_has_a_bar_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bars(monkeypatch, delay(1, 150 * MS), delay(2, 10 * MS), delay(3, 0)) == [
        (1, 2, "150 ms longer", 0),
        (2, 3, "10 ms longer", 1),
    ]


def test_bars_are_of_one_kind_on_one_link(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = LinkLoss(2 * SECOND_NS, "a", "b", 0.5)
    assert bars(monkeypatch, delay(1, MS, "a", "b"), loss, delay(3, MS, "a", "c"), delay(4, 0)) == [
        (1, 4, "1 ms longer", 0), (3, 4, "1 ms longer", 1), (2, 9, "50 % lost", 2),
    ]  # fmt: skip
