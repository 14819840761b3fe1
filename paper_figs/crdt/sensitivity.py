"""What the thesis does not say: the capacity c, and whom a round of gossip may choose.

Ours.  c is secret there; 300 elsewhere here, 150 and 600 beside it.  A round's neighbour is drawn among
those with something queued ("pending"), or among all, where rounds are wasted (digest A13); LINF knows its
neighbour either way.  One row of panels a load of data set B, in units of c, so that loads scale with c.
"""

from collections.abc import Iterator
from itertools import product

from core.records import Options
from harness.experiment import FEWER, Experiment, RunSpec, Scale
from paper_figs.crdt import readings
from paper_figs.crdt.grids import CAPACITIES, at, limited
from paper_figs.crdt.published import BANDWIDTH, MEMORY
from paper_figs.crdt.runs import EXTENSIONS_NOTE, per_run
from paper_figs.crdt.usage import ratio, with_seconds
from paper_figs.crdt.variants import COUNTER, FL, ORACLE, F
from paper_figs.drawing import log_axis, mean_lines, panels, rule
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, key_above, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.series import frame_of
from paper_figs.style import Looks, series, style_of

SERIES_OF = ((COUNTER, "pending"), (COUNTER, "all"), (F, "pending"), (F, "all"), (FL, "pending"))
LOADS = {"B-extreme": "extreme", "B-substantial": "substantial", "B-barely": "barely limited"}
MEMORY_LOOK, BANDWIDTH_LOOK = series("memory", 0), series("bandwidth", 5)
COLUMNS = ("rejections", "worst excess", "queue over counter", "last message")


def _series(variant: str, choice: str) -> str:
    return variant if choice == "pending" else f"{variant}; among all"


LOOKS = {
    _series(variant, choice): style_of(variant)._replace(
        label=_series(style_of(variant).label, choice),
        dashes="-" if choice == "pending" else ":",
        is_open=choice == "all",
    )
    for variant, choice in SERIES_OF
}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Loads x capacities x variants x choices."""
    loads = scale.pick(tiny=["B-barely"], quick=["B-substantial"], paper=list(LOADS))
    specs = []
    for load, capacity in product(loads, scale.pick(tiny=CAPACITIES[:2], quick=CAPACITIES)):
        specs.append(limited(ORACLE, load, options, capacity))
        for variant, choice in SERIES_OF:
            other: Options = {} if choice == "pending" else {"choice": choice}
            specs.append(limited(variant, load, options, capacity, **other))
    return at(scale, specs)


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run; ``ratios``: one row a load, capacity, choice, variant of the queue and area."""
    runs = with_seconds(per_run(data))
    rows = [(*point, quotients.mean()) for *point, quotients in ratios(runs)]
    return {"runs": runs, "ratios": frame_of(rows, ["data_set", "capacity", "choice", "variant", "area", "ratio"])}


def ratios(runs: Frame) -> Iterator[tuple[str, int, str, str, str, Series]]:
    """data_set, capacity, choice, variant, area: the queues' areas over the counter's under the same choice."""
    for (data_set, capacity, choice), part in runs[runs.variant != ORACLE].groupby(["data_set", "capacity", "choice"]):
        variants = set(part.variant)
        for variant, area in product(sorted(variants - {COUNTER}), (MEMORY, BANDWIDTH) if COUNTER in variants else ()):
            yield data_set, capacity, choice, variant, area, ratio(part, area, variant)


def draw(tables: FigureTables) -> Drawing:
    """Four panels a load."""
    runs = tables["runs"]
    runs = runs.assign(percent=100 * runs.rejected_ratio.astype(float), excess=100 * runs.excess_share)
    runs["series"] = [_series(*point) for point in zip(runs.variant, runs.choice, strict=True)]
    loads = [load for load in LOADS if load in set(runs.data_set)]
    titles = [f"{column}, {LOADS[load]}" for load in loads for column in COLUMNS]
    drawing, axes = panels(len(loads), len(COLUMNS), titles, inches=(11, 2.6 * len(loads) + 0.3))
    for n, load in enumerate(loads):
        part = runs[runs.data_set == load]
        rejections, excess, queue, last = axes[n * len(COLUMNS) : (n + 1) * len(COLUMNS)]
        _draw_by_capacity(rejections, part, "percent", "of centralised rejections (%)")
        rule(rejections, 100, reference=True)
        _draw_by_capacity(excess, part, "excess", "above the envelope (% of c)")
        _draw_ratios(queue, part)
        _draw_by_capacity(last, part, "last_sent_s", "last message (s)")
        rule(last, part.load_end_s.max())
    legend_above(drawing, [key(look) for look in LOOKS.values()])
    return drawing


def _draw_by_capacity(axes: Axes, runs: Frame, value: str, label: str, looks: Looks = LOOKS) -> None:
    log_axis(axes, "x", at=sorted(set(runs.capacity)))
    mean_lines(axes, runs, "capacity", value, "series", looks, apart_points=3)
    axes.set(xlabel="capacity c (tokens)", ylabel=label)


def _draw_ratios(axes: Axes, runs: Frame) -> None:
    log_axis(axes)
    rows = [
        (area, capacity, _series(variant, choice), quotient)
        for _, capacity, choice, variant, area, quotients in ratios(runs)
        for quotient in quotients
    ]
    measured = frame_of(rows, ["area", "capacity", "series", "ratio"])
    for area, colour_of in ((MEMORY, MEMORY_LOOK), (BANDWIDTH, BANDWIDTH_LOOK)):
        looks = {name: look._replace(colour=colour_of.colour) for name, look in LOOKS.items()}
        _draw_by_capacity(axes, measured[measured.area == area], "ratio", "over the counter's", looks)
    rule(axes, 1, reference=True)
    key_above(axes, [key(look, marker=False) for look in (MEMORY_LOOK, BANDWIDTH_LOOK)])


NOTES = (
    f"{EXTENSIONS_NOTE} At quick scale the substantial load alone. Error bars: 95 % intervals over repetitions; the "
    "dashed line is the last request. The refill rate is 0.001 c throughout, the frequency threshold 2.4 s."
)
TITLE = "What the thesis leaves open: capacity, choice of neighbour"
READINGS = (readings.PHASE, readings.BIRTHS, readings.IDENTITY, readings.MEMORY, readings.UNIT)
EXPERIMENT = Experiment("crdt-sensitivity", TITLE, "ours; CRDT 4.3.3, 3.1", points, READINGS, repetitions=FEWER)
FIGURE = Figure(EXPERIMENT, tables, draw, (), NOTES)
