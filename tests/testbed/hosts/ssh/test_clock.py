"""Offsets of clocks from round trips whose truth is known."""

from typing import Any

import numpy as np
import pytest

from core.errors import MachineError
from testbed.hosts.ssh.host import Offset, RemoteHost, least


@pytest.mark.parametrize("true_ns", [0, 3_600 * 10**9, -1_234_567])
def test_the_truth_lies_within_the_doubt(true_ns):
    rng = np.random.default_rng(5)
    for _ in range(50):
        at_ns, trips = 10**18, []
        for _ in range(40):
            there_ns, back_ns = (int(span) for span in 100_000 + rng.exponential(300_000, 2))
            trips.append((at_ns, at_ns + there_ns + true_ns, at_ns + there_ns + back_ns))
            at_ns += 1_000_000
        found = least(trips)
        assert abs(found.offset_ns - true_ns) <= found.doubt_ns < 300_000


def test_a_clock_that_drifts_is_doubted_more():
    before, after = Offset(1_000, 50), Offset(1_400, 60)
    assert before.doubt_until_ns(after) == 460
    assert before.doubt_until_ns(Offset(1_000, 20)) == 50


class Keeping:
    """A keeper that does not say what it has seen."""

    def __init__(self, lost: str):
        self.lost = lost

    def ask(self, command: str, timeout_s: float, **_: Any) -> Any:
        raise MachineError("the machine was not watched to the end of the run")


def test_what_a_machine_does_not_tell_is_nothing_only_where_it_is_lost() -> None:
    host = RemoteHost.__new__(RemoteHost)
    host.offset = Offset(0, 0)
    for lost in ("", "no word for 30 s"):
        host.keeping = Keeping(lost)  # type: ignore[assignment]
        if lost:
            assert host.busy_share() is None and host.clock_step_ns == 0
        else:
            with pytest.raises(MachineError, match="not watched"):
                host.busy_share()
