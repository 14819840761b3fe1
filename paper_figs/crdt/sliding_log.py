"""Figs. 4.1 and 4.2: the sliding log against the token bucket, on one node and (ours) on 30.

Capacity 4, one token a second.  Ours: that they are real systems, beside the centralised limiter.

Fig. 4.1: both admit equally many requests if requests never end; four every 10 ms stand for "infinitely often".

Fig. 4.2: (a) traffic of which the log rejects a request and the bucket none; the thesis gives the last instant, we
chose the others.  (b) The same again and again with pauses of a minute.  (c) The thesis says, and does not measure,
that the token-bucket queue propagates more data than the sliding log (4.1.2), since it sends an element again whenever
its death has changed: both plain, data set B.
"""

from analysis.tables import collect
from analysis.verdicts import Claim, Evidence, Tables, above, at_most, within
from core.records import Options
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import at, limited, on_mesh
from paper_figs.crdt.published import LOG_CAPACITY, LOG_RATE_RPS
from paper_figs.crdt.readings import OF_RUNS
from paper_figs.crdt.runs import counts_of
from paper_figs.crdt.variants import LOG, ORACLE, QUEUE
from paper_figs.drawing import INK, categories, curve, marks, mean_bars, mean_lines, panels
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import bar_key, key, key_above, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import samples, where, with_point
from paper_figs.style import Style, style_of

LIMIT: Options = {"capacity": LOG_CAPACITY, "rate": f"{LOG_RATE_RPS}"}
LIFE_S = LOG_CAPACITY // LOG_RATE_RPS  # Eq. (4.1)
SYSTEMS = {LOG: LOG, "crdt-queue": "central queue", ORACLE: ORACLE}  # -> style
SATURATED = {"at": ["0ms"] * 4, "period": "10ms", "repeats": 1_601}
AT_S = (1.0, 2.0, 3.0, 3.5, 4.0)  # the last is the thesis'
BURSTS = 8
PERIOD_S = 64
IN_BURSTS = {"at": [f"{at * 1000:g}ms" for at in AT_S], "period": f"{PERIOD_S}s", "repeats": BURSTS}
REJECTED = Style("rejected", INK, "x", "-")
DATA_SETS = ("B-barely", "B-substantial")


def alone(system: str, pattern: Options) -> RunSpec:
    """A system on one node, offered a pattern of instants."""
    return on_mesh(system, LIMIT, "instants", pattern, nodes=1)


def saturated_points(scale: Scale, options: Options) -> list[RunSpec]:
    """Three systems, saturated."""
    return at(scale, [alone(system, SATURATED) for system in SYSTEMS])


def burst_points(scale: Scale, options: Options) -> list[RunSpec]:
    """Bursts with pauses on one node; log and queue on 30 nodes."""
    pattern = {**IN_BURSTS, "repeats": scale.pick(small=2, tiny=BURSTS)}
    specs = [alone(system, pattern) for system in SYSTEMS]
    for data_set in scale.pick(tiny=DATA_SETS[:1], quick=DATA_SETS):
        specs += [limited(QUEUE, data_set, options), limited(LOG, data_set, options)]
    return at(scale, specs)


def burst_tables(data: Data) -> FigureTables:
    """``admitted`` (as in Fig. 4.1); ``bursts``: rejections by burst; ``sent``: one row a run on 30 nodes."""
    runs = collect(data.runs.selectExpr("run_id", "factors['topology.nodes'] = '1' as alone"), ["run_id"])
    alone, together = (data.select(list(runs.run_id[runs.alone == is_alone])) for is_alone in (True, False))
    return {**saturated_tables(alone), "bursts": _bursts(alone), "sent": _sent(together)}


def saturated_tables(data: Data) -> FigureTables:
    """``admitted``: one row an admitted request: at_s, and how many there were up to then, count."""
    rows = data.requests.where("decision = 'admit'")
    at_s = f"intended_at_ns / {SECOND_NS} as at_s"
    requests = with_point(data, rows.selectExpr("run_id", "request_id", at_s), {})
    requests = requests.sort_values(["system", "repetition", "request_id"], ignore_index=True)
    requests["count"] = requests.groupby(["system", "repetition"]).cumcount() + 1
    return {"admitted": requests[["system", "repetition", "request_id", "at_s", "count"]]}


