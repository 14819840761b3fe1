"""The interactive view of a figure's tables: which columns are axes, which tell rows apart, and the rows as a script.

A view shows one slice of a table: the columns that tell its rows apart, other than x and the series, are held at one
value each, which the reader chooses.  So a line never joins what was measured under different conditions.
"""

import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from analysis.report.contents import Digitised, FigureSection
from core.records import Json, Row

if TYPE_CHECKING:
    import pandas as pd

ROWS_CHARTED = 50_000  # of a table; the page says so where there are more
DIGITS = 7  # of a number in a view; files have all
_VALUES_TELLING, _NUMBERS_TELLING = 200, 24  # a column with more texts, or more numbers, tells no rows apart
SERIES = ("system", "name", "variant", "policy", "limiter", "process", "graph")
_TIMES = ("since_s", "t_s", "at_s", "time_s", "middle_s", "second", "t_ns", "at_ns", "cycle")
_UNITS = re.compile(
    r"_(ns|us|ms|s|rps|bytes|ratio|share|count|probability|cores|tokens|seconds|error|std)(_per_\w+)?$|"
    r"^(mean|low|high|std|count|p\d+|repetition|request_id)$"
)
_MEASURED = re.compile(r"^p\d+$|(count|error|std)$")  # by whoever named it
_IDENTITIES = ("run_id", "repetition", "run", "request_id")  # tell repetitions apart, not conditions


def tables_script(section: FigureSection) -> str:
    """A classic script that hands a figure's rows and columns to the charts (``fetch`` fails from disk)."""
    tables = {name: table_view(frame) for name, frame in section.tables.items()}
    figure = {
        "key": section.key,
        "tables": tables,
        "looks": {system: list(look) for system, look in section.looks.items()},
        "runs": [dict(run) for run in section.runs],
        "unlisted": section.unlisted,
        "digitised": [_digitised_view(curve) for curve in section.digitised],
    }
    return f"ratebed.figure({_json(figure)});\n"


def usage_script(usage: "pd.DataFrame") -> str:
    """The same for what live runs used."""
    view = table_view(usage) | {"x": "at_s", "y": "cpu_cores", "series": "process", "telling": ["run_id"]}
    return f"ratebed.usage({_json(view)});\n"


def table_view(frame: "pd.DataFrame") -> Json:
    """Columns, rows and which column is what.

    x, y, series: their first choice, "" where there is none; measures: numbers to choose from; telling: columns whose
    values tell rows of different conditions apart; low, high: whether the table has the ends of intervals.
    """
    shown = frame.head(ROWS_CHARTED)
    measures, telling = columns_of(frame)
    series = next((name for name in SERIES if name in telling), "") or next(
        (name for name in telling if not _is_number(frame[name])), ""
    )
    varying = [name for name in measures if _varies(frame, name)]
    rather = [name for name in varying if not name.endswith("count")]
    y = "mean" if "mean" in measures else next(iter([*rather, *varying, *measures]), "")
    times = [name for name in _TIMES if name in frame and _is_number(frame[name])]
    factors = [name for name in telling if name != series and _is_number(frame[name])]
    factors.sort(key=lambda name: -frame[name].nunique() if _UNITS.search(name) else 0)  # an axis has a unit
    texts = [name for name in telling if name != series]
    x = next(iter([*times, *factors, *texts, *filter(None, [series])]), "")
    return {
        "columns": [str(name) for name in frame.columns],
        "rows": [list(row) for row in zip(*(_values(shown.iloc[:, at]) for at in range(shown.shape[1])), strict=True)],
        "total": len(frame),
        "x": x,
        "y": y,
        "series": series,
        "measures": measures,
        "telling": [name for name in telling if name not in times],
        "intervals": {"low", "high"} <= {*frame.columns},
    }


