"""Samples sorted out: what is counted together becomes a row of a typed table, the rest stays a sample.

Nodes and probes tell one value at a time, (at_ns, node, metric, value).  A metric that is a column of a table of
``schema.COUNTERS`` goes there; all others must be in ``metrics.METRICS``.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from collectors.metrics import METRICS
from collectors.schema import COUNTERS
from core.errors import SystemFault
from core.records import Columns, Row, Sample

_NAMES = ("at_ns", "node", "metric", "value")
_KEY = ("at_ns", "node")
_TABLE_OF = {
    column.name: name for name, table in COUNTERS.items() for column in table.columns if column.name not in _KEY
}
_WHOLE = {column.name for table in COUNTERS.values() for column in table.columns if column.kind == pa.int64()}


def sorted_out(samples: Iterable[Sample]) -> dict[str, Columns]:
    """Columns by table: of ``schema.COUNTERS`` those that have rows, and of ``samples``, in the order told.

    A value told twice of one node and instant makes a second row.  SystemFault for a metric that is none.
    """
    rest: list[Sample] = []
    rows: dict[str, list[Row]] = {}
    latest: dict[tuple[str, int, str], Row] = {}  # (table, at_ns, node) -> the row that still takes values
    for sample in samples:
        at_ns, node, metric, value = sample
        table = _TABLE_OF.get(metric)
        if table is None:
            rest.append(sample)
            continue
        row = latest.get((table, at_ns, node))
        if row is None or metric in row:
            row = latest[table, at_ns, node] = {"at_ns": at_ns, "node": node}
            rows.setdefault(table, []).append(row)
        row[metric] = int(value) if metric in _WHOLE else value
    _check({sample[2] for sample in rest})
    tables = {table: _columns(table, told) for table, told in rows.items()}
    if rest:
        tables["samples"] = {name: [sample[i] for sample in rest] for i, name in enumerate(_NAMES)}
    return tables


def with_typed_samples(tables: Mapping[str, Any]) -> dict[str, Any]:
    """``tables`` (columns by name) with what is in ``samples`` sorted out; the run's id goes along."""
    typed_tables = dict(tables)
    given = typed_tables.pop("samples", None)
    if given is None:
        return typed_tables
    columns = given.to_pydict() if isinstance(given, pa.Table) else given
    if not all(name in columns for name in _NAMES):  # what is not given is null
        return {**typed_tables, "samples": given}
    run_id = columns.get("run_id", ())
    for name, typed in sorted_out(zip(*(columns[column] for column in _NAMES), strict=True)).items():
        assert name not in typed_tables, f"the table {name} is given, and samples hold columns of it"
        typed_tables[name] = {"run_id": [run_id[0]] * len(typed["at_ns"]), **typed} if len(run_id) else typed
    return typed_tables


def _columns(table: str, rows: Sequence[Row]) -> Columns:
    return {column.name: [row.get(column.name) for row in rows] for column in COUNTERS[table].columns}


def _check(metrics: set[str]) -> None:
    """SystemFault for the first, by name, that is not registered."""
    for name in sorted(metrics - METRICS.keys()):
        close = get_close_matches(name, [*METRICS, *_TABLE_OF], 1)
        fix = f"did you mean {close[0]!r}? " if close else ""
        raise SystemFault(f"samples of {name!r}, which is no metric", f"{fix}enter it in collectors.metrics.METRICS")
