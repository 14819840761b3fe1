"""Kernel stamps against stamps taken at reading: how wrong the latter are, and what that costs (SRTM, V-B).

A broker's process comes to read a message some time after the kernel has received it; its bucket may go by either
instant (``stamps``).  Both are recorded, so each run shows the error of the later one, and tells, message by message,
what an exact bucket would have done by the one and by the other: the same traffic, the same stalls of the machine.

Ever more connections; the rate of each stays the same (as in the paper, where a topic of more publishers has more
messages), or that of the topic does.  A message *conforms* if it finds a token when it arrives, by the kernel's stamps.
"""

import numpy as np

from analysis.verdicts import RATIO_TOLERANCE, Claim, Evidence, Tables, above, at_most
from core.units import MICROSECOND_NS, MILLISECOND_NS
from harness.experiment import LIVE_REPETITIONS, Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.light import Data, Drawing, Frame
from paper_figs.series import doublings, samples, where, with_point
from paper_figs.srtm.grids import LIVE, live_broker
from paper_figs.style import series

CONNECTIONS = (100, 300, 1_000)
EACH_RPS = 5.0  # of a connection, where that stays the same; half of the paper's: two cores carry everything
TOTAL_RPS = 1_500.0  # of the topic, where that stays the same; both meet at 300 connections
STAMPS = ("kernel", "read")
ROUND = "12s"
CAUSES = {"each": f"{EACH_RPS:g} msg/s a connection", "total": f"{TOTAL_RPS:,.0f} msg/s in all"}
UNDUE = ("undue_delay", "undue_delay_kernel", "undue_delay_read")
FLOOR_MS = 0.001  # below it the axis is linear, so that it has a zero
LEAST_US = 0.01  # ours: a shorter mean delay is none
QUANTILES = {0.5: "p50", 0.95: "p95", 0.99: "p99"}
ERRORS = {  # column of the runs, and cause
    **{f"p99_us {cause}": series(f"p99, {label}", n, "D") for n, (cause, label) in enumerate(CAUSES.items())},
    **{f"p50_us {cause}": series(f"median, {label}", n, "o", "--") for n, (cause, label) in enumerate(CAUSES.items())},
}
KEPT = {  # metric, and stamps of the runs
    "undue_delay read": series("stamps at reading", 5, "s"),
    "undue_delay_kernel read": series("same messages, by kernel stamps", 5, "s", ":", is_open=True),
    "undue_delay kernel": series("kernel stamps", 2, "o"),
    "undue_delay_read kernel": series("same messages, by stamps at reading", 2, "o", ":", is_open=True),
}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Both series with both stamps; what they share is run once."""
    loads = {(connections, rate) for connections in CONNECTIONS for rate in (EACH_RPS, TOTAL_RPS / connections)}
    cases, length = [(*load, stamps) for load in sorted(loads) for stamps in STAMPS], ROUND
    if scale.name == "tiny":
        cases, length = [(20, EACH_RPS, "kernel"), (60, EACH_RPS, "read")], "2s"
    return [
        live_broker({"publishers": connections, "rate_rps": rate}, length, stamps=stamps)
        for connections, rate, stamps in cases
    ]


def tables(data: Data) -> FigureTables:
    """``runs``: a row a run and metric, in us: stamp_error, and the undue delays; ``points``: over the repetitions."""
    from analysis import metrics

    histogram, each = metrics.final_round(data.latency_histogram), ["run_id", "metric"]
    names = [*QUANTILES.values(), "mean"]
    columns = [f"{name}_ns / {MICROSECOND_NS} as {name}_us" for name in names]
    spread = metrics.percentiles(histogram, each, list(QUANTILES)).selectExpr(*each, "count", *columns)
    share = metrics.exceed_probability(histogram, each).selectExpr(*each, "exceed_probability as delayed_share")
    both = spread.join(share, each)
    factors = {"connections": "workload.publishers", "rate_rps": "workload.rate_rps", "stamps": "study.stamps"}
    runs = with_point(data, both.where(both.metric.isin("stamp_error", *UNDUE)), factors)
    runs = runs.drop(columns=["run_id", "arrivals", "outcome"])
    point = ["metric", "stamps", "connections", "rate_rps"]
    values = [*(f"{name}_us" for name in names), "delayed_share"]
    over = runs.groupby(point)[values].agg(["mean", "std"]).fillna(0.0)
    over.columns = ["_".join(each) for each in over.columns]
    return {"runs": runs, "points": over.reset_index()}


def series_of(frame: Frame, cause: str) -> Frame:
    """The rows of one series: what each connection sends is fixed, or what all send."""
    fixed = frame.rate_rps if cause == "each" else frame.rate_rps * frame.connections
    return frame[(fixed - (EACH_RPS if cause == "each" else TOTAL_RPS)).abs() < 1e-6]


def draw(tables: FigureTables) -> Drawing:
    """The error, and the conformant messages that the bucket kept: how many, how long."""
    titles = ("error of stamps taken at reading", "conformant messages that the bucket kept", "for how long")
    sheet, axes = drawing.panels(1, 3, titles, (9.0, 3.2))
    runs = tables["runs"]
    errors, kept = runs[runs.metric == "stamp_error"], series_of(runs, "each")
    kept = kept.assign(percent=100 * kept.delayed_share, mean_ms=kept.mean_us * MICROSECOND_NS / MILLISECOND_NS)
    kept = kept.assign(line=kept.metric + " " + kept.stamps)
    for panel, label in zip(axes, ("read - arrived (ms)", "delayed messages (%)", "mean delay (ms)"), strict=True):
        ticks = sorted(set((errors if panel is axes[0] else kept).connections))
        drawing.log_axis(panel, "x", at=ticks)
        panel.set(xlabel="connections", ylabel=label)
    drawing.log_axis(axes[0], steps=(1,))
    drawing.log_axis(axes[2], at=(0, *(10.0**n for n in range(-3, 4))), linear_below=FLOOR_MS)
    drawing.mean_lines(axes[0], _errors_by_line(errors), "connections", "ms", "line", ERRORS)
    drawing.mean_lines(axes[1], kept, "connections", "percent", "line", KEPT)
    drawing.mean_lines(axes[2], kept, "connections", "mean_ms", "line", KEPT)
    for panel in axes[1:]:
        panel.set_ylim(bottom=0)
    keys.legend_above(sheet, [keys.key(look) for look in (*ERRORS.values(), *KEPT.values())], columns=4)
    return sheet


def _errors_by_line(errors: Frame) -> Frame:
    """A row a line of ``ERRORS``, connections and repetition, ``ms``: runs with either stamps show it, their mean."""
    import pandas as pd

    lines = [(line, *line.split()) for line in ERRORS]
    groups = {line: series_of(errors, cause).groupby(["connections", "repetition"])[us] for line, us, cause in lines}
    means = pd.concat({line: group.mean() for line, group in groups.items()}, names=["line"])
    return (means * MICROSECOND_NS / MILLISECOND_NS).rename("ms").reset_index()


def measure_r25(tables: Tables) -> Evidence:
    """The 99th percentile of the error at the most connections over that at the fewest, as doublings.

    Runs with either kind of stamps show it: the mean of their logarithms is a repetition's sample.
    """
    errors = where(tables["srtm-timestamps/runs"], metric="stamp_error")
    checks = {}
    for cause, label in CAUSES.items():
        runs = series_of(errors, cause)
        few, many = runs.connections.min(), runs.connections.max()
        if not few < many:
            raise KeyError(f"one number of connections, {label}")
        ends = runs.pivot(index="repetition", columns=["connections", "stamps"], values="p99_us")
        growth = np.log2(ends[many] / ends[few]).mean(axis=1, skipna=False)
        name = f"doublings of the error's p99 from {few} to {many:,} connections, {label}"
        checks[cause] = above(name, samples(growth))
    return Evidence((checks["each"], checks["total"]), (checks["each"],))


def measure_r19(tables: Tables) -> Evidence:
    """At the most connections: the mean delay of conformant messages by either stamps, on the same messages.

    Of the broker that went by readings, what happened against an exact bucket by kernel stamps, and the reverse.
    """
    runs = series_of(tables["srtm-timestamps/runs"], "each")
    most = where(runs, connections=runs.connections.max())
    mean_us = most.pivot(index="repetition", columns=["metric", "stamps"], values="mean_us").clip(lower=LEAST_US)
    read, instead = mean_us["undue_delay", "read"], mean_us["undue_delay_kernel", "read"]
    kernel, otherwise = mean_us["undue_delay", "kernel"], mean_us["undue_delay_read", "kernel"]
    label = "doublings of the mean delay: stamps at reading"
    caused = above(f"{label} over the kernel's, computed", samples(doublings(read, instead)))
    saved = above(f"{label}, computed, over the kernel's", samples(doublings(otherwise, kernel)))
    left = at_most("what kernel stamps leave of the delay", samples(instead / read), RATIO_TOLERANCE)
    return Evidence((caused, saved, left), (caused, saved))


CLAIMS = (
    Claim(
        "R19", "V-B", "Time stamps of the kernel remove the delay of conformant messages that stamps taken at reading "
        "cause.", ("srtm-timestamps",), measure_r19, **LIVE,
        why="With kernel stamps, too, messages take their tokens in the order in which they are read. After a stall "
        "that is not the order of arrival: a late stamp fills the bucket to the brim, and what it could not hold is "
        "lost for those that came before and are read after.",
    ),
    Claim(
        "R25", "V-B", "The error of time stamps taken at reading grows with the number of connections.",
        ("srtm-timestamps",), measure_r25, **LIVE,
        why="A connection that is silent costs Go's scheduler nothing: what counts is how many have something to read "
        "at once. At the same rate in all, more connections alone need not matter.",
    ),
)  # fmt: skip
TITLE = "Time stamps of the kernel, or taken at reading"
EXPERIMENT = Experiment("srtm-timestamps", TITLE, "SRTM, V-B", points, repetitions=LIVE_REPETITIONS)
NOTES = (
    "Live brokers only. Means and 95 % intervals over repetitions. Error: from the kernel's receive stamp to the read. "
    "Conformant: a token was there when the message arrived, by kernel stamps in their order. Its delay counts from "
    f"the read and is the bucket's doing; (b) and (c) at {CAUSES['each']}. Dotted: an exact bucket, computed, on the "
    "same recorded messages by the other kind of stamps. Kernel stamps are those of stock Linux, one a read; the "
    "paper's patched kernel has one a segment."
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
