"""Garbage collection of a broker: as Go does by default, GC-friendly, or off (SRTM, V-C).

*friendly* is the paper's broker as far as a stock nsqd allows: buffers made beforehand, messages out of slabs,
collection on demand only, at a memory limit instead of twice the live heap, and never forced.  *off* never collects
(below a limit of 4 GiB): what is left to gain.

One broker, batches of large messages, so that there is garbage; a bucket that nobody waits for.  The load is a
fraction of what the machine can carry, and near it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Claim, Evidence, Tables, above
from core.units import MILLISECOND_NS
from harness.experiment import CALIBRATED, Experiment, RunSpec, Scale
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, doublings, legend_above, log_axis, plain, samples, where
from paper_figs.style import SERIES, letter, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

PUBLISHERS, BATCH, SIZE_BYTES = 300, 10, 4_000
RATES_RPS = (10.0, 30.0)  # of a publisher: 3,000 and 9,000 msg/s, 12 and 36 MB/s; two cores carry about 15,000
MODES = ("default", "friendly", "off")
MARGIN = 20.0  # of the bucket's size: nobody waits for tokens, so what is seen is the process
ROUND = "12s"
REPETITIONS = {"tiny": 1, "small": 4, "quick": 4, "paper": 6}
MINIMUM_REPETITIONS = 3
METRICS = {"ingress_time": "arrival to release", "broker_time": "arrival to subscriber"}
QUANTILES = {0.5: "p50_ms", 0.99: "p99_ms", 0.999: "p99_9_ms"}
COUNTERS = ("gc_cycle_count", "gc_pause_sum_ns", "gc_cpu_ns", "message_count")
COLOURS = dict(zip(MODES, (SERIES[5], SERIES[2], SERIES[0]), strict=True))
MARKERS = dict(zip(MODES, "s^o", strict=True))


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Every mode at every rate."""
    if scale.name == "tiny":
        return [_spec(5.0, mode, "2s", 60) for mode in MODES[:2]]
    return [_spec(rate, mode, ROUND) for rate in RATES_RPS for mode in MODES]


def _spec(rate_rps: float, mode: str, length: str, publishers: int = PUBLISHERS) -> RunSpec:
    workload = {"publishers": publishers, "rate_rps": rate_rps, "batch": BATCH, "size_bytes": SIZE_BYTES}
    return RunSpec(
        system="lb", workload="poisson", workload_options=workload, topology_options={"brokers": 1}, testbed="mininet",
        calibration="small", slo=CALIBRATED, round=length,
        study_options={"envelope": "conformant", "margin": MARGIN, "gc": mode},
    )  # fmt: skip


def tables(data: "Data") -> FigureTables:
    """``runs``: a row a run and metric, in ms; ``collections``: a row a run, what its broker's collector did."""
    from pyspark.sql import functions as f

    from analysis import metrics
    from analysis.spark import collect

    factors = {"mode": "study.gc", "rate_rps": "workload.rate_rps", "publishers": "workload.publishers"}
    named = ", ".join(f"factors['{name}'] as {column}" for column, name in factors.items()).split(", ")
    of_runs = data.runs.selectExpr("run_id", "repetition", *named)
    histogram = metrics.final_round(data.latency_histogram.where(f"metric in {tuple(METRICS)}"))
    columns = [f"{metrics.quantile_name(q)} / {MILLISECOND_NS} as {name}" for q, name in QUANTILES.items()]
    found = metrics.percentiles(histogram, ["run_id", "metric"], list(QUANTILES))
    keys = ["load_rps", "mode", "repetition"]
    runs = _loads(collect(found.selectExpr("run_id", "metric", *columns).join(of_runs, "run_id"), ["run_id"]), factors)
    counted = data.table("brokers").groupBy("run_id").agg(*(f.max(name).alias(name) for name in COUNTERS))
    largest = data.table("processes").where("node != ''").groupBy("run_id").agg(f.max("rss_bytes").alias("rss_bytes"))
    frame = counted.join(largest, "run_id").join(of_runs, "run_id")
    collections = _loads(collect(frame, ["run_id"]), factors)
    collections["pause_ms"] = collections.pop("gc_pause_sum_ns") / collections.gc_cycle_count.where(
        collections.gc_cycle_count > 0
    ) / MILLISECOND_NS  # fmt: skip
    collections["gc_cpu_ms"] = collections.pop("gc_cpu_ns") / MILLISECOND_NS
    collections["rss_mb"] = collections.pop("rss_bytes") / 1e6
    return {
        "runs": runs.sort_values(["metric", *keys], ignore_index=True),
        "collections": collections.sort_values(keys, ignore_index=True),
    }


def _loads(frame: "pd.DataFrame", factors: Mapping[str, str]) -> "pd.DataFrame":
    frame = plain(frame, factors).drop(columns="run_id")
    frame["load_rps"] = frame.pop("rate_rps") * frame.pop("publishers")
    return frame


