"""A geo-distributed topic: publishers in five cities, brokers in four, the subscriber in one; virtual and emulated.

The paper's brokers are on one LAN, and its distributors know rates and latencies, not places.  Here most of the
latency is the network's: which broker a publisher has decides over more than its queue.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.units import MILLISECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.figure import Figure, FigureTables
from paper_figs.srtm.grids import CONFORMANT
from paper_figs.style import SERIES, letter, panels, slo_line, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

BROKER_CITIES = "New York, London, Singapore, Sao Paulo"  # four of the five default cities of the topology
PUBLISHER_CITIES = "New York, London, Singapore, Sao Paulo, Sydney"
SUBSCRIBER_CITIES = "London"
PUBLISHERS, RATE_RPS = 100, 10.0  # of the scale small: 1,000 msg/s, more than the capacity that it gives one broker
SYSTEMS = ("lb", "conc", "srtm")
TESTBEDS = ("virtual", "mininet")
SLO = "300ms"  # ours: above the longest way through a broker, 260 ms
SLO_MS = 300.0
ROUND = "20s"
REPETITIONS = {"tiny": 1, "small": 2, "quick": 2, "paper": 5}
PARTS = {  # of a message's way, as columns of ``messages``
    "publisher": ("intended_at_ns", "sent_at_ns", "publisher (late)", SERIES[3]),
    "way_in": ("sent_at_ns", "arrived_at_ns", "network, to the broker", SERIES[0]),
    "broker": ("arrived_at_ns", "released_at_ns", "broker: until released", SERIES[1]),
    "way_out": ("released_at_ns", "received_at_ns", "network, to the subscriber", SERIES[4]),
}
QUANTILES = {0.5: "p50_ms", 0.95: "p95_ms", 0.99: "p99_ms"}


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Each system on both testbeds; the physics is small at every scale: that is what a live machine carries."""
    tiny = scale.name == "tiny"
    return [
        RunSpec(
            system=system, workload="poisson", workload_options={"publishers": PUBLISHERS, "rate_rps": RATE_RPS},
            topology="wan", testbed=testbed, calibration="small", slo=SLO, round="2s" if tiny else ROUND,
            topology_options={"brokers": BROKER_CITIES, "publishers": PUBLISHER_CITIES,
                              "subscribers": SUBSCRIBER_CITIES},
            study_options=CONFORMANT, keep=("messages",),
        )
        for system in (SYSTEMS[:1] if tiny else SYSTEMS) for testbed in TESTBEDS
    ]  # fmt: skip


def tables(data: "Data") -> FigureTables:
    """``runs``: a row a run: percentiles, mean of each part of a message's way, brokers used, in ms."""
    from analysis import metrics
    from analysis.spark import collect

    latency = metrics.final_round(data.latency_histogram.where("metric = 'end_to_end_latency'"))
    columns = [f"{metrics.quantile_name(q)} / {MILLISECOND_NS} as {name}" for q, name in QUANTILES.items()]
    spread = metrics.percentiles(latency, ["run_id"], list(QUANTILES)).selectExpr("run_id", *columns)
    came = data.messages.where("received_at_ns is not null and released_at_ns is not null")
    parts = [f"avg({end} - {begin}) / {MILLISECOND_NS} as {name}_ms" for name, (begin, end, _, _) in PARTS.items()]
    means = came.groupBy("run_id").agg(*_expressions(parts), *_expressions(["count(*) as message_count"]))
    runs = data.runs.select("run_id", "system", "testbed", "repetition", "outcome", "validity")
    used = metrics.brokers_used(data.decisions)
    frame = collect(runs.join(spread, "run_id").join(means, "run_id").join(used, "run_id"), ["run_id"])
    found = [f"{name}_ms" for name in PARTS]
    frame["mean_ms"] = frame[found].sum(axis=1)
    frame["network_share"] = (frame.way_in_ms + frame.way_out_ms) / frame.mean_ms
    keys = ["system", "testbed", "repetition"]
    return {"runs": frame.drop(columns="run_id").sort_values(keys, ignore_index=True)}


def _expressions(texts: list[str]) -> list[Any]:
    from pyspark.sql import functions as f

    return [f.expr(text) for text in texts]


