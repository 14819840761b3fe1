"""Fig. 4: median, 95th and 99th percentile of latency against the number of brokers k, 6,000 publishers.

Poisson publishers x 10 msg/s, batch 1, spread evenly over k idle brokers; the topic's bucket is split
k ways.  One broker is overloaded; more than two only add DRL penalty.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Claim, Evidence, Tables, above
from core.units import MILLISECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, log_axis, samples, steps, where, with_point
from paper_figs.srtm.grids import BROKERS, SMALL_PUBLISHERS, at, most_brokers, split
from paper_figs.srtm.series import slo_of
from paper_figs.style import SERIES, panels, slo_line

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

PUBLISHERS = 6_000
QUANTILES = {0.5: "p50_ms", 0.95: "p95_ms", 0.99: "p99_ms"}
LABELS = {"p50_ms": "median", "p95_ms": "95th percentile", "p99_ms": "99th percentile"}
VERY_LARGE = 10.0  # "very large" at k = 1, as a multiple of the p99 at k = 2 (ours)


def brokers(scale: Scale) -> list[int]:
    """The values of k."""
    every = list(range(1, most_brokers(scale) + 1))
    return scale.pick(small=every, tiny=[1, 2, 3, BROKERS], quick=every)


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """One point a k."""
    specs = [split(k, {"publishers": PUBLISHERS}) for k in brokers(scale)]
    return at(scale, specs, PUBLISHERS // SMALL_PUBLISHERS)


def latency_by_k(data: "Data", metric: str = "end_to_end_latency") -> "pd.DataFrame":
    """One row a run: calibration, k, repetition, the three percentiles and the SLO in ms."""
    from analysis import metrics

    latency = metrics.final_round(data.latency_histogram.where(f"metric = '{metric}'"))
    found = metrics.percentiles(latency, ["run_id"], list(QUANTILES))
    slo_and_calibration = data.runs.selectExpr("run_id", "calibration", f"slo_ns / {MILLISECOND_NS} as slo_ms")
    columns = [f"{metrics.quantile_name(q)} / {MILLISECOND_NS} as {name}" for q, name in QUANTILES.items()]
    found = found.selectExpr("run_id", *columns).join(slo_and_calibration, "run_id")
    frame = with_point(data, found, {"k": "topology.brokers"})
    return frame[frame.system == "lb"].sort_values(["calibration", "k", "repetition"], ignore_index=True)


def over_repetitions(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Mean and standard deviation of each percentile, one row a calibration, k and percentile."""
    long = runs.melt(["calibration", "k", "repetition"], list(LABELS), var_name="percentile", value_name="ms")
    return long.groupby(["calibration", "percentile", "k"])["ms"].agg(["mean", "std"]).fillna(0.0).reset_index()


def tables(data: "Data") -> FigureTables:
    """``runs``: one row a run; ``latency``: over the repetitions."""
    runs = latency_by_k(data)
    return {"runs": runs, "latency": over_repetitions(runs)}


def draw_percentiles(axes: "Axes", latency: "pd.DataFrame") -> None:
    """The three percentiles against k, mean and standard deviation."""
    for (name, label), colour, marker in zip(LABELS.items(), SERIES, "o^D", strict=False):
        found = latency[latency.percentile == name].sort_values("k")
        lower = found["std"].clip(upper=0.9 * found["mean"])  # a log axis has no room below 0
        axes.errorbar(found["k"], found["mean"], yerr=[lower, found["std"]], label=label, color=colour,
                      marker=marker, markersize=4, linewidth=1.2, capsize=2)  # fmt: skip
    log_axis(axes)
    axes.set_xticks(range(1, int(latency.k.max()) + 1))
    axes.set_xlabel("brokers k")
    axes.set_ylabel("end-to-end latency (ms)")


def draw(found: FigureTables) -> "Drawing":
    """One panel."""
    drawing, axes = panels(1, 1)
    draw_percentiles(axes[0][0], found["latency"])
    slo_line(axes[0][0], slo_of(found["runs"]), in_legend=True)
    axes[0][0].legend(fontsize=7, loc="best")
    return drawing


def measure_r3(tables: Tables) -> Evidence:
    """p99 at k = 1 against k = 2, and its steps from k = 2 on."""
    runs = where(tables["srtm-fig4/runs"], system="lb")
    one, two = (by_repetition(runs, "p99_ms", k=k) for k in (1, 2))
    exact = [above("p99 at k = 1 over p99 at k = 2", samples(one / two), VERY_LARGE)]
    exact += steps(runs[runs.k >= 2], "p99_ms", "k", unit="ms")
    return Evidence(tuple(exact), (above("p99, k = 1 minus k = 2", samples(one - two), 0.0, "ms"), *exact[1:]))


CLAIMS = (
    Claim(
        "R3", "Fig. 4, VI-A", "6,000 publishers: the 99th percentile is very large at k = 1 (one broker is saturated), "
        "lowest at k = 2, and grows from there as the DRL penalty does.", ("srtm-fig4",), measure_r3,
        why="The figure's values are not printed in the text; where one broker saturates is a fit of the broker model.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("srtm-fig4", "The DRL penalty, 6,000 publishers", "SRTM, Fig. 4; report, Fig. 6b", points)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Mean and standard deviation over repetitions, on a fresh minute of traffic. The bucket (r, b) is the "
    "paper's: smallest b on a 70 s trace recorded before. At k = 1 the queue of one broker grows throughout the "
    "minute, so its latency measures the length of the run.",
)  # fmt: skip
