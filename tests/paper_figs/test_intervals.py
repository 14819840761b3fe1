"""Intervals as they are drawn: of a frame's repetitions, and of what has a long tail."""

from math import inf, log

import pandas as pd
import pytest

from analysis.verdicts import t_interval
from paper_figs.intervals import geometric, in_words, intervals_by


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
