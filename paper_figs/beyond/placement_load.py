"""placement-load: whether latency stays bounded when the best site is full.

Ours.  All clients are in New York, and want up to three times what its broker can send out; other cities' are idle.
New topics are placed near their clients (ePulsar, AllPairs) or by hash (Pulsar); Algorithm 1 then has to shed (3.4.3).
Above, overload is a rate of messages; in (h) it is 85 % of a broker's processor, memory or network, each by itself.
"""

from analysis.verdicts import t_interval
from core.records import Json, Options
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing
from paper_figs.drawing import INK, WHISKER, beside, label, marks, mean_lines, title
from paper_figs.epulsar.published import CODE_GUARD_S, CODE_PLACE_MS, CODE_REPORT_MS
from paper_figs.epulsar.runs import placed
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import bounded, floored, in_words, interval_table, intervals_by
from paper_figs.keys import bar_key, key, legend_above, rule_key
from paper_figs.light import Axes, Data, Drawing, Frame, SparkFrame
from paper_figs.series import samples, with_point
from paper_figs.style import Dashes, Style, looks_of, style_of
from systems.parts.topic_placement import UTILISATION

SYSTEMS = ("pulsar", "all-pairs", "epulsar")
CITIES = ("New York", "Chicago", "Atlanta", "Dallas", "Los Angeles")  # by distance from the first
CITY_OF = {f"broker{number}": city for number, city in enumerate(CITIES, 1)}
VIA_MS = (26, 49, 50, 70, 103)  # producer to consumer over each city's broker
OUT_RPS = 400.0  # of a broker: a small one, so that messages stay few; all that counts is the ratio
MARK = 0.8  # ours: of it, a broker is overloaded
LOADS = (0.5, 1.0, 2.0, 3.0)  # demand over what one broker can send out
BOUNDS_MS = (100, 65)
TOPICS = 16
RULES: dict[str, Options] = {  # what becomes of a topic that no broker can serve within its bound
    "stays where nothing is better (3.4.1)": {},
    "leaves in any case (public code)": {"stay": False},
    f"... without its guard of {CODE_GUARD_S} s": {"stay": False, "guard": "0s"},
}
PAPERS, PUBLIC, UNGUARDED = RULES
GREENS = ("#009E73", "#8fd3bd", "#003d2c")  # all rules are ePulsar's
RULE_LOOKS = {name: Style(f"(g) {name}", colour, "", "-") for name, colour in zip(RULES, GREENS, strict=True)}
RUN = Style("(g) a run", INK, "o", "-", is_open=True)
GREYS = ("#6c6490", "#8f88b3", "#b1abcd", "#d0cce2", "#eceaf4")  # the nearer, the darker: no system has them
CITY_LOOKS = {
    city: Style(f"{city}, {via_ms} ms", colour, "", "-")
    for city, via_ms, colour in zip(CITIES, VIA_MS, GREYS, strict=True)
}
WORST = Style("the worst (lines: mean)", "#555555", "o", "-", is_open=True)
RULE_LOAD, RULE_BOUNDS_MS = 2.0, (100, 65, 50)  # over all cities but New York messages take 49 ms and more
END_S, LAST_S = 75, 20
STEP_S = 2  # brokers report more often
PERIODS: Json = {"probe": "5s", "report": f"{CODE_REPORT_MS}ms", "place": f"{CODE_PLACE_MS}ms"}
STARTED = ({"kind": "crash", "at": "1ms", "node": "manager1"}, {"kind": "restart", "at": "1600ms", "node": "manager1"})
FULL_TOPICS, FULL_RPS = 18, 60.0  # of (h): four topics take 80 % of a machine, and five all of it
FULL_MESSAGES = 5 * FULL_RPS
RESOURCES: dict[str, Options] = {
    "processor": {"out_rps": FULL_MESSAGES},
    "memory": {"memory_bytes": 5.0 * 2**20},  # an open topic takes 1 MiB
    "network": {"network_bytes": 1_000.0 * FULL_MESSAGES},
}
DASHES: dict[str, Dashes] = {"processor": "-", "memory": "--", "network": ":"}
SHEDDING = ("pulsar", "epulsar")


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Systems x bounds x loads, and ePulsar's rules x bounds; agents probe every 5 s, as Serf's do in wide areas."""
    loads = scale.pick(tiny=(0.5, 2.0), quick=LOADS, paper=(0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 3.0))
    bounds_ms = scale.pick(tiny=BOUNDS_MS[:1], quick=BOUNDS_MS)
    grid = [_point(system, bound_ms, load) for bound_ms in bounds_ms for system in SYSTEMS for load in loads]
    rule_bounds_ms = scale.pick(tiny=(), quick=RULE_BOUNDS_MS)
    rules = [_point("epulsar", bound_ms, RULE_LOAD, **RULES[rule]) for bound_ms in rule_bounds_ms for rule in RULES]
    resources = scale.pick(tiny=("processor",), quick=tuple(RESOURCES))
    full = [_full(system, resource) for resource in resources for system in SHEDDING]
    return [*grid, *(point for point in rules if point not in grid), *full]


def _full(system: str, resource: str) -> RunSpec:
    """A machine that is full in one respect; the rate of messages is no overload."""
    offered = {"topics": FULL_TOPICS, "sites": len(CITIES), "placement": "home", "bound": "400ms"}
    offered["rate_rps"] = FULL_RPS
    study = {"duration": f"{END_S}s", "window": "5s", "faults": list(STARTED), **RESOURCES[resource]}
    place = ("us-cities", {"cities": ", ".join(CITIES)})
    return placed(system, ("static-topics", offered), place, study, **PERIODS)


def _point(system: str, bound_ms: int, load: float, **options: object) -> RunSpec:
    offered = {"topics": TOPICS, "sites": len(CITIES), "placement": "home", "bound": f"{bound_ms}ms"}
    offered["rate_rps"] = load * OUT_RPS / TOPICS
    study = {"duration": f"{END_S}s", "window": "5s", "out_rps": OUT_RPS, "faults": list(STARTED)}
    settings: Options = {**PERIODS, "out_maximum_rps": MARK * OUT_RPS, **options}
    place = ("us-cities", {"cities": ", ".join(CITIES)})
    return placed(system, ("static-topics", offered), place, study, **settings)


def tables(data: Data) -> FigureTables:
    """``runs``, a row a run: system, rule, bound, load, repetition, in_bound, mean_ms, worst_ms, moves, late_moves.

    Of the messages born in the last seconds: the share in the bound, mean and largest latency; moves: migrations, and
    those in the second half.  ``places``: system, rule, bound, load, repetition, city, topics: at the end.
    ``resources``: see there.
    """
    from pyspark.sql import functions as f

    from analysis.placement import topic_windows

    named = {
        "bound": "workload.bound",
        "topics_offered": "workload.topics",
        "rate_rps": "workload.rate_rps",
        "stay": "system.stay",
        "guard": "system.guard",
    }
    every = topic_windows(data.table("topic_windows"), data.table("topic_latency"))
    mean_ms = f.sum(f.col("mean_ns") * f.col("message_count")) / f.sum("message_count") / 1e6
    last = every.where(f.col("at_ns") >= (END_S - LAST_S) * SECOND_NS).groupBy("run_id")
    in_bound = (1 - f.sum("late_pair_count") / f.sum("pair_count")).alias("in_bound")
    shares = last.agg(in_bound, mean_ms.alias("mean_ms"), (f.max("max_ns") / 1e6).alias("worst_ms"))
    late = f.count_if(f.col("at_ns") > END_S * SECOND_NS / 2).alias("late_moves")
    moved = data.samples.where("metric = 'migration_ns'").groupBy("run_id")
    moves = moved.agg(f.count("*").alias("moves"), late)
    runs = with_point(data, shares.join(moves, "run_id", "left").fillna(0), named)
    at_end = data.table("ownership").where(f.col("end_ns") >= END_S * SECOND_NS)
    places = with_point(data, at_end.groupBy("run_id", "broker").agg(f.count("*").alias("topics")), named)
    places["city"] = places.broker.map(CITY_OF)
    key = ["system", "rule", "bound", "load", "repetition"]
    runs, places = (frame[frame.topics_offered != FULL_TOPICS].copy() for frame in (runs, places))
    for frame in (runs, places):
        frame["rule"] = [
            (UNGUARDED if isinstance(guard, str) else PUBLIC) if stay is False else PAPERS
            for stay, guard in zip(frame.stay, frame.guard, strict=True)
        ]
        frame["load"] = (frame.rate_rps * TOPICS / OUT_RPS).round(6)
    runs = runs[[*key, "in_bound", "mean_ms", "worst_ms", "moves", "late_moves"]]
    places = places[[*key, "city", "topics"]].sort_values([*key, "city"], ignore_index=True)
    return {"runs": runs.sort_values(key, ignore_index=True), "places": places, "resources": resources(data, moves)}


def resources(data: Data, moves: SparkFrame) -> Frame:
    """Of the runs in which a resource is scarce: system, resource, repetition, at_s, used (share), moves (of the run).

    ``used``: of the fullest broker, the most of each whole two seconds; in less not every broker reports.
    """
    from pyspark.sql import functions as f

    at_s = (STEP_S * f.floor(f.col("at_ns") / (STEP_S * SECOND_NS))).alias("at_s")
    whole = f.col("at_ns") < END_S // STEP_S * STEP_S * SECOND_NS
    told = data.samples.where((f.col("metric") == "utilisation_ratio") & whole).groupBy("run_id", at_s)
    most = told.agg(f.max("value").alias("used")).join(moves.select("run_id", "moves"), "run_id", "left").fillna(0)
    rows = with_point(
        data,
        most,
        {"topics": "workload.topics", **{of: f"study.{of}" for options in RESOURCES.values() for of in options}},
    )
    rows = rows[rows.topics == FULL_TOPICS]
    rows["resource"] = [
        next(name for name, options in RESOURCES.items() if options.items() <= row.items())
        for row in rows.to_dict("records")
    ]
    columns = ["system", "resource", "repetition", "at_s", "used", "moves"]
    return rows[columns].sort_values(columns[:4], ignore_index=True)


def draw(tables: FigureTables) -> Drawing:
    """A row a bound: messages within it, latencies, and where topics are at the end; beside it moves of each rule."""
    runs, places = (tables[name][tables[name].rule == PAPERS] for name in ("runs", "places"))
    bounds = [f"{bound_ms}ms" for bound_ms in BOUNDS_MS if f"{bound_ms}ms" in set(runs.bound)]
    rows = max(1, len(bounds))
    sheet, axes = drawing.panels(rows, 4, inches=(13, 2.7 * rows + 0.8), widths=(1, 1, 1.5, 1.1))
    for number, bound in enumerate(bounds):
        row, here = axes[4 * number : 4 * number + 3], runs[runs.bound == bound]
        shares = here.assign(percent=100 * here.in_bound)
        mean_lines(row[0], shares, "load", "percent", "system", looks_of(SYSTEMS), apart_points=3)
        _draw_latencies(row[1], here, float(bound.removesuffix("ms")))
        _draw_places(row[2], places[places.bound == bound], here)
        loads = sorted(set(here["load"]))
        for panel in row[:2]:
            drawing.rule(panel, 1, "x", reference=True)
            panel.set_xticks(loads, [f"{load:g}" for load in loads])
        row[0].set(ylabel=f"messages within the bound\nin the last {LAST_S} s (%)", ylim=(-4, 104))
        for panel, mark, text in zip(row, "abcdef"[3 * number :], ("", "", ", at the end"), strict=False):
            title(panel, f"({mark}) bound {bound.removesuffix('ms')} ms{text}")
    for panel in axes[-4:-1]:
        panel.set_xlabel("demand over what one broker can send out", fontsize=8)
    by_rule = tables["runs"]
    _draw_moves(axes[3], by_rule[(by_rule["load"] == RULE_LOAD) & (by_rule.system == "epulsar")])
    for panel in axes[7::4]:
        _draw_resources(panel, tables["resources"])
    lines = [*map(key, looks_of(SYSTEMS).values()), key(WORST, line=False)]
    areas = [bar_key(look) for look in (*CITY_LOOKS.values(), *RULE_LOOKS.values())]
    lines += [rule_key("bound; what one broker takes"), key(RUN, line=False)]
    lines += [key(Style(f"(h) {name}", "#555555", "", dashes), marker=False) for name, dashes in DASHES.items()]
    legend_above(sheet, [*lines, *areas], columns=5, below=True)
    return sheet


def _draw_resources(axes: Axes, resources: Frame) -> None:
    """How full the fullest broker is over time, a line a system and resource; at its end, moves, a mean of three."""
    for system, below in zip(SHEDDING, (-10, 3), strict=True):
        for resource, dashes in DASHES.items():
            part = resources[(resources.system == system) & (resources.resource == resource)]
            if part.empty:
                continue
            used = interval_table(["at_s"], [((at,), samples(100 * used)) for at, used in part.groupby("at_s").used])
            low, high = (bounded(used[end]).clip(0, 100) for end in ("low", "high"))  # no broker uses more than it has
            drawing.interval_curve(axes, used.at_s, used["mean"], low, high, style_of(system)._replace(dashes=dashes))
        mine = resources[resources.system == system]
        if len(mine):
            last = 100 * mine[mine.at_s > END_S / 2].used.mean()
            runs = mine.drop_duplicates(["resource", "repetition"])  # of a repetition they have one seed
            told = in_words(t_interval(samples(runs.groupby("repetition").moves.mean())))
            label(axes, f"moves: {told}", (END_S, last), style_of(system).colour, (-22, below), size=7)
    drawing.rule(axes, 100 * UTILISATION, text="85 %")
    axes.set(xlabel="time (s)", ylabel="fullest broker (%)", ylim=(0, 112))
    title(axes, "(h) full by one resource, fullest broker")


def _draw_moves(axes: Axes, runs: Frame) -> None:
    """Bars a bound and rule of ePulsar's: moves a minute when all could be settled, intervals; an open mark a run."""
    bounds = [f"{bound_ms}ms" for bound_ms in RULE_BOUNDS_MS if f"{bound_ms}ms" in set(runs.bound)]
    for name, shift in zip(RULES, beside(len(RULES), 0.8), strict=True):
        for place, bound in enumerate(bounds):
            rates = runs[(runs["rule"] == name) & (runs.bound == bound)].late_moves * 60 / (END_S / 2)
            if rates.empty:
                continue
            rate = floored(t_interval(samples(rates)))
            drawing.interval_bars(axes, [place + shift], [rate], RULE_LOOKS[name], width=0.24)
            marks(axes, [place + shift] * len(rates), rates, RUN, size=3)
            top = rate.high if rate.count > 1 else rate.mean
            label(axes, f"{rate.mean:.0f}", (place + shift, max(top, rates.max())), points=(0, 3))
    drawing.categories(axes, [bound.removesuffix("ms") for bound in bounds])
    axes.set_xlabel("bound (ms)", fontsize=8)
    axes.set_ylabel("moves/min, second half")
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    title(axes, f"(g) ePulsar's rules, demand {RULE_LOAD:g}")


