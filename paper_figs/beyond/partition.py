"""limiters-partition: what a fault does to each limiter while it lasts, and how long afterwards.

Ours.  Five cities, a node each; requests go on arriving everywhere, also at a city that is cut off, for five minutes,
all users beyond their limit (data set A with c = 30 and r = 0.3/s, so that a bucket forgets within 100 s).

The error over time nets requests of one user within ten seconds: who is admitted a moment before another request
of the same user is no error here, only more or fewer admissions than the oracle's.
"""

from itertools import product

from analysis.tables import collect
from analysis.verdicts import half_width
from core.records import Options
from core.units import SECOND_NS
from harness.experiment import FEWER, Experiment, RunSpec, Scale
from paper_figs.beyond.faults import NO_FAULT, SPREAD, crash, cut, edges, end_band, lasts_s, scenario_of
from paper_figs.beyond.limiters import LIMITERS, NEAR, ORACLE, oracle, order_of, point, points_of
from paper_figs.beyond.load import THRESHOLD, Load
from paper_figs.drawing import INK, log_axis, note, panels, title
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import bar_key, key, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import frame_of
from paper_figs.style import Style, style_of

CITIES = "New York, London, Singapore, Sao Paulo, Sydney"
NODES = 5
LOAD = Load("data-set", {"set": "A", "capacity": 30, "rate": "0.3"}, 30, "0.3", THRESHOLD, span_s=300)
FROM_S, UNTIL_S = 90, 150
STEP_S = 10
ORACLES_SERVER = "n2"  # up in every scenario
TICKS = (-100, -10, 0, 10, 100)  # % on the y axis, which is logarithmic beyond 10
AREAS = {  # kind of error: its key, and how dark it is
    "surplus": (Style("more admitted than by the oracle", "#555555", "", "-"), 0.9),
    "deficit": (Style("fewer admitted", "#555555", "", "-"), 0.45),
}
USUAL, LASTS = Style("the same without a fault", INK, "", "-"), Style("while the fault lasts", "#eeeeee", "", "-")
ROOM = 120.0  # times their reach, above the curves, for words
COUNTS = {"surplus": "greatest(more, 0)", "deficit": "greatest(-more, 0)", "lost": "lost", "offered": "offered"}
RECOVERED = 0.03  # ours: of the requests of an interval; errors no further above those without a fault


