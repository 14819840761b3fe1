"""A deployed limiter as a black box: a real Redis that decides for five cities, beside ``centralised``, its model.

Redis runs in New York, and every node asks it for each request, with GCRA in a script
(``systems.limiting.drivers.redis_gcra``).
``centralised`` has its server in New York as well, and is a process a node, too.  Same WAN, same requests, same
limit: what is offered, and where, is in ``wan``.
"""

from analysis.tables import collect
from analysis.verdicts import LATENCY_TOLERANCE, Check, Claim, Evidence, Tables, at_most, t_interval
from core.records import Options
from core.units import MILLISECOND_NS
from harness.experiment import LIVE_REPETITIONS, Experiment, RunSpec, Scale
from paper_figs.beyond import wan
from paper_figs.beyond.wan import FLIPPED, LIVE, LIVE_CLAIM, REDIS, VIRTUAL
from paper_figs.drawing import SMALL, categories, curve, interval_points, mean_points, panels, rule
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import floored
from paper_figs.keys import key, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import by_repetition, samples, where
from paper_figs.style import Style, style_of

MODEL = "centralised"
SERIES = ((MODEL, VIRTUAL), (MODEL, LIVE), (REDIS, LIVE))  # what is shown, in this order
# Pairs whose decisions are compared: one, other, and the label below it.
PAIRS = (
    ("model emulated", (MODEL, LIVE), (MODEL, VIRTUAL), "centralised,\nemulated\nfrom virtual"),
    ("Redis, emulated model", (REDIS, LIVE), (MODEL, LIVE), "Redis\nfrom centralised,\nemulated"),
    ("Redis, virtual model", (REDIS, LIVE), (MODEL, VIRTUAL), "Redis\nfrom centralised,\nvirtual"),
)


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Redis has no virtual twin: nobody models it but ``centralised``."""
    return [wan.oracle(scale), *wan.on_both([wan.point(MODEL, scale)]), wan.point(REDIS, scale)]


def tables(data: Data) -> FigureTables:
    """``runs``, ``flips``, ``latency``: see ``wan``; ``cities``: see ``cities_of``.

    ``flips`` has a row a repetition and pair of ``PAIRS``, which ``pair`` names.
    """
    runs = wan.runs_of(data)
    return {
        "runs": runs,
        "flips": wan.flips_of(data, _pairs(runs)).sort_values(["pair", "repetition"], ignore_index=True),
        "latency": wan.latency_curves(data),
        "cities": cities_of(data, runs),
    }


def _pairs(runs: Frame) -> Frame:
    import pandas as pd

    pairs = []
    for pair, one, other, _ in PAIRS:
        both = _of(runs, *one).merge(_of(runs, *other), on="repetition", suffixes=("", "_other")).assign(pair=pair)
        pairs.append(both.rename(columns={"run_id": "live_run_id", "run_id_other": "virtual_run_id"}))
    columns = ["virtual_run_id", "live_run_id", "testbed", "repetition", "pair"]
    return pd.concat(pairs, ignore_index=True)[columns]


def cities_of(data: Data, runs: Frame) -> Frame:
    """A row a run and city: name, testbed, repetition, city, rtt_ms, p50_ms, p95_ms, beyond_ms.

    rtt_ms: the round trip to the server that is wanted; beyond_ms: the median of the decision latency less that.
    """
    from pyspark.sql import functions as f

    waited = (f.col("decided_at_ns") - f.col("intended_at_ns")) / MILLISECOND_NS
    asked = data.requests.where("decided_at_ns is not null").groupBy("run_id", "node")
    percentiles = [f.percentile(waited, share).alias(name) for name, share in (("p50_ms", 0.5), ("p95_ms", 0.95))]
    cities = collect(asked.agg(*percentiles), ["run_id", "node"])
    cities = cities.merge(runs[["run_id", "name", "testbed", "repetition"]], on="run_id")
    cities = wan.with_cities(cities)
    cities["beyond_ms"] = cities.p50_ms - cities.rtt_ms
    return cities.drop(columns=["run_id", "node"])


def draw(tables: FigureTables) -> Drawing:
    """Latency in all and by city, decisions that differ, bytes."""
    above = ("decision latency", "beyond the round trip to New York")
    below = ("decisions that differ", "errors against the oracle, and what was sent")
    drawing, axes = panels(2, 2, (*above, *below))
    flips = tables["flips"]
    _draw_latency(axes[0], tables["latency"])
    _draw_cities(axes[1], tables["cities"])
    wan.draw_flips(axes[2], [(words, _look(*one), flips[flips.pair == pair]) for pair, one, _, words in PAIRS])
    _draw_bytes(axes[3], tables["runs"])
    legend_above(drawing, [key(_look(*series)) for series in SERIES])
    return drawing


def _look(name: str, testbed: str) -> Style:
    look = wan.look_of(name, testbed)
    return look._replace(label=style_of(name).label) if name == REDIS else look


def _of(frame: Frame, name: str, testbed: str) -> Frame:
    return frame[(frame.name == name) & ((frame.testbed == VIRTUAL) == (testbed == VIRTUAL))]


def _draw_latency(axes: Axes, latency: Frame) -> None:
    most = 1.0
    for series in SERIES:
        line = _of(latency, *series)
        if len(line):
            most = max(most, float(line.value_ms[line.share >= 0.99].min()))
            curve(axes, [0.0, *line.value_ms], [0.0, *line.share], _look(*series), stairs=True)
    axes.set(xlim=(-0.02 * most, 1.15 * most), ylim=(0, 1.02))
    axes.set(xlabel="intended instant to decision (ms)", ylabel="share of requests")


def _draw_cities(axes: Axes, cities: Frame) -> None:
    """Medians less what the links take, by city: means over repetitions with intervals."""
    order = cities.drop_duplicates("city").sort_values("rtt_ms")
    looks = {look.label: look for look in (_look(*series) for series in SERIES)}
    named = cities.assign(look=[_look(*run).label for run in zip(cities.name, cities.testbed, strict=True)])
    mean_points(axes, named, "city", "beyond_ms", "look", looks, list(order.city), 0.6)
    rows = zip(order.city, order.rtt_ms, strict=True)
    categories(axes, [f"{city}\n{rtt_ms:.0f} ms" for city, rtt_ms in rows], size=SMALL)
    rule(axes, 0, reference=True)
    axes.set_ylabel("median − round trip (ms)")


def _draw_bytes(axes: Axes, runs: Frame) -> None:
    for series in SERIES:
        group, look = _of(runs, *series), _look(*series)
        if group.empty:
            continue
        x, y = t_interval(samples(group.bytes_per_request)), floored(t_interval(samples(100 * group.error_share)))
        size = 10 if series[1] == VIRTUAL else 6
        interval_points(axes, [y.mean], [x], look, lying=True, size=size)
        interval_points(axes, [x.mean], [y], look, size=size)
    wan.from_zero(axes, 0.4)
    axes.set_xlim(0, 1.3 * max(1.0, axes.dataLim.x1))
    axes.set(xlabel="sent by all nodes (bytes a request)", ylabel="of all requests (%)")


def measure_w4(tables: Tables) -> Evidence:
    """Redis against the emulated model, request by request."""
    flips = where(tables["redis-wan/flips"], pair="Redis, emulated model")
    return Evidence((at_most("share of decisions that differ", samples(flips.flipped_share), FLIPPED),))


def measure_w5(tables: Tables) -> Evidence:
    """Median decision latency, Redis over the emulated model."""
    runs = tables["redis-wan/runs"]
    live = runs[runs.testbed != VIRTUAL]
    ratio = by_repetition(live, "p50_ms", name=REDIS) / by_repetition(live, "p50_ms", name=MODEL)
    tolerated = 1 - LATENCY_TOLERANCE, 1 + LATENCY_TOLERANCE
    return Evidence((Check("median decision latency, Redis over centralised", tuple(samples(ratio)), *tolerated),))


W4 = "A real Redis over five cities decides as its model does: at most 5 % of the decisions differ, request by request."
W5 = "Half of its decisions take as long as the model's, within 25 %."
CLAIMS = (
    Claim("W4", "Ratebed", W4, ("redis-wan",), measure_w4, **LIVE_CLAIM),
    Claim("W5", "Ratebed", W5, ("redis-wan",), measure_w5, **LIVE_CLAIM),
)
NOTES = (
    "New York (the server), London, Singapore, Sao Paulo, Sydney; the first minute of data set A. Redis is asked for "
    "every request by its node, in New York too, and decides by GCRA in a script; centralised is the same protocol as "
    "a node of ours. Error bars: 95 % intervals over repetitions. (d): bytes are those of the messages, of Redis' "
    "protocol as of ours, without the headers of TCP, UDP and IP; errors are wrong admissions and wrong rejections "
    "together."
)
TITLE = "A real Redis decides for five cities, beside its model"
EXPERIMENT = Experiment("redis-wan", TITLE, "ours", points, repetitions=LIVE_REPETITIONS)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
