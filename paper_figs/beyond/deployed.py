"""deployed: what rate limiters that people deploy really do over a WAN, unmodified, beside ours.

Two regimes, a key each: 20 a second (``deployed``) and 30 a minute (``deployed-minute``).  How much is granted and how
far beyond the limit it gets stand for every load and every shape of load; what that costs beside them.
"""

from collections.abc import Callable, Mapping
from functools import partial

from analysis.spark import collect
from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_most, below, t_interval
from core.records import Options
from core.units import MILLISECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.beyond import contenders
from paper_figs.beyond.configurations import configurations
from paper_figs.beyond.contenders import CONTENDERS, FAST, ORACLE, OURS, PRODUCTS, SLOW, Regime
from paper_figs.beyond.wan import CITIES, LIVE_CLAIM, REPETITIONS
from paper_figs.drawing import beside, categories, interval_points, log_axis, panels, rule
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import floored
from paper_figs.keys import key, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame, SparkFrame
from paper_figs.series import by_repetition, joined, samples, where
from paper_figs.style import Style

NAMES = (*PRODUCTS, *OURS)
SHAPES = {"even": "spread evenly", "skewed": "80 % in one city", "moving": "80 % in one city, another each time"}
FACTOR_LOOKS = (("#CCCCCC", "o"), ("#56B4E9", "s"), ("#0072B2", "D"), ("#D55E00", "^"))  # by factor, lowest first
ROUND_TRIP = 0.10, 3.0  # of a city's median wait, from its own round trip: share, ms
MARGIN = 0.05  # ours: a median wait that is so much off the round trip and no more is of the round trip


def points(regime: Regime, scale: Scale, options: Options) -> list[RunSpec]:
    """Each contender emulated, and the oracle."""
    names = contenders.names_of(scale, NAMES)
    return [contenders.oracle(regime, scale), *(contenders.point(name, regime, scale) for name in names)]


def tables(regime: Regime, data: Data) -> FigureTables:
    """``runs``: what a run cost; ``groups``: what it granted, a row a shape and factor; ``seconds``; ``cities``.

    ``groups``: ``contenders.runs_of`` with shape, factor and the columns of ``analysis.deployed``'s ``granted``,
    ``excess``, ``busiest_windows`` and ``over_contract``; ``seconds``: admitted_rps of a key in each second, means over
    the repetitions, by shape, factor, t_s; ``cities``: city, rtt_ms, p50_ms, p99_ms of a run's node.
    """
    from analysis import costs, deployed, limiting

    assert data.spark is not None
    runs = contenders.runs_of(data)
    mine = runs[runs.name != ORACLE]
    keys = data.spark.createDataFrame(contenders.groups_of(regime), "user string, shape string, factor double")
    requests, oracles = deployed.in_groups(data.requests, keys).cache(), limiting.with_oracle(data.runs)
    promised = {CONTENDERS[name].system: CONTENDERS[name].contract for name in NAMES}
    measured = (
        deployed.granted(requests, oracles),
        deployed.excess(requests, data.runs),
        deployed.busiest_windows(requests, data.runs),
        deployed.over_contract(requests, data.runs, promised),
    )
    groups = mine
    for number, frame in enumerate(measured):
        on = ["run_id", "shape", "factor"] if number else ["run_id"]
        groups = groups.merge(collect(frame, ["run_id", "shape", "factor"]), on=on)
    cost = costs.costs(data.requests, data.samples, data.table("network"), data.table("processes"))
    spent = joined(mine, cost, deployed.waits(data.requests), _answers(deployed.answers, data))
    order = ["name", "testbed", "repetition"]
    return {
        "runs": spent.sort_values(order, ignore_index=True),
        "groups": groups.sort_values([*order, "shape", "factor"], ignore_index=True),
        "seconds": _seconds(deployed.admitted_over_time(requests), mine),
        "cities": _cities(deployed.waits(data.requests, ("node",)), mine),
    }


def _answers(answers: Callable[..., SparkFrame], data: Data) -> SparkFrame:
    return answers(data.requests, data.samples, data.runs).drop("offered_count")


def _seconds(over_time: SparkFrame, runs: Frame) -> Frame:
    frame = collect(over_time, ["run_id", "shape", "factor", "t_ns"]).merge(runs[["run_id", "name"]], on="run_id")
    by = ["name", "shape", "factor", "t_ns"]
    means = frame.groupby(by, as_index=False)[["offered_rps", "admitted_rps"]].mean()
    means["t_s"] = means.pop("t_ns") / 1e9
    return means


