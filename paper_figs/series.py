"""What figures of all papers have in common: runs as small tables, samples for claims, axes and legends."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Check, above, below
from core.units import MILLISECOND_NS

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from analysis.spark import Data


def with_point(
    data: "Data",
    frame: "DataFrame",
    factors: Mapping[str, str],
    axes: Sequence[str] = ("arrivals", "system", "repetition", "outcome"),
) -> "pd.DataFrame":
    """``frame`` (with run_id) and what names each run's point: columns of its run, the factors; ordered by these."""
    from pyspark.sql import functions as f

    from analysis.spark import collect

    named = [f.col("factors")[name].alias(column) for column, name in factors.items()]
    points = data.runs.withColumnRenamed("workload", "arrivals").select("run_id", *axes, *named)
    first = [axis for axis in axes if axis not in ("repetition", "outcome")]
    return plain(collect(frame.join(points, "run_id"), [*first, *factors, "repetition", *frame.columns]), factors)


def in_ms(latency: "DataFrame", quantiles: Mapping[float, str], *by: str) -> "DataFrame":
    """Quantiles of rows of ``latency_histogram``, by ``by``: a column a name of ``quantiles``, in ms."""
    from analysis import metrics

    columns = [f"{metrics.quantile_name(q)} / {MILLISECOND_NS} as {name}" for q, name in quantiles.items()]
    return metrics.percentiles(metrics.final_round(latency), list(by), list(quantiles)).selectExpr(*by, *columns)


def plain(frame: "pd.DataFrame", factors: Iterable[str]) -> "pd.DataFrame":
    """Factors from the text that the tables hold to numbers and truth values; text that is neither stays."""
    for column in factors:
        frame[column] = [_value(text) for text in frame[column]]
    return frame


def _value(text: Any) -> Any:
    """A factor that a run does not have is no text, and stays as it is."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


def with_others(systems: Sequence[str], points: "pd.DataFrame") -> list[str]:
    """``systems``, and after them those that joined the figure's grid."""
    return [*systems, *sorted(set(points.system) - set(systems))]


def where(frame: "pd.DataFrame", **values: Any) -> "pd.DataFrame":
    """The rows with these values; KeyError where there are none, so that a claim without data is undecided."""
    for column, value in values.items():
        frame = frame[frame[column] == value]
    if frame.empty:
        raise KeyError(", ".join(f"{column}={value}" for column, value in values.items()))
    return frame


def by_repetition(frame: "pd.DataFrame", value: str, **values: Any) -> "pd.Series":
    """The values of one point, indexed by repetition: one row each, or ``values`` do not name a point."""
    column = where(frame, **values).set_index("repetition")[value].sort_index()
    assert column.index.is_unique, f"several rows a repetition of {value} at {values}"
    return column


def samples(series: "pd.Series") -> list[float]:
    """What a check wants: the values without the repetitions that lack one."""
    return [float(value) for value in series.dropna()]


def doublings(one: "pd.Series", other: "pd.Series | float") -> "pd.Series":
    """log2(one / other), paired by repetition (without the unpaired ones): above 0 where ``one`` is larger.

    For orders between latencies that span decades: in a plain difference one repetition's burst of
    waiting for tokens would outweigh all others.
    """
    import numpy as np

    ratio: pd.Series = np.log2(one / other)
    return ratio.dropna()


def whole(count: float) -> str:
    """``"3"``, or ``"3.4"`` where repetitions differ."""
    return f"{count:.0f}" if abs(count - round(count)) < 0.05 else f"{count:.1f}"


def steps(runs: "pd.DataFrame", value: str, x: str, rises: bool = True, unit: str = "") -> list[Check]:
    """``value`` rises (or falls) with ``x``: one check between neighbours, differences paired by repetition."""
    at = sorted(set(runs[x]))
    checks = []
    for smaller, larger in pairwise(at):
        change = by_repetition(runs, value, **{x: larger}) - by_repetition(runs, value, **{x: smaller})
        check = above if rises else below
        checks.append(check(f"{value}, {x} = {larger} minus {x} = {smaller}", samples(change), 0.0, unit))
    return checks
