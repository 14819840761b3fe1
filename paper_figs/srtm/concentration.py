"""What Figs. 5 and 6 have in common: four panels (arrivals x batch) over the number of publishers."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from core.units import MILLISECOND_NS
from harness.experiment import Scale
from paper_figs.figure import FigureTables
from paper_figs.series import by_repetition, legend_above, log_axis, where, whole, with_point
from paper_figs.srtm.grids import ARRIVALS
from paper_figs.srtm.series import draw_p99, per_run, summary
from paper_figs.srtm.strips import draw_strips, panels_with_strips
from paper_figs.style import letter, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

PANELS = (("poisson", 1), ("poisson", 10), ("periodic", 1), ("periodic", 10))
FEWER = 100  # at the scale small: 20 to 100 publishers instead of 2,000 to 10,000
FACTORS = {"publishers": "workload.publishers", "batch": "workload.batch"}
POINT = ["arrivals", "batch", "system", "publishers"]


def shown(scale: Scale) -> "Sequence[tuple[str, int]]":
    """The panels that are run."""
    panels: Sequence[tuple[str, int]] = scale.pick(small=PANELS[:2], tiny=PANELS)
    return panels


def publisher_tables(data: "Data", by_broker: bool = False) -> FigureTables:
    """``runs``: one row a run; ``p99``: over the repetitions; ``brokers``, if asked for: one row a run and broker."""
    runs = per_run(data, FACTORS).sort_values([*POINT, "repetition"], ignore_index=True)
    found = {"runs": runs, "p99": summary(runs, POINT)}
    if by_broker:
        found["brokers"] = p99_by_broker(data)
    return found


def p99_by_broker(data: "Data") -> "pd.DataFrame":
    """One row a run and broker: the p99 of that broker's publishers on the fresh round, ``p99_ms``."""
    from analysis import metrics

    latency = data.latency_histogram.where("metric = 'end_to_end_latency'")
    found = metrics.percentiles(metrics.final_round(latency), ["run_id", "broker"], [0.99])
    return with_point(data, found.selectExpr("run_id", "broker", f"p99_ns / {MILLISECOND_NS} as p99_ms"), FACTORS)


def cases(runs: "pd.DataFrame") -> "Iterator[tuple[str, pd.DataFrame]]":
    """The panels that were run: "Poisson, batch 10" and its rows."""
    if runs.empty:
        raise KeyError("runs")
    for kind, batch in PANELS:
        part = runs[(runs.arrivals == kind) & (runs.batch == batch)]
        if len(part):
            yield title(kind, batch), part


def by_arrivals(runs: "pd.DataFrame") -> "Iterator[tuple[str, pd.DataFrame]]":
    """The kinds of arrivals that were run, Poisson first, and their rows."""
    for kind in ARRIVALS:
        part = runs[runs.arrivals == kind]
        if len(part):
            yield kind, part


def title(kind: str, batch: int) -> str:
    """A panel's name."""
    return f"{kind.capitalize() if kind == 'poisson' else kind}, batch {batch}"


def by_size(part: "pd.DataFrame", system: str) -> "dict[int, pd.Series]":
    """p99 by number of publishers, ascending: each a series over repetitions."""
    found = where(part, system=system)
    return {int(size): by_repetition(found, "p99_ms", publishers=size) for size in sorted(set(found.publishers))}


def log_slope(p99: "dict[int, pd.Series]") -> list[float]:
    """Of each repetition: the slope of log p99 against log publishers, least squares over all sizes."""
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame(p99).dropna()
    if len(frame) == 0 or len(p99) < 2:
        return []
    return [
        float(slope) for slope in np.polyfit(np.log(frame.columns.to_numpy(float)), np.log(frame.T.to_numpy()), 1)[0]
    ]


def draw_panels(points: "pd.DataFrame", systems: Sequence[str], highest_ms: float | None = None) -> "Drawing":
    """(a) to (d), those that were run, and their strips; points above ``highest_ms`` are written at the upper edge."""
    run = {(kind, batch) for kind, batch in zip(points.arrivals, points.batch, strict=True)}
    present = [panel for panel in PANELS if panel in run] or PANELS
    rows = -(-len(present) // 2)
    drawing, places = panels_with_strips(rows, 2, (7.0, 4.3 * rows))
    for n, ((kind, batch), (top, strips)) in enumerate(zip(present, places, strict=False)):
        found = points[(points.arrivals == kind) & (points.batch == batch)]
        draw_p99(top, found, "publishers", systems, slo_in_legend=True)
        log_axis(top, (1, 2, 5) if highest_ms is None else (1, 1.5, 2, 3, 5, 7))
        if highest_ms is not None:
            _write_above(top, found, highest_ms)
        letter(top, f"({'abcd'[n]}) {title(kind, batch)}")
        draw_strips(strips, found, "publishers", systems, labels=n % 2 == 0)
        if n % 2 == 0:
            top.set_ylabel("p99 end-to-end latency (ms)")
        if n >= 2 * rows - 2:
            strips[-1].set_xlabel("publishers (thousands)")
    sizes = sorted(set(points.publishers))
    places[0][0].set_xticks(sizes, [f"{size / 1000:g}" for size in sizes])
    legend_above(drawing, places[0][0])
    return drawing


def _write_above(axes: "Axes", found: "pd.DataFrame", highest_ms: float) -> None:
    """An overloaded broker's p99 says how long the run was: its number is enough, and the axis is for the others."""
    axes.set_ylim(top=highest_ms)
    for row in found[found["mean"] > highest_ms].to_dict("records"):
        axes.annotate(f"{row['mean']:,.0f} ms \u2191 {whole(row['broker_count'])}", (row["publishers"], highest_ms),
                      xytext=(4, -1), textcoords="offset points", ha="right", va="top", fontsize=6.5,
                      color=style_of(row["system"]).colour)  # fmt: skip