def columns_of(frame: "pd.DataFrame") -> tuple[list[str], list[str]]:
    """The columns that are measured, and those whose values tell conditions apart, in their order."""
    measures: dict[str, int] = {}  # and how many values each has
    telling: list[str] = []
    for name in map(str, frame.columns):
        if name in _IDENTITIES:
            continue
        column = frame[name]
        distinct = _hashable(column).nunique(dropna=False)
        if _is_number(column) and (_UNITS.search(name) or distinct > _NUMBERS_TELLING or (column.dtype.kind == "f" and
                                   distinct > max(1, len(frame) // 2))):  # fmt: skip
            if name not in ("low", "high"):
                measures[name] = distinct
        elif 1 < distinct <= _VALUES_TELLING or (name in SERIES and distinct):
            telling.append(name)
    factors = _factors(frame, measures, telling) if "repetition" in frame else _leading(frame, measures)
    telling = [name for name in map(str, frame.columns) if name in {*telling, *factors}]
    return [name for name in measures if name not in {*_TIMES, *factors}], telling


def _factors(frame: "pd.DataFrame", measures: Mapping[str, int], telling: Sequence[str]) -> list[str]:
    """Of numbers that look measured, ``rtt_ms`` say, those that an experiment set.

    They have few values, which are the same in every repetition, and do not follow from what else tells rows apart.
    """
    few = (name for name, distinct in measures.items() if 1 < distinct <= _NUMBERS_TELLING)
    factors = [name for name in few if name not in _TIMES and not name.endswith("count")
               and frame.groupby("repetition")[name].apply(lambda its: tuple(sorted(its))).nunique() == 1]  # fmt: skip
    for name in sorted(factors, key=lambda name: -measures[name]):  # what follows from others has more values than they
        others = [_hashable(frame[other]) for other in (*telling, *factors) if other != name]
        if others and frame[name].groupby(others, dropna=False).nunique().max() <= 1:
            factors.remove(name)
    return factors


def _leading(frame: "pd.DataFrame", measures: Mapping[str, int]) -> list[str]:
    """The same where repetitions are averaged already: of the numbers that come first, those that tell rows apart.

    None where the other columns do.  Where some rows are alike in all of them, nobody knows what was set.
    """
    columns = list(map(str, frame.columns))
    others = [name for name in columns if name in _TIMES or name not in {*measures, "low", "high"}]
    telling: list[str] = []
    count = _count_of_points(frame, others)
    for name in _before_measures(columns, measures):
        if count == len(frame):
            break
        finer = _count_of_points(frame, [*others, *telling, name])
        if finer > count:
            telling, count = [*telling, name], finer
    return telling if count == len(frame) else []


def _before_measures(columns: Sequence[str], measures: Mapping[str, int]) -> list[str]:
    """Numbers of few values, left of ``mean`` or else of the first that was measured for sure."""

    def is_measured(name: str) -> bool:
        said = _MEASURED.search(name) or not _UNITS.search(name)
        return name in measures and name not in _TIMES and bool(said or measures[name] > _NUMBERS_TELLING)

    end = columns.index("mean") if "mean" in columns else [*map(is_measured, columns), True].index(True)
    return [name for name in columns[:end] if 1 < measures.get(name, 0) <= _NUMBERS_TELLING and name not in _TIMES]


def _count_of_points(frame: "pd.DataFrame", names: Sequence[str]) -> int:
    """How many combinations of values columns have."""
    return len(frame[list(names)].apply(_hashable).drop_duplicates()) if names else min(1, len(frame))


def _hashable(column: "pd.Series") -> "pd.Series":
    return column.map(str) if column.dtype.kind == "O" else column


def _is_number(column: "pd.Series") -> bool:
    return column.dtype.kind in "iuf"


def _varies(frame: "pd.DataFrame", name: str) -> bool:
    return name not in _TIMES and frame[name].nunique() > 1


def _digitised_view(curve: Digitised) -> Json:
    rows = [[_value(value) for value in row] for row in curve.rows.itertuples(index=False, name=None)]
    columns = [str(name) for name in curve.rows.columns]
    its: Json = {"table": curve.table, "x": curve.x, "y": curve.y, "conditions": list(curve.conditions)}
    return {**its, "columns": columns, "rows": rows}


def _values(column: "pd.Series") -> list[object]:
    """``_value`` of each cell, without asking each what it is where the column says so."""
    kind = column.dtype.kind if isinstance(column.dtype, np.dtype) else ""
    if kind == "f":
        return [_number(value) for value in column.tolist()]
    return column.tolist() if kind in ("i", "u", "b") else [_value(value) for value in column]


def _value(value: object) -> object:
    """A cell as JSON: null for what is missing."""
    if isinstance(value, np.ndarray):
        return str(value.tolist())
    if value is None or value != value:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return _number(value)
    return value if isinstance(value, bool | int | str) else str(value)


def _number(value: float) -> float | str | None:
    """As JSON, which has neither infinities nor NaN: "inf" and "-inf", and null."""
    if isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return None if value != value else f"{value:g}"


def _json(value: Json | Sequence[Row] | Mapping[str, object]) -> str:
    """As a script may hold it: ``</script>`` cannot occur in a file of its own, line separators can."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
