"""Checks where the thesis' number can be read in two ways: the nearer reading counts (digest A14, A15)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analysis.verdicts import RATIO_TOLERANCE, Check, t_interval, within
from paper_figs.series import samples

if TYPE_CHECKING:
    import pandas as pd


def nearest(label: str, ratio: "pd.Series", readings: Sequence[float]) -> Check:
    """``ratio`` is within 15 % of the reading that its mean is nearest to."""
    values = samples(ratio)
    mean = t_interval(values).mean
    return within(label, values, min(readings, key=lambda value: abs(mean - value)), RATIO_TOLERANCE)


def share(label: str, readings: "Mapping[str, pd.Series]", published: float) -> Check:
    """The thesis' share of rejections, within 15 %, in the nearest of the readings (name -> values)."""

    def distance(name: str) -> float:
        return abs(t_interval(samples(readings[name])).mean - published)

    name = min(readings, key=distance)
    return within(f"{label} ({name})", samples(readings[name]), published, RATIO_TOLERANCE)
