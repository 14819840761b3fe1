"""Offsets of clocks from round trips whose truth is known."""

import numpy as np
import pytest

from testbed.hosts.ssh.host import Offset, least


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
