"""epulsar-placer: topics placed from one place, and by the brokers themselves, which Section 6 of ePulsar asks for.

Ours.  Five sites with a broker each: swarms that fly, topics that come and go, topics that stay.  All is well, or the
cloud with load managers and store is cut off for half a minute, or one site is.
"""

import json

from analysis.tables import collect
from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_least, at_most, below
from core.records import Json, Options
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.beyond.faults import NO_FAULT, Faults, cut, first_site, scenario_of
from paper_figs.drawing import interval_curve, mean_bars, panels, sentence
from paper_figs.epulsar.runs import placed
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import band_by
from paper_figs.keys import bar_key, key, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame, Series, SparkFrame
from paper_figs.series import by_repetition, samples, with_point
from paper_figs.style import Style, looks_of

SITES, TOPICS = 5, 15
FROM_S, UNTIL_S = 30, 60
SETTLED_S = 20  # as in Fig. 8: first placements are over
CALM_POINTS = 5.0  # ours: apart at most where nothing fails; set when P2 and P6 had been judged without it
FLIGHT_S, CHURN_S, STAY_S = 120, 100, 40
STEP_S = 2
GOSSIP = "gossip-placer"
BOTH = ("epulsar", GOSSIP)
SYSTEMS = ("pulsar", *BOTH)
POINT = ["load", "topics", "fault", "system", "repetition"]
RUNS = "epulsar-placer/runs"
SWARMS, CHURN, STAY = "uav-swarms", "topic-churn", "static-topics"
EACH = (1, 16)  # topics that stay, of a broker
CLOUD_CUT, SITE_CUT = "cloud", "site"
IN_CLOUD = ["manager1", "manager2", "store"]
SENDERS = [*IN_CLOUD, *(f"broker{n}" for n in range(1, SITES + 1))]
FAULTS: dict[str, Faults] = {
    NO_FAULT: [],
    CLOUD_CUT: cut(IN_CLOUD, FROM_S, UNTIL_S),
    SITE_CUT: cut(first_site(TOPICS, SITES), FROM_S, UNTIL_S),
}
CURVES = {
    "topics that come and go, cloud cut off": (CHURN, CLOUD_CUT),
    "swarms, cloud cut off": (SWARMS, CLOUD_CUT),
    "topics that come and go, one site cut off": (CHURN, SITE_CUT),
}
LOOKS = looks_of(SYSTEMS)
FAULT = Style("while it is cut off", "#dddddd", "", "-")
USUAL = Style("the same, nothing cut off", "#555555", "", ":")
NOT_HERE = "not part of this scale's grid"


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Systems x loads x what is cut off; Pulsar only where swarms fly and all is well."""
    pair: Json = {"consumers": 1, "sites": SITES, "placement": "by-topic", "rate_rps": 10.0, "bound": "40ms"}
    churn = {**pair, "topics": TOPICS, "topic_life": "40s", "topic_gap": "10s", "consumer_life": "forever"}
    swarms = {"swarms": 16, "members": 3, "zones": SITES, "rate_rps": 20.0}
    city = ("city-mec", {"sites": SITES, "managers": len(IN_CLOUD) - 1})

    def run(system: str, workload: str, load: Json, seconds: int, fault: str = NO_FAULT) -> RunSpec:
        study = {"duration": f"{seconds}s", "window": f"{STEP_S}s", "faults": FAULTS[fault]}
        return placed(system, (workload, load), city, study)

    cuts = scale.pick(tiny=(NO_FAULT, CLOUD_CUT), quick=tuple(FAULTS))
    grid = [run(system, CHURN, churn, CHURN_S, fault) for fault in cuts for system in BOTH]
    for each in scale.pick(tiny=EACH[:1], quick=EACH):
        grid += [run(system, STAY, {**pair, "topics": each * SITES}, STAY_S) for system in BOTH]
    if scale.name == "tiny":
        return grid
    grid += [run(system, SWARMS, swarms, FLIGHT_S) for system in SYSTEMS]
    return grid + [run(system, SWARMS, swarms, FLIGHT_S, CLOUD_CUT) for system in BOTH]


def tables(data: Data) -> FigureTables:
    """``runs``, a row a run: what is judged; ``curves``, a row a run and step: pairs, late (both messages x consumers).

    Both: load, topics (of a broker, of those that stay), fault, system, repetition.  ``runs``: late, the share of what
    was born from ``SETTLED_S`` on that came later than the bound, or never; born and in_time, counts of what was born
    between ``FROM_S`` and ``UNTIL_S``; moves, changes of a topic's broker from ``SETTLED_S`` on; Bps, bytes that
    brokers, managers and store send, a broker and second, from then on.
    """
    from pyspark.sql import functions as f

    t_s = f.expr(f"at_ns div {SECOND_NS}").alias("t_s")
    by_step = data.table("topic_windows").groupBy("run_id", t_s)
    sums = by_step.agg(f.sum("pair_count").alias("pairs"), f.sum("late_pair_count").alias("late"))
    sent = data.table("usage").where(f.col("node").isin(SENDERS) & (f.col("at_ns") > SETTLED_S * SECOND_NS))
    spells = data.table("ownership").select("run_id", "topic", "broker", "start_ns")
    curves = _named(data, sums)
    runs = _named(data, sent.groupBy("run_id").agg(f.sum("sent_bytes").alias("sent_bytes"))).set_index("run_id")
    settled, meanwhile = (
        curves[curves.t_s.between(first_s, last_s - 1)].groupby("run_id")[["late", "pairs"]].sum()
        for first_s, last_s in ((SETTLED_S, FLIGHT_S), (FROM_S, UNTIL_S))
    )
    length_s = runs.length.str.removesuffix("s").astype(int)
    runs = runs.assign(
        late=settled.late / settled.pairs,
        born=meanwhile.pairs,
        in_time=meanwhile.pairs - meanwhile.late,
        moves=_moves(collect(spells, ["run_id", "topic", "start_ns"])).reindex(runs.index, fill_value=0),
        Bps=runs.sent_bytes / (SITES * (length_s - SETTLED_S)),
    )
    columns = [*POINT, "late", "born", "in_time", "moves", "Bps"]
    return {
        "runs": runs[columns].sort_values(POINT, ignore_index=True),
        "curves": curves[[*POINT, "t_s", "pairs", "late"]].sort_values([*POINT, "t_s"], ignore_index=True),
    }


def _named(data: Data, frame: SparkFrame) -> Frame:
    """With each run's point, and its length."""
    factors = {"fault": "study.faults", "topics": "workload.topics", "length": "study.duration"}
    named = with_point(data, frame, factors, ("arrivals", "system", "repetition"))
    named["fault"] = [scenario_of(json.dumps(faults), FAULTS) for faults in named.fault]
    named["topics"] = (named.topics.where(named.arrivals == STAY, 0).astype(int) / SITES).astype(int)
    return named.rename(columns={"arrivals": "load"})


