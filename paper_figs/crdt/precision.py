"""What figures of precision have in common: rejections over time, the thesis' percentage, errors of both kinds.

(a) Requests and rejections since the start, in units of c; (b) rejections over those of the centralised
limiter, in both readings of 5.1.1; (c) ours: requests admitted that it rejects, and the reverse, and the
most that was admitted above the envelope c + r (t - s).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from analysis.verdicts import Check, Evidence, above, below, t_interval
from core.units import SECOND_NS
from harness.experiment import RunSpec
from paper_figs.crdt.checks import share
from paper_figs.crdt.grids import CAPACITY, COUNTER, ORACLE, limited, oracle
from paper_figs.crdt.runs import curves, per_run
from paper_figs.figure import FigureTables
from paper_figs.series import by_repetition, samples
from paper_figs.style import PUBLISHED, letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from pyspark.sql import DataFrame

    from analysis.spark import Data

FEW = 0.2  # of the requests
LATE_S = 30  # the second half of B's minute
READINGS = {"rejected_ratio": "total", "area_ratio": "area"}  # A15: 5.1.1 sums points of curves, cumulative or not
ERRORS = {"false_admit_count": "admitted\nwrongly", "false_reject_count": "rejected\nwrongly",
          "excess_tokens": "worst\nexcess"}  # fmt: skip


def points(data_set: str, variants: Sequence[str]) -> list[RunSpec]:
    """The centralised limiter and the variants on one data set."""
    return [oracle(data_set), *(limited(variant, data_set) for variant in variants)]


def tables(data: "Data") -> FigureTables:
    """``runs``: one row a run; ``curves``: rejected, offered and gap (the centralised limiter's less) by second.

    ``runs`` has, besides ``per_run``'s: gap_peak_count and gap_end_count, and late_admitted_count, of the
    requests from ``LATE_S`` on.
    """
    from analysis import limiting
    from analysis.spark import collect

    gaps = limiting.rejection_gap_over_time(data.requests, limiting.with_oracle(data.runs), SECOND_NS)
    rows = collect(gaps, ["run_id", "t_ns"])
    runs = per_run(data, used=False)
    for frame in (_gap_marks(rows), collect(_late_admissions(data.requests), ["run_id"])):
        runs = runs.merge(frame, on="run_id", how="left")
    over_time = curves(rows, runs, "rejected_count", "offered_count", "gap_count")
    return {"runs": runs, "curves": over_time, "share": shares(runs)}


def _gap_marks(gaps: "pd.DataFrame") -> "pd.DataFrame":
    """A run's largest gap to the centralised limiter, and its last; ``gaps`` in the order of t_ns."""
    marks = gaps.groupby("run_id")["gap_count"].agg(gap_peak_count="max", gap_end_count="last")
    return marks.reset_index()


def _late_admissions(requests: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    late = (f.col("decision") == "admit") & (f.col("intended_at_ns") >= LATE_S * SECOND_NS)
    return requests.groupBy("run_id").agg(f.count_if(late).alias("late_admitted_count"))


def shares(runs: "pd.DataFrame") -> "pd.DataFrame":
    """One row a variant and measure of ``READINGS`` and ``ERRORS``: mean, low, high (95 % interval)."""
    import pandas as pd

    rows = []
    for (variant, data_set), part in runs[runs.variant != ORACLE].groupby(["variant", "data_set"], sort=True):
        for measure in (*READINGS, *ERRORS):
            found = t_interval(samples(part[measure]))
            rows.append({"variant": variant, "data_set": data_set, "measure": measure, "mean": found.mean,
                         "low": found.low, "high": found.high, "count": found.count})  # fmt: skip
    return pd.DataFrame(rows)


def draw(found: FigureTables, variants: Sequence[str], published: Mapping[str, float]) -> "Drawing":
    """Three panels; ``published``: variant -> share of the centralised limiter's rejections."""
    drawing, axes = panels(1, 3, gridspec_kw={"width_ratios": [1.5, 1.0, 1.3]})
    drawing.set_size_inches(9.5, 2.9)
    draw_curves(axes[0][0], found["curves"], [ORACLE, *variants])
    letter(axes[0][0], "(a) rejections")
    secret = [name for name in published if name not in variants]  # printed values without a curve of ours
    draw_shares(axes[0][1], found["share"], [*variants, *secret], published)
    letter(axes[0][1], "(b) the thesis' percentage")
    draw_errors(axes[0][2], found["share"], variants)
    letter(axes[0][2], "(c) errors of both kinds")
    legend(drawing, axes[0][0], bool(published))
    return drawing


def legend(drawing: "Drawing", curves_in: "Axes", published: bool) -> None:
    """One legend above: the curves of (a), and the markers of (b)."""
    handles = [*curves_in.get_legend_handles_labels()[0], *_share_handles(published)]
    drawing.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=7)


def draw_curves(axes: "Axes", found: "pd.DataFrame", variants: Sequence[str]) -> None:
    """Cumulative requests and rejections in units of c: means, bands of one standard deviation.

    Where few requests are rejected, and late, only the rejections' part of the plane is shown.
    """
    offered = found[found.variant == found.variant.min()]
    rejecting = found[found.rejected_count > 0]
    most = rejecting.rejected_count.max()
    if len(rejecting) and most < FEW * offered.offered_count.max():
        axes.set_xlim(rejecting.t_s.min() - 2, found.t_s.max())
        axes.set_ylim(0, 1.4 * most / CAPACITY)
    else:
        axes.plot(offered.t_s, offered.offered_count / CAPACITY, color="#999999", linewidth=1.0, label="requests")
    for variant in variants:
        draw_band(axes, found[found.variant == variant], "rejected_count", variant)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("since the start (c)")
    axes.set_ylim(bottom=0)


def draw_band(axes: "Axes", part: "pd.DataFrame", value: str, variant: str) -> None:
    """One variant's mean over time in units of c, and its standard deviation over repetitions as a band."""
    look = style_of(variant)
    mean, deviation = part[value] / CAPACITY, part[f"{value}_std"] / CAPACITY
    axes.plot(part.t_s, mean, color=look.colour, linestyle=look.dashes, linewidth=1.3, label=look.label)
    axes.fill_between(part.t_s, mean - deviation, mean + deviation, color=look.colour, alpha=0.2, linewidth=0)


def draw_shares(axes: "Axes", found: "pd.DataFrame", variants: Sequence[str], published: Mapping[str, float]) -> None:
    """Both readings of the percentage with intervals, and what the thesis printed."""
    for place, variant in enumerate(variants):
        for offset, reading, face in ((-0.12, "rejected_ratio", None), (0.12, "area_ratio", "#ffffff")):
            row = found[(found.variant == variant) & (found.measure == reading)].dropna(subset="mean")
            if row.empty:
                continue
            mean, low, high = 100 * row[["mean", "low", "high"]].iloc[0]
            error = [[min(mean - low, 1e3)], [min(high - mean, 1e3)]] if row["count"].iloc[0] > 1 else None
            axes.errorbar([place + offset], [mean], yerr=error, color=style_of(variant).colour, marker="o",
                          markerfacecolor=face, markersize=5, capsize=2, linestyle="none")  # fmt: skip
        if variant in published:
            axes.plot([place], [100 * published[variant]], **cast(Any, PUBLISHED))
    if not len(found[found.measure.isin(list(READINGS))]["mean"].dropna()):
        axes.annotate("the centralised limiter\nrejects nothing", (0.5, 0.5), xycoords="axes fraction", ha="center",
                      va="center", fontsize=7, color="#555555")  # fmt: skip
        axes.set_yticks([])
    else:
        axes.axhline(100, color="#000000", linewidth=0.8, linestyle=":")
        low, high = axes.get_ylim()  # intervals of few repetitions may be wider than any sense
        axes.set_ylim(max(0.0, low), min(high, 200.0))
        axes.set_ylabel("of centralised rejections (%)", fontsize=8)
    axes.set_xlim(-0.6, len(variants) - 0.4)
    names = [style_of(variant).label.replace(", ", ",\n") for variant in variants]
    if len(variants) > 3:
        names = [name.replace("queue+", "queue\n+") for name in names]
    axes.set_xticks(range(len(variants)), names, fontsize=7)


def _share_handles(published: bool) -> "list[Any]":
    from matplotlib.lines import Line2D

    drawn: dict[str, Any] = {"color": "#555555", "marker": "o", "linestyle": "none", "markersize": 5}
    handles = [Line2D([], [], label="(b) total", **drawn),
               Line2D([], [], label="(b) area under the curve", markerfacecolor="#ffffff", **drawn)]  # fmt: skip
    return [*handles, Line2D([], [], **cast(Any, PUBLISHED))] if published else handles


def draw_errors(axes: "Axes", found: "pd.DataFrame", variants: Sequence[str]) -> None:
    """Bars with intervals, in % of c."""
    width = 0.8 / len(variants)
    for n, variant in enumerate(variants):
        part = found[found.variant == variant].set_index("measure")
        part = part.reindex(list(ERRORS))
        place = [at + (n - (len(variants) - 1) / 2) * width for at in range(len(ERRORS))]
        half = ((part.high - part.low) / 2).where(part["count"] > 1, 0.0)
        axes.bar(place, 100 * part["mean"] / CAPACITY, width=0.9 * width, color=style_of(variant).colour,
                 yerr=100 * half / CAPACITY, error_kw={"elinewidth": 0.8, "capsize": 1.5})  # fmt: skip
    if not (found["mean"][found.measure.isin(list(ERRORS))] > 0).any():
        axes.set_ylim(0, 1)
        axes.annotate("none", (0.5, 0.5), xycoords="axes fraction", ha="center", fontsize=7, color="#555555")
    axes.set_ylim(bottom=0)
    axes.set_xlim(-0.6, len(ERRORS) - 0.4)
    axes.set_xticks(range(len(ERRORS)), list(ERRORS.values()), fontsize=7)
    axes.set_ylabel("requests, tokens (% of c)", fontsize=8)
    axes.grid(visible=False, axis="x")


def shares_as_published(runs: "pd.DataFrame", published: Mapping[str, float]) -> list[Check]:
    """Each variant's percentage, in the reading that comes nearer, within 15 % of the printed one."""
    return [
        share(f"rejections of the {variant} over the centralised ones",
              {name: by_repetition(runs, reading, variant=variant) for reading, name in READINGS.items()}, value)
        for variant, value in published.items()
    ]  # fmt: skip


def queue_is_closer(runs: "pd.DataFrame", queue: str) -> list[Check]:
    """The counter rejects too little, and the queue's percentage is nearer to 100 %, in both readings."""
    checks = []
    for reading, name in READINGS.items():
        counter, other = (by_repetition(runs, reading, variant=variant) for variant in (COUNTER, queue))
        distance = (counter - 1).abs() - (other - 1).abs()
        checks.append(below(f"rejections of the counter over the centralised ones ({name})", samples(counter), 1.0))
        checks.append(above(f"distance from 1, counter minus {queue} ({name})", samples(distance)))
    return checks


def measure(runs: "pd.DataFrame", published: Mapping[str, float], *extra: Check) -> Evidence:
    """A claim on one data set: the printed percentages, and that the queue comes nearer; ``extra`` must hold too."""
    queue = next(variant for variant in published if variant != COUNTER)
    return Evidence((*shares_as_published(runs, published), *extra), (*queue_is_closer(runs, queue), *extra))
