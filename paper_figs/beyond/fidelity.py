"""Virtual beside emulated: the same specs and seeds on both testbeds, and how far apart the answers are.

Fig. 4 at scale small (one topic over k brokers) and the limiters of ``crdt-wan``.  A run and its
emulated twin are offered the very same messages or requests at the same instants, so latencies are
compared as distributions and decisions one by one.  ``ratebed compare`` does the same for all pairs.
"""

from itertools import product

from analysis.tables import collect
from core.records import Options
from core.units import MILLISECOND_NS
from harness.experiment import SCALES, Experiment, RunSpec, Scale
from paper_figs.beyond import wan
from paper_figs.beyond.wan import NAMES, draw_flips
from paper_figs.drawing import label, log_axis, marks, mean_lines, panels
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, key_above, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import plain
from paper_figs.style import Style, series, style_of

REPETITIONS = {"tiny": 1, "small": 1, "quick": 3, "paper": 5}  # live runs take the time of their load
METRICS = {"access_delay": "access delay", "end_to_end_latency": "end-to-end latency"}
SIDES = {"virtual": "virtual", "live": "emulated"}
QUANTILES = ("p50", "p95", "p99")
FLOOR_MS = 0.01  # a log axis has no zero: the access delay of a message that need not wait


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Every point on both testbeds.  The physics is small at every scale: that is what a live machine carries."""
    from paper_figs import load_figure

    topics = load_figure("srtm-fig4").experiment.points(SCALES["small"], {})
    tiny = scale.name == "tiny"
    limiters = [wan.point(name, scale) for name in (NAMES[:1] if tiny else NAMES)]
    return wan.on_both([*(topics[:2] if tiny else topics), *limiters])


def tables(data: Data) -> FigureTables:
    """``latency``: a row a pair of runs and metric, in ms; ``decisions``: a row a pair of limiters' runs."""
    from analysis import fidelity

    assert data.spark is not None
    pairs = fidelity.pair_frame(data.spark, fidelity.pairs_of(data.folders))
    of_latency = collect(fidelity.distances(data.latency_histogram, pairs), ["live_run_id", "metric"])
    brokers = collect(data.runs.selectExpr("run_id", "factors['topology.brokers'] as k"), ["run_id"])
    points = wan.points_of(data).drop(columns="testbed").merge(plain(brokers, ["k"]), on="run_id")
    latency = of_latency.merge(points.rename(columns={"run_id": "live_run_id"}), on="live_run_id")
    for column in [name for name in latency.columns if name.endswith("_ns")]:
        latency[column.removesuffix("_ns") + "_ms"] = latency.pop(column) / MILLISECOND_NS
    latency = latency[latency.k.notna()].astype({"k": int}).drop(columns=["virtual_run_id", "live_run_id", "name"])
    latency = latency.sort_values(["metric", "k", "repetition"], ignore_index=True)
    return {"latency": latency, "decisions": wan.flips_of_twins(data)}


def draw(tables: FigureTables) -> Drawing:
    """Percentiles of both testbeds by k, the distances between them, and decisions that flip."""
    latency, decisions = tables["latency"], tables["decisions"]
    titles = (*METRICS.values(), "distance of the distributions; numbers: Kolmogorov's", "decisions that differ")
    drawing, axes = panels(2, 2, titles)
    for panel, (metric, text) in zip(axes, METRICS.items(), strict=False):
        log_axis(panel, steps=(1, 3))
        _draw_percentiles(panel, latency[latency.metric == metric])
        panel.set_ylabel(f"{text} (ms)")
    _draw_distances(axes[2], latency)
    for panel in axes[:3]:
        panel.set_xticks(sorted(set(latency.k)))
        panel.set_xlabel("brokers k")
        if len(latency):
            panel.set_xlim(latency.k.min() - 0.5, latency.k.max() + 0.5)
    names = [name for name in NAMES if name in set(decisions.name)]
    groups = [(style_of(name).label, style_of(name), decisions[decisions.name == name]) for name in names]
    draw_flips(axes[3], groups)
    legend_above(drawing, [key(_look(quantile, side)) for side in SIDES for quantile in QUANTILES], columns=3)
    return drawing


def _look(quantile: str, side: str) -> Style:
    words, is_open = f"{quantile}, {SIDES[side]}", side == "virtual"
    place = QUANTILES.index(quantile)
    return series(words, place, "o^D"[place], "--" if is_open else "-", is_open)


def _draw_percentiles(axes: Axes, latency: Frame) -> None:
    for quantile, (side, points) in product(QUANTILES, zip(SIDES, (-2.5, 2.5), strict=True)):
        values = latency[f"{side}_{quantile}_ms"].clip(lower=FLOOR_MS)
        shown = latency.assign(shown=values, k=latency.k + points / 42)
        mean_lines(axes, shown, "k", "shown", "metric", dict.fromkeys(METRICS, _look(quantile, side)))


def _draw_distances(axes: Axes, latency: Frame) -> None:
    """Wasserstein's distance by k with its interval, each repetition a dot; Kolmogorov's beside its mean."""
    looks = {metric: series(text, place + 3, "sv"[place]) for place, (metric, text) in enumerate(METRICS.items())}
    mean_lines(axes, latency, "k", "wasserstein_ms", "metric", looks)
    for metric, look in looks.items():
        group = latency[latency.metric == metric]
        marks(axes, group.k, group.wasserstein_ms, look, size=3, alpha=0.5)
        for k, row in group.groupby("k")[["wasserstein_ms", "kolmogorov_distance"]].mean().iterrows():
            label(axes, f"{row.kolmogorov_distance:.2f}", (float(str(k)), row.wasserstein_ms), look.colour, (4, 5))
    axes.margins(y=0.15)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("Wasserstein distance (ms)")
    key_above(axes, [key(look) for look in looks.values()])


NOTES = (
    "Open markers: virtual time; filled ones: network namespaces, real brokers and sockets. Messages that need not "
    f"wait for a token are drawn at {FLOOR_MS:g} ms. Kolmogorov's distance is the largest difference between two "
    "distribution functions, Wasserstein's the area between them: the mean shift from one to the other. Error bars:"
    " 95 % intervals over repetitions; in (d), of a single run, as if its decisions were independent."
)
TITLE = "Virtual beside emulated: the same specs and seeds on both testbeds"
EXPERIMENT = Experiment("fidelity", TITLE, "ours; SRTM Fig. 4, CRDT 5.5", points, repetitions=REPETITIONS)
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
