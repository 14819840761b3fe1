"""What Figs. 5 to 9 have in common: one p99 a run, samples for claims, and a panel of p99 against x."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core.units import MILLISECOND_NS, SECOND_NS
from paper_figs.series import whole, with_others, with_point
from paper_figs.srtm.grids import CONFORMANT
from paper_figs.style import slo_line, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from analysis.spark import Data

SLO_MS = 1.0  # SRTM VI, footnote 10
SLO_MARGIN = 1.05  # "meets the SLO": the interval of the mean p99 is not above 1.05 x SLO

COUNTS_NOTE = (
    "Mean and standard deviation over repetitions, on a fresh minute of traffic; numbers beside points: brokers."
)
ENVELOPE_NOTE = (
    "The bucket's size b is the smallest for the very minute that is offered (ours): a b from a recorded trace is off "
    "by tens of percent for traffic this bursty, and the waiting that this causes would hide what distribution adds. "
    f"A margin of {CONFORMANT['margin'] - 1:.0%} is added (footnote 1): on a knife's edge any split is punished."
)


def per_run(data: "Data", factors: Mapping[str, str]) -> "pd.DataFrame":
    """One row a run, judged on its fresh round.

    Columns: arrivals, system, repetition, outcome, the ``factors`` (column -> factor's name), p99_ms,
    broker_count, round_count and violation_s (of the search), residual_rps, slo_ms.
    """
    from analysis import metrics

    latency = data.latency_histogram.where("metric = 'end_to_end_latency'")
    p99 = metrics.percentiles(metrics.final_round(latency), ["run_id"], [0.99])
    rounds = metrics.search_rounds(data.decisions).selectExpr("run_id", "total_round_count as round_count").distinct()
    found = (
        p99.selectExpr("run_id", f"p99_ns / {MILLISECOND_NS} as p99_ms")
        .join(metrics.brokers_used(data.decisions), "run_id")
        .join(metrics.time_in_violation(data.decisions, data.runs), "run_id")
        .selectExpr("*", f"violation_ns / {SECOND_NS} as violation_s")
        .join(metrics.residual_capacity(data.decisions), "run_id")
        .join(rounds, "run_id", "left")
        .join(data.runs.selectExpr("run_id", f"slo_ns / {MILLISECOND_NS} as slo_ms"), "run_id")
        .fillna(0, ["round_count"])
    )
    return with_point(data, found.drop("violation_ns", "search_ns", "untouched_count"), factors)


def slo_of(runs: "pd.DataFrame") -> float:
    """The SLO of a figure's runs in ms: the paper's but for the scale small."""
    return float(runs["slo_ms"].iloc[0]) if "slo_ms" in runs and len(runs) else SLO_MS


def summary(runs: "pd.DataFrame", by: list[str], value: str = "p99_ms") -> "pd.DataFrame":
    """Over the repetitions of each point: mean and std of ``value``, their ``count``, means of what is drawn beside.

    Those are broker_count, residual_rps, violation_s, round_count and slo_ms.
    """
    groups = runs.groupby(by, sort=False)
    columns = ("broker_count", "residual_rps", "violation_s", "round_count", "slo_ms")
    beside = {name: (name, "mean") for name in columns if name in runs}
    found = groups.agg(mean=(value, "mean"), std=(value, "std"), count=(value, "count"), **beside)
    return found.fillna({"std": 0.0}).reset_index()


def draw_p99(axes: "Axes", points: "pd.DataFrame", x: str, systems: Sequence[str], slo_in_legend: bool = False) -> None:
    """p99 against ``x``, mean and standard deviation, with the mean number of brokers beside each point.

    ``points``: one row a system and x, with ``mean``, ``std`` and ``broker_count``.  Systems beyond
    ``systems`` are drawn after these.
    """
    for system in with_others(systems, points):
        found = points[points.system == system].sort_values(x)
        style = style_of(system)
        axes.errorbar(found[x], found["mean"], yerr=_bars(found), label=style.label, color=style.colour,
                      marker=style.marker, linestyle=style.dashes, markersize=4, linewidth=1.2, capsize=2)  # fmt: skip
    for _, found in points.groupby(x):
        _counts_beside(axes, found.sort_values("mean"), x)
    axes.margins(x=0.08)  # room for the last numbers
    slo_line(axes, slo_of(points), slo_in_legend)


def _counts_beside(axes: "Axes", found: "pd.DataFrame", x: str) -> None:
    """The numbers of brokers at one x, from the lowest point up; points that coincide share a number if they can."""
    from matplotlib.patheffects import withStroke

    last_ms, last_text = 0.0, ""
    for row in found.to_dict("records"):
        text = whole(row["broker_count"])
        if row["mean"] > 1.05 * last_ms or text != last_text:
            axes.annotate(text, (row[x], row["mean"]), xytext=(3.5, 2), textcoords="offset points", fontsize=6.5,
                          color=style_of(row["system"]).colour, zorder=5,
                          path_effects=[withStroke(linewidth=1.6, foreground="white")])  # fmt: skip
        last_ms, last_text = row["mean"], text


def _bars(found: "pd.DataFrame") -> Any:
    """Standard deviations; on a log axis the lower end must stay above 0."""
    import numpy as np

    return np.array([np.minimum(found["std"], 0.9 * found["mean"]), found["std"]])