def draw(found: FigureTables) -> "Drawing":
    """Where the time goes, and the percentiles of both testbeds."""
    drawing, axes = panels(1, 2)
    runs = found["runs"]
    _draw_parts(axes[0][0], runs)
    letter(axes[0][0], "(a) mean latency; numbers: the network's share")
    _draw_percentiles(axes[0][1], runs)
    letter(axes[0][1], "(b) percentiles; numbers: brokers")
    return drawing


def _places(axes: "Axes", runs: "pd.DataFrame") -> list[tuple[float, str, str, "pd.DataFrame"]]:
    """x, system, testbed and the runs of each bar or mark: testbeds side by side; labels the axis."""
    systems = [name for name in SYSTEMS if name in set(runs.system)]
    testbeds = sorted(set(runs.testbed), key=lambda name: (name != "virtual", name))
    width = 0.8 / max(1, len(testbeds))
    axes.set_xticks(range(len(systems)), [style_of(system).label for system in systems])
    axes.set_xlim(-0.6, max(0.6, len(systems) - 0.4))
    return [
        (place + width * (number - (len(testbeds) - 1) / 2), system, testbed,
         runs[(runs.system == system) & (runs.testbed == testbed)])
        for place, system in enumerate(systems) for number, testbed in enumerate(testbeds)
    ]  # fmt: skip


def _draw_parts(axes: "Axes", runs: "pd.DataFrame") -> None:
    """A stack a system and testbed."""
    for x, _, testbed, group in _places(axes, runs):
        if group.empty:
            continue
        height = 0.0
        for name, (_, _, label, colour) in PARTS.items():
            part = max(0.0, group[f"{name}_ms"].mean())
            virtual = testbed == "virtual"
            axes.bar(x, part, 0.34, height, color=colour, label=label if virtual else None, edgecolor="white",
                     linewidth=0.5, hatch=None if virtual else "///")  # fmt: skip
            height += part
        axes.annotate(f"{testbed}\n{group.network_share.mean():.1%}", (x, height), xytext=(0, 2),
                      textcoords="offset points", ha="center", fontsize=5.5)  # fmt: skip
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(once.values(), once.keys(), fontsize=6, loc="upper center", ncols=2, bbox_to_anchor=(0.5, -0.12))
    axes.set_ylabel("mean latency (ms)")
    axes.margins(y=0.2)


def _draw_percentiles(axes: "Axes", runs: "pd.DataFrame") -> None:
    """Means over repetitions: virtual open, emulated filled."""
    for (name, colour), marker in zip(zip(QUANTILES.values(), SERIES, strict=False), "o^D", strict=False):
        for x, _, testbed, group in _places(axes, runs):
            if group.empty:
                continue
            axes.plot(x, group[name].mean(), marker, color=colour, markersize=5, linestyle="none",
                      markerfacecolor="white" if testbed == "virtual" else colour,
                      label=f"{name.removesuffix('_ms')}, {testbed}")  # fmt: skip
    for x, _, _, group in _places(axes, runs):
        if len(group):
            axes.annotate(f"{group.broker_count.mean():.3g}", (x, group.p99_ms.mean()), xytext=(5, 2),
                          textcoords="offset points", fontsize=6.5)  # fmt: skip
    slo_line(axes, SLO_MS, in_legend=True)
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(
        once.values(),
        once.keys(),
        fontsize=6.5,
        loc="upper center",
        ncols=4,
        columnspacing=1.0,
        bbox_to_anchor=(0.5, -0.12),
    )
    axes.set_ylabel("end-to-end latency (ms)")
    axes.set_ylim(0, 1.15 * max([SLO_MS, *runs.p99_ms]))


EXPERIMENT = Experiment(
    "srtm-wan", "A geo-distributed topic, virtual and emulated", "ours; systems of SRTM VI", points,
    repetitions=REPETITIONS,
)  # fmt: skip
FIGURE = Figure(
    EXPERIMENT, tables, draw,
    notes=f"Brokers in {BROKER_CITIES}; publishers in {PUBLISHER_CITIES}; the subscriber in {SUBSCRIBER_CITIES}. "
    "Paths are derived from the cities' distances. The SLO is ours, above the longest way through a broker. No system "
    "here knows of distance: brokers are filled in the order of their spare capacity. In virtual time the way out has "
    "the topic's pump in it.",
)  # fmt: skip
