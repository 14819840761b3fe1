"""A deployed limiter as a black box: a real Redis that decides for five cities, beside ``centralised``, its model.

Redis runs in New York, and every node asks it for each request (GCRA in a script: ``systems.limiting.redis_gcra``).
``centralised`` has its server in New York as well, and is a process a node, too.  Same WAN, same requests, same
limit: what is offered, and where, is in ``wan_runs``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import LATENCY_TOLERANCE, Check, Claim, Evidence, Tables, at_most, t_interval
from core.units import MILLISECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.beyond import wan_runs
from paper_figs.beyond.crdt_wan import FLIPPED, change_text, errorbar, from_zero, interval, is_live
from paper_figs.beyond.wan_runs import CITIES, FEWEST, LIVE, REDIS, REPETITIONS, VIRTUAL
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, samples, where
from paper_figs.style import letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

MODEL = "centralised"
SERIES = ((MODEL, VIRTUAL), (MODEL, LIVE), (REDIS, LIVE))  # what is shown, in this order
# Pairs whose decisions are compared: one, other, and the label below it.
PAIRS = (
    ("model emulated", (MODEL, LIVE), (MODEL, VIRTUAL), "centralised,\nemulated\nfrom virtual"),
    ("Redis, emulated model", (REDIS, LIVE), (MODEL, LIVE), "Redis\nfrom centralised,\nemulated"),
    ("Redis, virtual model", (REDIS, LIVE), (MODEL, VIRTUAL), "Redis\nfrom centralised,\nvirtual"),
)


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Redis has no virtual twin: nobody models it but ``centralised``."""
    model = wan_runs.on_both([wan_runs.point(MODEL, scale, LIVE)])
    return [wan_runs.oracle(scale), *model, wan_runs.point(REDIS, scale, LIVE)]


def tables(data: "Data") -> FigureTables:
    """``runs``, ``flips``, ``latency``: see ``wan_runs``; ``cities``: see ``cities_of``.

    ``flips`` has a row a repetition and pair of ``PAIRS``, which ``pair`` names.
    """
    runs = wan_runs.runs_of(data)
    flips = wan_runs.flips_of(data, _pairs(runs)).drop(columns=["virtual_run_id", "live_run_id"])
    return {
        "runs": runs,
        "flips": flips.sort_values(["pair", "repetition"], ignore_index=True),
        "latency": wan_runs.latency_curves(data),
        "cities": cities_of(data, runs),
    }


