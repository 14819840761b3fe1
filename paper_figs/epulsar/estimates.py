"""Runs of coordinate agents: the errors of their estimates, curves over repetitions."""

from collections.abc import Mapping

from core.units import MILLISECOND_NS
from paper_figs.drawing import curve, mean_lines
from paper_figs.epulsar.published import SETTLED_MIN
from paper_figs.light import Axes, Data, Frame, SparkFrame
from paper_figs.style import Style

SETTLED_S = 60.0 * SETTLED_MIN


def errors(data: Data) -> SparkFrame:
    """A row a run, read and pair: run_id, at_s, pair, true_ms, error_ms (estimate less truth, without its sign)."""
    from pyspark.sql import functions as f

    return data.table("coordinates").where("estimated_rtt_ns is not null").select(
        "run_id", (f.col("at_ns") / (1000 * MILLISECOND_NS)).alias("at_s"), f.concat_ws(" ", "a", "b").alias("pair"),
        (f.col("true_rtt_ns") / MILLISECOND_NS).alias("true_ms"),
        (f.abs(f.col("estimated_rtt_ns") - f.col("true_rtt_ns")) / MILLISECOND_NS).alias("error_ms"),
    )  # fmt: skip


def draw_columns(axes: Axes, runs: Frame, x: str, looks: Mapping[str, Style]) -> None:
    """A line a column of ``looks``: its means over repetitions at each ``x``, with 95 % intervals."""
    mean_lines(axes, runs.melt([x], list(looks), "column", "drawn"), x, "drawn", "column", looks)


def draw_each(axes: Axes, runs: Frame, x: str, y: str, look: Style) -> None:
    """The median of ``y`` over repetitions against ``x``, and each repetition as a thin line."""
    for _, run in runs.sort_values(x).groupby("repetition"):
        curve(axes, run[x], run[y], look._replace(dashes="-"), width=0.5, alpha=0.35)
    middle = runs.groupby(x)[y].median()
    curve(axes, middle.index, middle, look, width=1.4)