def _moves(spells: Frame) -> Series:
    """By run: how often a topic went on at another broker; ``spells`` are in order."""
    later = spells.assign(before=spells.groupby(["run_id", "topic"]).broker.shift())
    moved = later.before.notna() & (later.before != later.broker) & (later.start_ns >= SETTLED_S * SECOND_NS)
    return moved.groupby(later.run_id).sum()


def draw(tables: FigureTables) -> Drawing:
    """Above what it costs where all is well; below what is within the bound while something is cut off."""
    runs, curves = tables["runs"], tables["curves"]
    drawing, axes = panels(2, 3, ("swarms: late", "swarms: moves", "bytes of control", *CURVES), inches=(9.6, 5.0))
    flown = runs[(runs.load == SWARMS) & (runs.fault == NO_FAULT)].assign(where="all is well")
    for panel, value, words in ((axes[0], "percent", "messages late (%)"), (axes[1], "moves", "moves in 100 s")):
        if flown.empty:
            sentence(panel, NOT_HERE)
            continue
        mean_bars(panel, flown.assign(percent=100 * flown.late), "where", value, "system", LOOKS, ("all is well",))
        panel.set_ylabel(words)
    stay = runs[runs.load == STAY]
    mean_bars(axes[2], stay, "topics", "Bps", "system", LOOKS, sorted(set(stay.topics)))
    axes[2].set(ylabel="bytes a broker and second", xlabel="topics a broker")
    for panel, (load, fault) in zip(axes[3:], CURVES.values(), strict=True):
        if not ((curves.load == load) & (curves.fault == fault)).any():
            sentence(panel, NOT_HERE)
            continue
        panel.axvspan(FROM_S, UNTIL_S, color=FAULT.colour, linewidth=0, zorder=0)
        for system in BOTH:
            part = curves[(curves.load == load) & (curves.system == system)]
            _draw_share(panel, part[part.fault == NO_FAULT], LOOKS[system]._replace(dashes=":"))
            _draw_share(panel, part[part.fault == fault], LOOKS[system]._replace(dashes="-"))
        panel.set(xlabel="born at (s)", ylabel="within the bound (%)", ylim=(0, 104), xlim=(0, CHURN_S))
    systems = [bar_key(look) for look in LOOKS.values()]
    legend_above(drawing, [*systems, bar_key(FAULT), key(USUAL, marker=False)])
    return drawing


