"""Virtual beside emulated: the same specs and seeds on both testbeds, and how far apart the answers are.

Fig. 4 at scale small (one topic over k brokers) and the limiters of ``crdt-wan``.  A run and its
emulated twin are offered the very same messages or requests at the same instants, so latencies are
compared as distributions and decisions one by one.  ``ratebed compare`` does the same for all pairs.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.units import MILLISECOND_NS
from harness.experiment import SCALES, Experiment, RunSpec, Scale
from paper_figs.beyond import wan_runs
from paper_figs.beyond.crdt_wan import NAMES
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import log_axis, plain
from paper_figs.srtm import fig4
from paper_figs.style import SERIES, letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

REPETITIONS = {"tiny": 1, "small": 1, "quick": 3, "paper": 5}  # live runs take the time of their load
METRICS = {"access_delay": "access delay", "end_to_end_latency": "end-to-end latency"}
QUANTILES = ("p50", "p95", "p99")
FLOOR_MS = 0.01  # a log axis has no zero: the access delay of a message that need not wait


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Every point on both testbeds.  The physics is small at every scale: that is what a live machine carries."""
    topics = fig4.points(SCALES["small"], {})
    tiny = scale.name == "tiny"
    limiters = [wan_runs.point(name, scale, wan_runs.LIVE) for name in (NAMES[:1] if tiny else NAMES)]
    return wan_runs.on_both([*(topics[:2] if tiny else topics), *limiters])


def tables(data: "Data") -> FigureTables:
    """``latency``: a row a pair of runs and metric, in ms; ``decisions``: a row a pair of limiters' runs."""
    from analysis import fidelity
    from analysis.spark import collect

    assert data.spark is not None
    pairs = fidelity.pair_frame(data.spark, fidelity.pairs_of(data.folders))
    of_latency = collect(fidelity.distances(data.latency_histogram, pairs), ["live_run_id", "metric"])
    of_decisions = collect(fidelity.flips(data.requests, pairs), ["live_run_id"])
    named = _points_of(data)
    latency = of_latency.merge(named, on="live_run_id")
    for column in [name for name in latency.columns if name.endswith("_ns")]:
        latency[column.removesuffix("_ns") + "_ms"] = latency.pop(column) / MILLISECOND_NS
    keys = ["virtual_run_id", "live_run_id"]
    latency = latency[latency.k.notna()].astype({"k": int}).drop(columns=[*keys, "name"])
    decisions = of_decisions.merge(named, on="live_run_id").drop(columns=[*keys, "k"])
    decisions["admitted_ratio"] = decisions.live_admitted_count / decisions.virtual_admitted_count
    return {
        "latency": latency.sort_values(["metric", "k", "repetition"], ignore_index=True),
        "decisions": decisions.sort_values(["name", "repetition"], ignore_index=True),
    }


def _points_of(data: "Data") -> "pd.DataFrame":
    """live_run_id, name (of the limiter, or the system), k (missing for limiters), repetition, validity."""
    from pyspark.sql import functions as f

    from analysis.spark import collect

    ks = collect(data.runs.select("run_id", f.col("factors")["topology.brokers"].alias("k")), ["run_id"])
    points = wan_runs.points_of(data)
    points = points[points.testbed != wan_runs.VIRTUAL].drop(columns="testbed")
    return points.merge(plain(ks, ["k"]), on="run_id").rename(columns={"run_id": "live_run_id"})


def draw(found: FigureTables) -> "Drawing":
    """Percentiles of both testbeds by k, the distances between them, and decisions that flip."""
    drawing, axes = panels(2, 2)
    latency = found["latency"]
    for place, (metric, label) in enumerate(METRICS.items()):
        _draw_percentiles(axes[0][place], latency[latency.metric == metric], label)
        letter(axes[0][place], f"({'ab'[place]}) {label}")
    handles, labels = axes[0][1].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=7)
    _draw_distances(axes[1][0], latency)
    letter(axes[1][0], "(c) distance of the distributions; numbers: Kolmogorov's")
    _draw_flips(axes[1][1], found["decisions"])
    letter(axes[1][1], "(d) decisions that differ")
    return drawing


