"""95 % intervals as they are drawn: of what a figure's table holds, cut where an axis has no room for them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, replace
from math import ceil, exp, inf, log

import numpy as np

from analysis.verdicts import Interval, t_interval
from paper_figs.light import Floats, Frame, Series, Values
from paper_figs.series import frame_of

Intervals = Sequence[Interval]
LEAST_SHARE = 0.05  # of the mean: where a log axis cuts a whisker that reaches 0


def intervals_of(rows: Frame, factor: float = 1.0) -> list[Interval]:
    """The intervals of rows with mean, low, high and count, times ``factor``."""
    columns = zip(rows["mean"], rows["low"], rows["high"], rows["count"], strict=True)
    return [Interval(factor * mean, factor * low, factor * high, int(count)) for mean, low, high, count in columns]


def interval_table(columns: Sequence[str], rows: Iterable[tuple[Sequence[object], Sequence[float]]]) -> Frame:
    """Of rows of names and samples: ``columns``, and the samples' mean, low, high (95 % interval) and count."""
    measured = [(*names, *astuple(t_interval(values))) for names, values in rows]
    return frame_of(measured, [*columns, "mean", "low", "high", "count"])


def floored(interval: Interval, most: float = inf) -> Interval:
    """Of what cannot be below 0, nor above ``most``; a single value's, which is infinite, as it is."""
    if interval.count <= 1:
        return interval
    return replace(interval, low=max(0.0, interval.low), high=min(interval.high, most))


def in_turn(rows: Frame, number: int, count: int, periods: int = 6) -> Frame:
    """The rows at which the ``number``-th of ``count`` curves has its error bars, where bands of all hid each other.

    About ``periods`` of each, none at another's instant.
    """
    step = max(1, len(rows) // (periods * count))
    return rows.iloc[number * step :: count * step]


def in_words(interval: Interval) -> str:
    """``"4"``, or ``"4 ± 2"`` where repetitions differ: a mean, and half of its interval, rounded up."""
    half = interval.high - interval.mean
    return f"{interval.mean:.0f}" + (f" ± {max(1, ceil(half))}" if 0 < half < inf else "")


def intervals_by(
    frame: Frame, x: str, y: str, measure: Callable[[Sequence[float]], Interval] = t_interval
) -> tuple[list[float], list[Interval]]:
    """Of a frame with a row a repetition: each ``x``, ascending, and the intervals of ``y`` there."""
    groups = [(float(at), measure(list(values.astype(float)))) for at, values in frame.groupby(x)[y]]
    return [at for at, _ in groups], [interval for _, interval in groups]


def band_by(frame: Frame, x: str, y: str, most: float = inf) -> tuple[Floats, Floats, Floats, Floats]:
    """As ``drawing.interval_curve`` wants them: each ``x``, mean, low and high there of what is from 0 to ``most``."""
    at, intervals = intervals_by(frame.dropna(subset=[y]), x, y, lambda values: floored(t_interval(values), most))
    mean, low, high = (np.array([getattr(one, end) for one in intervals], float) for end in ("mean", "low", "high"))
    return np.array(at, float), mean, bounded(low), bounded(high)


def geometric(samples: Sequence[float]) -> Interval:
    """Geometric mean and 95 % interval: the t-interval of the logarithms, for what has a long tail; all above 0."""
    logs = t_interval([log(value) for value in samples])
    return Interval(exp(logs.mean), exp(logs.low), exp(logs.high) if logs.high < inf else inf, logs.count)


def whiskers(intervals: Intervals, is_log: bool = False) -> Floats:
    """How far intervals reach below and above their means, 2 x n; nothing (NaN) where one is infinite."""
    mean, low, high = (np.array([getattr(point, end) for point in intervals]) for end in ("mean", "low", "high"))
    if is_log:
        low = np.where((low > 0) | np.isinf(low), low, LEAST_SHARE * mean)
    error = np.maximum(np.array([mean - low, high - mean]), 0.0)
    return np.where(np.isfinite(error).all(axis=0), error, np.nan)


def bounded(ends: Values) -> Floats:
    """Ends of intervals; nothing (NaN) for one that is infinite: of a single repetition there is none."""
    every = np.asarray(ends, dtype=float)
    return np.where(np.isfinite(every), every, np.nan)


def ends(values: Series, is_log: bool) -> tuple[float, float]:
    """What seaborn asks for: the ends of the values' interval, on a log axis or another."""
    below, above = whiskers([t_interval(list(values))], is_log)[:, 0]
    mean = float(values.mean())  # seaborn's: of equal values it may differ from theirs in the last bit
    return mean - below, mean + above
