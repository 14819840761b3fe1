"""What Figs. 5 to 9 and the trace have in common: one p99 a run, its summary, and panels of it with strips below.

A panel is the p99 against x; the strips say what it says nothing about: brokers in use, the capacity that the
distribution leaves (the report's section 2: what "best" means), and the time in violation of the SLO while the search
ran (report 4.2).
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf

import numpy as np

from analysis.verdicts import t_interval
from core.records import Options
from core.units import MILLISECOND_NS, SECOND_NS
from paper_figs import drawing, keys
from paper_figs.intervals import geometric, intervals_by
from paper_figs.light import Artist, Axes, Data, Drawing, Frame, Series
from paper_figs.series import in_ms, where, with_others, with_point
from paper_figs.srtm import published, readings
from paper_figs.srtm.grids import ARRIVALS
from paper_figs.style import Style, looks_of

# A sheet's cases: titles of panels, and rows of runs: one a run.
Cases = Sequence[tuple[str, Frame]]
Looks = dict[str, Style]

STRIPS: dict[str, tuple[str, float]] = {  # bars below a panel: a column of the runs, what it is, its factor
    "broker_count": ("brokers in use", 1.0),
    "residual_rps": ("capacity of unused brokers (1,000 msg/s)", 1e-3),
    "violation_s": ("time above the SLO during the search (s)", 1.0),
}
STRIPS_NOTE = (
    "Strips, with 95 % intervals: brokers in use, the capacity of those left without this topic, and how long the "
    "search was above the SLO, or left publishers without a broker; 0 stands where a bar has no height."
)
MEAN_NOTE = "Mean and 95 % interval over repetitions, each judged on a fresh minute of traffic."
TAIL_NOTE = (
    "p99 has a long tail: small marks are repetitions, each judged on a fresh minute of traffic, large ones their "
    f"geometric mean with its 95 % interval (that of the logarithms). {STRIPS_NOTE}"
)
REPETITION = Style("one repetition", drawing.GREY, "o", "-", is_open=True)
LINE_POINTS = 8.0  # from a line of small text to the next
SLO_MARGIN = 1.05  # "meets the SLO": the interval of the mean p99 is not above 1.05 x SLO

ENVELOPE_NOTE = (
    "The bucket's size b: of periodic publishers the paper's letter, the smallest for a 70 s trace recorded before; of "
    "Poisson ones the smallest for the very minute that is offered (conformant, ours): a b from a trace is off "
    "by tens of percent for traffic this bursty, and the waiting that this causes would hide what distribution adds. "
    f"A margin of {readings.MARGIN.of({}) - 1:.0%} is added (footnote 1): on a knife's edge any split is punished."
)
OVERLOAD = 10.0  # times the SLO: a queue that grows throughout the minute, so that its p99 measures the run's length


def per_run(data: Data, factors: Mapping[str, str]) -> Frame:
    """One row a run, judged on its fresh round.

    Columns: arrivals, system, repetition, outcome, envelope, the ``factors`` (column -> factor's name), p99_ms
    (infinite: the envelope could not be split, and no message was offered), broker_count, round_count and violation_s
    (of the search), residual_rps, slo_ms.
    """
    from analysis import metrics

    latency = data.latency_histogram.where("metric = 'end_to_end_latency'")
    rounds = metrics.search_rounds(data.decisions).selectExpr("run_id", "total_round_count as round_count").distinct()
    runs = (
        in_ms(latency, {0.99: "p99_ms"}, "run_id")
        .join(metrics.brokers_used(data.decisions), "run_id", "right")
        .join(metrics.time_in_violation(data.decisions, data.runs), "run_id")
        .selectExpr("*", f"violation_ns / {SECOND_NS} as violation_s")
        .join(metrics.residual_capacity(data.decisions), "run_id")
        .join(rounds, "run_id", "left")
        .join(data.runs.selectExpr("run_id", f"slo_ns / {MILLISECOND_NS} as slo_ms"), "run_id")
        .fillna({"round_count": 0, "p99_ms": inf})
    )
    runs = runs.drop("violation_ns", "search_ns", "untouched_count")
    return with_envelope(with_point(data, runs, {"envelope": "study.envelope", **factors}))


def with_envelope(runs: Frame) -> Frame:
    """``runs`` whose column ``envelope``, the study's rule, says the reading instead."""
    runs["envelope"] = runs.envelope.fillna("profiled").replace(readings.NAMES)
    return runs


def by_arrivals(runs: Frame) -> list[tuple[str, Frame]]:
    """The kinds of arrivals that were run, Poisson first, by ``called``, and their rows."""
    every = [runs[runs.arrivals == kind] for kind in ARRIVALS]
    return [(called(part), part) for part in every if len(part)]


def called(part: Frame, more: str = "") -> str:
    """What a kind of arrivals is called: "Poisson, batch 1, conformant envelope"; rows of one kind and envelope."""
    kind = str(part.arrivals.iloc[0]).replace("poisson", "Poisson")
    envelope = f"{part.envelope.iloc[0]} envelope" if "envelope" in part else ""
    return ", ".join(words for words in (kind, more, envelope) if words)


def meets_slo(p99_ms: Series, slo_ms: float) -> list[float]:
    """1 for each repetition that meets the SLO, else 0: a p99 has a tail that makes means of it measure the tail."""
    return [float(value <= SLO_MARGIN * slo_ms) for value in p99_ms.dropna()]


def measured(part: Frame, system: str, x: str, value: str = "p99_ms") -> Frame:
    """``value`` of a system: a row a repetition, a column an ``x``, ascending."""
    return where(part, system=system).pivot(index="repetition", columns=x, values=value)


def slopes(wide: Frame) -> list[float]:
    """Least-squares slope of each row (a repetition) over its columns' names, if all are finite; of two columns on."""
    wide = wide[np.isfinite(wide).all(axis=1)]
    if wide.empty or wide.shape[1] < 2:
        return []
    return [float(slope) for slope in np.polyfit(wide.columns.to_numpy(float), wide.to_numpy(float).T, 1)[0]]


def slo_of(runs: Frame) -> float:
    """The SLO of a figure's runs in ms: the paper's but for the scale small."""
    return float(runs["slo_ms"].iloc[0]) if "slo_ms" in runs and len(runs) else published.SLO_MS


def summary(runs: Frame, by: list[str]) -> Frame:
    """Over the repetitions of each point: mean, std and count of the p99, and means of what is drawn beside it.

    The std is 0 of a single repetition, and empty where the mean is infinite.
    """
    columns = ("broker_count", "residual_rps", "violation_s", "round_count", "slo_ms")
    p99, beside = {how: ("p99_ms", how) for how in ("mean", "std", "count")}, {name: (name, "mean") for name in columns}
    over = runs.groupby(by, sort=False).agg(**p99, **beside).fillna({"std": 0.0}).reset_index()
    over["std"] = over["std"].where(over["mean"] < inf)
    return over


# --- panels and strips -----------------------------------------------------------------------------


def p99_sheet(
    cases: Cases,
    systems: Sequence[str],
    x: str,
    label: str,
    *,
    columns: int = 2,
    panel_inches: tuple[float, float] = (3.5, 4.3),
    strips: Mapping[str, tuple[str, float]] = STRIPS,
    more_keys: Sequence[Artist] = (),
    highest_ms: float | None = None,
    one_each: bool = False,
    tail_beside: float | None = None,
) -> tuple[Drawing, list[Axes]]:
    """A panel a case, its strips below it; returns the panels of the p99.  A case that was not run has no panel.

    ``highest_ms``: the end of the y axis; ``one_each``: every system has an x of its own; ``tail_beside``: geometric
    means, and so far beside them on the x axis the repetitions.
    """
    import pandas as pd

    cases = [(title, runs) for title, runs in cases if len(runs)] or cases[:1]
    columns, height = min(columns, len(cases)), 1 + len(strips)
    rows = -(-len(cases) // columns)
    inches = (0.4 + panel_inches[0] * columns, 0.3 + panel_inches[1] * rows)
    heights = [5.0, *[1.0] * len(strips)] * rows
    sheet, flat = drawing.panels(height * rows, columns, (), inches, None, heights, True, "row")
    every = pd.concat([runs for _, runs in cases])
    looks, at = looks_of(with_others(systems, every)), sorted(set(every[x]))
    gap = min([high - low for low, high in pairwise(at)] + [(at[-1] - at[0]) / 5 if len(at) > 1 else 1.0])
    places = [0.0] * len(looks) if one_each else drawing.beside(len(looks), 0.7)
    shifts = {system: gap * place for system, place in zip(looks, places, strict=True)}
    panels = []
    for n, (title, runs) in enumerate(cases):
        panel, *below = flat[n % columns :: columns][n // columns * height :][:height]
        drawing.title(panel, f"({'abcd'[n]}) {title}" if len(cases) > 1 else title)
        _draw_p99(panel, runs, looks, shifts, x, highest_ms, tail_beside)
        for axes, (column, (words, factor)) in zip(below, strips.items(), strict=True):
            scaled = runs.assign(value=factor * runs[column])
            _draw_strip(axes, scaled, looks, shifts, x, 0.63 * gap / (1 if one_each else len(looks)))
            drawing.note(axes, words, (0.0, 1.02))
        below[-1].set_xlabel(label if n // columns == rows - 1 else "")
        panel.set_ylabel("" if n % columns else "p99 latency (ms)")
        panels.append(panel)
    for axes in flat:
        if axes not in panels:
            axes.set_ylim(bottom=0)
    panels[0].set_xticks(at, [drawing.plain(value) for value in at])
    marks = [*(keys.key(look) for look in looks.values())]
    if tail_beside is not None:
        marks.append(keys.key(REPETITION, line=False))
    keys.legend_above(sheet, [*marks, keys.rule_key("SLO (line ours)"), *more_keys])
    return sheet, panels


def _draw_p99(
    axes: Axes,
    runs: Frame,
    looks: Looks,
    shifts: dict[str, float],
    x: str,
    highest_ms: float | None,
    tail_beside: float | None,
) -> None:
    """Means of each system, or geometric means beside the repetitions; in words those that have no place."""
    drawing.log_axis(axes, steps=(1, 2, 5) if highest_ms is None else (1, 1.5, 2, 3, 5, 7))
    drawing.rule(axes, slo_of(runs))
    for line, (system, look) in enumerate(looks.items(), start=highest_ms is not None):
        part, shift = runs[runs.system == system], shifts[system]
        at, intervals = intervals_by(part, x, "p99_ms", t_interval if tail_beside is None else geometric)
        drawing.interval_points(axes, [place + shift for place in at], intervals, look, joined=True)
        if tail_beside is not None:
            small, beside = look._replace(is_open=True), part[x] + shift + tail_beside
            drawing.marks(axes, beside, part.p99_ms, small, size=2.2, alpha=0.6)
        for place, interval in zip(at, intervals, strict=True):
            if interval.mean == inf:
                text = f"inf ({(part[part[x] == place].p99_ms == inf).sum()} of {interval.count})"
                _at_the_top(axes, text, place, look.colour, line, rightwards=place == runs[x].min())
            elif highest_ms is not None and interval.mean > highest_ms:  # its number is enough: it says how long
                axes.set_ylim(top=highest_ms)  # the run of an overloaded broker was
                drawing.label(axes, f"{interval.mean:,.0f} ms ↑", (place, highest_ms), look.colour, (-2, -2))


def _at_the_top(axes: Axes, text: str, x: float, colour: str, line: int, rightwards: bool) -> None:
    """Small text beside ``x``, so many lines below the panel's upper edge."""
    side, below = (2, "left") if rightwards else (-2, "right"), -2 - LINE_POINTS * line
    look: Options = {"fontsize": drawing.SMALL, "color": colour, "ha": side[1], "va": "top"}
    axes.annotate(text, (x, 1.0), (side[0], below), ("data", "axes fraction"), "offset points", **look)


def _draw_strip(axes: Axes, runs: Frame, looks: Looks, shifts: dict[str, float], x: str, width: float) -> None:
    """Bars of each system's ``value`` side by side, and a 0 where one has no height."""
    for system, look in looks.items():
        at, intervals = intervals_by(runs[runs.system == system], x, "value")
        places = [place + shifts[system] for place in at]
        drawing.interval_bars(axes, places, intervals, look, width)
        for place, interval in zip(places, intervals, strict=True):
            if interval.mean == 0:
                drawing.label(axes, "0", (place, 0.0), look.colour, (0, 1))
    axes.update_datalim([(0.0, 1.0)], updatex=False)  # nothing but zeros: an axis up to 1, not to 0.05
    axes.locator_params(axis="y", nbins=2, integer=True)
