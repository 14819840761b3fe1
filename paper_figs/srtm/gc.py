"""Garbage collection of a broker: as Go does by default, GC-friendly, or off (SRTM, V-C).

*friendly* is the paper's broker as far as a stock nsqd allows (see the notes).  *off* never collects, below a limit of
4 GiB: what is left to gain.  Messages are large and come in batches, so that there is garbage; nobody waits for tokens.
"""

from analysis.verdicts import Claim, Evidence, Tables, above
from core.units import MILLISECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.intervals import geometric, intervals_by
from paper_figs.light import Axes, Data, Drawing, Frame, SparkFrame
from paper_figs.series import by_repetition, doublings, in_ms, samples, where, with_point
from paper_figs.srtm.grids import LIVE, live_broker
from paper_figs.style import series

PUBLISHERS, BATCH, SIZE_BYTES = 300, 10, 4_000
RATES_RPS = (10.0, 30.0)  # of a publisher: 3,000 and 9,000 msg/s, 12 and 36 MB/s; two cores carry about 15,000
MODES = ("default", "friendly", "off")
MARGIN = 20.0  # of the bucket's size: nobody waits for tokens, so what is seen is the process
ROUND = "12s"
REPETITIONS = {"tiny": 1, "small": 4, "quick": 4, "paper": 6}
METRICS = {"ingress_time": "arrival to release", "broker_time": "arrival to subscriber"}
QUANTILES = {0.5: "p50_ms", 0.99: "p99_ms", 0.999: "p99_9_ms"}
FACTORS = {"mode": "study.gc", "rate_rps": "workload.rate_rps", "publishers": "workload.publishers"}
COUNTERS = ("gc_cycle_count", "gc_pause_sum_ns", "gc_cpu_ns", "message_count")
PROCESS = "broker-"  # how the names of brokers' processes begin; those of the harness and of the load are others
LOOKS = {mode: series(f"GC {mode}", *at) for mode, at in zip(MODES, ((5, "s"), (2, "^"), (0, "o")), strict=True)}
SHIFTS = dict(zip(MODES, (-0.24, 0.0, 0.24), strict=True))  # of a category


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Every mode at every rate."""
    tiny = scale.name == "tiny"
    messages = {"publishers": 60 if tiny else PUBLISHERS, "batch": BATCH, "size_bytes": SIZE_BYTES}
    loads = [{**messages, "rate_rps": rate} for rate in ([5.0] if tiny else RATES_RPS)]
    modes, length = (MODES[:2], "2s") if tiny else (MODES, ROUND)
    return [live_broker(load, length, margin=MARGIN, gc=mode) for load in loads for mode in modes]


def tables(data: Data) -> FigureTables:
    """``runs``: a row a run and metric, in ms; ``collections``: a row a run, what its broker's collector did."""
    spread = in_ms(data.latency_histogram.where(f"metric in {tuple(METRICS)}"), QUANTILES, "run_id", "metric")
    keys, runs = ["load_rps", "mode", "repetition"], _with_load(data, spread)
    collections = _with_load(data, of_brokers(data.table("brokers"), data.table("processes")))
    collections["pause_sum_ms"] = collections.pop("gc_pause_sum_ns") / MILLISECOND_NS
    collections["gc_cpu_ms"] = collections.pop("gc_cpu_ns") / MILLISECOND_NS
    collections["rss_mb"] = collections.pop("rss_bytes") / 1e6
    return {
        "runs": runs.sort_values(["metric", *keys], ignore_index=True),
        "collections": collections.sort_values(keys, ignore_index=True),
    }


def of_brokers(brokers: SparkFrame, processes: SparkFrame) -> SparkFrame:
    """run_id, ``COUNTERS``, rss_bytes: what the run's broker counted, and the most memory that its process held."""
    from pyspark.sql import functions as f

    counted = brokers.groupBy("run_id").agg(*(f.max(name).alias(name) for name in COUNTERS))
    own = processes.where(f.col("node").startswith(PROCESS))
    return counted.join(own.groupBy("run_id").agg(f.max("rss_bytes").alias("rss_bytes")), "run_id")


def _with_load(data: Data, of_runs: SparkFrame) -> Frame:
    frame = with_point(data, of_runs, FACTORS, ["repetition"]).drop(columns="run_id")
    frame["load_rps"] = frame.pop("rate_rps") * frame.pop("publishers")
    return frame