def _draw_share(axes: Axes, part: Frame, look: Style) -> None:
    if len(part):
        band = band_by(part.assign(percent=100 * (1 - part.late / part.pairs)), "t_s", "percent", 100.0)
        interval_curve(axes, *band, look, stairs=True)


def _lost(runs: Frame, load: str, fault: str, system: str) -> Series:
    """Of what is born meanwhile, the share that keeps the bound only where nothing is cut off; by repetition."""
    at = {"load": load, "system": system}
    calm, here = (by_repetition(runs, "in_time", **at, fault=which) for which in (NO_FAULT, fault))
    return (calm - here) / by_repetition(runs, "born", **at, fault=NO_FAULT)


def _apart(runs: Frame, value: str, **at: object) -> Series:
    """Gossip placer minus ePulsar, by repetition."""
    ours, theirs = (by_repetition(runs, value, **at, system=system) for system in reversed(BOTH))
    return ours - theirs


def _calm(runs: Frame) -> Check:
    """Where nothing fails both are about as good: who keeps little loses little."""
    kept = runs.assign(kept=runs.in_time / runs.born)
    apart = 100 * _apart(kept, "kept", load=CHURN, fault=NO_FAULT).abs()
    return at_most("within the bound without a fault, apart", samples(apart), CALM_POINTS, "points")


def measure_p1(tables: Tables) -> Evidence:
    """Shares of late messages from ``SETTLED_S`` on."""
    runs = tables[RUNS]
    calm: Json = {"load": SWARMS, "fault": NO_FAULT}
    more = 100 * _apart(runs, "late", **calm)
    fewer = by_repetition(runs, "late", **calm, system="pulsar") - by_repetition(runs, "late", **calm, system=GOSSIP)
    checks = (
        at_most("late, gossip placer minus ePulsar", samples(more), 1.0, "points"),
        above("late, Pulsar minus gossip placer", samples(100 * fewer), 0.0, "points"),
    )
    return Evidence(checks, checks[1:])


def measure_p2(tables: Tables) -> Evidence:
    """What the cut takes from either, and that there was something to take."""
    central, gossip = (samples(100 * _lost(tables[RUNS], CHURN, CLOUD_CUT, system)) for system in BOTH)
    less, calm = at_most("lost, gossip placer", gossip, 1.0, "%"), _calm(tables[RUNS])
    exact = at_least("lost, ePulsar", central, 10.0, "%"), less, calm
    return Evidence(exact, (above("lost, ePulsar", central, 0.0, "%"), less, calm))


