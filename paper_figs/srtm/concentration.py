"""What Figs. 5 and 6 have in common: four panels (arrivals x batch) over the number of publishers."""

from collections.abc import Iterator, Sequence

import numpy as np

from harness.experiment import Scale
from paper_figs.figure import FigureTables
from paper_figs.light import Artist, Axes, Data, Drawing, Frame, Series
from paper_figs.series import by_repetition, in_ms, where, with_point
from paper_figs.srtm.grids import ARRIVALS
from paper_figs.srtm.series import per_run, slopes, summary
from paper_figs.srtm.strips import p99_sheet

PANELS = (("poisson", 1), ("poisson", 10), ("periodic", 1), ("periodic", 10))
FEWER = 100  # at the scale small: 20 to 100 publishers instead of 2,000 to 10,000
FACTORS = {"publishers": "workload.publishers", "batch": "workload.batch"}
POINT = ["arrivals", "batch", "system", "publishers"]


def shown(scale: Scale) -> Sequence[tuple[str, int]]:
    """The panels that are run."""
    return PANELS[:2] if scale.physics == "small" else PANELS


def publisher_tables(data: Data, by_broker: bool = False) -> FigureTables:
    """``runs``: one row a run; ``p99``: over the repetitions; ``brokers``, if asked for: a row a run and broker."""
    runs = per_run(data, FACTORS).sort_values([*POINT, "repetition"], ignore_index=True)
    tables = {"runs": runs, "p99": summary(runs, POINT)}
    if by_broker:
        latency = data.latency_histogram.where("metric = 'end_to_end_latency'")
        tables["brokers"] = with_point(data, in_ms(latency, {0.99: "p99_ms"}, "run_id", "broker"), FACTORS)
    return tables


def cases(runs: Frame) -> Iterator[tuple[str, Frame]]:
    """The panels that were run: "Poisson, batch 10" and its rows."""
    if runs.empty:
        raise KeyError("runs")
    for kind, batch in PANELS:
        part = runs[(runs.arrivals == kind) & (runs.batch == batch)]
        if len(part):
            yield f"{kind.replace('poisson', 'Poisson')}, batch {batch}", part


def by_arrivals(runs: Frame) -> Iterator[tuple[str, Frame]]:
    """The kinds of arrivals that were run, Poisson first, and their rows."""
    for kind in ARRIVALS:
        part = runs[runs.arrivals == kind]
        if len(part):
            yield kind, part


def by_size(part: Frame, system: str) -> dict[int, Series]:
    """p99 by number of publishers, ascending: each a series over repetitions."""
    runs = where(part, system=system)
    return {int(size): by_repetition(runs, "p99_ms", publishers=size) for size in sorted(set(runs.publishers))}


def log_slope(p99: dict[int, Series]) -> list[float]:
    """Of each repetition: the slope of log p99 against log publishers, least squares over all sizes."""
    import pandas as pd

    logs = np.log(pd.DataFrame(p99))
    return slopes(logs.set_axis(np.log(logs.columns.to_numpy(float)), axis=1))


def draw_cases(
    runs: Frame, systems: Sequence[str], highest_ms: float | None = None, more_keys: Sequence[Artist] = ()
) -> tuple[Drawing, list[Axes]]:
    """(a) to (d), those that were run, and their strips; points above ``highest_ms`` are written at the upper edge."""
    runs = runs.assign(thousands=runs.publishers / 1_000)
    panels, label = list(cases(runs)) if len(runs) else [("", runs)], "publishers (thousands)"
    return p99_sheet(panels, systems, "thousands", label, highest_ms=highest_ms, more_keys=more_keys)
