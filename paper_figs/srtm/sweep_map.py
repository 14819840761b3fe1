"""The map of ``srtm-sweep``: what each cell says, and how it is drawn.

A cell is a point of the grid: columns are loads and groups, rows what brokers carry already and how many there are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paper_figs import drawing, keys, maps
from paper_figs.figure import FigureTables
from paper_figs.light import Axes, Drawing, Floats, Frame
from paper_figs.series import whole
from paper_figs.style import STYLES, style_of

COLUMNS = ["arrivals", "batch", "group_size", "spread_ms"]
ROWS = ["others", "brokers"]
POINT = [*COLUMNS, *ROWS]
ORDER = {"arrivals": ("poisson", "periodic"), "others": ("idle", "half", "tight", "stairs", "one free")}
COMPARED = (("conc", "lb"), ("max-min", "conc"), ("srtm", "max-min"))  # with a principle, and without it
PRINCIPLES = ("concentration", "max-min shares", "correlation-awareness")
FALSE_DISCOVERIES = 0.05  # share of the coloured cells of a panel that may be chance
MOST_DOUBLINGS = 4.0  # beyond it a colour says "or more"
NONE = "none of them"


# --- what cells say --------------------------------------------------------------------------------


def by_system(runs: Frame, value: str, systems: Sequence[str]) -> Frame:
    """``value``: a row a point and repetition, a column a system; KeyError for a system without runs."""
    return runs.pivot(index=[*POINT, "repetition"], columns="system", values=value)[list(systems)]


def doublings_of(runs: Frame, one: str, other: str) -> Frame:
    """log2 of the p99 of ``one`` over that of ``other``, paired by seed: a row a point, a column a repetition."""
    wide = by_system(runs, "p99_ms", (one, other))
    return np.log2(wide[one] / wide[other]).unstack("repetition")


def differences(runs: Frame) -> Frame:
    """Of each two of ``COMPARED`` and point: mean, standard deviation, count and p of the doublings, and two flags.

    ``is_same``: no seed differs.  ``is_sure``: the difference is not chance.  Without both systems there is no row.
    """
    import pandas as pd

    parts = []
    for one, other in COMPARED:
        if {one, other} <= set(runs.system):
            ratios = doublings_of(runs, one, other)
            summary = pd.DataFrame({"mean": ratios.mean(axis=1), "std": ratios.std(axis=1), "count": ratios.count(axis=1)})
            summary = summary[summary["count"] > 0].assign(one=one, other=other, is_same=(ratios == 0).all(axis=1))
            summary["p"] = chance(*(summary[name].to_numpy(float) for name in ("mean", "std", "count")))
            summary["is_sure"] = discoveries(summary.p.to_numpy(float))
            parts.append(summary.reset_index())
    columns = [*POINT, "one", "other", "mean", "std", "count", "p", "is_same", "is_sure"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def chance(mean: Floats, std: Floats, count: Floats) -> Floats:
    """Two-sided p of paired t-tests: 1 where there is no difference, or one seed alone."""
    from scipy.stats import t

    p = np.ones(len(mean))
    several = (count > 1) & (mean != 0)
    varies = several & (std > 0)
    p[several & ~varies] = 0.0  # every seed says the same
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