def _draw_latencies(axes: Axes, runs: Frame, bound_ms: float) -> None:
    drawing.log_axis(axes, steps=(1,))
    mean_lines(axes, runs, "load", "mean_ms", "system", looks_of(SYSTEMS))
    for system, look in looks_of(SYSTEMS).items():
        drawing.interval_points(
            axes, *intervals_by(runs[runs.system == system], "load", "worst_ms"), look._replace(is_open=True)
        )
    drawing.rule(axes, bound_ms)
    axes.set_ylabel(f"latency in the\nlast {LAST_S} s (ms)")


def _draw_places(axes: Axes, places: Frame, runs: Frame) -> None:
    """A bar a system and load: topics by city, the nearest at the bottom, intervals of its parts; above, moves."""
    loads = sorted(set(runs["load"]))
    for system, shift in zip(SYSTEMS, beside(len(SYSTEMS), 0.81), strict=True):
        for x, load in enumerate(loads):
            group = places[(places.system == system) & (places["load"] == load)]
            topics = group.pivot_table("topics", "repetition", "city", fill_value=0)
            topics = topics[[city for city in CITIES if city in topics]]
            parts = [drawing.BarPart([topics[city].mean()], CITY_LOOKS[city]) for city in topics]
            at = x + shift
            drawing.stacked_bars(axes, [at], parts, 0.22)
            ends = [t_interval(samples(end)) for _, end in topics.cumsum(axis="columns").items()][:-1]  # in all: TOPICS
            drawing.interval_points(axes, [at + by for by in beside(len(ends), 0.2)], ends, WHISKER, caps=0.0)
            moves = t_interval(samples(runs[(runs.system == system) & (runs["load"] == load)].moves))
            label(axes, in_words(moves).replace(" ", "\n", 1), (at, topics.sum(axis="columns").mean()), size=6)
            label(axes, style_of(system).label, (at, 0), "#ffffff", size=6, rotation=90)
    for x, load in enumerate(loads):
        full = MARK * TOPICS / load
        if full < TOPICS:
            drawing.curve(axes, [x - 0.4, x + 0.4], [full, full], Style("", INK, "", "--"))
    drawing.categories(axes, [f"{load:g}" for load in loads])
    axes.set(ylabel="topics; above: moves", ylim=(0, 1.18 * TOPICS), yticks=range(0, TOPICS + 1, 4))
    axes.grid(visible=False)