def _draw_percentiles(axes: "Axes", latency: "pd.DataFrame", label: str) -> None:
    """Means over repetitions; virtual: open markers and dashes, emulated: filled ones beside them."""
    means = latency.groupby("k")[[f"{side}_{q}_ms" for side in ("virtual", "live") for q in QUANTILES]].mean()
    for quantile, colour, marker in zip(QUANTILES, SERIES, "o^D", strict=False):
        for side, shift in (("virtual", -0.06), ("live", 0.06)):
            values = means[f"{side}_{quantile}_ms"].clip(lower=FLOOR_MS)
            virtual = side == "virtual"
            axes.plot(means.index + shift, values, color=colour, marker=marker, markersize=4, linewidth=1,
                      linestyle="--" if virtual else "-", markerfacecolor="white" if virtual else colour,
                      label=f"{quantile}, {'virtual' if virtual else 'emulated'}")  # fmt: skip
    log_axis(axes, (1, 3))
    axes.set_xticks(sorted(set(latency.k)))
    if len(latency):
        axes.set_xlim(latency.k.min() - 0.5, latency.k.max() + 0.5)
    axes.set_xlabel("brokers k")
    axes.set_ylabel(f"{label} (ms)")


def _draw_distances(axes: "Axes", latency: "pd.DataFrame") -> None:
    """Wasserstein's distance by k, each repetition a point; Kolmogorov's as the number beside its mean."""
    for place, (metric, label) in enumerate(METRICS.items()):
        group = latency[latency.metric == metric]
        colour, marker = SERIES[place + 3], "sv"[place]
        axes.plot(group.k, group.wasserstein_ms, marker, color=colour, markersize=3, alpha=0.5)
        means = group.groupby("k")[["wasserstein_ms", "kolmogorov_distance"]].mean()
        axes.plot(
            means.index, means.wasserstein_ms, color=colour, marker=marker, markersize=4, linewidth=1, label=label
        )
        for k, row in means.iterrows():
            axes.annotate(f"{row.kolmogorov_distance:.2f}", (k, row.wasserstein_ms), xytext=(4, 3), fontsize=6,
                          textcoords="offset points", color=colour)  # fmt: skip
    axes.margins(y=0.15)
    axes.set_ylim(bottom=0)
    axes.set_xticks(sorted(set(latency.k)))
    if len(latency):
        axes.set_xlim(latency.k.min() - 0.5, latency.k.max() + 0.5)
    axes.set_xlabel("brokers k")
    axes.set_ylabel("Wasserstein distance (ms)")
    axes.legend(fontsize=6.5)


def _draw_flips(axes: "Axes", decisions: "pd.DataFrame") -> None:
    """The share of decisions that differ, with intervals, and the change of the admitted total as text."""
    names = [name for name in NAMES if name in set(decisions.name)]
    for place, name in enumerate(names):
        group, style = decisions[decisions.name == name], style_of(name)
        mean, low, high = _interval(group)
        bars = [[100 * max(0.0, mean - low)], [100 * max(0.0, high - mean)]]
        axes.errorbar(place, 100 * mean, yerr=bars, fmt=style.marker,
                      color=style.colour, markersize=5, capsize=3, linewidth=1.2)  # fmt: skip
        change = group.live_admitted_count.sum() / group.virtual_admitted_count.sum() - 1
        axes.annotate(f"admitted {change:+.1%}".replace("-", "−"), (place, 100 * high), xytext=(0, 4), ha="center",
                      textcoords="offset points", fontsize=6.5, color=style.colour)  # fmt: skip
    axes.set_xticks(range(len(names)), [style_of(name).label for name in names])
    axes.set_xlim(-0.6, max(1, len(names)) - 0.4)
    axes.margins(y=0.2)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("decisions that differ (%)")


def _interval(group: "pd.DataFrame") -> tuple[float, float, float]:
    """Share with its 95 % interval: over repetitions, or of one run's decisions taken as independent."""
    from analysis.verdicts import t_interval

    if len(group) == 1:
        row = group.iloc[0]
        return row.flipped_share, row.flipped_low, row.flipped_high
    found = t_interval([float(value) for value in group.flipped_share])
    return found.mean, max(0.0, found.low), found.high


EXPERIMENT = Experiment(
    "fidelity", "Virtual beside emulated: the same specs and seeds on both testbeds", "ours; SRTM Fig. 4, CRDT 5.5",
    points, repetitions=REPETITIONS,
)  # fmt: skip
FIGURE = Figure(
    EXPERIMENT, tables, draw,
    notes="Open markers: virtual time; filled ones: network namespaces, real brokers and sockets. Messages that need "
    f"not wait for a token are drawn at {FLOOR_MS:g} ms. Kolmogorov's distance is the largest difference between two "
    "distribution functions, Wasserstein's the area between them: the mean shift from one to the other. (d): 95 % "
    "intervals over repetitions; of a single run as if its decisions were independent.",
)  # fmt: skip