def _cities(waits: SparkFrame, runs: Frame) -> Frame:
    """Round trips are those to the first city, where single servers are."""
    from testbed.topologies.topology import load_topology

    topology = load_topology("wan", {"nodes": len(CITIES), "cities": ", ".join(CITIES)})
    frame = collect(waits, ["run_id", "node"]).merge(runs[["run_id", "name", "repetition"]], on="run_id")
    frame["city"] = [CITIES[int(node[1:]) - 1] for node in frame.node]
    way_ns = [topology.path(node, topology.node_names()[0]).one_way_delay_ns for node in frame.node]
    frame["rtt_ms"] = [2 * way / MILLISECOND_NS for way in way_ns]
    for name in ("p50", "p99"):
        frame[f"{name}_ms"] = frame.pop(f"{name}_ns") / MILLISECOND_NS
    return frame.drop(columns=["run_id", "node"])


# --- the drawing ---------------------------------------------------------------------------------


def draw(regime: Regime, tables: FigureTables) -> Drawing:
    """Granted above, beyond the limit below, a column a shape; what it cost at the right."""
    groups, runs = tables["groups"], tables["runs"]
    names = [name for name in NAMES if name in set(runs.name)]
    titles = [f"granted, {words}" for words in SHAPES.values()] + ["wait"]
    titles += [f"beyond the limit, {words}" for words in SHAPES.values()] + ["bytes on the wire"]
    inches = 13.0, 1.7 + 0.42 * max(3, len(names))
    drawing, axes = panels(2, 4, titles, inches, widths=(1.1, 1.1, 1.1, 1.0), share_y=True)
    looks = _factor_looks(regime)
    for panel, shape in zip(axes, SHAPES, strict=False):
        log_axis(panel, "x", at=(0.1, 0.2, 0.5, 1, 2, 5), linear_below=0.1, linear_share=0.4)
        _draw_measure(panel, groups[groups["shape"] == shape], "granted_ratio", names, looks)
        rule(panel, 1, "x", reference=True)
        panel.set_xlim(-0.02, 6)
        panel.set_xlabel("admitted, of what one bucket without delay admits")
    for panel, shape in zip(axes[4:], SHAPES, strict=False):
        log_axis(panel, "x", at=(0, 1, 3, 10, 30, 100), linear_below=1.0, linear_share=0.6)
        _draw_measure(panel, groups[groups["shape"] == shape], "decided_excess_share", names, looks)
        panel.set_xlim(-0.15, 120)
        panel.set_xlabel("most admitted above c + r t, in c")
    _draw_waits(axes[3], runs, names)
    _draw_bytes(axes[7], runs, names)
    for panel in (axes[0], axes[4]):
        categories(panel, [CONTENDERS[name].look.label for name in names], "y", between=False)
    legend_above(drawing, [key(look, line=False) for look in looks.values()])
    return drawing


def _factor_looks(regime: Regime) -> dict[float, Style]:
    pairs = zip(regime.factors, FACTOR_LOOKS, strict=True)
    return {factor: Style(f"{factor:g} times the limit", colour, marker, "-") for factor, (colour, marker) in pairs}


def _draw_measure(axes: Axes, groups: Frame, measure: str, names: list[str], looks: Mapping[float, Style]) -> None:
    for (factor, look), shift in zip(looks.items(), beside(len(looks), 0.7), strict=True):
        part = groups[groups.factor == factor]
        rows = [(row, samples(part[part.name == name][measure])) for row, name in enumerate(names)]
        present = [(row + shift, floored(t_interval(values))) for row, values in rows if values]
        if present:
            places, intervals = zip(*present, strict=True)
            interval_points(axes, list(places), list(intervals), look, lying=True, size=4)


def _draw_waits(axes: Axes, runs: Frame, names: list[str]) -> None:
    log_axis(axes, "x", at=(0.1, 1, 10, 100, 1000))
    for quantile, is_open in (("p50_ns", False), ("p99_ns", True)):
        for row, name in enumerate(names):
            look = CONTENDERS[name].look._replace(is_open=is_open)
            values = [value / MILLISECOND_NS for value in samples(runs[runs.name == name][quantile])]
            if values:
                interval_points(axes, [row], [floored(t_interval(values))], look, lying=True, size=4.5)
    axes.set_xlabel("filled: median, open: p99 (ms)")


