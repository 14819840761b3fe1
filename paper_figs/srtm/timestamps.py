"""Kernel stamps against stamps taken at reading: how wrong the latter are, and what that costs (SRTM, V-B).

A broker's process comes to read a message some time after the kernel has received it; its bucket may go by either
instant (``stamps``).  Both are recorded, so each run shows the error of the later one, and tells, message by message,
what an exact bucket would have done by the one and by the other: the same traffic, the same stalls of the machine.

One broker, Poisson publishers, ever more connections; the rate of each stays the same (as in the paper, where a
topic of more publishers has more messages), or that of the topic does.  The envelope is the smallest that the
window conforms to.  A message *conforms* if it finds a token when it arrives, by the kernel's stamps in order.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import RATIO_TOLERANCE, Claim, Evidence, Tables, above, at_most
from core.units import MICROSECOND_NS, MILLISECOND_NS
from harness.experiment import CALIBRATED, Experiment, RunSpec, Scale
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, doublings, log_axis, samples, where, with_point
from paper_figs.style import SERIES, letter, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

CONNECTIONS = (100, 300, 1_000)
EACH_RPS = 5.0  # of a connection, where that stays the same; half of the paper's: two cores carry everything
TOTAL_RPS = 1_500.0  # of the topic, where that stays the same; both meet at 300 connections
STAMPS = ("kernel", "read")
ROUND = "12s"
REPETITIONS = {"tiny": 1, "small": 3, "quick": 3, "paper": 5}
MINIMUM_REPETITIONS = 3
CAUSES = {"each": f"{EACH_RPS:g} msg/s a connection", "total": f"{TOTAL_RPS:,.0f} msg/s in all"}
UNDUE = ("undue_delay", "undue_delay_kernel", "undue_delay_read")
FLOOR_MS = 0.001  # a log axis has no zero
LEAST_US = 0.01  # ours: a shorter mean delay is none
QUANTILES = {0.5: "p50", 0.95: "p95", 0.99: "p99"}


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Both series with both stamps; what they share is run once."""
    if scale.name == "tiny":
        return [_spec(connections, EACH_RPS, stamps, "2s") for connections, stamps in ((20, "kernel"), (60, "read"))]
    loads = {(connections, rate) for connections in CONNECTIONS for rate in (EACH_RPS, TOTAL_RPS / connections)}
    return [_spec(connections, rate, stamps, ROUND) for connections, rate in sorted(loads) for stamps in STAMPS]


def _spec(connections: int, rate_rps: float, stamps: str, length: str) -> RunSpec:
    return RunSpec(
        system="lb", workload="poisson", workload_options={"publishers": connections, "rate_rps": rate_rps},
        topology_options={"brokers": 1}, testbed="mininet", calibration="small", slo=CALIBRATED, round=length,
        study_options={"envelope": "conformant", "stamps": stamps},
    )  # fmt: skip


def tables(data: "Data") -> FigureTables:
    """``runs``: a row a run and metric, in us: stamp_error, and the undue delays; ``points``: over the repetitions."""
    from analysis import metrics

    histogram = metrics.final_round(data.latency_histogram)
    spread = metrics.percentiles(histogram, ["run_id", "metric"], list(QUANTILES))
    delayed = metrics.exceed_probability(histogram, ["run_id", "metric"])
    columns = [f"{name}_ns / {MICROSECOND_NS} as {name}_us" for name in (*QUANTILES.values(), "mean")]
    found = spread.selectExpr("run_id", "metric", "count", *columns).join(
        delayed.selectExpr("run_id", "metric", "exceed_probability as delayed_share"), ["run_id", "metric"]
    )
    factors = {"connections": "workload.publishers", "rate_rps": "workload.rate_rps", "stamps": "study.stamps"}
    runs = with_point(data, found.where(found.metric.isin("stamp_error", *UNDUE)), factors)
    runs = runs.drop(columns=["run_id", "arrivals", "outcome"])
    keys = ["metric", "stamps", "connections", "rate_rps"]
    values = [f"{name}_us" for name in (*QUANTILES.values(), "mean")] + ["delayed_share"]
    over = runs.groupby(keys)[values].agg(["mean", "std"]).fillna(0.0)
    over.columns = ["_".join(each) for each in over.columns]
    return {"runs": runs, "points": over.reset_index()}


