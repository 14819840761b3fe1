"""Figs. 5 to 9 and the trace: the p99 against x, and below it, as thin bars, what it says nothing about.

Capacity that the distribution leaves (the report's section 2: what "best" means), and the time in
violation of the SLO while the search ran (report 4.2).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from paper_figs.series import legend_above, log_axis, with_others
from paper_figs.srtm.series import draw_p99
from paper_figs.style import letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

Companion = tuple[str, str, float]  # column of ``series.summary``, label, factor
COMPANIONS: tuple[Companion, ...] = (("residual_rps", "left\n(kmsg/s)", 1e-3), ("violation_s", "violated\n(s)", 1.0))
STRIPS_NOTE = "Strips: capacity of the brokers left without this topic, and time above the SLO during the search."


def panels_with_strips(
    rows: int, columns: int, inches: tuple[float, float], companions: Sequence[Companion] = COMPANIONS
) -> "tuple[Drawing, list[tuple[Axes, Sequence[Axes]]]]":
    """A grid of panels, in reading order, each with its strips below it; y axes are common to a row."""
    height = 1 + len(companions)
    ratios = {"height_ratios": [5, *[1] * len(companions)] * rows}
    drawing, axes = panels(height * rows, columns, sharex=True, sharey="row", gridspec_kw=ratios)
    drawing.set_size_inches(*inches)
    tops = range(0, height * rows, height)
    return drawing, [(axes[top, n], axes[top + 1 : top + height, n]) for top in tops for n in range(columns)]


def draw_strips(
    strips: "Sequence[Axes]",
    found: "pd.DataFrame",
    x: str,
    systems: Sequence[str],
    labels: bool = True,
    companions: Sequence[Companion] = COMPANIONS,
    side_by_side: bool = True,
    at: Sequence[float] = (),
) -> None:
    """One thin bar a system and x in each strip; ``found``: a row a system and x, means over the repetitions.

    ``at``: all x of the figure, if not those of ``found``.  Bars of one x stand
    ``side_by_side``, unless every system has an x of its own.
    """
    order = with_others(systems, found)
    gap = min([high - low for low, high in pairwise(sorted({*found[x], *at}))] or [1])
    width = gap * (min(0.15, 0.6 / len(order)) if side_by_side else 0.4)
    for axes, (value, label, factor) in zip(strips, companions, strict=True):
        for n, system in enumerate(order):
            part = found[found.system == system]
            place = part[x] + side_by_side * (n - (len(order) - 1) / 2) * width
            axes.bar(place, part[value] * factor, width=width, color=style_of(system).colour)
        axes.update_datalim([(0.0, 1.0)], updatex=False)  # nothing but zeros: an axis up to 1, not to 0.05
        axes.margins(y=0.2)
        if not found[value].any():
            axes.annotate("none", (0.5, 0.4), xycoords="axes fraction", ha="center", fontsize=6, color="#555555")
        if labels:
            axes.set_ylabel(label, fontsize=7)


def draw_columns(
    columns: "Sequence[tuple[str, pd.DataFrame]]", x: str, label: str, systems: Sequence[str]
) -> "Drawing":
    """Panels side by side with a common log axis, each a title and its points (see ``draw_p99``).

    What was not run at this scale has no panel.
    """
    columns = [(title, found) for title, found in columns if len(found)] or columns[:1]
    drawing, places = panels_with_strips(1, len(columns), (2.0 + 2.5 * len(columns), 3.4))
    at = sorted({value for _, found in columns for value in found[x]})
    for n, ((panel, strips), (title, found)) in enumerate(zip(places, columns, strict=True)):
        draw_p99(panel, found, x, systems, slo_in_legend=True)
        log_axis(panel)
        letter(panel, f"({'abcd'[n]}) {title}")
        draw_strips(strips, found, x, systems, labels=n == 0, at=at)
        strips[-1].set_xlabel(label)
    places[0][0].set_ylabel("p99 latency (ms)")
    places[0][0].set_xticks(at)
    legend_above(drawing, places[0][0])
    return drawing
