"""The model of bursts: known answers, and against a queue that is worked through."""

import numpy as np
import pytest

from core.units import SECOND_NS
from systems.parts.burst_model import late_share

DRAIN_NS = 67_000.0


def worked_through(size: int, bursts_rps: float, room_ns: float, count: int = 400_000) -> float:
    """Poisson bursts at one server, Lindley's recursion: the share of emissions done later than ``room_ns``."""
    rng = np.random.default_rng(5)
    gap_ns = rng.exponential(SECOND_NS / bursts_rps, count)
    slack = np.cumsum(size * DRAIN_NS - gap_ns)
    found_ns = slack - np.minimum.accumulate(np.minimum(slack, 0.0))  # work that the next burst finds
    done_ns = found_ns[:, None] + DRAIN_NS * np.arange(1, size + 1)
    return float((done_ns > room_ns).mean())


@pytest.mark.parametrize(
    ("size", "bursts_rps", "room_ns"), [(1, 9_000, 300_000), (6, 150, 500_000), (10, 700, 700_000)]
)
def test_it_is_the_queue_of_its_definition(size, bursts_rps, room_ns):
    modelled = late_share({size: size * bursts_rps}, DRAIN_NS, room_ns)
    assert modelled == pytest.approx(worked_through(size, bursts_rps, room_ns), rel=0.08)


def test_a_burst_that_alone_takes_longer_is_late_from_that_member_on():
    rare = 1e-6
    assert late_share({10: rare}, DRAIN_NS, 10.5 * DRAIN_NS) < 1e-6
    assert late_share({10: rare}, DRAIN_NS, 7.5 * DRAIN_NS) == pytest.approx(0.3, abs=1e-6)
    assert late_share({10: rare}, DRAIN_NS, -1.0) == 1.0


def test_groups_of_several_sizes_count_by_their_emissions():
    rare = 1e-6
    assert late_share({2: 3 * rare, 10: rare}, DRAIN_NS, 5.5 * DRAIN_NS) == pytest.approx(0.25 * 0.5, abs=1e-6)


def test_nothing_is_never_late_and_too_much_always():
    assert late_share({}, DRAIN_NS, 1.0) == 0.0
    assert late_share({1: 2 * SECOND_NS / DRAIN_NS}, DRAIN_NS, 1e12) == 1.0