def draw(found: FigureTables) -> "Drawing":
    """Time in the ingress, time to the subscriber, and what the collector did."""
    drawing, axes = panels(1, 3)
    axes[0][2].set_axisbelow(True)
    for place, (metric, label) in enumerate(METRICS.items()):
        _draw_times(axes[0][place], found["runs"][found["runs"].metric == metric])
        axes[0][place].set_ylabel(f"{label} (ms)")
        letter(axes[0][place], f"({'ab'[place]}) {label}: p99 (filled), p99.9 (open)")
    _draw_collections(axes[0][2], found["collections"])
    letter(axes[0][2], "(c) collections; numbers: mean pause")
    legend_above(drawing, axes[0][0])
    return drawing


def _places(frame: "pd.DataFrame", axes: "Axes") -> dict[float, int]:
    """Loads side by side."""
    loads = sorted(set(frame.load_rps))
    axes.set_xticks(range(len(loads)), [f"{load:,.0f}" for load in loads])
    axes.set_xlabel("load (msg/s)")
    axes.set_xlim(-0.5, max(0.5, len(loads) - 0.5))
    return {load: place for place, load in enumerate(loads)}


def _draw_times(axes: "Axes", runs: "pd.DataFrame") -> None:
    """Each repetition a small mark, their geometric mean a large one."""
    import numpy as np

    places = _places(runs, axes)
    for number, mode in enumerate(MODES):
        shift = 0.24 * (number - 1)
        for (load, place), (name, side) in ((p, q) for p in places.items() for q in (("p99_ms", -1), ("p99_9_ms", 1))):
            values = runs[(runs["mode"] == mode) & (runs.load_rps == load)][name]
            if values.empty:
                continue
            x, filled = place + shift + 0.05 * side, COLOURS[mode] if side < 0 else "white"
            axes.plot([x] * len(values), values, MARKERS[mode], color=COLOURS[mode], markersize=2.5, alpha=0.45)
            axes.plot(x, np.exp(np.log(values).mean()), MARKERS[mode], color=COLOURS[mode], markersize=6,
                      markerfacecolor=filled, linestyle="none",
                      label=f"GC {mode}" if side < 0 and place == 0 else None)  # fmt: skip
    log_axis(axes, (1, 3))


def _draw_collections(axes: "Axes", collections: "pd.DataFrame") -> None:
    """Bars of collections since the broker's start, with the mean pause above each."""
    places = _places(collections, axes)
    for number, mode in enumerate(MODES):
        for load, place in places.items():
            group = collections[(collections["mode"] == mode) & (collections.load_rps == load)]
            if group.empty:
                continue
            x, height, pause = place + 0.24 * (number - 1), group.gc_cycle_count.mean(), group.pause_ms.mean()
            axes.bar(x, height, 0.22, color=COLOURS[mode])
            text = "none" if height == 0 else f"{pause:.2f} ms"
            axes.annotate(text, (x, height), xytext=(0, 2), textcoords="offset points", ha="center", fontsize=6)
    axes.set_ylabel("collections in a run")
    axes.margins(y=0.12)


def measure_r24(tables: Tables) -> Evidence:
    """p99 at the highest load, as doublings: default over off (what collecting costs), default over friendly."""
    runs = tables["srtm-gc/runs"]
    most = where(runs, load_rps=runs.load_rps.max())
    checks = {}
    for metric, label in METRICS.items():
        p99 = {mode: by_repetition(most, "p99_ms", metric=metric, mode=mode) for mode in MODES}
        checks[metric] = (
            above(f"doublings of the p99, {label}: default over off", samples(doublings(p99["default"], p99["off"]))),
            above(
                f"doublings of the p99, {label}: default over friendly",
                samples(doublings(p99["default"], p99["friendly"])),
            ),
        )
    return Evidence((*checks["ingress_time"], *checks["broker_time"]), checks["ingress_time"])


CLAIMS = (
    Claim(
        "R24", "V-C", "Garbage collection raises the p99 of message processing; the GC-friendly broker lowers it.",
        ("srtm-gc",), measure_r24, needs="mininet or local", testbed="mininet", minimum_repetitions=MINIMUM_REPETITIONS,
        why="Go's collector of today marks beside the program and stops it for well under a millisecond, and the live "
        "heap of a broker is small. A collection lasts some milliseconds and a second has few of them, so fewer than "
        "one message in a hundred meets one; the 99.9th percentile is where they are seen, if anywhere.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("srtm-gc", "Garbage collection of the broker", "SRTM, V-C", points, repetitions=REPETITIONS)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Live brokers only, stock nsqd with our ingress: friendly is slabs, buffers made beforehand and collection "
    "at a memory limit; nsqd's own allocations stay. Small marks: repetitions; large ones: their geometric mean. "
    "Collections since the broker's start, pauses as Go's runtime counts them: stopped threads included that wait for "
    "a core.",
)  # fmt: skip
