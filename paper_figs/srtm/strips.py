"""Figs. 5 to 9 and the trace: the p99 against x, and in strips below it what it says nothing about.

Brokers in use, the capacity that the distribution leaves (the report's section 2: what "best" means), and the time in
violation of the SLO while the search ran (report 4.2).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from analysis.verdicts import t_interval
from paper_figs import drawing, keys
from paper_figs.intervals import geometric, intervals_by
from paper_figs.light import Artist, Axes, Drawing, Frame
from paper_figs.series import with_others
from paper_figs.srtm.series import slo_of
from paper_figs.style import Style, looks_of

# A sheet's cases: titles of panels, and rows of runs: one a run.
Cases = Sequence[tuple[str, Frame]]
Looks = dict[str, Style]


class Strip(NamedTuple):
    """Bars below a panel: a column of the runs, what it is, its factor."""

    column: str
    label: str
    factor: float = 1.0


STRIPS = (
    Strip("broker_count", "brokers in use"),
    Strip("residual_rps", "capacity of unused brokers (1,000 msg/s)", 1e-3),
    Strip("violation_s", "time above the SLO during the search (s)"),
)
ROUNDS = Strip("round_count", "rounds of the search")
STRIPS_NOTE = (
    "Strips, with 95 % intervals: brokers in use, the capacity of those left without this topic, and how long the "
    "search was above the SLO; 0 stands where a bar has no height."
)
MEAN_NOTE = "Mean and 95 % interval over repetitions, each judged on a fresh minute of traffic."
TAIL_NOTE = (
    "p99 has a long tail: small marks are repetitions, each judged on a fresh minute of traffic, large ones their "
    "geometric mean with its 95 % interval (that of the logarithms)."
)
REPETITION = Style("one repetition", drawing.GREY, "o", "-", is_open=True)


class Layout(NamedTuple):
    """How a sheet looks: x, its label, columns of panels, tail or mean, the end of the y axis, size of a panel."""

    x: str
    label: str
    columns: int = 2
    has_tail: bool = False
    highest_ms: float | None = None
    strips: Sequence[Strip] = STRIPS
    panel_inches: tuple[float, float] = (3.5, 4.3)
    more_keys: Sequence[Artist] = ()
    one_each: bool = False  # every system has an x of its own
    beside: float = 0.0  # how far on the x axis repetitions stand beside their mean


def p99_sheet(cases: Cases, systems: Sequence[str], layout: Layout) -> tuple[Drawing, list[Axes]]:
    """A panel a case, its strips below it; returns the panels of the p99.  A case that was not run has no panel."""
    import pandas as pd

    cases = [(title, runs) for title, runs in cases if len(runs)] or cases[:1]
    columns, height = min(layout.columns, len(cases)), 1 + len(layout.strips)
    rows = -(-len(cases) // columns)
    inches = (0.4 + layout.panel_inches[0] * columns, 0.3 + layout.panel_inches[1] * rows)
    heights = [5.0, *[1.0] * len(layout.strips)] * rows
    sheet, flat = drawing.panels(height * rows, columns, (), inches, None, heights, True, "row")
    every = pd.concat([runs for _, runs in cases])
    looks, at = looks_of(with_others(systems, every)), sorted(set(every[layout.x]))
    gap = min([high - low for low, high in pairwise(at)] + [(at[-1] - at[0]) / 5 if len(at) > 1 else 1.0])
    places = [0.0] * len(looks) if layout.one_each else drawing.beside(len(looks), 0.7)
    shifts = {system: gap * place for system, place in zip(looks, places, strict=True)}
    panels = []
    for n, (title, runs) in enumerate(cases):
        column = flat[n % columns :: columns]
        panel, *below = column[n // columns * height :][:height]
        drawing.title(panel, f"({'abcd'[n]}) {title}" if len(cases) > 1 else title)
        _draw_p99(panel, runs, looks, shifts, layout)
        for axes, strip in zip(below, layout.strips, strict=True):
            _draw_strip(axes, runs, looks, shifts, layout.x, strip, 0.63 * gap / (1 if layout.one_each else len(looks)))
        below[-1].set_xlabel(layout.label if n // columns == rows - 1 else "")
        panel.set_ylabel("" if n % columns else "p99 latency (ms)")
        panels.append(panel)
    for axes in flat:
        if axes not in panels:
            axes.set_ylim(bottom=0)
    panels[0].set_xticks(at, [drawing.plain(value) for value in at])
    repetition = [keys.key(REPETITION, line=False)] if layout.has_tail else []
    known = [*(keys.key(look) for look in looks.values()), *repetition, keys.rule_key("SLO (line ours)")]
    keys.legend_above(sheet, [*known, *layout.more_keys])
    return sheet, panels


def _draw_p99(axes: Axes, runs: Frame, looks: Looks, shifts: dict[str, float], layout: Layout) -> None:
    """Means of each system, or geometric means beside the repetitions."""
    drawing.log_axis(axes, steps=(1, 2, 5) if layout.highest_ms is None else (1, 1.5, 2, 3, 5, 7))
    drawing.rule(axes, slo_of(runs))
    for system, look in looks.items():
        part = runs[runs.system == system]
        at, intervals = intervals_by(part, layout.x, "p99_ms", geometric if layout.has_tail else t_interval)
        drawing.interval_points(axes, [x + shifts[system] for x in at], intervals, look, joined=True)
        if layout.has_tail:
            small, beside = look._replace(is_open=True), part[layout.x] + shifts[system] + layout.beside
            drawing.marks(axes, beside, part.p99_ms, small, size=2.2, alpha=0.6)
        for x, interval in zip(at, intervals, strict=True):
            if layout.highest_ms is not None and interval.mean > layout.highest_ms:  # its number is enough: it says
                axes.set_ylim(top=layout.highest_ms)  # how long the run of an overloaded broker was
                drawing.label(axes, f"{interval.mean:,.0f} ms ↑", (x, layout.highest_ms), look.colour, (-2, -2))


def _draw_strip(
    axes: Axes, runs: Frame, looks: Looks, shifts: dict[str, float], x: str, strip: Strip, width: float
) -> None:
    """Bars of each system side by side, and a 0 where one has no height."""
    for system, look in looks.items():
        part = runs[runs.system == system]
        at, intervals = intervals_by(part.assign(value=strip.factor * part[strip.column]), x, "value")
        drawing.interval_bars(axes, [place + shifts[system] for place in at], intervals, look, width)
        for place, interval in zip(at, intervals, strict=True):
            if interval.mean == 0:
                drawing.label(axes, "0", (place + shifts[system], 0.0), look.colour, (0, 1))
    axes.update_datalim([(0.0, 1.0)], updatex=False)  # nothing but zeros: an axis up to 1, not to 0.05
    axes.locator_params(axis="y", nbins=2, integer=True)
    drawing.note(axes, strip.label, (0.0, 1.02))