def series_of(frame: "pd.DataFrame", cause: str) -> "pd.DataFrame":
    """The rows of one series: what each connection sends is fixed, or what all send."""
    fixed = frame.rate_rps if cause == "each" else frame.rate_rps * frame.connections
    return frame[(fixed - (EACH_RPS if cause == "each" else TOTAL_RPS)).abs() < 1e-6]


def draw(found: FigureTables) -> "Drawing":
    """The error, and the conformant messages that the bucket kept: how many, how long."""
    drawing, axes = panels(1, 3)
    _draw_errors(axes[0][0], found["points"])
    letter(axes[0][0], "(a) error of stamps taken at reading")
    kept = series_of(found["points"], "each")
    _draw_kept(axes[0][1], kept, "delayed_share", 100, 0.0)
    axes[0][1].set_ylim(bottom=0)
    axes[0][1].set_ylabel("delayed messages (%)")
    letter(axes[0][1], "(b) conformant messages that the bucket kept")
    _draw_kept(axes[0][2], kept, "mean_us", MICROSECOND_NS / MILLISECOND_NS, FLOOR_MS)
    log_axis(axes[0][2], (1,))
    axes[0][2].set_ylabel("mean delay (ms)")
    letter(axes[0][2], "(c) for how long")
    both = [its.get_legend_handles_labels() for its in axes[0][:2]]
    handles, labels = ([*one, *other] for one, other in zip(*both, strict=True))
    drawing.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=6.5)
    return drawing


def _draw_errors(axes: "Axes", points: "pd.DataFrame") -> None:
    """Median and 99th percentile against the connections; runs with either stamps show the error, they are pooled."""
    errors = points[points.metric == "stamp_error"]
    for (cause, label), colour in zip(CAUSES.items(), SERIES, strict=False):
        for quantile, marker, dashes in (("p99", "D", "-"), ("p50", "o", "--")):
            means_us = series_of(errors, cause).groupby("connections")[f"{quantile}_us_mean"].mean()
            axes.plot(means_us.index, means_us * MICROSECOND_NS / MILLISECOND_NS, color=colour, marker=marker,
                      markersize=4, linewidth=1.2, linestyle=dashes,
                      label=f"{'median' if quantile == 'p50' else quantile}, {label}")  # fmt: skip
    axes.set_ylabel("read - arrived (ms)")
    log_axis(axes, (1,))
    _connections(axes, errors)


_KEPT = (  # metric, stamps of the runs, label, colour, marker, dashes
    ("undue_delay", "read", "stamps at reading", SERIES[5], "s", "-"),
    ("undue_delay_kernel", "read", "same messages, by kernel stamps", SERIES[5], "s", ":"),
    ("undue_delay", "kernel", "kernel stamps", SERIES[2], "o", "-"),
    ("undue_delay_read", "kernel", "same messages, by stamps at reading", SERIES[2], "o", ":"),
)


def _draw_kept(axes: "Axes", points: "pd.DataFrame", value: str, factor: float, floor: float) -> None:
    """What the bucket did, and what it would have done by the other stamps: means over repetitions."""
    for metric, stamps, label, colour, marker, dashes in _KEPT:
        group = points[(points.metric == metric) & (points.stamps == stamps)].sort_values("connections")
        shown = (factor * group[f"{value}_mean"]).clip(lower=floor)
        axes.plot(group.connections, shown, label=label, color=colour, marker=marker,
                  markersize=4, linewidth=1.2, linestyle=dashes,
                  markerfacecolor="white" if dashes == ":" else colour)  # fmt: skip
    _connections(axes, points)


