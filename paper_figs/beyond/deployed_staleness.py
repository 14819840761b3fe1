"""deployed-staleness: what is granted, over how much of a window passes until others know what a node let through.

Staleness is the round trip between two cities, and the span that who gossips, refreshes or synchronises lets pass in
between, in units of a window, c / r.  Four keys of 20 a second offered twice, four five times that, evenly over five
nodes: lines, in virtual time, of ours and of the twins of deployed limiters, with nodes that are all equally far from
each other.  Points are those deployed limiters, at three places.

A twin counts only where its server, given the same requests at the same place, does the same: D10 to D13.  There a
message of a twin takes ``LAG`` longer than the links do, as it does between real processes.  What HAProxy's peers grant
over the five cities is counted in runs of three minutes, which are not drawn.
"""

from dataclasses import replace
from functools import partial
from itertools import combinations, product

from analysis.tables import collect
from analysis.verdicts import Check, Claim, Evidence, Tables
from core.records import Options
from core.units import MILLISECOND_NS, SECOND_NS, duration_ns
from harness.experiment import LIVE_REPETITIONS, Experiment, RunSpec, Scale
from paper_figs.beyond import contenders, grants
from paper_figs.beyond.contenders import (
    CONTENDERS,
    FAST,
    FIXED,
    FIXED_CACHE,
    ORACLE,
    OVERWRITE,
    OVERWRITE_ALL,
    TWIN_OF,
    Regime,
)
from paper_figs.beyond.wan import LIVE, LIVE_CLAIM, VIRTUAL, network
from paper_figs.drawing import GREY, interval_points, log_axis, panels, rule
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import floored, intervals_by
from paper_figs.keys import key, legend_above, rule_key
from paper_figs.light import Artist, Axes, Data, Drawing, Frame, Series
from paper_figs.series import samples, where
from paper_figs.style import Style

