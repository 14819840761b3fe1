"""What Figs. 5 to 9 have in common: one p99 a run, samples for claims, and a panel of p99 against x."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Check, above, below
from paper_figs.style import slo_line, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SLO_MS = 1.0  # SRTM VI, footnote 10
SLO_MARGIN = 1.05  # "meets the SLO": the interval of the mean p99 is not above 1.05 x SLO


def where(frame: "pd.DataFrame", **values: Any) -> "pd.DataFrame":
    """The rows with these values; KeyError where there are none, so that a claim without data is undecided."""
    for column, value in values.items():
        frame = frame[frame[column] == value]
    if frame.empty:
        raise KeyError(", ".join(f"{column}={value}" for column, value in values.items()))
    return frame


def by_repetition(frame: "pd.DataFrame", value: str, **values: Any) -> "pd.Series":
    """The values of one point, indexed by repetition."""
    return where(frame, **values).groupby("repetition")[value].mean().sort_index()


def samples(series: "pd.Series") -> list[float]:
    """What a check wants: the values without the repetitions that lack one."""
    return [float(value) for value in series.dropna()]


def draw_p99(axes: "Axes", points: "pd.DataFrame", x: str, systems: Sequence[str], counts: bool = True) -> None:
    """p99 against ``x``, mean and standard deviation, with the mean number of brokers beside each point.

    ``points``: one row a system and x, with ``mean``, ``std`` and ``broker_count``.  The lower of two
    curves has its numbers below, the upper one above.
    """
    for system in systems:
        found = points[points.system == system].sort_values(x)
        style = style_of(system)
        axes.errorbar(found[x], found["mean"], yerr=_bars(found), label=style.label, color=style.colour,
                      marker=style.marker, linestyle=style.dashes, markersize=4, linewidth=1.2, capsize=2)  # fmt: skip
        if not counts:
            continue
        for row in found.to_dict("records"):
            others = points[(points[x] == row[x]) & (points.system != system)]
            upper = bool((others["mean"] < row["mean"]).any()) or others.empty
            axes.annotate(_whole(row["broker_count"]), (row[x], row["mean"]), xytext=(0, 5 if upper else -5),
                          textcoords="offset points", ha="center", va="bottom" if upper else "top",
                          fontsize=6.5, color=style.colour)  # fmt: skip
    slo_line(axes, SLO_MS)


def _bars(found: "pd.DataFrame") -> Any:
    """Standard deviations; on a log axis the lower end must stay above 0."""
    import numpy as np

    return np.array([np.minimum(found["std"], 0.9 * found["mean"]), found["std"]])


def _whole(count: float) -> str:
    """``"3"``, or ``"3.4"`` where repetitions differ."""
    return f"{count:.0f}" if abs(count - round(count)) < 0.05 else f"{count:.1f}"



def steps(runs: "pd.DataFrame", value: str, x: str, rises: bool = True, unit: str = "") -> list[Check]:
    """``value`` rises (or falls) with ``x``: one check between neighbours, differences paired by repetition."""
    at = sorted(set(runs[x]))
    checks = []
    for smaller, larger in zip(at, at[1:], strict=False):
        change = by_repetition(runs, value, **{x: larger}) - by_repetition(runs, value, **{x: smaller})
        check = above if rises else below
        checks.append(check(f"{value}, {x} = {larger} minus {x} = {smaller}", samples(change), 0.0, unit))
    return checks
