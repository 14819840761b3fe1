"""Mobile clients inside the cluster of coordinate agents, and behind proxies at the gateways (ePulsar, Section 4).

Four edge sites of a city and a cloud, as for the swarms of 5.8.1.  Clients hand over to another site, by themselves,
about once a minute.  Either each runs an agent, which takes its coordinate along and has to find out; or it stands
behind the agent of the site where it is, the proxy: that agent's coordinate, the way to it added to the height.
"""

from analysis.tables import computed_once
from analysis.verdicts import RATIO_TOLERANCE, Claim, Evidence, Tables, above, within
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.drawing import log_axis, mean_lines, panels, rule, sentence
from paper_figs.epulsar.estimates import draw_each, errors
from paper_figs.epulsar.published import REPORT_S
from paper_figs.epulsar.runs import idle
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.keys import key, legend_above, rule_key
from paper_figs.light import Axes, Data, Drawing, Frame, Series, SparkFrame
from paper_figs.series import by_repetition, samples, with_point
from paper_figs.style import Style

CLIENTS, HANDOVER = 16, "60s"  # the point that is judged: ours
OTHER_CLIENTS, OTHER_HANDOVERS = (4, 64), ("15s", "240s")
HANDOVER_S = float(HANDOVER.removesuffix("s"))
STILL_S, MOBILE_S = 600, 600  # the agents settle, then clients move
EVERY_S = REPORT_S  # clients tell their coordinates
SHOWN_FROM_S = 300
FLOOR = 1e-3  # ms and ms/s: less is of no interest
SIDES = {  # proxied, mobile
    (False, True): Style("clients in the cluster, mobile", "#D55E00", "o", "-"),
    (False, False): Style("clients in the cluster, standing", "#E69F00", "", "--"),
    (True, True): Style("behind proxies, mobile", "#009E73", "D", "-"),
    (True, False): Style("behind proxies, standing", "#56B4E9", "", ":"),
}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """In the cluster and behind proxies, standing and mobile; then more clients, fewer, and other handovers."""
    if scale.physics == "small":
        pairs = [(proxied, handover) for proxied in (False, True) for handover in ("", "30s")]
        return [_point(proxied, handover, 4, still=90, rounds=180, sites=2) for proxied, handover in pairs]
    specs = [_point(proxied, handover, CLIENTS) for proxied in (False, True) for handover in ("", HANDOVER)]
    others = [(count, HANDOVER) for count in OTHER_CLIENTS] + [(CLIENTS, handover) for handover in OTHER_HANDOVERS]
    others = scale.pick(tiny=[], quick=others)
    return specs + [_point(proxied, handover, count) for count, handover in others for proxied in (False, True)]