REGIME = Regime(FAST.said, FAST.count, FAST.period, (2, 5), 4, FAST.duration, ("even",))
LINES = (
    "static-split",
    "centralised",
    "leases",
    "counter",
    FIXED,
    FIXED_CACHE,
    OVERWRITE,
    OVERWRITE_ALL,
    "owner-global",
)
SERVERS = tuple(TWIN_OF)
# What a key is granted by HAProxy's peers over five cities differs by 15 % between runs of 20 s: more keys, for longer.
CHAOTIC = ("haproxy", "haproxy, all")
LONG = replace(REGIME, factors=(REGIME.highest,), keys=6, duration="180s")
DELAYS = ("0ms", "10ms", "25ms", "50ms", "100ms", "200ms", "400ms", "800ms", "1600ms")  # one way
SPANS = ("200ms", "400ms", "800ms", "1600ms", "3200ms")  # of those that speak periodically; FAST has 100 ms
SPAN_DELAY = "10ms"  # one way, while the span grows
WAN_PLACE = "wan"
# Where servers and twins meet, besides the five cities: one way of the links, and the same with LAG.
LAG = "0.4ms"  # between real processes, event loops and all: HAProxy's peers on one loopback, median 0.24 to 0.53 ms
MEETING = {"0ms": LAG, "50ms": "50.4ms"}
ASKING = ("centralised", FIXED, FIXED_CACHE)
IN_STORE = (*ASKING, "ratelimit", "ratelimit, cache")  # what is stale is on the way to the store, not to each other
# A store farther away than its time-out of 1 s limits nothing: ``deployed-failures``.
PATIENT, PATIENT_FROM_NS = {"timeout": "10s"}, SECOND_NS // 4
GRANTED, EXCESS, ALIGNED, WAIT = "granted_ratio", "decided_excess_share", "intended_aligned_share", "p50_ms"
# What is swept; or a server and its twin at one place, and there for long.
DELAY, SPAN, MET, MET_LONG = "delay", "span", "met", "met, long"
# Of a twin, from its server.  The first two were set before any result, the others (in N; share and ms) before the
# second campaign, when static splits had been seen to pass the first two.
WITHIN_GRANTED, WITHIN_EXCESS, LEAST_EXCESS_C = 0.05, 0.15, 0.5
WITHIN_ALIGNED, WITHIN_WAIT, LEAST_WAIT_MS = 0.15, 0.10, 3.0


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Lines, the oracle, servers and their twins at the same places."""
    tiny = scale.name == "tiny"
    lines, delays = (LINES[:1], DELAYS[:5:4]) if tiny else (LINES, DELAYS)
    specs = [contenders.oracle(REGIME, scale)]
    specs += [_virtual(name, scale, delay) for name in lines for delay in delays]
    speaking = [name for name in lines if CONTENDERS[name].period]
    specs += [_virtual(name, scale, SPAN_DELAY, span) for name in speaking for span in SPANS]
    for server in contenders.names_of(scale, SERVERS):
        twin = TWIN_OF[server]
        for links, with_lag in MEETING.items():
            specs.append(contenders.point(server, REGIME, scale, {"delay": links}, LIVE))
            specs.append(contenders.point(twin, REGIME, scale, {"delay": with_lag}, VIRTUAL))
        for regime in (REGIME, LONG) if server in CHAOTIC else (REGIME,):
            specs.append(contenders.point(server, regime, scale))
            specs.append(contenders.point(twin, regime, scale, testbed=VIRTUAL))
        if server in CHAOTIC:
            specs.append(contenders.oracle(LONG, scale))
    return list({spec.to_json(): spec for spec in specs}.values())


def times(spec: RunSpec) -> int:
    """Four where all requests are counted, at both ends of the distances: few are granted there, and by chance.

    So many of the oracles as well.
    """
    at_ends = spec.topology_options.get("delay") in ("0ms", LAG) or spec.workload_options["duration"] == LONG.duration
    is_oracle = spec.system == "centralised" and spec.topology_options.get("delay") == "0ms"
    return 4 if at_ends and (is_oracle or spec.system_options.get("counter") == "all") else 1


def _virtual(name: str, scale: Scale, delay: str, span: str = "") -> RunSpec:
    more = PATIENT if name in ASKING and duration_ns(delay) > PATIENT_FROM_NS else {}
    return contenders.point(name, REGIME, scale, {"delay": delay}, VIRTUAL, span, more)


def tables(data: Data) -> FigureTables:
    """``points``: a row a run and key, which have nothing to do with each other.

    name, testbed, validity, repetition, place (one-way delay of the links, or wan), sweep, staleness, factor, key, and
    granted_ratio, decided_excess_share, intended_aligned_share, p50_ms.
    """
    from analysis import deployed

    runs = contenders.runs_of(data)
    runs.loc[runs.name == ORACLE, "name"] = "centralised"  # without delay it is its own oracle
    links = {with_lag: delay for delay, with_lag in MEETING.items()}
    runs["place"] = runs.delay.replace(links).where(runs.topology != WAN_PLACE, WAN_PLACE)
    runs["sweep"] = [SPAN if is_span(between) else DELAY for between in runs.between]
    runs.loc[(runs.testbed != VIRTUAL) | runs.delay.isin([*links]) | (runs.place == WAN_PLACE), "sweep"] = MET
    runs.loc[runs.duration == LONG.duration, "sweep"] = MET_LONG
    spans = [duration_ns(between) / SECOND_NS if between else 0.0 for between in runs.between]
    trips = [round_trip_s(place, name in IN_STORE) for place, name in zip(runs.place, runs.name, strict=True)]
    runs["staleness"] = [(trip + span) / REGIME.period_s for trip, span in zip(trips, spans, strict=True)]
    requests = grants.in_groups(data, replace(REGIME, keys=LONG.keys))
    requests = requests.withColumn("key", requests.user)
    by = ("factor", "key")
    waits = collect(deployed.waits(requests, by), ["run_id", *by])
    waits[WAIT] = waits.p50_ns / MILLISECOND_NS
    rows = grants.groups_of(data, requests, runs, by).merge(waits[["run_id", *by, WAIT]], on=["run_id", *by])
    told = ["name", "testbed", "validity", "repetition", "place", "sweep", "staleness", *by]
    rows = rows[[*told, GRANTED, EXCESS, ALIGNED, WAIT]].drop_duplicates(told)
    return {"points": rows.reset_index(drop=True)}


def is_span(between: str) -> bool:
    """Whether it speaks at another pace than the regime's."""
    return between not in ("", FAST.between)