def _draw_bytes(axes: Axes, runs: Frame, names: list[str]) -> None:
    log_axis(axes, "x", at=(0, 10, 100, 1000, 10_000), linear_below=10, linear_share=0.5)
    for row, name in enumerate(names):
        values = samples(runs[runs.name == name]["wire_bytes_per_request"])
        if values:
            interval_points(axes, [row], [floored(t_interval(values))], CONTENDERS[name].look, lying=True)
    axes.set_xlim(-1, 20_000)
    axes.set_xlabel("bytes a request, headers and all")


# --- claims: set before the full runs ------------------------------------------------------------


def _group(tables: Tables, figure: str, name: str, shape: str, factor: float, measure: str) -> list[float]:
    groups = where(tables[f"{figure}/groups"], shape=shape, factor=factor)
    return samples(by_repetition(groups, measure, name=name))


def _each(
    check: Callable[..., Check], figure: str, measure: str, bound: float, *names: str
) -> Callable[[Tables], Evidence]:
    """``check`` of a measure at every shape and factor of each of ``names``."""

    def measured(tables: Tables) -> Evidence:
        groups = tables[f"{figure}/groups"]
        checks = [
            check(
                f"{name}, {shape}, {factor:g} times", _group(tables, figure, name, shape, factor, measure), bound, "c"
            )
            for name in names
            for shape in SHAPES
            for factor in sorted(set(groups.factor))
        ]
        return Evidence(tuple(checks))

    return measured


def measure_d1(tables: Tables) -> Evidence:
    """HAProxy's peers at five times the limit, evenly spread."""
    return Evidence(
        tuple(
            above(
                f"{name}: excess at 5 times",
                _group(tables, "deployed", name, "even", 5, "decided_excess_share"),
                3.0,
                "c",
            )
            for name in ("haproxy", "haproxy, all")
        )
    )


def measure_d3(tables: Tables) -> Evidence:
    """A split where most of the load is in one city."""
    names = "nginx", "static-split"
    at = [(name, factor) for name in names for factor in (1, 2)]
    return Evidence(
        tuple(
            below(
                f"{name}: granted at {factor} times",
                _group(tables, "deployed", name, "skewed", factor, "granted_ratio"),
                0.8,
            )
            for name, factor in at
        )
    )


def measure_d4(tables: Tables) -> Evidence:
    """Each city's median wait, less its round trip, in units of what is tolerated."""
    cities = tables["deployed/cities"]
    share, least_ms = ROUND_TRIP
    checks = []
    for city in CITIES:
        rows = where(cities, name="ratelimit", city=city)
        off = (rows.p50_ms - rows.rtt_ms).abs() / (share * rows.rtt_ms).clip(lower=least_ms)
        checks.append(at_most(f"{city}: off its round trip, of what is tolerated", samples(off), 1.0))
    return Evidence(tuple(checks))


def measure_d5(tables: Tables) -> Evidence:
    """A mean hides it: the total is right, a second's is not."""
    of = partial(_group, tables, "deployed", "haproxy", "even", 5)
    return Evidence(
        (
            Check("granted at 5 times", tuple(of("granted_ratio")), 0.75, 1.35),
            above("most admitted in a second, in N", of("decided_window_share"), 3.0),
        )
    )


def measure_d6(tables: Tables) -> Evidence:
    """Who counts rejected requests as well rejects for good."""
    at = [(shape, 2) for shape in ("even", "skewed")]
    return Evidence(
        tuple(
            below(
                f"{shape}: granted at 2 times",
                _group(tables, "deployed", "haproxy, all", shape, factor, "granted_ratio"),
                0.5,
            )
            for shape, factor in at
        )
    )


def measure_d7(tables: Tables) -> Evidence:
    """Bytes of all that is said between hosts, HAProxy's peers over a store in one city."""
    runs = tables["deployed/runs"]
    column = "wire_bytes_per_request"
    ratio = by_repetition(runs, column, name="haproxy") / by_repetition(runs, column, name="ratelimit")
    return Evidence((above("HAProxy's bytes over envoyproxy/ratelimit's", samples(ratio), 1.5),))


def measure_d8(tables: Tables) -> Evidence:
    """A store far away costs a round trip; peers that gossip, and splits, do not."""
    runs = tables["deployed/runs"]
    checks = [
        above(
            f"{name}: median wait",
            [v / MILLISECOND_NS for v in samples(by_repetition(runs, "p50_ns", name=name))],
            50.0,
            "ms",
        )
        for name in ("redis-gcra", "ratelimit")
    ]
    checks += [
        below(
            f"{name}: median wait",
            [v / MILLISECOND_NS for v in samples(by_repetition(runs, "p50_ns", name=name))],
            10.0,
            "ms",
        )
        for name in ("haproxy", "nginx")
    ]
    return Evidence(tuple(checks))


