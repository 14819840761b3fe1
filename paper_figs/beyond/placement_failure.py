"""placement-failure: what clients of topics notice when a part of the control plane fails, and for how long.

Ours.  Four sites with a broker each; topics come and go, so that somebody always needs the control plane; the clients
of a topic are at one site, whose broker alone is within the bound.  One of two candidates leads.

``--broker pulsar``: what the centre costs on a real Apache Pulsar (study ``placement-on-pulsar``).  Its topics stay,
so that clients move instead: Fig. 8's swarms, in a city of half the width.  In virtual time, on a model of it, only
managers fail.
"""

from analysis.tables import collect
from analysis.verdicts import half_width
from core.records import Json
from core.units import SECOND_NS
from harness.experiment import FEWER, Experiment, RunSpec, Scale
from paper_figs.beyond.faults import (
    NO_FAULT,
    SPREAD,
    Faults,
    crash,
    cut,
    edges,
    end_band,
    first_site,
    held,
    lasts_s,
    scenario_of,
)
from paper_figs.drawing import INK, TEXT, curve, panels
from paper_figs.epulsar.runs import BROKER, PUBLIC_CODE, SWARMS_ON_PULSAR, is_on_pulsar, on_pulsar, placed
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.keys import bar_key, key, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame, SparkFrame
from paper_figs.series import frame_of, whole
from paper_figs.style import Style, style_of