def _point(
    proxied: bool, handover: str, clients: int, still: int = STILL_S, rounds: int = STILL_S + MOBILE_S, sites: int = 4
) -> RunSpec:
    study = {"clients": clients, "proxied": proxied, "handover": handover, "still": still, "rounds": rounds}
    reads = {"first": min(SHOWN_FROM_S, still // 2), "every": EVERY_S}
    return idle("coordinates", "city-mec", {"sites": sites}, {**study, **reads})


def tables(data: Data) -> FigureTables:
    """``runs``: once clients move (or would), a row a run; ``curves``: of the judged point, a row a run and read.

    proxied, mobile, clients, handover_s, repetition; error_ms and p95_ms over client-broker pairs; shift_ms_per_s:
    how fast the coordinates of agents that stand still move, read to read, mean over these agents.
    """
    from pyspark.sql import functions as f

    still = data.runs.select("run_id", f.col("factors")["study.still"].cast("double").alias("from_s"))
    static = data.table("agents").where(~f.col("agent").startswith("client"))
    shifts = static.selectExpr("run_id", "at_ns / 1e9 as at_s", f"shift_ns / 1e6 / {EVERY_S} as shift_ms_per_s")
    error, shift = (f.mean(name).alias(name) for name in ("error_ms", "shift_ms_per_s"))
    with computed_once(errors(data)) as pairs:
        of_pairs, of_shifts = (
            rows.join(still, "run_id").where("at_s > from_s").groupBy("run_id") for rows in (pairs, shifts)
        )
        late = of_pairs.agg(error, f.percentile("error_ms", 0.95).alias("p95_ms"))
        runs = _told(data, late.join(of_shifts.agg(shift), "run_id"))
        read = ["run_id", "at_s"]
        curves = _told(data, pairs.groupBy(read).agg(error).join(shifts.groupBy(read).agg(shift), read))
    curves = _judged(curves, "clients", CLIENTS)
    mobile = _judged(curves, "handover_s", HANDOVER_S)
    return {"runs": runs, "curves": curves[~curves.mobile | curves.index.isin(mobile.index)].reset_index(drop=True)}


def _judged(runs: Frame, column: str, judged: object) -> Frame:
    """The runs at the value that is judged, or at the first (of handovers: the last) that there is."""
    if judged not in set(runs[column]):
        judged = runs[column].min() if column == "clients" else runs[column].max()
    return runs[runs[column] == judged]


def _told(data: Data, measured: SparkFrame) -> Frame:
    factors = {name: f"study.{name}" for name in ("proxied", "clients", "handover", "still")}
    told = with_point(data, measured, factors, ["repetition"])
    told["handover_s"] = [float(str(text).removesuffix("s") or 0) for text in told.handover]
    told["mobile"] = told.handover_s > 0
    return told.drop(columns=["handover", "run_id"])


def draw(tables: FigureTables) -> Drawing:
    """Errors and movement over time; errors over the time between handovers and over the number of clients."""
    runs, curves = tables["runs"], tables["curves"]
    names = ("estimates, mean over pairs", "coordinates of agents that stand still")
    drawing, axes = panels(2, 2, (*names, "time between handovers", "number of clients"), inches=(7.6, 5.6))
    drawn = (("error_ms", "error, client to broker (ms)"), ("shift_ms_per_s", "movement (ms/s)"))
    for panel, (column, text) in zip(axes, drawn, strict=False):
        log_axis(panel, steps=(1,))
        for (proxied, mobile), look in SIDES.items():
            draw_each(panel, curves[(curves.proxied == proxied) & (curves.mobile == mobile)], "at_s", column, look)
        panel.set_ylim(bottom=max(FLOOR, panel.get_ylim()[0]))
        panel.set(xlabel="since the agents began (s)", ylabel=text)
        if len(runs):
            rule(panel, float(runs.still.max()), "x")
    _draw_sweep(axes[2], _judged(runs, "clients", CLIENTS), "handover_s")
    axes[2].set_xlabel("mean time between a client's handovers (s)")
    _draw_sweep(axes[3], _judged(runs, "handover_s", HANDOVER_S), "clients")
    axes[3].set_xlabel("clients")
    lines = [key(look, marker=look.dashes == "-") for look in SIDES.values()]
    legend_above(drawing, [*lines, rule_key("clients begin to move")], columns=3)
    return drawing


def _draw_sweep(axes: Axes, runs: Frame, x: str) -> None:
    mobile = runs[runs.mobile.astype(bool)]
    if mobile[x].nunique() < 2:  # the judged point alone, which (a) and (b) show
        sentence(axes, "not run")
        return
    log_axis(axes, "x", at=sorted(set(mobile[x])))
    looks = {str(proxied): SIDES[proxied, True] for proxied in (False, True)}
    mean_lines(axes, mobile.assign(side=mobile.proxied.astype(bool).astype(str)), x, "error_ms", "side", looks)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("error, client to broker (ms)")


def measure_e13(tables: Tables) -> Evidence:
    """Movement of clients disturbs a cluster that they are in, more than standing there does; behind proxies not."""
    runs = tables["epulsar-proxies/runs"]
    judged = runs[runs.clients == CLIENTS]

    def of(value: str, proxied: bool, mobile: bool) -> Series:
        return by_repetition(judged, value, proxied=proxied, handover_s=HANDOVER_S if mobile else 0.0)

    worse, stable = [], []
    estimates = ("error_ms", "error of client-broker estimates", "ms")
    for value, name, unit in (estimates, ("shift_ms_per_s", "movement of static agents", "ms/s")):
        inside, behind = of(value, False, True), of(value, True, True)
        more, apart = samples(inside - of(value, False, False)), samples(inside - behind)
        worse.append(above(f"{name}, in the cluster: mobile minus standing", more, 0.0, unit))
        worse.append(above(f"{name}, mobile: in the cluster minus behind proxies", apart, 0.0, unit))
        ratio = samples(behind / of(value, True, False))
        stable.append(within(f"{name}, behind proxies: mobile over standing", ratio, 1.0, RATIO_TOLERANCE))
    return Evidence((*worse, *stable), tuple(worse))


E13 = (
    "Mobile clients inside the cluster of coordinate agents make the estimates unstable; with proxies at the gateways "
    "instead they are stable."
)
WHY_E13 = (
    "Agents that stand still do not notice clients without agents: that mobility leaves them alone behind proxies "
    "follows from the design."
)
CLAIMS = (Claim("E13", "ePulsar, Section 4", E13, ("epulsar-proxies",), measure_e13, why=WHY_E13),)
NOTES = (
    "The paper states this and shows no data; all numbers of the set-up are ours but the network (5.8.1: sites 30 "
    "ms apart, a cloud 40 ms away one way). Static agents: a broker and a proxy a site, and one in the cloud; "
    "clients have 8 ms of access, one way. They stand for ten minutes (dashed line), then hand over, each at times "
    "of its own. Behind a proxy a client's estimate changes in the instant of its handover; in practice it is told "
    "at its next report. (a), (b): thin lines are repetitions, thick ones their medians. About one cluster of "
    "static agents in eight folds wrongly: its estimates are off by a few ms for long, whatever clients do. (c), "
    "(d): over the ten minutes with handovers, 95 % intervals over repetitions."
)
TITLE = "Mobile clients in the cluster of agents, or behind proxies"
EXPERIMENT = Experiment("epulsar-proxies", TITLE, "ePulsar, Section 4", points)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