def _bursts(data: Data) -> Frame:
    """system, repetition, burst (from 1), rejected_count up to and with it."""
    burst = f"floor(intended_at_ns / {PERIOD_S * SECOND_NS}) + 1 as burst"
    requests = data.requests.selectExpr("run_id", "decision", burst)
    counted = counts_of(requests, ["run_id", "burst"], rejected_count="decision = 'reject'")
    bursts = with_point(data, counted, {}).sort_values(["system", "repetition", "burst"], ignore_index=True)
    bursts["rejected_count"] = bursts.groupby(["system", "repetition"]).rejected_count.cumsum()
    return bursts[["system", "repetition", "burst", "rejected_count"]]


def _sent(data: Data) -> Frame:
    """One row a run: what a node sent in all, and how much that is for each admitted request."""
    from analysis.usage import usage_area, usage_over_time

    used = usage_area(usage_over_time(data.table("usage")))
    counted = counts_of(data.requests, ["run_id"], admitted_count="decision = 'admit'").join(used, "run_id")
    runs = with_point(data, counted.select("run_id", "admitted_count", "sent_bytes"), {"data_set": "workload.set"})
    runs["sent_bytes_each"] = runs.sent_bytes / runs.admitted_count
    return runs[["system", "data_set", "repetition", "admitted_count", "sent_bytes", "sent_bytes_each"]]


def draw_saturated(tables: FigureTables) -> Drawing:
    """Two panels; the first repetition, since all are alike."""
    titles = ("how many", "which (marks of one instant side by side)")
    drawing, (counts, instants) = panels(1, 2, titles, widths=(1.0, 1.2))
    requests = tables["admitted"]
    requests = requests[requests.repetition == requests.repetition.min()]
    end_s = requests.at_s.max()
    for width, (system, name) in zip((3.4, 2.2, 1.2), SYSTEMS.items(), strict=True):
        part = requests[requests.system == system]
        at_s, count = [0, *part.at_s, end_s], [0, *part["count"], part["count"].max()]
        curve(counts, at_s, count, style_of(name), width=width, stairs=True)
    counts.set(xlabel="time (s)", ylabel="admitted requests")
    draw_instants(instants, requests)
    for panel in (counts, instants):
        panel.set_xticks(range(0, int(end_s) + 1, LIFE_S))
    legend_above(drawing, [key(style_of(name), marker=False) for name in SYSTEMS.values()])
    return drawing


def draw_bursts(tables: FigureTables) -> Drawing:
    """Three panels."""
    titles = ("one burst: admitted requests", "bursts with pauses", "sent on 30 nodes (ours)")
    drawing, (burst, pauses, sent) = panels(1, 3, titles)
    requests = tables["admitted"]
    first = requests[(requests.repetition == requests.repetition.min()) & (requests.at_s < PERIOD_S)]
    draw_instants(burst, first)
    rejected = sorted(set(AT_S) - set(first[first.system == LOG].at_s))
    marks(burst, rejected, [list(SYSTEMS).index(LOG)] * len(rejected), REJECTED, 6)
    burst.set_xlim(0, 5)
    key_above(burst, [key(REJECTED, line=False)])
    looks = {system: style_of(name) for system, name in SYSTEMS.items()}
    mean_lines(pauses, tables["bursts"], "burst", "rejected_count", "system", looks, apart_points=3)
    pauses.set(xlabel="bursts, a minute apart", ylabel="rejections since the start")
    key_above(pauses, [key(look) for look in looks.values()], columns=3)
    bytes_sent = tables["sent"].assign(sent_kb=tables["sent"].sent_bytes / 1e3)
    sets = [name for name in DATA_SETS if name in set(bytes_sent.data_set)]
    looks = {LOG: style_of(LOG), "crdt-queue": style_of(QUEUE)}
    mean_bars(sent, bytes_sent, "data_set", "sent_kb", "system", looks, sets)
    sent.set_ylabel("sent by a node (kB)")
    categories(sent, sets)
    key_above(sent, [bar_key(look) for look in looks.values()])
    return drawing