FAULTS = {
    NO_FAULT: [],
    "partition": cut(["n5"], FROM_S, UNTIL_S),
    "empty": crash("n4", FROM_S, UNTIL_S),
    "copy": crash("n4", FROM_S, UNTIL_S, copy_from="n2"),
    "server": crash("n1", FROM_S, UNTIL_S),
}
TITLES = {
    "partition": "Sydney cut off",
    "empty": "a node crashes,\nre-joins empty",
    "copy": "a node crashes,\nre-joins with a copy",
    "server": "the server's node\ncrashes, re-joins empty",
}
ORACLES = {"partition": NO_FAULT, "copy": "empty"}  # whose oracle is compared with, where it is not the scenario's own


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Limiters x scenarios, and the oracle."""
    scenarios = scale.pick(tiny=(NO_FAULT, "partition", "server"), quick=tuple(FAULTS))
    quick = [name for name in LIMITERS if name not in NEAR]
    names = scale.pick(tiny=("centralised", "leases", "counter"), quick=quick, paper=list(LIMITERS))
    oracles = dict.fromkeys(ORACLES.get(key, key) for key in scenarios)
    return [
        *(oracle(LOAD, NODES, FAULTS[key], ORACLES_SERVER) for key in oracles),
        *(point(name, LOAD, NODES, CITIES, faults=FAULTS[key]) for key in scenarios for name in names),
    ]


def tables(data: Data) -> FigureTables:
    """``curves``: one row a limiter, scenario and interval; ``recovery``: one row a limiter and scenario."""
    curves = error_curves(data)
    return {"curves": curves, "recovery": recovery(curves)}


def scenarios_of(data: Data) -> Frame:
    """``points_of`` with each run's scenario and its oracle_run_id; runs without an oracle are left out.

    The oracle of a crash loses what reaches the node while that is down: a limiter is not to blame for tokens that
    nobody asked it for.
    """
    runs = points_of(data)
    runs["scenario"] = [scenario_of(faults, FAULTS) for faults in runs.faults]
    oracles = runs[runs.name == ORACLE].set_index(["scenario", "repetition"]).run_id.to_dict()
    keys = zip(runs.scenario, runs.repetition, strict=True)
    runs["oracle_run_id"] = [oracles.get((ORACLES.get(key, key), repetition)) for key, repetition in keys]
    return runs.dropna(subset="oracle_run_id")


def error_curves(data: Data) -> Frame:
    """One row a limiter, scenario and interval: name, scenario, t_s (its start), sums over the ``runs`` (repetitions).

    Of the requests of a user that were decided within an interval: how many more were admitted than by the oracle
    (surplus), or fewer (deficit); lost, offered.  surplus_half, deficit_half: of the 95 % interval of their share of
    the offered ones over repetitions, half the width; null of a single one.
    """
    from pyspark.sql import functions as f

    runs = scenarios_of(data)
    runs = runs[runs.name.isin(order_of(runs.name))]
    if runs.empty or data.spark is None:
        return frame_of([], ["name", "scenario", "t_s", *COUNTS, "runs", *map(half_of, AREAS)])
    oracles = data.spark.createDataFrame(runs[["run_id", "oracle_run_id"]].astype(str))
    is_lost, admitted = f.col("decision") == "lost", (f.col("decision") == "admit").cast("int")
    theirs = data.requests.select(f.col("run_id").alias("oracle_run_id"), "request_id", admitted.alias("there"))
    here = data.requests.join(f.broadcast(oracles), "run_id").join(theirs, ["oracle_run_id", "request_id"])
    step = f.expr(f"intended_at_ns div {STEP_S * SECOND_NS} * {STEP_S}").alias("t_s")
    more = f.sum(f.when(is_lost, 0).otherwise(admitted - f.col("there"))).alias("more")
    kinds = more, f.count_if(is_lost).alias("lost"), f.count("*").alias("offered")
    sums = (
        here.groupBy("run_id", "user", step)
        .agg(*kinds)
        .groupBy("run_id", "t_s")
        .agg(*(f.expr(f"sum({what})").alias(name) for name, what in COUNTS.items()))
    )
    of_runs = collect(sums, ["run_id", "t_s"]).merge(runs, on="run_id")
    return over_repetitions(of_runs)


def over_repetitions(of_runs: Frame) -> Frame:
    """The curves of ``error_curves``, from a row a run and interval: COUNTS, run_id, name, scenario, t_s."""
    shares = of_runs[list(AREAS)].div(of_runs.offered, axis=0).add_suffix("_share")
    grouped = of_runs.join(shares).groupby(["name", "scenario", "t_s"], sort=True)
    sizes = grouped.run_id.nunique()
    halves = {half_of(kind): sizes.map(half_width) * grouped[f"{kind}_share"].std() for kind in AREAS}
    return grouped[list(COUNTS)].sum().assign(runs=sizes, **halves).reset_index()


def half_of(kind: str) -> str:
    """The column with half the width of a share's interval."""
    return f"{kind}_half"


def recovery(curves: Frame) -> Frame:
    """One row a limiter and scenario of which there is a run without a fault, too.

    name, scenario; recovery_s: from the fault's end to that of the last interval whose errors are more than
    ``RECOVERED`` of its requests above those without a fault; null if that is the run's last one.  Per run:
    lost, more_surplus and more_deficit, beyond those without a fault, from the fault on.
    """
    rows = []
    for (name, part), scenario in product(curves.groupby("name", sort=True), TITLES):
        usual, faulty = (part[part.scenario == key].set_index("t_s") for key in (NO_FAULT, scenario))
        if usual.empty or faulty.empty:
            continue
        share = (faulty.surplus + faulty.deficit) / faulty.offered - (usual.surplus + usual.deficit) / usual.offered
        recovery_s = lasts_s(share[share.index >= UNTIL_S] > RECOVERED, STEP_S, UNTIL_S)
        since = share.index >= FROM_S
        more = [(faulty[kind] / faulty.runs - usual[kind] / usual.runs)[since].sum() for kind in AREAS]
        rows.append((name, scenario, recovery_s, (faulty.lost / faulty.runs).sum(), *more))
    columns = ["name", "scenario", "recovery_s", "lost", "more_surplus", "more_deficit"]
    return frame_of(rows, columns).astype({"recovery_s": float})


