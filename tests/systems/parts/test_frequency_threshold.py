"""The frequency threshold of a log: by hand, by a plain twin, and what is left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from systems.parts.frequency_threshold import FrequencyThreshold, frequency_threshold

MS = MILLISECOND_NS


def columns(rows):
    """(ms, user) in any order, as columns in order of time."""
    rows = sorted(rows)
    return np.array([at for at, _ in rows], np.int64) * MS, np.array([user for _, user in rows], np.int32)


def test_by_hand():
    # User 0: a request every 3 s; windows of 2 last 3 s, a gap of 1.5 s.  User 1: every 1 s, a gap of 0.5 s.
    at_ns, user = columns([(3000 * n, 0) for n in range(5)] + [(1000 * n, 1) for n in range(3)])
    found = frequency_threshold(at_ns, user, 2, 300, "0.3")
    assert found == FrequencyThreshold(1_000 * MS, 1_000 * MS, 2, 4 + 2, 0)
    # Windows of 3: 6 s and 2 s long, gaps of 2 s and 0.667 s: 1.333 s on average.
    assert frequency_threshold(at_ns, user, 3, 300, "0.3").threshold_ns == 1_300 * MS


def test_users_count_equally_and_the_busiest_of_them_only():
    at_ns, user = columns([(3000 * n, 0) for n in range(50)] + [(1000 * n, 1) for n in range(3)])
    assert frequency_threshold(at_ns, user, 2, 300, "0.3").threshold_ns == 1_000 * MS
    found = frequency_threshold(at_ns, user, 2, 300, "0.3", users=1)
    assert found.threshold_ns == 1_500 * MS and found.user_count == 1


def test_pauses_are_dropped():
    burst = [0, 1000, 2000, 62_000, 63_000]  # the gap of the window over the pause is 30 s
    at_ns, user = columns([(at, 0) for at in burst] + [(60_000 * n, 1) for n in range(4)])
    found = frequency_threshold(at_ns, user, 2, 300, "0.3")
    assert found.threshold_ns == 500 * MS and (found.user_count, found.window_count) == (1, 3)
    at_ns, user = columns([(0, 0), (10_000, 0)])  # 5 s exactly stays
    assert frequency_threshold(at_ns, user, 2, 300, "0.3").threshold_ns == 5_000 * MS


def test_limited_users_are_left_out():
    at_ns, user = columns([(100 * n, 0) for n in range(20)] + [(2000 * n, 1) for n in range(9)])
    found = frequency_threshold(at_ns, user, 2, 10, "0.5")
    assert (found.threshold_ns, found.user_count, found.limited_count) == (1_000 * MS, 1, 1)
    costs = np.where(user == 1, 31, 1).astype(np.int32)
    assert frequency_threshold(at_ns, user, 2, 30, "0.5", cost=costs).limited_count == 1
    with pytest.raises(SpecError, match="no user that was not limited has 2 requests"):
        frequency_threshold(at_ns, user, 2, 1, "0.01")


def test_a_log_may_begin_at_any_instant():
    at_ns, user = columns([(100 * n, 0) for n in range(20)] + [(2000 * n, 1) for n in range(9)])
    for begin_ns in (-(10**18), 10**18):
        assert frequency_threshold(at_ns + begin_ns, user, 2, 10, "0.5").limited_count == 1


@given(st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 3)), min_size=1, max_size=60), st.integers(2, 5))
def test_it_is_the_mean_over_users_of_the_mean_over_windows(rows, window):
    at_ns, user = columns(rows)
    means = []
    for number in range(4):
        mine = [at for at, who in zip(at_ns.tolist(), user.tolist(), strict=True) if who == number]
        gaps = [(mine[i + window - 1] - mine[i]) / window for i in range(len(mine) - window + 1)]
        if gaps := [gap for gap in gaps if gap <= 5 * SECOND_NS]:
            means.append(sum(gaps) / len(gaps))
    if not means:
        with pytest.raises(SpecError, match="longer log"):
            frequency_threshold(at_ns, user, window, 300, "0.3")
        return
    found = frequency_threshold(at_ns, user, window, 300, "0.3")
    assert found.mean_gap_ns == pytest.approx(sum(means) / len(means)) and found.user_count == len(means)
    assert found.threshold_ns % (100 * MS) == 0 and found.threshold_ns > 0  # of 0 nobody would be urgent
    assert abs(found.threshold_ns - max(found.mean_gap_ns, 50 * MS)) <= 50 * MS


def test_windows_without_gaps_and_empty_logs_are_named():
    at_ns, user = columns([(0, 0), (1, 0)])
    with pytest.raises(SpecError, match="windows of 1"):
        frequency_threshold(at_ns, user, 1, 5, "1")
    with pytest.raises(SpecError, match="from 0 users"):
        frequency_threshold(at_ns, user, 2, 5, "1", users=0)
    with pytest.raises(SpecError, match="no user"):
        frequency_threshold(at_ns[:0], user[:0], 2, 5, "1")