def draw_instants(axes: Axes, requests: Frame) -> None:
    """One row a system, one mark an admitted request; those within 50 ms stand side by side."""
    for place, (system, name) in enumerate(SYSTEMS.items()):
        part = requests[requests.system == system]
        clump = (part.at_s.diff() > 0.05).cumsum()
        shift = part.groupby(clump).cumcount() * 0.22
        at_s = part.groupby(clump).at_s.transform("first") + shift
        marks(axes, at_s, [place] * len(part), style_of(name)._replace(marker="o"))
    categories(axes, [style_of(name).label for name in SYSTEMS.values()], "y")
    axes.set_xlabel("time (s)")


def measure_t23(tables: Tables) -> Evidence:
    """Saturated: counts at multiples of c / r, and requests admitted by one only; bursts: rejections of the log."""
    saturated, bursts = tables["crdt-fig4.1/admitted"], tables["crdt-fig4.2/bursts"]
    log, bucket = (where(saturated, system=system) for system in (LOG, "crdt-queue"))
    apart, only_one = [], []
    for repetition, ours in log.groupby("repetition"):
        theirs = where(bucket, repetition=repetition)
        ends = range(LIFE_S, int(max(ours.at_s.max(), theirs.at_s.max())) + 1, LIFE_S)
        apart.append(float(max(abs((ours.at_s <= end).sum() - (theirs.at_s <= end).sum()) for end in ends)))
        only_one.append(float(len(set(ours.request_id) ^ set(theirs.request_id))))
    last = int(bursts.burst.max())
    checks = [
        at_most("saturated: most that the two counts differ by at multiples of c / r", apart, 0.0, "requests"),
        above("saturated: requests that one of them admits and the other does not", only_one, 0.0, "requests"),
    ]
    rejected = bursts.pivot(index="repetition", columns=["system", "burst"], values="rejected_count")
    after = [within(f"rejections of the log after {n} bursts", samples(rejected[LOG, n]), n, 0.0) for n in (1, last)]
    none = samples(rejected["crdt-queue", last])
    return Evidence((*checks, *after, at_most(f"rejections of the token bucket after {last} bursts", none, 0.0)))


def measure_t24(tables: Tables) -> Evidence:
    """What a node sends: queue over log."""
    sent = tables["crdt-fig4.2/sent"]
    by_system = sent.pivot(index="repetition", columns=["system", "data_set"], values="sent_bytes")
    ratios = by_system["crdt-queue"] / by_system[LOG]
    label = "{}: bytes sent, queue over sliding log"
    return Evidence(tuple(above(label.format(name), samples(ratios[name]), 1.0) for name in sorted(ratios)))


CLAIMS = (
    Claim(
        "T23", "4.1.1, Figs. 4.1, 4.2",
        "A saturated sliding log (lifetime c/r) and token bucket admit equally many requests, but different ones; of "
        "bursts with pauses the log rejects more and more.", ("crdt-fig4.1", "crdt-fig4.2"), measure_t23,
    ),
    Claim(
        "T24", "4.1.2", "The token-bucket queue propagates more data than the sliding-log queue.", ("crdt-fig4.2",),
        measure_t24,
    ),
)  # fmt: skip
SATURATED_NOTES = (
    "At multiples of c / r = 4 s both have admitted equally many; between them the log is behind by up to c - 1, "
    "as it gives its tokens back in bursts. Claim T23 stands with Fig. 4.2."
)
BURST_NOTES = (
    "Panels (a), (b): one node, no randomness. Panel (c): means and 95 % intervals over repetitions; the traffic "
    "stands in for recordings that are secret."
)
TITLES = ("Sliding log and token bucket, saturated: equally many", "Sliding log and token bucket, in bursts")
OF_4_1 = Experiment("crdt-fig4.1", TITLES[0], "CRDT thesis, Fig. 4.1", saturated_points)
FIG4_1 = Figure(OF_4_1, saturated_tables, draw_saturated, notes=SATURATED_NOTES)
OF_4_2 = Experiment("crdt-fig4.2", TITLES[1], "CRDT thesis, Fig. 4.2", burst_points, OF_RUNS)
FIG4_2 = Figure(OF_4_2, burst_tables, draw_bursts, CLAIMS, BURST_NOTES)