def measure_p3(tables: Tables) -> Evidence:
    """Shares of late messages of those born meanwhile."""
    runs = tables[RUNS].assign(missed=lambda frame: 1 - frame.in_time / frame.born)
    more = samples(-100 * _apart(runs, "missed", load=SWARMS, fault=CLOUD_CUT))
    label = "late, ePulsar minus gossip placer"
    return Evidence((at_least(label, more, 5.0, "points"),), (above(label, more, 0.0, "points"),))


def measure_p4(tables: Tables) -> Evidence:
    """Moves over ePulsar's."""
    at: Json = {"load": SWARMS, "fault": NO_FAULT}
    central, gossip = (by_repetition(tables[RUNS], "moves", **at, system=system) for system in BOTH)
    check = at_most("moves, gossip placer over ePulsar", samples(gossip / central), 1.25)
    return Evidence((check,), (check,))


def measure_p5(tables: Tables) -> Evidence:
    """Signs with few topics and with many."""
    few, many = (samples(_apart(tables[RUNS], "Bps", load=STAY, topics=each)) for each in EACH)
    label = "bytes, gossip placer minus ePulsar, {} a broker"
    checks = (above(label.format("1 topic"), few, 0.0, "B/s"), below(label.format("16 topics"), many, 0.0, "B/s"))
    return Evidence(checks, checks)


def measure_p6(tables: Tables) -> Evidence:
    """What the cut of a site takes, more than under ePulsar."""
    central, gossip = (_lost(tables[RUNS], CHURN, SITE_CUT, system) for system in BOTH)
    more = above("lost, gossip placer minus ePulsar", samples(100 * (gossip - central)), 0.0, "%")
    checks = more, _calm(tables[RUNS])
    return Evidence(checks, checks)


WHERE, WHY = "ours; ePulsar, Section 6", "Set before any run of a study (docs/placer.md)."
P1 = "Swarms, all is well: at most 1 point more of the messages late than under ePulsar, and fewer than under Pulsar."
P2 = (
    "Topics come and go, managers and store are cut off: of the messages born meanwhile ePulsar loses the bound for at "
    "least 10 % that keep it without the cut, the gossip placer for at most 1 %."
)
P3 = "Swarms, the same cut: of the messages born meanwhile at least 5 points more are late under ePulsar."
P4 = "Swarms, all is well: at most 1.25 times as many moves as under ePulsar."
P5 = "Bytes of control, a broker and second: more than under ePulsar with 1 topic a broker, fewer with 16."
P6 = "Topics come and go, one of five sites is cut off: more of what is born then loses the bound than under ePulsar."
MEASURES = {P1: measure_p1, P2: measure_p2, P3: measure_p3, P4: measure_p4, P5: measure_p5, P6: measure_p6}
CLAIMS = tuple(
    Claim(f"P{number}", WHERE, text, ("epulsar-placer",), measure, why=WHY)
    for number, (text, measure) in enumerate(MEASURES.items(), 1)
)
NOTES = (
    "Sites are 30 ms (round trip) apart, managers and store 40 ms (one way) away, access 8 ms: over the broker of its "
    "own site a message takes 16 ms, over any other 46 ms; the bound is 40 ms. Swarms: 16 of 3 drones over the "
    "generated city of 20 km; topics: 15 that come and go, the clients of each at one site, or 1 and 16 a broker that "
    "stay. Late counts from 20 s on (as in Fig. 8), and what never came. Bytes: all that brokers, managers and store "
    "send, to clients as well, without the network's headers, from 20 s on. Cut off: from 30 s to 60 s (grey): both "
    "managers and the store, or broker, proxy and clients of site 1. Dotted: the same, nothing cut off. Means and "
    "95 % intervals over repetitions."
)
TITLE = "Topics placed by the brokers themselves, and by a load manager"
EXPERIMENT = Experiment("epulsar-placer", TITLE, "ours; ePulsar, Section 6", points)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