SYSTEMS = ("pulsar", "epulsar")
SITES, TOPICS = 4, 12
FROM_S, UNTIL_S, END_S = 30, 60, 100
STEP_S = 2
RECOVERED = 0.05  # ours: of all messages; no further below the run without a fault
FAULT = Style("while the fault lasts", "#888888", "", "-")
AREA = Style("", "#555555", "", "-")
USUAL = Style("within the bound, without a fault", INK, "", "-")
HELD_NS = SECOND_NS  # ours: a message that takes longer waits for somebody's connection
FAULTS = {
    NO_FAULT: [],
    "manager": crash("manager1", FROM_S),
    "store": crash("store", FROM_S, UNTIL_S),
    "cloud": cut(["manager1", "manager2", "store"], FROM_S, UNTIL_S),
    "broker": crash("broker1", FROM_S, UNTIL_S),
    "broker, for good": crash("broker1", FROM_S),
    "site": cut(first_site(TOPICS, SITES), FROM_S, UNTIL_S),
}
CITY_KM = 4.0  # on Pulsar: half as wide as Fig. 8's is there, so that borders are crossed twice as often
CUT_OFF_S = 3  # the store, on Pulsar: some of its brokers' sessions of 5 s end by it, others do not
FAULTS_ON_PULSAR = {
    NO_FAULT: [],
    "manager": crash("manager1", FROM_S),
    "both managers": [*crash("manager1", FROM_S), *crash("manager2", FROM_S)],
    "managers cut off": cut(["manager1", "manager2"], FROM_S, UNTIL_S),
    "store cut off": cut(["store"], FROM_S, FROM_S + CUT_OFF_S),
    "broker, for good": crash("broker1", FROM_S),
}
LONG = "10s"  # sessions that outlast the store's absence, ways and retries included
MODELLED = (NO_FAULT, "manager", "both managers")  # what fails on the model of Pulsar
SCENARIOS = {**FAULTS, **FAULTS_ON_PULSAR}
TITLES = {
    "manager": "the load manager\ncrashes for good",
    "store": "the store crashes,\nre-joins empty",
    "cloud": "managers and store\nare cut off",
    "broker": "broker 1 crashes,\nre-joins empty",
    "broker, for good": "broker 1 crashes\nfor good",
    "site": "site 1 is cut off",
    "both managers": "both load managers\ncrash for good",
    "managers cut off": "load managers\nare cut off",
    "store cut off": "the store is cut off",
    f"store cut off, sessions of {LONG}": f"the same, brokers'\nsessions of {LONG}",
}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Systems x scenarios; on Pulsar of ePulsar alone, as the baseline moves what overloads a broker."""
    if is_on_pulsar(options):
        if scale.physics != "small":
            return [_on_pulsar(FAULTS_ON_PULSAR[key]) for key in MODELLED]
        long_sessions = _on_pulsar(FAULTS_ON_PULSAR["store cut off"], broker_session=LONG)
        return [*map(_on_pulsar, FAULTS_ON_PULSAR.values()), long_sessions]
    quick = tuple(key for key in FAULTS if key != "broker, for good")
    chosen = scale.pick(tiny=(NO_FAULT, "store", "site"), quick=quick, paper=tuple(FAULTS))
    load = {"topics": TOPICS, "consumers": 1, "sites": SITES, "placement": "by-topic", "rate_rps": 10.0}
    load |= {"bound": "40ms", "topic_life": "40s", "topic_gap": "10s", "consumer_life": "forever"}
    offered, city = ("topic-churn", load), ("city-mec", {"sites": SITES, "managers": 2})
    times = {"duration": f"{END_S}s", "window": f"{STEP_S}s"}
    return [placed(system, offered, city, {**times, "faults": FAULTS[key]}) for system in SYSTEMS for key in chosen]


def _on_pulsar(faults: Faults, **study: object) -> RunSpec:
    """Fig. 8's swarms on Pulsar, with the public code's periods; a border is crossed twice as often."""
    load: Json = {**SWARMS_ON_PULSAR, "city_km": CITY_KM}
    city = ("city-mec", {"sites": SITES, "managers": 2})
    times = {"duration": f"{END_S}s", "window": f"{STEP_S}s", "warm_up_rounds": 60, "faults": faults}
    return on_pulsar(placed("epulsar", ("uav-swarms", load), city, times, **PUBLIC_CODE), persistent=False, **study)


def tables(data: Data) -> FigureTables:
    """``curves``, a row a system, scenario and step; ``recovery``, a row a system and scenario with a fault."""
    from pyspark.sql import functions as f

    curves = paired(_steps(data))
    late = data.samples.where(f"metric = 'elected_count' and at_ns > {FROM_S * SECOND_NS}")
    after_s = (f.min("at_ns") / SECOND_NS - FROM_S).alias("after_s")
    elections = _of_runs(data, late.groupBy("run_id").agg(after_s))
    return {"curves": curves, "recovery": recovery(curves, elections, _moves(data))}


def _of_runs(data: Data, frame: SparkFrame) -> Frame:
    """A row each run: system, scenario, and null where ``frame`` has none of it."""
    return _scenarios(data, data.runs.select("run_id").join(frame, "run_id", "left"), ["run_id"])


def _moves(data: Data) -> Frame:
    """A row a run: system, scenario, move_count: topics that landed from ``FROM_S`` to ``UNTIL_S``, if they count."""
    from pyspark.sql import functions as f

    meanwhile = f.col("at_ns").between(FROM_S * SECOND_NS, UNTIL_S * SECOND_NS)
    landed = data.samples.where((f.col("metric") == "migration_count") & (f.col("value") > 0))
    count = f.count(f.when(meanwhile, 1)).alias("move_count")
    counted = _of_runs(data, landed.groupBy("run_id").agg(count))
    return counted.fillna({"move_count": 0}) if counted.move_count.notna().any() else counted


def _scenarios(data: Data, frame: SparkFrame, order: list[str]) -> Frame:
    options = [f"coalesce(factors['study.{name}'], '') as {name}" for name in ("faults", "broker_session")]
    named = collect(frame.join(data.runs.selectExpr("run_id", "system", "repetition", *options), "run_id"), order)
    named["scenario"] = [_named(*told) for told in zip(named.faults, named.broker_session, strict=True)]
    return named.drop(columns=["faults", "broker_session", "run_id"])


def _named(faults: str, session: str) -> str:
    scenario = scenario_of(faults, SCENARIOS)
    return f"{scenario}, sessions of {session}" if session else scenario


def _steps(data: Data) -> Frame:
    """A row a run and step: system, scenario, repetition, t_s, pairs (messages times consumers), late and so on."""
    from pyspark.sql import functions as f

    from analysis.placement import topic_windows

    every = topic_windows(data.table("topic_windows"), data.table("topic_latency"))
    sums = every.groupBy("run_id", f.expr(f"at_ns div {SECOND_NS}").alias("t_s")).agg(
        f.sum("pair_count").alias("pairs"), f.sum("late_pair_count").alias("late"), f.max("max_ns").alias("max_ns")
    )
    steps = _scenarios(data, sums, ["run_id", "t_s"])
    steps["held"] = (steps.pop("max_ns") > HELD_NS).astype(int)
    steps["in_bound"] = steps.pairs - steps.late
    return steps


def paired(steps: Frame) -> Frame:
    """Of each system, scenario and step, sums over repetitions in which the run without a fault is there, too.

    in_bound, late: messages times consumers; due: the same of the run without a fault, in time or not; held: messages'
    births of those that took longer than ``HELD_NS`` in any repetition (1 or 0); usual_in_bound, usual_held: of the run
    without a fault.  in_bound_half, came_half: of the 95 % interval over repetitions, half the width, of the due
    ones' share that is in the bound, and of that which comes at all; null of a single one of the ``runs``.
    """
    pair = ["system", "repetition", "t_s"]
    usual = steps[steps.scenario == NO_FAULT].rename(
        columns={"pairs": "due", "in_bound": "usual_in_bound", "held": "usual_held"}
    )
    both = steps.merge(usual[[*pair, "due", "usual_in_bound", "usual_held"]], on=pair)
    sums = dict.fromkeys(("in_bound", "late", "due", "usual_in_bound"), "sum")
    shares = {"in_bound_half": both.in_bound / both.due, "came_half": (both.in_bound + both.late) / both.due}
    groups = both.assign(**shares).groupby(["system", "scenario", "t_s"])
    halves = groups[list(shares)].std().mul(groups.size().map(half_width), axis=0)
    every = groups.agg({**sums, "held": "max", "usual_held": "max"}).assign(runs=groups.size())
    return every.join(halves).reset_index()


def recovery(curves: Frame, elections: Frame, moves: Frame) -> Frame:
    """A row a system and scenario with a fault: how bad it is, and seconds since the fault began.

    ``elections``: a row a run: system, scenario, and after_s, when somebody is elected after the fault began, or null;
    ``moves``: of ``_moves``.
    lost: share of messages not in bound that are so without a fault, from the fault on, at most of a step; cost_s: the
    same over all steps, in seconds of messages (clients that move a little earlier or later cancel out); unled_s: until
    somebody is elected, on average (null: the leader stays, or in some run nobody is); held_s: until no message is
    held up any more, beside those of the run without a fault; back_s: until the share in bound stays within
    ``RECOVERED``.  Null: not by the end.  moves, usual_moves: of a run, on average, with the fault and without; null:
    not counted.
    """
    columns = ["system", "scenario", "lost", "cost_s", "unled_s", "held_s", "back_s", "moves", "usual_moves"]
    rows = []
    for (system, scenario), part in curves[curves.scenario != NO_FAULT].groupby(["system", "scenario"]):
        here = part.set_index("t_s")[lambda at: at.index >= FROM_S]
        less, held = (here.usual_in_bound - here.in_bound) / here.due, here.held > here.usual_held
        unled_s = _of(elections, system, scenario).after_s.mean(skipna=False)
        counts = [_of(moves, system, key).move_count.mean() for key in (scenario, NO_FAULT)]
        lasting = [lasts_s(bad, STEP_S, FROM_S) for bad in (held, less > RECOVERED)]
        rows.append([system, scenario, less.max(), STEP_S * less.sum(), unled_s, *lasting, *counts])
    return frame_of(rows, columns).astype(dict.fromkeys(columns[2:], float))


def _of(frame: Frame, system: str, scenario: str) -> Frame:
    return frame[(frame.system == system) & (frame.scenario == scenario)]


def draw(tables: FigureTables) -> Drawing:
    """A row a system, a column a fault, which lasts as long as the bar above; over it what it does to clients."""
    curves, back = tables["curves"], tables["recovery"]
    scenarios = [key for key in TITLES if key in set(curves.scenario)]
    columns = max(1, len(scenarios))
    systems = [system for system in SYSTEMS if system in set(curves.system)] or SYSTEMS
    inches = (max(2.35 * columns + 0.7, 8.4), 0.8 + 2.2 * len(systems))
    drawing, axes = panels(len(systems), columns, inches=inches, share_x=True, share_y=True)
    for row, system in enumerate(systems):
        mine, look = curves[curves.system == system], style_of(system)
        for number, scenario in enumerate(scenarios):
            panel = axes[row * columns + number]
            _draw_panel(panel, mine[mine.scenario == scenario], look, _ends_s(scenario))
            words = _words(_of(back, system, scenario))
            panel.set_title(words, loc="left", fontsize=TEXT, pad=12, color="#333333", linespacing=1.15)
            if not row:
                head = f"({'abcdef'[number]}) {TITLES[scenario]}"
                above = 19 + 8 * (1 + words.count("\n"))
                panel.annotate(head, (0, 1), (0, above), "axes fraction", "offset points", fontsize=8, va="bottom")
        axes[row * columns].set_ylabel(f"{look.label}\nmessages (%)", color=look.colour)
    for panel in axes[-columns:]:
        panel.set_xlabel("born at (s)")
        panel.set_xticks(range(0, END_S + 1, 30))
    axes[0].set(ylim=(0, 100), yticks=range(0, 101, 25))
    areas = [bar_key(AREA._replace(label="within the bound"), 0.9), bar_key(AREA._replace(label="later"), 0.35)]
    legend_above(drawing, [*areas, bar_key(SPREAD, 0.2), key(USUAL, marker=False), bar_key(FAULT)], below=True)
    return drawing


def _ends_s(scenario: str) -> int:
    """When what fails is mended, or the run is over."""
    faults = SCENARIOS[scenario.removesuffix(f", sessions of {LONG}")]
    mended = [fault for fault in faults if fault["kind"] in ("restart", "heal")]
    return int(mended[-1]["at"].removesuffix("s")) if mended else END_S


def _draw_panel(axes: Axes, part: Frame, look: Style, until_s: int) -> None:
    """Areas from below: in the bound, late, with bands of their ends; white: never delivered; above it, the fault."""
    axes.axvspan(FROM_S, until_s, 1.02, 1.07, color=FAULT.colour, linewidth=0, clip_on=False)
    axes.grid(visible=False)
    if part.empty:
        return
    steps = edges(part.t_s, STEP_S)
    in_bound, due = 100 * part.in_bound / part.due, (100 * (part.in_bound + part.late) / part.due).clip(upper=100)
    area: Json = {"fill": True, "color": look.colour, "linewidth": 0}
    axes.stairs(due, steps, baseline=in_bound.to_numpy(), alpha=0.35, **area)
    axes.stairs(in_bound, steps, alpha=0.9, **area)
    for mean, half in ((in_bound, 100 * part.in_bound_half), (due, 100 * part.came_half)):
        end_band(axes, steps, mean, (mean - half).clip(lower=0), (mean + half).clip(upper=100))
    curve(axes, steps, held(100 * part.usual_in_bound / part.due), USUAL, width=0.8, stairs=True)


def _words(row: Frame) -> str:
    if row.empty:
        return ""
    back = row.iloc[0]
    led = "no new leader" if back.unled_s != back.unled_s else f"no leader for {back.unled_s:.1f} s"
    spans = (back.held_s, back.back_s)
    held, fewer = ("to the end" if span != span else f"{span:.0f} s" if span else "none" for span in spans)
    words = f"{led}\nheld up: {held}\nfewer in bound: {fewer}\nin all: {back.cost_s:.1f} s of messages"
    return words if back.moves != back.moves else f"{words}\nmoves: {whole(back.moves)} of {whole(back.usual_moves)}"


NOTES = (
    "Messages by the instant of their birth, over those of the run without a fault; those that wait for a broker "
    "count as later. What was sent into a cut arrives when that ends; white: the consumer has left by then. Sites "
    "are 30 ms (round trip) apart, the cloud 40 ms (one way) away, access 8 ms: over the broker of their own site "
    "messages take 16 ms, over any other 46 ms; the bound is 40 ms. Pulsar places bundles by hash, most of them "
    "elsewhere. No leader: from the fault until one is elected (sessions of the store end after 6 s without a sign "
    "of life). Held up: until the last message that took longer than a second beside the same run without a fault; "
    "clients take a broker for dead after 12 s, and ask another manager after 2 s, each of them anew: after the "
    "crash of a manager those that have not asked before lose that time. Fewer in bound: until it is less than 5 % "
    "of all messages; in all: what is not in the bound that is so without a fault. Sums over the repetitions; bands: "
    "95 % intervals of the areas' ends, as far as they are between 0 and 100 %. With --broker pulsar: swarms that fly "
    "over four zones, on Apache Pulsar or its model; moves: of topics that landed from 30 to 60 s, of those without a "
    "fault; a broker of Pulsar's goes with its node."
)
TITLE = "Placement when managers, store, brokers or paths fail"
EXPERIMENT = Experiment("placement-failure", TITLE, "ours; ePulsar does not say", points, (BROKER,), repetitions=FEWER)
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
