"""What figures of all papers have in common: runs as small tables, samples for claims, axes and legends."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TypeVar

from analysis.tables import collect
from analysis.verdicts import Check, above, below
from core.records import Options
from core.units import MILLISECOND_NS
from paper_figs.light import Data, Frame, Series, SparkFrame

Name = TypeVar("Name")
QUANTILES = {0.5: "p50_ms", 0.95: "p95_ms", 0.99: "p99_ms"}  # for ``in_ms``


def with_point(
    data: Data,
    frame: SparkFrame,
    factors: Mapping[str, str],
    axes: Sequence[str] = ("arrivals", "system", "repetition", "outcome"),
) -> Frame:
    """``frame`` (with run_id) and what names each run's point: columns of its run, the factors; ordered by these."""
    from pyspark.sql import functions as f

    named = [f.col("factors")[name].alias(column) for column, name in factors.items()]
    points = data.runs.withColumnRenamed("workload", "arrivals").select("run_id", *axes, *named)
    first = [axis for axis in axes if axis not in ("repetition", "outcome")]
    return plain(collect(frame.join(points, "run_id"), [*first, *factors, "repetition", *frame.columns]), factors)


def in_ms(latency: SparkFrame, quantiles: Mapping[float, str], *by: str) -> SparkFrame:
    """Quantiles of rows of ``latency_histogram``, by ``by``: a column a name of ``quantiles``, in ms."""
    from analysis import metrics

    columns = [f"{metrics.quantile_name(q)} / {MILLISECOND_NS} as {name}" for q, name in quantiles.items()]
    return metrics.percentiles(metrics.final_round(latency), list(by), list(quantiles)).selectExpr(*by, *columns)


def plain(frame: Frame, factors: Iterable[str]) -> Frame:
    """Factors from the text that the tables hold to numbers and truth values; what is neither stays."""
    for column in factors:
        frame[column] = [value_of(text) for text in frame[column]]
    return frame


def value_of(text: object) -> object:
    """A factor as it was before it became text."""
    with suppress(ValueError):
        return json.loads(text) if isinstance(text, str) else text
    return text


def joined(runs: Frame, *measured: SparkFrame) -> Frame:
    """``runs`` with the columns of frames of one row a run; null where a frame lacks the run."""
    for frame in measured:
        runs = runs.merge(collect(frame, ["run_id"]), on="run_id", how="left")
    return runs


def frame_of(rows: Iterable[object], columns: Sequence[str]) -> Frame:
    """A small table from its rows."""
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(columns))


def with_others(systems: Sequence[str], points: Frame) -> list[str]:
    """``systems``, and after them those that joined the figure's grid."""
    return [*systems, *sorted(set(points.system) - set(systems))]


def case_of(run: Options, cases: Mapping[Name, Options]) -> Name:
    """The most special case whose options a run has all."""
    return max((case for case in cases if cases[case].items() <= run.items()), key=lambda case: len(cases[case]))


def where(frame: Frame, **values: object) -> Frame:
    """The rows with these values; KeyError where there are none, so that a claim without data is undecided."""
    for column, value in values.items():
        frame = frame[frame[column] == value]
    if frame.empty:
        raise KeyError(", ".join(f"{column}={value}" for column, value in values.items()) or "any row")
    return frame


def by_repetition(frame: Frame, value: str, **values: object) -> Series:
    """The values of one point, indexed by repetition: one row each, or ``values`` do not name a point."""
    column = where(frame, **values).set_index("repetition")[value].sort_index()
    assert column.index.is_unique, f"several rows a repetition of {value} at {values}"
    return column


def samples(series: Series) -> list[float]:
    """What a check wants: the values without the repetitions that lack one."""
    return [float(value) for value in series.dropna()]


def doublings(one: Series, other: Series | float) -> Series:
    """log2(one / other), paired by repetition (without the unpaired ones): above 0 where ``one`` is larger.

    For orders between latencies that span decades: in a plain difference one repetition's burst of
    waiting for tokens would outweigh all others.
    """
    import numpy as np

    ratio: Series = np.log2(one / other)
    return ratio.dropna()


def whole(count: float) -> str:
    """``"3"``, or ``"3.4"`` where repetitions differ."""
    return f"{count:.0f}" if abs(count - round(count)) < 0.05 else f"{count:.1f}"


def at_each(
    check: Callable[[str, Sequence[float], float, str], Check],
    label: str,
    runs: Frame,
    value: str,
    x: str,
    bound: float,
    unit: str,
) -> list[Check]:
    """``check`` of ``value`` against ``bound`` at each ``x``, which takes the place of {} in ``label``."""
    places = sorted(set(runs[x]))
    return [check(label.format(at), samples(by_repetition(runs, value, **{x: at})), bound, unit) for at in places]


def steps(runs: Frame, value: str, x: str, rises: bool = True, unit: str = "") -> list[Check]:
    """``value`` rises (or falls) with ``x``: one check between neighbours, differences paired by repetition."""
    checks = []
    for smaller, larger in pairwise(sorted(set(runs[x]))):
        change = by_repetition(runs, value, **{x: larger}) - by_repetition(runs, value, **{x: smaller})
        check = above if rises else below
        checks.append(check(f"{value}, {x} = {larger} minus {x} = {smaller}", samples(change), 0.0, unit))
    return checks
