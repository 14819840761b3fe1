"""Publishers that move under the soak's faults: some schedules hold, and what loses or overtakes is found."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from core.records import Int64
from harness.soak.moving import play, schedules
from testbed.virtual.moving import Emissions, MovingPlane, Outbox


def test_nothing_is_lost_and_order_is_kept() -> None:
    seen = Counter[str]()
    for schedule in islice(schedules(9_001), 16):
        played = play(schedule)
        assert played.breaches == (), schedule.seed
        seen += played.seen
    assert min(seen[name] for name in ("moves", "orders", "resent")) > 0


def found(count: int) -> set[str]:
    return {breach.invariant for schedule in islice(schedules(9_001), count) for breach in play(schedule).breaches}


def test_publishers_that_do_not_wait_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(plane: MovingPlane) -> Int64:
        closed: Int64 = np.where(plane.up_ns[plane.fleet.broker_of] > plane.fleet.now_ns, 2**62, 0)
        return closed

    monkeypatch.setattr(MovingPlane, "opens_ns", at_once)
    assert "order is kept" in found(6)


def test_publishers_that_forget_what_was_not_acknowledged_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgotten(outbox: Outbox, unacknowledged: Emissions) -> None:
        return None

    monkeypatch.setattr(Outbox, "again", forgotten)
    assert "nothing is lost" in found(16)