def _connections(axes: "Axes", points: "pd.DataFrame") -> None:
    axes.set_xscale("log")
    every = sorted(set(points.connections))
    axes.set_xticks(every, [f"{count:,}" for count in every], minor=False)
    axes.xaxis.minorticks_off()
    axes.set_xlabel("connections")


def measure_r25(tables: Tables) -> Evidence:
    """The 99th percentile of the error at the most connections over that at the fewest, as doublings.

    Runs with either kind of stamps show it: the mean of their logarithms is a repetition's sample.
    """
    errors = where(tables["srtm-timestamps/runs"], metric="stamp_error")
    checks = {}
    for cause, label in CAUSES.items():
        found = series_of(errors, cause)
        few, many = found.connections.min(), found.connections.max()
        if not few < many:
            raise KeyError(f"one number of connections, {label}")
        sides = [doublings(by_repetition(found, "p99_us", connections=many, stamps=stamps),
                           by_repetition(found, "p99_us", connections=few, stamps=stamps))
                 for stamps in sorted(set(found.stamps))]  # fmt: skip
        growth = sum(sides[1:], sides[0]) / len(sides)
        name = f"doublings of the error's p99 from {few} to {many:,} connections, {label}"
        checks[cause] = above(name, samples(growth))
    return Evidence((checks["each"], checks["total"]), (checks["each"],))


def measure_r19(tables: Tables) -> Evidence:
    """At the most connections: the mean delay of conformant messages by either stamps, on the same messages.

    Of the broker that went by readings, what happened against an exact bucket by kernel stamps, and the reverse.
    """
    runs = series_of(tables["srtm-timestamps/runs"], "each")
    most = where(runs, connections=runs.connections.max())

    def mean_us(metric: str, stamps: str) -> "pd.Series":
        return by_repetition(most, "mean_us", metric=metric, stamps=stamps).clip(lower=LEAST_US)

    read, instead = mean_us("undue_delay", "read"), mean_us("undue_delay_kernel", "read")
    kernel, otherwise = mean_us("undue_delay", "kernel"), mean_us("undue_delay_read", "kernel")
    caused = above("doublings of the mean delay: stamps at reading over the kernel's, computed",
                   samples(doublings(read, instead)))  # fmt: skip
    saved = above("doublings of the mean delay: stamps at reading, computed, over the kernel's",
                  samples(doublings(otherwise, kernel)))  # fmt: skip
    left = at_most("what kernel stamps leave of the delay", samples(instead / read), RATIO_TOLERANCE)
    return Evidence((caused, saved, left), (caused, saved))


CLAIMS = (
    Claim(
        "R19", "V-B", "Time stamps of the kernel remove the delay of conformant messages that stamps taken at reading "
        "cause.", ("srtm-timestamps",), measure_r19, needs="mininet or local", testbed="mininet",
        minimum_repetitions=MINIMUM_REPETITIONS,
        why="With kernel stamps, too, messages take their tokens in the order in which they are read. After a stall "
        "that is not the order of arrival: a late stamp fills the bucket to the brim, and what it could not hold is "
        "lost for those that came before and are read after.",
    ),
    Claim(
        "R25", "V-B", "The error of time stamps taken at reading grows with the number of connections.",
        ("srtm-timestamps",), measure_r25, needs="mininet or local", testbed="mininet",
        minimum_repetitions=MINIMUM_REPETITIONS,
        why="A connection that is silent costs Go's scheduler nothing: what counts is how many have something to read "
        "at once. At the same rate in all, more connections alone need not matter.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment(
    "srtm-timestamps", "Time stamps of the kernel, or taken at reading", "SRTM, V-B", points, repetitions=REPETITIONS
)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Live brokers only. Means over repetitions. Error: from the kernel's receive stamp to the read. Conformant: "
    "a token was there when the message arrived, by kernel stamps in their order. Its delay counts from the read and "
    f"is the bucket's doing; (b) and (c) at {CAUSES['each']}. Dotted: an exact bucket, computed, on the same recorded "
    "messages by the other kind of stamps. Kernel stamps are those of stock Linux, one a read; the paper's patched "
    "kernel has one a segment.",
)  # fmt: skip
