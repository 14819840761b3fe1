"""A geo-distributed topic: publishers in five cities, brokers in four, the subscriber in one; virtual and emulated.

The paper's brokers are on one LAN, and its distributors know rates and latencies, not places.  Here most of the
latency is the network's: which broker a publisher has decides over more than its queue.
"""

from math import isfinite

from analysis.tables import collect
from core.records import Json
from core.units import MILLISECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.intervals import intervals_by
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import QUANTILES, in_ms
from paper_figs.srtm.grids import CONFORMANT
from paper_figs.style import Style, series, style_of

BROKER_CITIES = "New York, London, Singapore, Sao Paulo"  # four of the five default cities of the topology
PUBLISHER_CITIES = "New York, London, Singapore, Sao Paulo, Sydney"
SUBSCRIBER_CITIES = "London"
PUBLISHERS, RATE_RPS = 100, 10.0  # of the scale small: 1,000 msg/s, more than the capacity that it gives one broker
SYSTEMS = ("lb", "conc", "srtm")
TESTBEDS = ("virtual", "mininet")
SLO_MS = 300  # ours: above the longest way through a broker, 260 ms
ROUND = "20s"
REPETITIONS = {"tiny": 1, "small": 2, "quick": 2, "paper": 5}
PARTS = {  # of a message's way, as columns of ``messages``, and its look
    "publisher": ("intended_at_ns", "sent_at_ns", series("publisher (late)", 3)),
    "way_in": ("sent_at_ns", "arrived_at_ns", series("network, to the broker", 0)),
    "broker": ("arrived_at_ns", "released_at_ns", series("broker: until released", 1)),
    "way_out": ("released_at_ns", "received_at_ns", series("network, to the subscriber", 4)),
}
PERCENTILES = {name: series(name.removesuffix("_ms"), n, "o^D"[n]) for n, name in enumerate(QUANTILES.values())}
VIRTUAL = Style("open: virtual", drawing.GREY, "o", "-", is_open=True)
EMULATED = Style("filled: emulated", drawing.GREY, "o", "-")


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Each system on both testbeds; the physics is small at every scale: that is what a live machine carries."""
    tiny = scale.name == "tiny"
    cities = {"brokers": BROKER_CITIES, "publishers": PUBLISHER_CITIES, "subscribers": SUBSCRIBER_CITIES}
    workload = {"publishers": PUBLISHERS, "rate_rps": RATE_RPS}
    topic: Json = {"workload": "poisson", "workload_options": workload, "study_options": CONFORMANT}
    place: Json = {"topology": "wan", "topology_options": cities, "calibration": "small", "slo": f"{SLO_MS}ms"}
    run: Json = {**topic, **place, "round": "2s" if tiny else ROUND, "keep": ("messages",)}
    systems = SYSTEMS[:1] if tiny else SYSTEMS
    return [RunSpec(system=system, testbed=testbed, **run) for system in systems for testbed in TESTBEDS]


def tables(data: Data) -> FigureTables:
    """``runs``: a row a run: percentiles, mean of each part of a message's way, brokers used, in ms."""
    from pyspark.sql import functions as f

    from analysis import metrics

    spread = in_ms(data.latency_histogram.where("metric = 'end_to_end_latency'"), QUANTILES, "run_id")
    came = data.messages.where("received_at_ns is not null and released_at_ns is not null")
    parts = [f"avg({end} - {begin}) / {MILLISECOND_NS} as {name}_ms" for name, (begin, end, _) in PARTS.items()]
    means = came.groupBy("run_id").agg(*map(f.expr, (*parts, "count(*) as message_count")))
    runs = data.runs.select("run_id", "system", "testbed", "repetition", "outcome", "validity")
    used = metrics.brokers_used(data.decisions)
    frame = collect(runs.join(spread, "run_id").join(means, "run_id").join(used, "run_id"), ["run_id"])
    frame["mean_ms"] = frame[[f"{name}_ms" for name in PARTS]].sum(axis=1)
    frame["network_share"] = (frame.way_in_ms + frame.way_out_ms) / frame.mean_ms
    keys = ["system", "testbed", "repetition"]
    return {"runs": frame.drop(columns="run_id").sort_values(keys, ignore_index=True)}


