"""Fig. 5.2: counter and queue on one node are one and the same token bucket.

(a) Rejections on data set A, where the thesis finds "nearly identical" curves.  (b) Ours: how many requests each
decides otherwise than the centralised limiter, on every data set, and the same of the counter as the listings print
it: its refill is not bounded by the bucket, and a fraction of a token admits (digest A6, A7).
"""

from itertools import product
from math import isnan

from analysis.tables import collect
from analysis.verdicts import Claim, Evidence, Tables, at_most
from core.records import Options
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import D_LIMIT, at, limited
from paper_figs.crdt.precision import draw_curves
from paper_figs.crdt.runs import curves, per_run
from paper_figs.crdt.variants import CENTRAL_COUNTER, CENTRAL_QUEUE, COUNTER, ORACLE, QUEUE
from paper_figs.drawing import note, panels
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, key_above
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import by_repetition, samples
from paper_figs.sheets import keep_sheet
from paper_figs.style import style_of

ON_ONE = CENTRAL_COUNTER, CENTRAL_QUEUE
PRINTED = f"{CENTRAL_COUNTER}, as printed"
AS_PRINTED: Options = {"refill_cap": "literal", "whole_tokens": False}
SETS = ("A", "B-extreme", "B-substantial", "B-barely", "B-not-limited", "C", "D")
POINT = ["data_set", "variant", "repetition"]


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Data sets x limiters; C, of half a million requests, at paper scale only."""
    sets = scale.pick(tiny=["A", "D"], quick=[name for name in SETS if name != "C"], paper=SETS)
    specs = []
    for name in sets:
        limit = D_LIMIT if name == "D" else {}  # the others have the default
        specs.append(limited(ORACLE, name, **limit))
        specs += [limited(variant, name, nodes=1, **limit) for variant in (COUNTER, QUEUE)]
        if name != "C":
            specs.append(limited(COUNTER, name, nodes=1, **limit, **AS_PRINTED))
    return at(scale, specs)


def tables(data: Data) -> FigureTables:
    """``decisions``: one row a run but the oracles': offered_count and differing_count; ``curves``: A's by second."""
    from pyspark.sql import functions as f

    from analysis.limiting import rejections_over_time

    runs = per_run(data, used=False, more={"refill_cap": "system.refill_cap"})
    runs["variant"] = runs["variant"].where(runs["refill_cap"].isna(), PRINTED)
    runs["differing_count"] = runs["false_admit_count"] + runs["false_reject_count"] + runs["lost_count"]
    decisions = runs[runs.variant != ORACLE].sort_values(POINT, ignore_index=True)
    drawn = data.runs.where((f.col("factors")["workload.set"] == "A") & f.col("factors")["system.refill_cap"].isNull())
    rejections = rejections_over_time(data.requests.join(drawn.select("run_id"), "run_id"), SECOND_NS)
    rows = collect(rejections, ["run_id", "t_ns"])
    return {
        "decisions": decisions[[*POINT, "offered_count", "rejected_count", "differing_count"]],
        "curves": curves(rows, runs, "rejected_count", "offered_count"),
    }


def draw(tables: FigureTables) -> Drawing:
    """Rejections on A, and a table of all data sets."""
    titles = ("data set A", "requests decided otherwise than by the centralised limiter (worst run)")
    drawing, (rejections, table) = panels(1, 2, titles, inches=(8.6, 2.8), widths=(1.0, 1.5))
    curves, variants = tables["curves"], (ORACLE, *ON_ONE)
    offered = draw_curves(rejections, curves, variants, int(tables["decisions"].repetition.nunique()))
    wide = curves.pivot_table(index="t_s", columns="variant", values="rejected_count")
    apart = (wide.max(axis=1) - wide.min(axis=1)).max()
    text = f"most that two are apart:\n{apart:,.0f} requests of {wide.max().max():,.0f}"
    note(rejections, text, (0.97, 0.08), right=True)
    key_above(rejections, [*offered, *(key(style_of(name), marker=False) for name in variants)])
    _draw_table(table, tables["decisions"])
    return drawing


def _draw_table(axes: Axes, decisions: Frame) -> None:
    from matplotlib.transforms import Bbox

    worst = decisions.pivot_table(index="data_set", columns="variant", values="differing_count", aggfunc="max")
    offered = decisions.groupby("data_set").offered_count.max()
    variants = [name for name in (*ON_ONE, PRINTED) if name in worst]
    sets = [name for name in SETS if name in worst.index]
    shown = worst.assign(requests=offered).loc[sets, ["requests", *variants]]
    cells = [["-" if isnan(count) else f"{count:,.0f}" for count in row] for row in shown.to_numpy(float)]
    names = [style_of(variant).label for variant in variants]
    heads = ["requests", *(name.replace(", ", ",\n").replace(" on one", "\non one") for name in names)]
    keep_sheet(axes, ["data set", *heads], [[name, *row] for name, row in zip(sets, cells, strict=True)])
    box = Bbox.from_bounds(0.16, 0.0, 0.84, 0.97)
    table = axes.table(cells, rowLabels=sets, colLabels=heads, cellLoc="right", edges="horizontal", bbox=box)
    table.auto_set_font_size(False)
    table.set_fontsize(7)
    for column in range(len(heads)):
        table[0, column].set_height(2.2 * table[1, column].get_height())  # three lines
    axes.set_axis_off()


def measure_t2(tables: Tables) -> Evidence:
    """Requests decided otherwise, on each data set that was run, by the counter and the queue on one node: none."""
    decisions = tables["crdt-fig5.2/decisions"]
    checks = []
    for name, variant in product([name for name in SETS if name in set(decisions.data_set)], ON_ONE):
        differing = samples(by_repetition(decisions, "differing_count", data_set=name, variant=variant))
        checks.append(at_most(f"data set {name}: requests that the {variant} decides otherwise", differing, 0.0))
    return Evidence(tuple(checks))


CLAIMS = (
    Claim(
        "T2", "5.1.2, Fig. 5.2",
        "On one node counter and queue reject nearly the same; made exact: they and the centralised limiter decide "
        "every request alike, whatever the data set.", ("crdt-fig5.2",), measure_t2,
    ),
)  # fmt: skip
NOTES = (
    "The claim holds for any requests, so that substitutes for secret data sets serve as well. As printed: "
    "Listing 3.1 bounds each refill rather than the bucket, and admits on a fraction of a token. "
    "Bands: 95 % intervals over repetitions."
)
EXPERIMENT = Experiment("crdt-fig5.2", "Counter and queue on one node", "CRDT, Fig. 5.2", points)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
