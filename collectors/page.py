"""The page on what a run leaves behind, ``docs/results.md``, made from the tables and metrics of this folder.

``python -m collectors.page`` writes it; a test sees that it is current.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from collectors.columns import Table
from collectors.metrics import METRICS
from collectors.schema import DESCRIBED, SCHEMA_VERSION

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
HEAD = """# What a run leaves behind

Made by `python -m collectors.page` from `collectors/schema.py` (version {version}) and `collectors/metrics.py`.

A run folder holds `manifest.json` and one Parquet file for each of these tables that has rows. Every table starts with
`run_id`. A name ends in its unit; instants (`at_ns`) and spans are nanoseconds, instants since the run's time 0. A
value that is not known is null. Runs keep what happened and compute nothing: rates, means and percentiles come from
Spark (`analysis/`)."""
_TYPES = {
    pa.string(): "text",
    pa.int64(): "integer",
    pa.int32(): "integer",
    pa.float64(): "number",
    pa.list_(pa.string()): "texts",
    pa.map_(pa.string(), pa.string()): "text by name",
}


def text() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEAD.format(version=SCHEMA_VERSION)
    for name, table in DESCRIBED.items():
        yield from _table_lines(name, table)
    yield from _metric_lines()


def _table_lines(name: str, table: Table) -> Iterator[str]:
    yield ""
    yield f"## {name}"
    yield f"A row: {table.row}."
    yield ""
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    for column in table.columns:
        yield f"| `{column.name}` | {_TYPES[column.kind]} | {column.meaning} |"


def _metric_lines() -> Iterator[str]:
    yield ""
    yield "## Metrics of samples"
    yield f"The only {len(METRICS)} names that the table `samples` takes."
    yield ""
    yield "| metric | unit | meaning | sampled by |"
    yield "|---|---|---|---|"
    for name in sorted(METRICS):
        metric = METRICS[name]
        yield f"| `{name}` | {metric.unit} | {metric.meaning} | {metric.source} |"


if __name__ == "__main__":
    PAGE.write_text(text())
