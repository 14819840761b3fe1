"""Panels with a row a limiter: values along x, of several looks above each other in a row."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from analysis.verdicts import t_interval
from paper_figs.beyond.contenders import CONTENDERS, PRODUCTS
from paper_figs.drawing import GREY, beside, categories, interval_points
from paper_figs.intervals import floored
from paper_figs.light import Axes, Frame
from paper_figs.series import samples
from paper_figs.style import Style

FAINT = "#e5e5e5"


def row_points(
    axes: Axes, frame: Frame, measure: str, names: Sequence[str], by: str, looks: Mapping[Any, Style]
) -> None:
    """Means of ``measure`` over the repetitions with 95 % intervals, a row a name, a look a value of ``by``."""
    for (value, look), shift in zip(looks.items(), beside(len(looks), 0.7), strict=True):
        part = frame[frame[by] == value]
        values = {row + shift: samples(part[part.name == name][measure]) for row, name in enumerate(names)}
        row_intervals(axes, values, look)


def row_intervals(axes: Axes, values: Mapping[float, Sequence[float]], look: Style, size: float = 4.0) -> None:
    """At each height the mean of its values, with its interval; nothing where there are none."""
    present = {at: floored(t_interval(list(its))) for at, its in values.items() if len(its)}
    if present:
        interval_points(axes, list(present), list(present.values()), look, lying=True, size=size)


def named_rows(axes: Axes, names: Sequence[str]) -> None:
    """A row a limiter, the first at the top, a thin line between rows, a clear one between deployed ones and ours.

    Of panels that share y, call it for each.
    """
    categories(axes, [CONTENDERS[name].look.label for name in names], "y", between=False)
    for row, (above, below) in enumerate(pairwise(names), 1):
        is_border = (above in PRODUCTS) != (below in PRODUCTS)
        axes.axhline(row - 0.5, color=GREY if is_border else FAINT, linewidth=0.6, zorder=0)
    axes.tick_params(axis="y", length=0)
