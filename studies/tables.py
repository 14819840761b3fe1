"""Rows of tables that several studies write: samples, histograms, what went wrong, lines of the input left out."""

from collections.abc import Iterable, Mapping

import numpy as np

from collectors.histogram import BUCKET_COUNT, bucket_bounds, bucket_index
from core.records import Columns, Int64, Sample
from testbed.faults import KINDS, Fault

_FAULT_COLUMNS = ("at_ns", "kind", "target", "peer", "side", "point", "probability", "hold_ns", "offset_ns")
_KIND_OF = {fault: kind for kind, fault in KINDS.items()}
_COLUMN_OF = {  # what a fault calls otherwise
    **dict.fromkeys(("node", "a", "host"), "target"),
    **dict.fromkeys(("b", "copy_from"), "peer"),
    **dict.fromkeys(("loss_probability", "duplication_probability", "reordering_probability"), "probability"),
}


def columns(names: Iterable[str], rows: Iterable[tuple[object, ...]]) -> dict[str, list[object]]:
    """Rows as columns, empty ones too."""
    told = list(rows)
    return {name: [row[i] for row in told] for i, name in enumerate(names)}


def sample_rows(samples: Iterable[Sample]) -> Columns:
    """Columns of ``samples``."""
    return columns(("at_ns", "node", "metric", "value"), samples)


def histogram_rows(metrics: Mapping[str, Int64], number: int = 0) -> dict[str, np.ndarray]:
    """Columns of ``latency_histogram`` for a round, from counts of shape (brokers, BUCKET_COUNT) by metric."""
    low_ns, high_ns = bucket_bounds()
    parts: list[tuple[np.ndarray, ...]] = []
    for metric, counts in metrics.items():
        broker, bucket = np.nonzero(counts)
        of_all = np.full(len(broker), number, np.int32), broker.astype(np.int32), np.full(len(broker), metric, object)
        parts.append((*of_all, low_ns[bucket], high_ns[bucket], counts[broker, bucket]))
    names = ("round", "broker", "metric", "low_ns", "high_ns", "count")
    return {name: np.concatenate(column) for name, column in zip(names, zip(*parts, strict=True), strict=True)}


def window_rows(windows: Iterable[Mapping[str, Int64]]) -> dict[str, np.ndarray]:
    """The same of a run's windows, at least one; ``round`` counts them from 1."""
    each = [histogram_rows(metrics, number) for number, metrics in enumerate(windows, start=1)]
    return {name: np.concatenate([rows[name] for rows in each]) for name in each[0]}


def histogram_of(metric: str, latency_ns: Int64) -> dict[str, np.ndarray]:
    """Columns of ``latency_histogram`` from single values.  One below 0, where clocks differ or were set back, is 0."""
    index = bucket_index(np.maximum(latency_ns, 0))
    return histogram_rows({metric: np.bincount(index, minlength=BUCKET_COUNT)[np.newaxis]})


def fault_rows(faults: Iterable[tuple[int, Fault]]) -> Columns:
    """Columns of ``faults``: each fault at the instant at which it happened, which live is not quite that planned."""
    rows = []
    for at_ns, fault in faults:
        told = {_COLUMN_OF.get(name, name): None if value == "" else value for name, value in vars(fault).items()}
        rows.append({**told, "at_ns": at_ns, "kind": _KIND_OF[type(fault)]})
    return {name: [row.get(name) for row in rows] for name in _FAULT_COLUMNS}


def skipped_rows(skipped: Mapping[str, int]) -> Columns:
    """Columns of ``skipped_lines``; ``skipped``: reason -> lines."""
    return columns(("reason", "line_count"), skipped.items())