def draw(tables: FigureTables) -> Drawing:
    """Where the time goes, and the percentiles of both testbeds."""
    titles = ("mean latency; %: the network's share", "percentiles; numbers: brokers")
    sheet, axes = drawing.panels(1, 2, titles, (7.4, 3.4))
    _draw_parts(axes[0], tables["runs"])
    _draw_percentiles(axes[1], tables["runs"])
    return sheet


def _places(axes: Axes, runs: Frame) -> list[tuple[str, Frame]]:
    """Testbed and runs, with their ``place`` on the axis, of each testbed: side by side at their systems."""
    systems = [name for name in SYSTEMS if name in set(runs.system)]
    drawing.categories(axes, [style_of(system).label for system in systems])
    testbeds = sorted(set(runs.testbed), key=lambda name: (name != "virtual", name))
    places = runs.system.map(systems.index)
    shifts = zip(testbeds, drawing.beside(len(testbeds), 0.8), strict=True)
    return [(testbed, runs.assign(place=places + shift)[runs.testbed == testbed]) for testbed, shift in shifts]


def _draw_parts(axes: Axes, runs: Frame) -> None:
    for testbed, part in _places(axes, runs):
        stacks = part.groupby("place").mean(numeric_only=True).clip(lower=0.0)
        hatch = "" if testbed == "virtual" else "///"
        parts = [drawing.BarPart(stacks[f"{name}_ms"], look, hatch=hatch) for name, (_, _, look) in PARTS.items()]
        at, whole = intervals_by(part, "place", "mean_ms")
        drawing.stacked_bars(axes, at, parts, 0.34, edge=drawing.WHITE)
        drawing.interval_points(axes, at, whole, drawing.WHISKER)
        for place, interval, share in zip(at, whole, stacks.network_share, strict=True):
            top = interval.high if isfinite(interval.high) else interval.mean
            drawing.label(axes, f"{testbed}\n{share:.1%}", (place, top))
    axes.set_ylabel("mean latency (ms)")
    axes.margins(y=0.25)
    keys.key_above(axes, [keys.bar_key(look) for _, _, look in PARTS.values()])


def _draw_percentiles(axes: Axes, runs: Frame) -> None:
    for testbed, part in _places(axes, runs):
        for name, look in PERCENTILES.items():
            shown = look._replace(is_open=testbed == "virtual")
            drawing.interval_points(axes, *intervals_by(part, "place", name), shown)
        for row in part.groupby("place")[["p99_ms", "broker_count"]].mean().itertuples():
            drawing.label(axes, f"{row.broker_count:.3g}", (row.Index, row.p99_ms), points=(5, 2))
    drawing.rule(axes, SLO_MS, text="SLO (line ours)")
    axes.set_ylabel("end-to-end latency (ms)")
    axes.set_ylim(0, 1.15 * max([SLO_MS, *runs.p99_ms]))
    keys.key_above(axes, [keys.key(look, line=False) for look in (*PERCENTILES.values(), VIRTUAL, EMULATED)], columns=3)


TITLE, SOURCE = "A geo-distributed topic, virtual and emulated", "ours; systems of SRTM VI"
EXPERIMENT = Experiment("srtm-wan", TITLE, SOURCE, points, repetitions=REPETITIONS)
NOTES = (
    f"Means and 95 % intervals over repetitions. Brokers in {BROKER_CITIES}; publishers in {PUBLISHER_CITIES}; the "
    f"subscriber in {SUBSCRIBER_CITIES}. Paths are derived from the cities' distances. The SLO is ours, above the "
    "longest way through a broker. No system here knows of distance: brokers are filled in the order of their spare "
    "capacity. In virtual time the way out has the topic's pump in it."
)
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