def _pairs(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Runs of one repetition, as ``PAIRS`` has them."""
    import pandas as pd

    live = runs.testbed != VIRTUAL
    found = []
    for pair, one, other, _ in PAIRS:
        sides = [runs[(runs.name == name) & (live if is_live(testbed) else ~live)] for name, testbed in (one, other)]
        both = sides[0].merge(sides[1], on="repetition", suffixes=("", "_other"))
        found.append(pd.DataFrame({"virtual_run_id": both.run_id_other, "live_run_id": both.run_id,
                                   "testbed": both.testbed, "repetition": both.repetition, "pair": pair}))  # fmt: skip
    return pd.concat(found, ignore_index=True)


def cities_of(data: "Data", runs: "pd.DataFrame") -> "pd.DataFrame":
    """A row a run and city: name, testbed, repetition, city, rtt_ms, p50_ms, p95_ms, beyond_ms.

    rtt_ms: the round trip to the server that is wanted; beyond_ms: the median of the decision latency less that.
    """
    from pyspark.sql import functions as f

    from analysis.spark import collect

    waited = (f.col("decided_at_ns") - f.col("intended_at_ns")) / MILLISECOND_NS
    asked = data.requests.where("decided_at_ns is not null").groupBy("run_id", "node")
    found = collect(asked.agg(f.percentile(waited, 0.5).alias("p50_ms"), f.percentile(waited, 0.95).alias("p95_ms")),
                    ["run_id", "node"])  # fmt: skip
    found = found.merge(runs[["run_id", "name", "testbed", "repetition"]], on="run_id")
    trips = rtts_ms()
    found["city"] = [CITIES[int(node[1:]) - 1] for node in found.node]
    found["rtt_ms"] = [trips[node] for node in found.node]
    found["beyond_ms"] = found.p50_ms - found.rtt_ms
    return found.drop(columns=["run_id", "node"])


def rtts_ms() -> dict[str, float]:
    """Node -> round trip to the first node, where the server is."""
    from testbed.topologies.topology import load_topology

    topology = load_topology("wan", {"nodes": len(CITIES), "cities": ", ".join(CITIES)})
    names = topology.node_names()
    return {name: 2 * topology.path(name, names[0]).one_way_delay_ns / MILLISECOND_NS for name in names}


# --- drawing -------------------------------------------------------------------------------------


def draw(found: FigureTables) -> "Drawing":
    """Latency in all and by city, decisions that differ, bytes."""
    drawing, axes = panels(2, 2)
    _draw_latency(axes[0][0], found["latency"])
    letter(axes[0][0], "(a) decision latency")
    _draw_cities(axes[0][1], found["cities"])
    letter(axes[0][1], "(b) beyond the round trip to New York")
    _draw_flips(axes[1][0], found["flips"])
    letter(axes[1][0], "(c) decisions that differ")
    _draw_bytes(axes[1][1], found["runs"])
    letter(axes[1][1], "(d) errors against the oracle, and what was sent")
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **_look(*series)) for series in SERIES]
    drawing.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=7)
    return drawing


def _look(name: str, testbed: str) -> dict[str, Any]:
    """A line's keywords: dashes and open markers in virtual time."""
    style, live = style_of(name), is_live(testbed)
    label = style.label if name == REDIS else f"{style.label}, {'emulated' if live else 'virtual time'}"
    return {"color": style.colour, "marker": style.marker, "linestyle": "-" if live else (0, (3, 2)), "label": label,
            "markerfacecolor": style.colour if live else "white", "markersize": 4.5, "linewidth": 1.2}  # fmt: skip


def _of(frame: "pd.DataFrame", name: str, testbed: str) -> "pd.DataFrame":
    """The rows of one series."""
    live = frame.testbed != VIRTUAL
    return frame[(frame.name == name) & (live if is_live(testbed) else ~live)]


def _draw_latency(axes: "Axes", latency: "pd.DataFrame") -> None:
    """Distribution functions: stairs, a step a city."""
    most = 1.0
    for name, testbed in SERIES:
        curve = _of(latency, name, testbed)
        if len(curve):
            most = max(most, float(curve.value_ms[curve.share >= 0.99].min()))
            axes.plot([0.0, *curve.value_ms], [0.0, *curve.share], drawstyle="steps-post",
                      **{**_look(name, testbed), "marker": ""})  # fmt: skip
    axes.set_xlim(-0.02 * most, 1.15 * most)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("intended instant to decision (ms)")
    axes.set_ylabel("share of requests")


def _draw_cities(axes: "Axes", cities: "pd.DataFrame") -> None:
    """Medians less what the links take, by city: means over repetitions with intervals."""
    order = cities.drop_duplicates("city").sort_values("rtt_ms")
    for shift, (name, testbed) in zip((-0.2, 0.0, 0.2), SERIES, strict=True):
        group, look = _of(cities, name, testbed), _look(name, testbed)
        for place, city in enumerate(order.city):
            values = samples(group[group.city == city].beyond_ms)
            errorbar(axes, place + shift, values, look["color"])
        means = [group[group.city == city].beyond_ms.mean() for city in order.city]
        axes.plot([place + shift for place in range(len(order))], means, **{**look, "linestyle": "none"})
    labels = [f"{city}\n{rtt:.0f} ms" for city, rtt in zip(order.city, order.rtt_ms, strict=True)]
    axes.set_xticks(range(len(order)), labels, fontsize=6.5)
    axes.set_xlim(-0.5, max(1, len(order)) - 0.5)
    axes.axhline(0, color="#555555", linewidth=0.6)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("median − round trip (ms)")


def _draw_flips(axes: "Axes", flips: "pd.DataFrame") -> None:
    """The share with its interval, repetitions as dots, and the change of the admitted total as text."""
    for place, (pair, one, _, _) in enumerate(PAIRS):
        group, look = flips[flips.pair == pair], _look(*one)
        if group.empty:
            continue
        mean, low, high = (100 * value for value in interval(group))
        axes.plot([place - 0.2] * len(group), 100 * group.flipped_share, ".", color=look["color"], alpha=0.5)
        axes.errorbar(place, mean, yerr=[[mean - low], [high - mean]], fmt=look["marker"], color=look["color"],
                      markersize=5, capsize=3, linewidth=1.2)  # fmt: skip
        axes.annotate(change_text(group), (place, high), xytext=(0, 4), ha="center",
                      textcoords="offset points", fontsize=6.5, color=look["color"])  # fmt: skip
    axes.set_xticks(range(len(PAIRS)), [label for *_, label in PAIRS], fontsize=6.5)
    axes.set_xlim(-0.6, len(PAIRS) - 0.4)
    axes.grid(visible=False, axis="x")
    from_zero(axes, 0.3)
    axes.set_ylabel("of all decisions (%)")


def _draw_bytes(axes: "Axes", runs: "pd.DataFrame") -> None:
    """Errors against the oracle over bytes a request: means with intervals both ways."""
    for name, testbed in SERIES:
        group, look = _of(runs, name, testbed), _look(name, testbed)
        if group.empty:
            continue
        x, y = t_interval(samples(group.bytes_per_request)), t_interval(samples(100 * group.error_share))
        if y.count > 1:
            axes.errorbar(x.mean, y.mean, xerr=x.high - x.mean, yerr=[[min(y.mean, y.mean - y.low)], [y.high - y.mean]],
                          fmt="none", ecolor=look["color"], elinewidth=0.9, capsize=2.5)  # fmt: skip
        axes.plot(x.mean, y.mean, **{**look, "linestyle": "none", "markersize": 6 if is_live(testbed) else 10})
    from_zero(axes, 0.4)
    axes.set_xlim(0, 1.3 * max(1.0, axes.dataLim.x1))
    axes.set_xlabel("sent by all nodes (bytes a request)")
    axes.set_ylabel("of all requests (%)")


# --- claims --------------------------------------------------------------------------------------


def measure_w4(tables: Tables) -> Evidence:
    """Redis against the emulated model, request by request."""
    flips = where(tables["redis-wan/flips"], pair="Redis, emulated model")
    return Evidence((at_most("share of decisions that differ", samples(flips.flipped_share), FLIPPED),))


def measure_w5(tables: Tables) -> Evidence:
    """Median decision latency, Redis over the emulated model."""
    runs = tables["redis-wan/runs"]
    live = runs[runs.testbed != VIRTUAL]
    ratio = by_repetition(live, "p50_ms", name=REDIS) / by_repetition(live, "p50_ms", name=MODEL)
    return Evidence((
        Check("median decision latency, Redis over centralised", tuple(samples(ratio)), 1 - LATENCY_TOLERANCE,
              1 + LATENCY_TOLERANCE),
    ))  # fmt: skip


CLAIMS = (
    Claim(
        "W4", "Ratebed", "A real Redis over five cities decides as its model does: at most 5 % of the decisions "
        "differ, request by request.", ("redis-wan",), measure_w4, needs="mininet", testbed="mininet",
        minimum_repetitions=FEWEST,
    ),
    Claim(
        "W5", "Ratebed", "Half of its decisions take as long as the model's, within 25 %.", ("redis-wan",), measure_w5,
        needs="mininet", testbed="mininet", minimum_repetitions=FEWEST,
    ),
)  # fmt: skip
EXPERIMENT = Experiment(
    "redis-wan", "A real Redis decides for five cities, beside its model", "ours", points, repetitions=REPETITIONS
)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="New York (the server), London, Singapore, Sao Paulo, Sydney; the first minute of data set A. Redis is asked "
    "for every request by its node, in New York too, and decides by GCRA in a script; centralised is the same protocol "
    "as a node of ours. (c): 95 % intervals over repetitions. (d): bytes are those of the messages, of Redis' protocol "
    "as of ours, without the headers of TCP, UDP and IP; errors are wrong admissions and wrong rejections together.",
)  # fmt: skip
