"""A topic's envelope, from its messages."""

from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.distribution import envelope_kernel
from tests.systems.parts.test_token_bucket import delays_by_definition
from tests.testbed.virtual.test_broker_kernel import Recorded

SECOND_NS = 10**9


@settings(deadline=None)  # the first one compiles
@given(st.lists(st.integers(0, 500_000), min_size=20, max_size=300), st.integers(50, 5_000))
def test_profiled_burst_is_the_smallest_with_p99_delay_zero(gap_list, publishers):
    schedule = Recorded([(at_ns, 0, 1) for at_ns in accumulate(gap_list)], publishers)
    found = envelope_kernel.profile(schedule, 0, SECOND_NS, 0, SECOND_NS)
    allowed = int(0.01 * len(gap_list) + 1e-9)

    def waiting(burst: float) -> int:
        delays = delays_by_definition(schedule.at_ns.tolist(), Fraction(found.rate_rps), burst)
        return sum(delay > 0 for delay in delays)

    assert waiting(found.burst_count) <= allowed
    assert found.burst_count == 1 or waiting(found.burst_count - 1) > allowed


def test_profile_takes_ten_percent_more_than_the_rate_and_a_margin():
    found = envelope_kernel.profile(Recorded([(0, 0, 100)], 100), 0, SECOND_NS, 0, SECOND_NS, margin=1.5)
    assert (found.rate_rps, found.burst_count) == (pytest.approx(1_100.0), 149.0)  # the 99th of 100 needs 99
