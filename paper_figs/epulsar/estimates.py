"""Runs of coordinate agents: their points, the errors of their estimates, curves over repetitions."""

from typing import TYPE_CHECKING, Any

from analysis.verdicts import t_interval
from core.units import MILLISECOND_NS
from harness.experiment import RunSpec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame

    from analysis.spark import Data

SETTLED_S = 600.0  # the experiments wait ten minutes (ePulsar 5.3)


def point(topology: str, topology_options: dict[str, Any], **study: Any) -> RunSpec:
    """Agents alone: nothing is offered, so system and workload are idle."""
    return RunSpec(
        system="static-split", workload="requests", topology=topology, topology_options=topology_options,
        study="coordinates", study_options=study,
    )  # fmt: skip


def errors(data: "Data") -> "DataFrame":
    """A row a run, read and pair: run_id, at_s, pair, true_ms, error_ms (estimate less truth, without its sign)."""
    from pyspark.sql import functions as f

    return data.table("coordinates").where("estimated_rtt_ns is not null").select(
        "run_id", (f.col("at_ns") / (1000 * MILLISECOND_NS)).alias("at_s"), f.concat_ws(" ", "a", "b").alias("pair"),
        (f.col("true_rtt_ns") / MILLISECOND_NS).alias("true_ms"),
        (f.abs(f.col("estimated_rtt_ns") - f.col("true_rtt_ns")) / MILLISECOND_NS).alias("error_ms"),
    )  # fmt: skip


def draw_curve(axes: "Axes", runs: "pd.DataFrame", x: str, y: str, **look: Any) -> None:
    """The mean of ``y`` over repetitions against ``x``, with 95 % intervals."""
    at, rows = [], []
    for place, part in runs.groupby(x):
        found = t_interval(part[y].tolist())
        at.append(place)
        rows.append((found.mean, *((found.low, found.high) if found.count > 1 else (found.mean, found.mean))))
    if not rows:
        return
    mean, low, high = (list(column) for column in zip(*rows, strict=True))
    (line,) = axes.plot(at, mean, **{"markersize": 4, "linewidth": 1.2, **look})
    bars = [[m - b for m, b in zip(mean, low, strict=True)], [t - m for m, t in zip(mean, high, strict=True)]]
    axes.errorbar(at, mean, bars, fmt="none", ecolor=line.get_color(), capsize=2, linewidth=0.8)


def draw_each(axes: "Axes", runs: "pd.DataFrame", x: str, y: str, **look: Any) -> None:
    """The median of ``y`` over repetitions against ``x``, and each repetition as a thin line."""
    for _, part in runs.sort_values(x).groupby("repetition"):
        axes.plot(part[x], part[y], **{**look, "linewidth": 0.5, "linestyle": "-", "alpha": 0.35, "label": None})
    middle = runs.groupby(x)[y].median()
    if len(middle):
        axes.plot(middle.index, middle, **look)
