"""What the thesis does not say: the capacity c, and whom a round of gossip may choose.

Ours.  c is secret there; 300 elsewhere here, 150 and 600 beside it.  A round's neighbour is drawn among
those with something queued ("pending"), or among all, where rounds are wasted (digest A13); LINF knows its
neighbour either way.  One row of panels a load of data set B, in units of c, so that loads scale with c.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from harness.experiment import FEWER, Experiment, RunSpec, Scale
from paper_figs.crdt.grids import CAPACITIES, COUNTER, FL, ORACLE, F, at, limited, oracle
from paper_figs.crdt.runs import EXTENSIONS_NOTE, per_run
from paper_figs.crdt.usage import BANDWIDTH, MEMORY, ratio, with_seconds
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import log_axis
from paper_figs.style import SERIES, letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

SERIES_OF = ((COUNTER, "pending"), (COUNTER, "all"), (F, "pending"), (F, "all"), (FL, "pending"))
LOADS = {"B-extreme": "extreme", "B-substantial": "substantial", "B-barely": "barely limited"}
COLUMNS = ("rejections", "worst excess", "queue over counter", "last message")


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Loads x capacities x variants x choices."""
    loads = scale.pick(tiny=["B-barely"], quick=["B-substantial"], paper=list(LOADS))
    found = []
    for load in loads:
        for capacity in scale.pick(tiny=CAPACITIES[:2], quick=CAPACITIES):
            found.append(oracle(load, capacity))
            for variant, choice in SERIES_OF:
                other: dict[str, Any] = {} if choice == "pending" else {"choice": choice}
                found.append(limited(variant, load, capacity, **other))
    return at(scale, found)


def tables(data: "Data") -> FigureTables:
    """``runs``: one row a run; ``ratios``: one row a load, capacity, choice, variant of the queue and area."""
    runs = with_seconds(per_run(data))
    return {"runs": runs, "ratios": ratios(runs)}


def ratios(runs: "pd.DataFrame") -> "pd.DataFrame":
    """The queues' areas over the counter's under the same choice, means over repetitions."""
    import pandas as pd

    rows = []
    for (load, capacity, choice), part in runs[runs.variant != ORACLE].groupby(["data_set", "capacity", "choice"]):
        for variant in sorted(set(part.variant) - {COUNTER}) if COUNTER in set(part.variant) else ():
            for area in (MEMORY, BANDWIDTH):
                rows.append({"data_set": load, "capacity": capacity, "choice": choice, "variant": variant,
                             "area": area, "ratio": ratio(part, area, variant).mean()})  # fmt: skip
    return pd.DataFrame(rows, columns=["data_set", "capacity", "choice", "variant", "area", "ratio"])


def draw(found: FigureTables) -> "Drawing":
    """Four panels a load."""
    runs, areas = found["runs"], found["ratios"]
    loads = [load for load in LOADS if load in set(runs.data_set)]
    drawing, axes = panels(len(loads), len(COLUMNS))
    drawing.set_size_inches(11, 2.4 * len(loads) + 0.5)
    for row, load in zip(axes, loads, strict=True):
        part = runs[runs.data_set == load]
        part = part.assign(percent=100 * part.rejected_ratio.astype(float), excess=100 * part.excess_share)
        _draw_by_capacity(row[0], part, "percent", "of centralised rejections (%)")
        row[0].axhline(100, color="#000000", linewidth=0.8, linestyle=":")
        _draw_by_capacity(row[1], part, "excess", "above the envelope (% of c)")
        _draw_ratios(row[2], areas[areas.data_set == load])
        _draw_by_capacity(row[3], part, "last_sent_s", "last message (s)")
        row[3].axhline(part.load_end_s.max(), color="#555555", linewidth=0.8, linestyle=(0, (4, 3)))
        for n, (panel, column) in enumerate(zip(row, COLUMNS, strict=True)):
            letter(panel, f"({'abcd'[n]}) {column}, {LOADS[load]}")
            panel.set_xlabel("capacity c (tokens)")
    for panel, side in ((axes[0][0], "outside upper center"), (axes[0][2], "outside lower center")):
        handles, labels = panel.get_legend_handles_labels()
        drawing.legend(handles, labels, fontsize=7, ncols=3, loc=cast(Any, side))
    return drawing


def _series(runs: "pd.DataFrame") -> "Iterator[tuple[str, str, pd.DataFrame]]":
    for variant, choice in SERIES_OF:
        part = runs[(runs.variant == variant) & (runs.choice == choice)]
        if len(part):
            yield variant, choice, part


def _draw_by_capacity(axes: "Axes", runs: "pd.DataFrame", value: str, label: str) -> None:
    """Means with standard deviations; open markers where a round chooses among all neighbours."""
    for n, (variant, choice, part) in enumerate(_series(runs)):
        look = style_of(variant)
        found = part.groupby("capacity")[value].agg(["mean", "std"]).fillna(0.0)
        place = found.index * 1.02 ** (n - 2)
        name = look.label if choice == "pending" else f"{look.label}; among all"
        axes.errorbar(place, found["mean"], yerr=found["std"], color=look.colour, marker=look.marker, markersize=4,
                      markerfacecolor=None if choice == "pending" else "#ffffff", linewidth=1.0, capsize=2,
                      linestyle="-" if choice == "pending" else ":", label=name)  # fmt: skip
    _capacity_axis(axes, runs)
    axes.set_ylabel(label, fontsize=8)


def _draw_ratios(axes: "Axes", areas: "pd.DataFrame") -> None:
    """Memory and bandwidth of queue+F, and of queue+F+L, over the counter's under the same choice."""
    looks = zip(((F, "pending"), (F, "all"), (FL, "pending")), ("-", ":", "-"), (F, F, FL), strict=True)
    for (variant, choice), dashes, style in looks:
        for area, name, colour in ((MEMORY, "memory", SERIES[0]), (BANDWIDTH, "bandwidth", SERIES[5])):
            part = areas[(areas.variant == variant) & (areas.choice == choice) & (areas.area == area)]
            if len(part):
                face = None if choice == "pending" else "#ffffff"
                label = f"{name}, {style_of(variant).label}{'' if choice == 'pending' else '; among all'}"
                axes.plot(part.capacity, part.ratio, color=colour, marker=style_of(style).marker, markersize=4,
                          markerfacecolor=face, linewidth=1.0, linestyle=dashes, label=label)  # fmt: skip
    axes.axhline(1.0, color="#000000", linewidth=0.8, linestyle=":")
    log_axis(axes)
    _capacity_axis(axes, areas)
    axes.set_ylabel("over the counter's", fontsize=8)


def _capacity_axis(axes: "Axes", found: "pd.DataFrame") -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    at = sorted(set(found.capacity))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(at, [f"{capacity:g}" for capacity in at])


EXPERIMENT = Experiment(
    "crdt-sensitivity",
    "What the thesis leaves open: capacity, choice of neighbour",
    "ours; CRDT 4.3.3, 3.1",
    points,
    repetitions=FEWER,
)
FIGURE = Figure(
    EXPERIMENT, tables, draw,
    notes=f"{EXTENSIONS_NOTE} At quick scale the substantial load alone. Bars are standard deviations; the dashed "
    "line is the last request. The refill rate is 0.001 c throughout, the frequency threshold 2.4 s.",
)  # fmt: skip