def draw(tables: FigureTables) -> Drawing:
    """Time in the ingress, time to the subscriber, and what the collector did."""
    titles = [f"{label}: p99 (filled), p99.9 (open)" for label in METRICS.values()]
    sheet, axes = drawing.panels(1, 3, [*titles, "collections; numbers: mean pause (ms)"], (9.0, 3.0))
    for panel, (metric, label) in zip(axes, METRICS.items(), strict=False):
        _draw_times(panel, tables["runs"][tables["runs"].metric == metric])
        panel.set_ylabel(f"{label} (ms)")
    _draw_collections(axes[2], tables["collections"])
    for panel in axes:
        panel.set_xlabel("load (msg/s)")
    keys.legend_above(sheet, [keys.key(look, line=False) for look in LOOKS.values()])
    return sheet


def _places(axes: Axes, frame: Frame) -> Frame:
    loads = sorted(set(frame.load_rps))
    drawing.categories(axes, [f"{load:,.0f}" for load in loads])
    return frame.assign(place=frame.load_rps.map(loads.index))


def _draw_times(axes: Axes, runs: Frame) -> None:
    drawing.log_axis(axes, steps=(1, 3))
    rows = _places(axes, runs)
    for mode, look in LOOKS.items():
        part = rows[rows["mode"] == mode]
        for name, side in (("p99_ms", -0.05), ("p99_9_ms", 0.05)):
            shown = look._replace(is_open=side > 0)
            at, intervals = intervals_by(part, "place", name, geometric)
            drawing.marks(axes, part.place + SHIFTS[mode] + 1.6 * side, part[name], shown, size=2.2, alpha=0.5)
            drawing.interval_points(axes, [place + SHIFTS[mode] + side for place in at], intervals, shown)


def _draw_collections(axes: Axes, collections: Frame) -> None:
    rows = _places(axes, collections)
    for mode, look in LOOKS.items():
        part = rows[rows["mode"] == mode]
        at, counts = intervals_by(part, "place", "gc_cycle_count")
        drawing.interval_bars(axes, [place + SHIFTS[mode] for place in at], counts, look, 0.22)
        for place, count in zip(at, counts, strict=True):
            top = max(count.mean, count.high) if count.count > 1 else count.mean
            drawing.label(axes, pause_text(part[part.place == place]), (place + SHIFTS[mode], top), look.colour)
    axes.set_ylabel("collections in a run")
    axes.margins(y=0.12)


def pause_text(runs: Frame) -> str:
    """The mean pause of all collections of these runs together, in ms; 0 where there was none."""
    count = runs.gc_cycle_count.sum()
    return f"{runs.pause_sum_ms.sum() / count:.2f}" if count else "0"


def measure_r24(tables: Tables) -> Evidence:
    """p99 at the highest load, as doublings: default over off (what collecting costs), default over friendly."""
    runs = tables["srtm-gc/runs"]
    most = where(runs, load_rps=runs.load_rps.max())
    checks = []
    for metric, label in METRICS.items():
        p99 = {mode: by_repetition(most, "p99_ms", metric=metric, mode=mode) for mode in MODES}
        for mode in ("off", "friendly"):
            over = samples(doublings(p99["default"], p99[mode]))
            checks.append(above(f"doublings of the p99, {label}: default over {mode}", over))
    return Evidence(tuple(checks), tuple(checks[:2]))  # the sign: by the time in the ingress


R24 = "Garbage collection raises the p99 of message processing; the GC-friendly broker lowers it."
WHY_R24 = (
    "Go's collector of today marks beside the program and stops it for well under a millisecond, and the live heap of "
    "a broker is small. A collection lasts some milliseconds and a second has few of them, so fewer than one message "
    "in a hundred meets one; the 99.9th percentile is where they are seen, if anywhere."
)
CLAIMS = (Claim("R24", "V-C", R24, ("srtm-gc",), measure_r24, why=WHY_R24, **LIVE),)
EXPERIMENT = Experiment("srtm-gc", "Garbage collection of the broker", "SRTM, V-C", points, repetitions=REPETITIONS)
NOTES = (
    "Live brokers only, stock nsqd with our ingress: friendly is slabs, buffers made beforehand and collection at a "
    "memory limit; nsqd's own allocations stay. Small marks: repetitions; large ones: their geometric mean with its "
    "95 % interval (that of the logarithms); bars: means and 95 % intervals. Collections since the broker's start, "
    "pauses as Go's runtime counts them: stopped threads included that wait for a core; their mean is that of all "
    "collections at a point, whichever run they were in."
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
