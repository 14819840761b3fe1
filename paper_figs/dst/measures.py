"""dst-measures: over-throttling and steady spread under the four nodal measures of Table 1, the same loads for all.

Ours: Section 8 leaves it open.  A measure's update cycle is scaled so that, about equal loads, limits follow demand as
fast as under Case I at the cycle that is drawn: Cases II and III divide by the requests, so that theirs is as many
times longer as a server has requests (Eq. (42)).  Case IV is frozen (Eq. (48)).  Flows are cut on each link, as the
throttler's nodes cut them, so that no limit falls below 0: where a server's requests become few, Case II would run
away, as it divides by them.
"""

from itertools import product

import numpy as np

from paper_figs import drawing, keys
from paper_figs.dst.drawing import LABELS, analytic
from paper_figs.dst.iterated import limits_of, loads, overthrottling_percent
from paper_figs.dst.loads import LOADS
from paper_figs.dst.published import CYCLE
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import geometric
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import frame_of
from paper_figs.style import Dashes, Style, series
from systems.parts.throttling import MEASURES, Array

SPEEDS = (0.005, CYCLE, 0.05, 0.1, 0.2)  # update cycles of Case I; 0.2 is stable on both graphs
KINDS = ("ar1", "iid")
DRAWS = 20  # loads of each kind
SEED = 1
SETTLED = 200  # cycles, after which the spread is taken
NAMES = ("I, throttled", "II, throttled over requested", "III, logarithm", "IV, frozen")
CASES = dict(zip(MEASURES, NAMES, strict=True))
LOOKS = {measure: series(f"Case {name}", n, "osD^"[n]) for n, (measure, name) in enumerate(CASES.items())}
DASHES: dict[str, Dashes] = {"dst-1": "--", "dst-2": "-"}
PER_REQUEST = ("throttled-ratio", "log-ratio")  # measures without a unit


def tables(data: Data) -> FigureTables:
    """``measures``: load, graph, measure, speed, draw, overthrottling_percent, spread_percent.

    Spread: the standard deviation over servers of what they throttle, r - x, over the mean load of a server; its root
    mean square over the cycles after the first 200.
    """
    demands = np.concatenate(
        [loads(SEED, DRAWS, kind=kind) for kind in KINDS], axis=1
    )  # (cycles, both kinds' draws, servers)
    mean = float(demands.mean())
    rows = []
    for graph, measure, speed in product(LABELS, MEASURES, SPEEDS):
        g = speed * (mean if measure in PER_REQUEST else 1.0)
        limits = limits_of(graph, demands, measure, g, clamp=True)
        measured = zip(overthrottling_percent(demands, limits), 100 * spread(demands, limits) / mean, strict=True)
        for number, (over, apart) in enumerate(measured):
            kind, draw = divmod(number, DRAWS)
            rows.append((KINDS[kind], graph, measure, speed, draw, float(over), float(apart)))
    columns = ("load", "graph", "measure", "speed", "draw", "overthrottling_percent", "spread_percent")
    return {"measures": frame_of(rows, columns)}


def spread(demands: Array, limits: Array) -> Array:
    """Of r - x over servers, root mean square of the settled cycles: float64 (draws,), in requests a cycle."""
    apart = (demands - limits)[SETTLED:].var(axis=2)
    root: Array = np.sqrt(apart.mean(axis=0))
    return root


def draw(tables: FigureTables) -> Drawing:
    """A row a load: over-throttling and spread over the update cycle, a line a measure and graph."""
    names = [f"{what}, {LOADS[kind]}" for kind in KINDS for what in ("over-throttling", "steady spread")]
    sheet, axes = drawing.panels(2, 2, names, inches=(8.2, 5.8), share_x=True)
    values = ("overthrottling_percent", "spread_percent")
    for panel, (kind, value) in zip(axes, product(KINDS, values), strict=True):
        _draw_lines(panel, tables["measures"], kind, value)
    for panel in axes[2:]:
        panel.set_xlabel("update cycle $\\gamma$ of Case I, or as fast")
    for panel, text in zip(axes, ("over-throttling (%)", "spread of $r_i - x_i$ (% of mean load)") * 2, strict=True):
        panel.set_ylabel(text)
    graphs = [Style(label, drawing.GREY, "", DASHES[name]) for name, label in LABELS.items()]
    lines = [*map(keys.key, LOOKS.values()), *(keys.key(look, marker=False) for look in graphs)]
    keys.legend_above(sheet, [*lines, keys.rule_key("the paper's cycle")], columns=4)
    return sheet


def _draw_lines(axes: Axes, runs: Frame, kind: str, value: str) -> None:
    drawing.log_axis(axes, "x", at=SPEEDS)
    drawing.log_axis(axes)
    for graph, dashes in DASHES.items():
        part = runs[(runs.load == kind) & (runs.graph == graph)]
        looks = {measure: look._replace(dashes=dashes) for measure, look in LOOKS.items()}
        drawing.mean_lines(axes, part, "speed", value, "measure", looks, measure=geometric)
    drawing.rule(axes, CYCLE, "x")


NOTES = (
    f"{DRAWS} loads of 1,000 cycles of each kind, the same for all measures and graphs, and the law in matrices. Up to "
    "the paper's cycle Cases I to III throttle alike: how fast limits follow decides, and the graph. Beyond it II and "
    "III lose what I gains, III first: they act the more strongly the smaller a server's requests or limit, so that a "
    "cycle that suits the mean load is too long there. Under IV the even split that all begin with is at rest: nothing "
    "is handed on, as without links. Lines: geometric means over loads with 95 % intervals, of logarithms."
)
TITLE = "The nodal measures under the same loads"
FIGURE = Figure(analytic("dst-measures", TITLE, "ours; DST, Section 8"), tables, draw, notes=NOTES)