def round_trip_s(place: str, to_store: bool = False) -> float:
    """Between two cities of a full mesh of that one-way delay; over the five cities, a mean over all pairs.

    ``to_store``: over the five cities, the mean of their trips to the first, where a single store is.
    """
    if place != WAN_PLACE:
        return 2 * duration_ns(place) / SECOND_NS
    topology = network()
    first, *_ = names = topology.node_names()
    pairs = [(name, first) for name in names] if to_store else list(combinations(names, 2))
    ways = [topology.path(a, b).one_way_delay_ns for a, b in pairs]
    return 2 * sum(ways) / len(ways) / SECOND_NS


# --- the drawing ---------------------------------------------------------------------------------


def draw(tables: FigureTables) -> Drawing:
    """Granted above, excess below; at 5 times the limit left, at 2 times right."""
    points = tables["points"]
    factors = REGIME.factors[::-1]
    titles = [f"{what} at {factor:g} times the limit" for what in ("granted", "excess") for factor in factors]
    drawing, axes = panels(2, len(factors), titles, (9.6, 6.6), share_x=True, share_y="row")
    for panel, (measure, factor) in zip(axes, product((GRANTED, EXCESS), factors), strict=True):
        log_axis(panel, "x", at=(0, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2), linear_below=0.02, linear_share=0.35)
        if measure == GRANTED:
            log_axis(panel, at=(0, 0.2, 0.5, 1, 2, 5), linear_below=0.2, linear_share=0.4)
            rule(panel, 1, reference=True)
        else:
            log_axis(panel, at=(0, 1, 2, 5, 10, 20, 50, 100), linear_below=1.0, linear_share=0.6)
        _draw(panel, points[points.factor == factor], measure)
        panel.set_xlim(-0.006, 4)
    for panel in axes[: len(factors)]:
        panel.set_ylim(-0.03, 6)
    for panel in axes[len(factors) :]:
        panel.set_ylim(-0.15, 120)
        panel.set_xlabel("staleness: (round trip + span between) · r / c")
    axes[0].set_ylabel("admitted, of what is right")
    axes[len(factors)].set_ylabel("above c + r t, in c")
    legend_above(drawing, _keys(points), columns=5)
    return drawing


def _draw(axes: Axes, points: Frame, measure: str) -> None:
    virtual = points[points.testbed == VIRTUAL]
    live = points[(points.testbed != VIRTUAL) & (points.sweep == MET)]
    for name in LINES:
        mine = virtual[virtual.name == name]
        look = CONTENDERS[name].look
        _line(axes, mine[mine.sweep == DELAY], measure, look, 4.0)
        _line(axes, mine[mine.sweep == SPAN], measure, look._replace(dashes=":", is_open=False), 2.5)
    for number, name in enumerate(SERVERS):
        mine = live[live.name == name]
        if len(mine):
            # Servers at one place stand side by side.
            shift = 1 + 0.05 * (number - (len(SERVERS) - 1) / 2)
            at, intervals = intervals_by(mine, "staleness", measure)
            places = [x * shift if x else 0.0015 * (number - 2) for x in at]
            interval_points(axes, places, [floored(each) for each in intervals], CONTENDERS[name].look, size=6.5)


def _line(axes: Axes, mine: Frame, measure: str, look: Style, size: float) -> None:
    if len(mine):
        at, intervals = intervals_by(mine, "staleness", measure)
        interval_points(axes, at, [floored(each) for each in intervals], look, joined=True, size=size)


def _keys(points: Frame) -> list[Artist]:
    present = set(points.name)
    looks = [CONTENDERS[name].look for name in LINES if name in present]
    servers = [CONTENDERS[name].look for name in SERVERS if name in present]
    span = Style("span instead of distance", GREY, "o", ":")
    return [
        *map(key, looks),
        key(span),
        *(key(look, line=False) for look in servers),
        rule_key("right", reference=True),
    ]


# --- claims: set before the full runs ------------------------------------------------------------


