"""The map of ``srtm-sweep``: what each cell says, and how it is drawn.

A cell is a point of the grid: columns are loads and groups, rows what brokers carry already and how many there are.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from paper_figs import drawing, keys, maps
from paper_figs.figure import FigureTables
from paper_figs.light import Axes, Drawing, Floats, Frame
from paper_figs.series import whole
from paper_figs.style import STYLES, neutral, style_of

COLUMNS = ["arrivals", "batch", "group_size", "spread_ms"]
ROWS = ["others", "brokers"]
POINT = [*COLUMNS, *ROWS]
ORDER = ("poisson", "periodic", "idle", "half", "tight", "stairs", "one free")
COMPARED = (("conc", "lb"), ("max-min", "conc"), ("srtm", "max-min"))  # with a principle, and without it
PRINCIPLES = ("concentration", "max-min shares", "correlation-awareness")
FALSE_DISCOVERIES = 0.05  # share of the coloured cells of a panel that may be chance
MOST_DOUBLINGS = 4.0  # beyond it a colour says "or more"
NONE = "none of them"
COLUMN_LABELS = ("load", "group size", "spread (ms)")
NARROW = 16  # columns up to which two maps stand side by side
EDGE_INCHES, ROW_INCHES = 1.3, (0.35, 0.078)  # of the sheet; of a map, and of each of its rows (twice if narrow)


# --- what cells say --------------------------------------------------------------------------------


def by_system(runs: Frame, value: str, systems: Sequence[str]) -> Frame:
    """``value``: a row a point and repetition, a column a system; KeyError for a system without runs."""
    return runs.pivot(index=[*POINT, "repetition"], columns="system", values=value)[list(systems)]


def doublings_of(runs: Frame, one: str, other: str) -> Frame:
    """log2 of the p99 of ``one`` over that of ``other``, paired by seed: a row a point, a column a repetition.

    Infinite where one of them is; 0 where both are.
    """
    wide = by_system(runs, "p99_ms", (one, other))
    with np.errstate(divide="ignore"):  # what is finite over what is not
        ratios = np.log2(wide[one] / wide[other])
    return ratios.mask(np.isinf(wide).all(axis=1), 0.0).unstack("repetition")


def differences(runs: Frame) -> Frame:
    """Of each two of ``COMPARED`` and point: mean, standard deviation, count and p of the doublings, and two flags.

    ``is_same``: no seed differs.  ``is_sure``: the difference is not chance.  Without both systems there is no row.
    """
    import pandas as pd

    parts = []
    for one, other in COMPARED:
        if {one, other} <= set(runs.system):
            ratios = doublings_of(runs, one, other)
            summary = pd.DataFrame(
                {"mean": ratios.mean(axis=1), "std": ratios.std(axis=1), "count": ratios.count(axis=1)}
            )
            summary = summary[summary["count"] > 0].assign(
                one=one, other=other, is_same=ratios.fillna(0.0).eq(0).all(axis=1)
            )
            summary["p"] = chance(*(summary[name].to_numpy(float) for name in ("mean", "std", "count")))
            summary["is_sure"] = discoveries(summary.p.to_numpy(float))
            parts.append(summary.reset_index())
    columns = [*POINT, "one", "other", "mean", "std", "count", "p", "is_same", "is_sure"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def chance(mean: Floats, std: Floats, count: Floats) -> Floats:
    """Two-sided p of paired t-tests: 1 where there is no difference, one seed alone, or an infinite one."""
    from scipy.stats import t

    p = np.ones(len(mean))
    several = (count > 1) & (mean != 0)
    varies = several & (std > 0)
    p[several & (std == 0)] = 0.0  # every seed says the same
    p[varies] = 2 * t.sf(np.abs(mean[varies]) / (std[varies] / np.sqrt(count[varies])), count[varies] - 1)
    return p


def discoveries(p: Floats) -> Floats:
    """Which of many p are no chance, at a false discovery rate of ``FALSE_DISCOVERIES`` (Benjamini and Hochberg)."""
    from scipy.stats import false_discovery_control

    return false_discovery_control(p) <= FALSE_DISCOVERIES if len(p) else np.zeros(0, bool)


def simplest(runs: Frame, systems: Sequence[str]) -> Frame:
    """Of each point the first of ``systems`` that meets the SLO in more than half of the seeds, and its brokers."""
    share = runs.groupby([*POINT, "system"], as_index=False, sort=False)[["meets", "broker_count"]].mean()
    share["place"] = share.system.map({system: place for place, system in enumerate(systems)})
    every = share[POINT].drop_duplicates()
    first = share[share.meets > 0.5].sort_values("place").drop_duplicates(POINT)
    return every.merge(first[[*POINT, "system", "broker_count"]], on=POINT, how="left").fillna({"system": NONE})


# --- drawing ---------------------------------------------------------------------------------------


class Grid(NamedTuple):
    """The cells of a map: values of ``COLUMNS``, and of ``ROWS``, in the order of drawing."""

    columns: list[tuple[Any, ...]]
    rows: list[tuple[Any, ...]]


def grid_of(cells: Frame) -> Grid:
    """Of all columns and rows of which there is a cell."""
    return Grid(*(sorted(set(cells[names].itertuples(index=False, name=None)), key=_rank) for names in (COLUMNS, ROWS)))


def _rank(names: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(ORDER.index(name) if name in ORDER else name for name in names)


def laid_out(cells: Frame, value: str, grid: Grid) -> Any:
    """The column ``value`` as an array (rows, columns), with NaN where there is no cell."""
    wide = cells.set_index([*ROWS, *COLUMNS])[value]
    return np.array([[wide.get((*row, *column), np.nan) for column in grid.columns] for row in grid.rows])


def draw(tables: FigureTables) -> Drawing:
    """A map a principle, and one of the simplest placement that does; a pair that was not run has no map."""
    cells, first = tables["map"], tables["simplest"]
    grid = grid_of(first)
    beside = 2 if len(grid.columns) <= NARROW else 1
    titles = [
        *(
            f"{name}: {_label(one)} over {_label(other)}"
            for name, (one, other) in zip(PRINCIPLES, COMPARED, strict=True)
        ),
        "the simplest that meets the SLO",
    ]
    height = ROW_INCHES[0] + ROW_INCHES[1] * len(grid.rows) * beside
    sheet, flat = drawing.panels(4 // beside, beside, titles, (7.2, EDGE_INCHES + height * 4 / beside))
    for place, (axes, (one, other)) in enumerate(zip(flat, COMPARED, strict=False)):
        part = cells[(cells.one == one) & (cells.other == other)]
        if part.empty:
            drawing.sentence(axes, "not run")
            continue
        _draw_differences(axes, part, grid)
        _name(axes, grid, place + beside >= len(flat))
    _draw_simplest(flat[-1], first, grid)
    _name(flat[-1], grid, True)
    looks = [style_of(system) for system in STYLES if (first.system == system).any()]
    marks = [*looks, *([neutral(NONE)] if (first.system == NONE).any() else [])]
    keys.legend_above(sheet, [keys.bar_key(look) for look in marks])
    maps.scale(sheet, flat, MOST_DOUBLINGS, "(a) to (c): doublings of the p99; grey: may be chance")
    return sheet


def _draw_differences(axes: Axes, cells: Frame, grid: Grid) -> None:
    values, sure, same = (laid_out(cells, value, grid) for value in ("mean", "is_sure", "is_same"))
    colours = maps.painted(values, MOST_DOUBLINGS)
    colours[(sure == 0) & (same == 0)] = maps.rgba(maps.UNSURE)
    colours[np.isnan(values)] = maps.rgba(maps.ABSENT)
    texts = [["" if np.isnan(value) else f"{value:z.1f}" for value in row] for row in values]
    maps.cells(axes, colours, texts, (sure == 1) & (np.abs(values) > maps.DARK * MOST_DOUBLINGS))


def _draw_simplest(axes: Axes, first: Frame, grid: Grid) -> None:
    names, counts = laid_out(first, "system", grid), laid_out(first, "broker_count", grid)
    look = {NONE: neutral(NONE).colour, "nan": maps.ABSENT}
    colours = np.array([[maps.rgba(look.get(name, style_of(name).colour)) for name in row] for row in names])
    maps.cells(axes, colours, [["" if np.isnan(count) else whole(count) for count in row] for row in counts])


def _name(axes: Axes, grid: Grid, with_columns: bool) -> None:
    """Names of rows and columns, and what they are."""
    columns = [
        (f"{kind.replace('poisson', 'Poisson')}, batch {batch}", str(size), "–" if size == 1 else f"{spread:g}")
        for kind, batch, size, spread in grid.columns
    ]
    rows = [(others, str(brokers)) for others, brokers in grid.rows]
    maps.names(axes, rows, columns, ("they carry", "brokers"), COLUMN_LABELS if with_columns else ())


def _label(system: str) -> str:
    return style_of(system).label
