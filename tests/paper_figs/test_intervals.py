"""Intervals as they are drawn: of a frame's repetitions, and of what has a long tail."""

from math import inf, log

import numpy as np
import pandas as pd
import pytest

from analysis.verdicts import Interval, t_interval
from paper_figs.intervals import band_by, floored, geometric, in_turn, in_words, intervals_by


def test_a_frame_gives_each_x_and_its_interval() -> None:
    frame = pd.DataFrame({"x": [2, 1, 2, 1], "y": [5.0, 1.0, 7.0, 3.0]})
    at, intervals = intervals_by(frame, "x", "y")
    assert at == [1.0, 2.0] and intervals == [t_interval([1.0, 3.0]), t_interval([5.0, 7.0])]


def test_the_geometric_interval_is_that_of_the_logarithms() -> None:
    values = [1.0, 10.0, 100.0]
    interval, logs = geometric(values), t_interval([log(value) for value in values])
    assert interval.mean == pytest.approx(10.0) and interval.count == 3
    assert (log(interval.low), log(interval.high)) == pytest.approx((logs.low, logs.high))
    assert interval.low > 0


def test_one_repetition_has_no_end_above_and_none_below() -> None:
    interval = geometric([3.0])
    assert interval.mean == pytest.approx(3.0) and (interval.low, interval.high) == (0.0, inf)


def test_a_mean_in_words_has_its_interval_where_repetitions_differ() -> None:
    assert [in_words(t_interval(values)) for values in ([3.0, 3.0], [3.0], [3.0, 5.0])] == ["3", "3", "4 ± 13"]


def test_shares_have_no_end_above_all_and_a_single_one_none_at_all() -> None:
    assert floored(Interval(90.0, -5.0, 120.0, 3), 100.0) == Interval(90.0, 0.0, 100.0, 3)
    single = Interval(90.0, -inf, inf, 1)
    assert floored(single, 100.0) == single


@pytest.mark.parametrize("length", [3, 60, 301])
def test_curves_have_their_error_bars_in_turn(length: int) -> None:
    curves = [in_turn(pd.DataFrame({"t_s": range(length)}), number, 5).t_s.tolist() for number in range(5)]
    at = [t_s for curve in curves for t_s in curve]
    assert len(set(at)) == len(at), "two at an instant hide each other"
    assert max(map(len, curves)) - min(map(len, curves)) <= 1
    assert length < 5 or all(5 < len(curve) < 13 for curve in curves)


def test_a_band_is_of_what_is_there_and_none_of_a_single_value() -> None:
    frame = pd.DataFrame({"x": [2, 1, 2, 1, 1], "y": [5.0, 1.0, None, 3.0, 2.0]})
    at, mean, low, high = band_by(frame, "x", "y", 4.0)
    assert (at.tolist(), mean.tolist()) == ([1.0, 2.0], [2.0, 5.0])
    assert (low[0], high[0]) == (0.0, 4.0) and np.isnan([low[1], high[1]]).all()