NOTES = (
    "All clients in New York, 8 ms from their site, that 5 ms from the city; the key says how long a message takes "
    f"over each city's broker. {TOPICS} topics of a producer and a consumer each; a broker sends out {OUT_RPS:g} "
    f"messages/s and counts as overloaded from {MARK:.0%} of that. The load manager starts after 1.6 s, clients find "
    "it after 2 s. Where a broker gets more than it can send out its queue grows to the end of the run. Pulsar's "
    "hash spreads the load before it is one. Algorithm 1 moves a topic only to brokers that it expects to meet the "
    "bound, if there are any, and leaves it on the overloaded broker where those are full: it does not reckon with "
    "queues. ePulsar's expectation counts the access three times (81 ms over Chicago, which takes 49; 56 ms over New "
    "York): under a bound of 65 ms only New York seems to meet it, and nothing is moved. (g): where no broker seems "
    "to meet the bound all are candidates; a topic that leaves in any case then moves as often as its guard lets it. "
    f"(h), any broker within the bound: {FULL_TOPICS} topics of {FULL_RPS:g} messages/s, of which four take 80 % of "
    "one resource of a broker and five all of it; rates alone are no overload. Pulsar's hash gives one more than four, "
    "and the least loaded takes what is too much. ePulsar's nearest brokers fill each other in turn, though all would "
    "have room: the 85 % rule says who is full, and not who would be with one topic more. The lines of the three "
    "resources lie on each other; moves are a mean of the three. "
    "Means with 95 % intervals over repetitions, those of moves as numbers where repetitions differ, those of (h) as "
    "far as they are between 0 and 100 %; lines of (a) and (d) are set side by side."
)
TITLE = "Placement when the best site is full"
EXPERIMENT = Experiment("placement-load", TITLE, "ours; ePulsar, 3.4.3", points, repetitions={"quick": 2})
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