def draw(tables: FigureTables) -> Drawing:
    """A row a limiter, a column a scenario."""
    curves, back = tables["curves"], tables["recovery"]
    names = order_of(curves.name)
    scenarios = [key for key in TITLES if key in set(curves.scenario)]
    columns = max(1, len(scenarios))
    shares = [(curves[kind] / curves.offered + curves[half_of(kind)].fillna(0.0)).max() for kind in AREAS]
    reach = 110 * max(*shares, 0.01) if len(curves) else 1.0  # of the y axis, in %
    inches = 2.5 * columns + 1.3, 0.92 * len(names) + 1.1
    drawing, axes = panels(max(1, len(names)), columns, inches=inches, share_x=True, share_y=True)
    for row, name in enumerate(names):
        mine, look = curves[curves.name == name], style_of(name)
        for panel, scenario in zip(axes[row * columns :], scenarios, strict=False):
            log_axis(panel, at=TICKS, names=[f"{abs(tick)}" for tick in TICKS], linear_below=10.0, linear_share=1.2)
            _draw_curve(panel, mine[mine.scenario == scenario], mine[mine.scenario == NO_FAULT], look)
            _note(panel, back[(back.name == name) & (back.scenario == scenario)])
            panel.set_ylim(-reach, ROOM * reach)
        words = look.label.replace(", ", ",\n").replace("centralised t", "centralised\nt")
        beside: Options = {"rotation": 0, "ha": "right", "va": "center", "fontsize": 7.5}
        axes[row * columns].set_ylabel(words, color=look.colour, **beside)
    for letter, panel, scenario in zip("abcd", axes, scenarios, strict=False):
        title(panel, f"({letter}) {TITLES[scenario]}")
    for panel in axes[-columns:]:
        panel.set_xticks(range(0, 301, 60))
        panel.set_xlabel("time (s)", fontsize=8)
    drawing.supylabel("more admitted than by the oracle (up), fewer (down):\n% of the requests", fontsize=8)
    areas = [bar_key(look, alpha) for look, alpha in AREAS.values()]
    legend_above(
        drawing, [*areas, bar_key(SPREAD, 0.2), key(USUAL, marker=False), bar_key(LASTS)], columns=3, below=True
    )
    return drawing


def _draw_curve(axes: Axes, part: Frame, usual: Frame, look: Style) -> None:
    """Both kinds of errors as areas of steps, with the intervals of their ends, and without a fault as lines."""
    axes.axvspan(FROM_S, UNTIL_S, color=LASTS.colour, linewidth=0, zorder=0)
    for (kind, (_, alpha)), sign in zip(AREAS.items(), (1, -1), strict=True):
        area: Options = {"fill": True, "color": look.colour, "alpha": alpha, "linewidth": 0}
        line: Options = {"color": USUAL.colour, "linewidth": 0.6, "baseline": None}
        for frame, how in ((part, area), (usual, line)):
            if len(frame):
                axes.stairs(sign * 100 * frame[kind] / frame.offered, edges(frame.t_s, STEP_S), **how)
    for kind, sign in zip(AREAS, (1, -1), strict=True) if len(part) else ():
        share, half = part[kind] / part.offered, part[half_of(kind)]
        ends = (sign * 100 * end for end in (share, (share - half).clip(lower=0), share + half))
        end_band(axes, edges(part.t_s, STEP_S), *ends)
    axes.axhline(0, color=INK, linewidth=0.5)
    axes.tick_params(labelsize=7)
    axes.grid(visible=False)


def _note(axes: Axes, rows: Frame) -> None:
    if rows.empty:
        return
    row = rows.iloc[0]
    never = row.recovery_s != row.recovery_s
    text = "not back by the end" if never else f"back in {row.recovery_s:.0f} s" if row.recovery_s else "back at once"
    text += f", {row.lost:.0f} lost" if row.lost >= 0.5 else ""
    text += f"\n{round(row.more_surplus):+d} admitted, {round(row.more_deficit):+d} rejected"
    note(axes, text, (0.995, 0.98), right=True, top=True)


NOTES = (
    "Five cities, a node each; the servers of the centralised limiters and the leases are in New York. Ten users of"
    " a data set A with c = 30 tokens and r = 0.3/s, all above their limit. The error is, within ten seconds and a "
    "user, how many more or fewer requests are admitted than by the centralised limiter without delay, which loses "
    "what reaches a crashed node, too; lost requests (of a node that is down, or waiting there) count apart. Back: "
    "from then on the error stays within 3 % of the requests of that without a fault. Below it: requests a run that"
    " the fault alone made to be admitted or rejected wrongly. Means over the repetitions, bands: 95 % intervals of "
    "the areas' ends. The sliding log admits c requests in any 100 s, as it is meant to: it is no token bucket, and "
    "errs without any fault."
)
TITLE, SOURCE = "All limiters under partition, crash and re-join", "ours; thesis 5.5 and chapter 7 leave it open"
EXPERIMENT = Experiment("limiters-partition", TITLE, SOURCE, points, open_to_systems=True, repetitions=FEWER)
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