def measure_twin(server: str, twin: str, tables: Tables) -> Evidence:
    """At each place where both ran, at the highest factor; a sample is a repetition of both, the mean of its keys.

    Keys of one run share its machine and its nodes' phases.  What is granted is told apart by the mean of the server's,
    so that the mean of samples is the ratio of both means.
    """
    points = where(tables["deployed-staleness/points"], factor=REGIME.highest)
    checks = []
    for place in (*MEETING, WAN_PLACE):
        said = "five cities" if place == WAN_PLACE else f"{place} one way"
        bounds = 1 - WITHIN_GRANTED, 1 + WITHIN_GRANTED
        met = MET_LONG if place == WAN_PLACE and server in CHAOTIC else MET
        theirs, ours = (_by_key(points, name=name, place=place, sweep=met)[GRANTED] for name in (server, twin))
        granted = _of_runs(1 + (ours - theirs) / theirs.mean())
        checks.append(Check(f"{said}: granted, twin over server", granted, *bounds))
        theirs, ours = (_by_key(points, name=name, place=place, sweep=MET) for name in (server, twin))
        tolerated = {EXCESS: max(LEAST_EXCESS_C, WITHIN_EXCESS * float(theirs[EXCESS].mean()))}
        if CONTENDERS[twin].is_windowed:
            tolerated |= {ALIGNED: WITHIN_ALIGNED, WAIT: max(LEAST_WAIT_MS, WITHIN_WAIT * float(theirs[WAIT].mean()))}
        for measure, of in tolerated.items():
            off = _of_runs((ours[measure] - theirs[measure]) / of)
            checks.append(Check(f"{said}: {SAID[measure]}, off, of what is tolerated", off, -1.0, 1.0))
    return Evidence(tuple(checks))


def _by_key(points: Frame, **values: object) -> Frame:
    return where(points, **values).set_index(["repetition", "key"])


def _of_runs(of_keys: Series) -> tuple[float, ...]:
    return tuple(samples(of_keys.groupby(level="repetition").mean()))


SAID = {EXCESS: "excess", ALIGNED: "fullest window", WAIT: "median wait"}
FIGURES = ("deployed-staleness",)
SENTENCE = (
    "{} does what its server does, at 5 times the limit, without delay, 50 ms apart and over five cities: what is "
    "granted within 5 %, the excess within 15 % or half a bucket{}."
)
WINDOWS = ", its fullest window within 0.15 N, its median wait within 10 % or 3 ms"
CHECKED = {
    "D10": ("ratelimit", "The twin of envoyproxy/ratelimit"),
    "D11": ("ratelimit, cache", "The twin of envoyproxy/ratelimit with its local cache"),
    "D12": ("haproxy", "The twin of HAProxy's peers that count what they admit"),
    "D13": ("haproxy, all", "The twin of HAProxy's peers that count all requests"),
}
CLAIMS = tuple(
    Claim(
        name, "Ratebed", SENTENCE.format(who, WINDOWS if CONTENDERS[server].is_windowed else ""), FIGURES,
        partial(measure_twin, server, TWIN_OF[server]), **LIVE_CLAIM,
    )
    for name, (server, who) in CHECKED.items()
)  # fmt: skip
NOTES = (
    "Four keys a factor, each with N = 20 a second, c = N, r = N / s, Poisson, evenly over five nodes. Lines: virtual "
    "time, all nodes equally far apart; dotted, with small markers: 10 ms apart, a longer span between gossip, "
    "refreshes or synchronisations. Large markers: deployed servers that have a twin, without delay, 50 ms apart one "
    "way, and over New York, London, Singapore, Sao Paulo and Sydney (at the mean round trip of all pairs, or to the "
    "store). Granted: admitted over what one token bucket without delay admits of the same requests. Excess: the most "
    "admitted above c + r t in any interval. Who asks one store is given 10 s to answer from 500 ms there and back on. "
    "The twin of Gubernator was made from its documented rules, and was not compared with the server. Where a twin "
    "meets its server its messages take 0.4 ms longer than the links, as measured between processes; that was chosen "
    "after a first campaign, on one of these keys; that the milliseconds of HAProxy's nodes begin at instants of their "
    "own was found after the second, and judged on another seed. A third left open what HAProxy's peers grant over the "
    "cities: that is counted on six keys for three minutes now (not drawn). Where they count all requests chance "
    "decides much, and twelve repetitions are made; three had been seen before that. "
    "Error bars: 95 % intervals over keys and repetitions."
)
TITLE = "What is granted, over how late nodes learn of each other"
EXPERIMENT = Experiment("deployed-staleness", TITLE, "ours", points, repetitions=LIVE_REPETITIONS, times=times)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