def measure_d9(tables: Tables) -> Evidence:
    """The sign of HAProxy's error turns with the regime."""
    measure = partial(_group, tables, "deployed-minute", "haproxy", "even", SLOW.highest)
    fast = _group(tables, "deployed", "haproxy", "even", FAST.highest, "decided_excess_share")
    return Evidence(
        (
            below("granted at 10 times 30 a minute", measure("granted_ratio"), 0.9),
            below("excess at 10 times 30 a minute", measure("decided_excess_share"), 1.0, "c"),
            above("excess at 5 times 20 a second", fast, 1.0, "c"),
        )
    )


FIGURES = ("deployed",)
BOTH = ("deployed", "deployed-minute")
KEPT = "ratelimit", "ratelimit, cache", "redis-gcra", "nginx", "bucket4j"
D1 = "HAProxy's peers let through more than three buckets beyond the limit at 5 times 20 a second over five cities."
D2 = "Limiters with one store, or a split, stay within one bucket of theirs, under every load and shape of load."
D3 = "A limit split among the nodes grants less than 80 % of itself where 80 % of the load is in one city."
D4 = "A city's median wait at envoyproxy/ratelimit is its own round trip to Redis, within 10 % or 3 ms."
D5 = "A mean hides it: HAProxy's peers grant about the limit in total, and over three times it within one second."
D6 = "Peers that count rejected requests as well grant less than half of the limit at twice the load."
D7 = "HAProxy's peers send over 1.5 times the bytes that asking one store for every request takes."
D8 = "Asking one store for every request costs half of the requests over 50 ms; peers and splits under 10 ms."
D9 = "The sign turns with the regime: at 10 times 30 a minute HAProxy's peers withhold, within a bucket."
CLAIMS = (
    Claim("D1", "Ratebed", D1, FIGURES, measure_d1, **LIVE_CLAIM),
    Claim("D2", "Ratebed", D2, FIGURES, _each(at_most, "deployed", "decided_excess_share", 1.0, *KEPT), **LIVE_CLAIM),
    Claim("D3", "Ratebed", D3, FIGURES, measure_d3, **LIVE_CLAIM),
    Claim("D4", "Ratebed", D4, FIGURES, measure_d4, **LIVE_CLAIM),
    Claim("D5", "Ratebed", D5, FIGURES, measure_d5, **LIVE_CLAIM),
    Claim("D6", "Ratebed", D6, FIGURES, measure_d6, **LIVE_CLAIM),
    Claim("D7", "Ratebed", D7, FIGURES, measure_d7, **LIVE_CLAIM),
    Claim("D8", "Ratebed", D8, FIGURES, measure_d8, **LIVE_CLAIM),
    Claim("D9", "Ratebed", D9, BOTH, measure_d9, **LIVE_CLAIM),
)
NOTES = (
    "New York (single stores), London, Singapore, Sao Paulo, Sydney, 109 to 329 ms apart there and back; real servers "
    "of their makers, unmodified, beside a process a node of our limiters. N = {said}: keys of 0.5, 1, 2 and "
    "{highest:g} times that, Poisson. Granted: admitted over what one token bucket without delay admits of the same "
    "requests. Beyond the limit: the most admitted above c + r t in any interval, by the instants at which nodes heard, "
    "in c = N; ways that vary make a little of an exact bucket, too. Bytes: what the hosts put on their links, with all "
    "headers. Error bars: 95 % intervals over the repetitions."
)
TITLE = "What deployed rate limiters do over a WAN, {said} a key"


def _figure(key: str, regime: Regime, claims: tuple[Claim, ...]) -> Figure:
    title = TITLE.format(said=regime.said)
    experiment = Experiment(key, title, "ours", partial(points, regime), repetitions=REPETITIONS)
    notes = NOTES.format(said=regime.said, highest=regime.highest)
    texts = partial(configurations, NAMES, regime)
    return Figure(experiment, partial(tables, regime), partial(draw, regime), claims, notes, texts)


FIGURE = _figure("deployed", FAST, CLAIMS)
MINUTE = _figure("deployed-minute", SLOW, ())
