"""What the thesis' figures have in common: one row a run with everything that is judged, and mean curves."""

from collections.abc import Mapping, Sequence
from math import inf, nan

from analysis.verdicts import half_width
from core.defaults import CAPACITY
from paper_figs.crdt.variants import CENTRAL, VARIANTS
from paper_figs.drawing import curve, interval_curve, interval_points
from paper_figs.intervals import in_turn, intervals_of
from paper_figs.light import Axes, Data, Frame, SparkFrame
from paper_figs.series import case_of, joined, with_point
from paper_figs.style import style_of

FACTORS = {
    "data_set": "workload.set",
    "capacity": "workload.capacity",
    "nodes": "topology.nodes",
    "gossip": "system.gossip",
    "choice": "system.choice",
    "linf": "system.linf",
    "frequency": "system.frequency",
}
FEW_BANDS = 3
POINT = ["variant", "data_set", "capacity", "gossip", "choice"]  # what names a point of most figures
EXTENSIONS_NOTE = "F: the queue with frequency analysis (4.2.3), L: with LINF gossiping (4.2.4)."
INTERVAL_NOTE = "Error bars and bands are 95 % intervals over repetitions."
PRECISION_NOTE = (
    "Precision has two sides: the thesis' percentage (rejections over those of the centralised limiter, in total and "
    "as the area under the cumulative curves, since 5.1.1 does not say which) stands beside false accepts, false "
    "rejections and the worst excess over the envelope c + r (t - s)."
)


def points_of(data: Data, more: Mapping[str, str] | None = None) -> Frame:
    """One row a run: run_id, variant (a label of ``grids``), data_set, capacity, nodes, gossip, choice, repetition.

    ``more``: further factors, column -> name as in ``FACTORS``; null where a run does not have one.
    """
    more = more or {}
    frame = with_point(data, data.runs.select("run_id"), {**FACTORS, **more})
    frame["variant"] = [case_of(run, VARIANTS) for run in frame.to_dict("records")]
    frame["variant"] = frame.variant.mask(frame.nodes == 1, frame.variant.replace(CENTRAL))
    usual = {"capacity": CAPACITY, "gossip": "300ms", "choice": "pending"}
    frame = frame.astype(dict.fromkeys(usual, object)).fillna(usual).infer_objects().astype({"capacity": int})
    return frame[["run_id", "variant", "data_set", "capacity", "nodes", "gossip", "choice", *more, "repetition"]]


def per_run(
    data: Data,
    decided: bool = True,
    used: bool = True,
    more: Mapping[str, str] | None = None,
    over_time: SparkFrame | None = None,
) -> Frame:
    """One row a run, the oracle's too: its point and all that ``analysis.limiting`` and ``analysis.usage`` measure.

    Columns: those of ``points_of``; if asked for what was ``decided``, those of ``precision``, excess_tokens,
    excess_share; if for what was ``used``, those of ``usage_area``, converged_at_ns, convergence_ns,
    last_sent_at_ns, load_end_ns.  ``over_time``: ``usage_over_time`` of all runs, where the caller has it.
    """
    from analysis import limiting, usage

    frames = []
    if decided:
        frames.append(limiting.precision(data.requests, limiting.with_oracle(data.runs)))
        frames.append(limiting.worst_excess(data.requests, data.runs).drop("user"))
    if used:
        over_time = usage.usage_over_time(data.table("usage")) if over_time is None else over_time
        frames += [usage.usage_area(over_time), usage.convergence(data.samples, data.table("usage"), data.runs)]
    return joined(points_of(data, more), *frames)


def counts_of(requests: SparkFrame, by: Sequence[str], **conditions: str) -> SparkFrame:
    """How many of the requests with equal ``by`` meet each condition (SQL), in a column of its name."""
    from pyspark.sql import functions as f

    counts = (f.count_if(f.expr(condition)).alias(name) for name, condition in conditions.items())
    return requests.groupBy(*by).agg(*counts)


def curves(rows: Frame, runs: Frame, *values: str, by: Sequence[str] = POINT, zero_after_end: bool = False) -> Frame:
    """Mean and standard deviation over repetitions of curves by ``t_ns``: one row a point and instant.

    ``rows``: run_id, t_ns and ``values``; ``runs``: run_id and ``by``.  Columns: ``by``, t_s, and for
    each value ``x`` its mean ``x`` and standard deviation ``x_std``.  An instant's mean is over the runs that
    have it, or with ``zero_after_end`` over all, of which those that have ended count as 0 (the thesis' way, 5.2.4).
    """
    rows = rows[["run_id", "t_ns", *values]].merge(runs[["run_id", *by]], on="run_id")
    if zero_after_end:
        rows = _ended_as_zero(rows, list(values))
    rows["t_s"] = rows["t_ns"] / 1e9
    aggregated = rows.groupby([*by, "t_s"], sort=True)[list(values)].agg(["mean", "std"])
    aggregated.columns = [value if how == "mean" else f"{value}_std" for value, how in aggregated.columns]
    return aggregated.fillna(0.0).reset_index()


def draw_means(
    axes: Axes,
    curves: Frame,
    value: str,
    variants: Mapping[str, float],
    repetitions: int,
    unit: float,
    least: float = -inf,
) -> None:
    """A line a variant (name -> width) through means in ``unit``, with 95 % intervals that are at ``least`` so low.

    Bands, if there are few, or error bars of each in turn; of a single repetition none.
    """
    many = half_width(repetitions) if repetitions > 1 else nan
    for number, (variant, width) in enumerate(variants.items()):
        part, look = curves[curves.variant == variant], style_of(variant)
        mean, half = part[value] / unit, many * part[f"{value}_std"] / unit
        low, high = (mean - half).clip(lower=least), mean + half
        if len(variants) <= FEW_BANDS:
            interval_curve(axes, part.t_s, mean, low, high, look, width=width)
            continue
        curve(axes, part.t_s, mean, look, width=width)
        told = in_turn(part.assign(mean=mean, low=low, high=high, count=repetitions), number, len(variants))
        interval_points(axes, told.t_s, intervals_of(told), look, size=3.5)


def _ended_as_zero(rows: Frame, values: list[str]) -> Frame:
    """Rows of 0 for each run, from its own end to that of the last run of its point."""
    import pandas as pd

    ends = rows.groupby([*POINT, "run_id"])["t_ns"].max().rename("end_ns").reset_index()
    later = rows[[*POINT, "t_ns"]].drop_duplicates().merge(ends, on=POINT).query("t_ns > end_ns")
    return pd.concat([rows, later.assign(**dict.fromkeys(values, 0.0))], ignore_index=True)
