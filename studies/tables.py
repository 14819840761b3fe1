"""Rows of tables that several studies write: what went wrong, and which lines of the input were left out."""

from collections.abc import Iterable, Mapping
from typing import Any

from testbed.faults import (
    KINDS,
    ClockSkew,
    Crash,
    Fault,
    Handover,
    Heal,
    LinkDuplication,
    LinkLoss,
    LinkReordering,
    Partition,
    Restart,
)

Columns = dict[str, list[Any]]
_FAULT_COLUMNS = ("at_ns", "kind", "target", "peer", "side", "point", "probability", "hold_ns", "offset_ns")
_KIND_OF = {fault: kind for kind, fault in KINDS.items()}


def columns(names: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> Columns:
    """Rows as columns, empty ones too."""
    told = list(rows)
    return {name: [row[i] for row in told] for i, name in enumerate(names)}


def fault_rows(faults: Iterable[tuple[int, Fault]]) -> Columns:
    """Columns of ``faults``: each fault at the instant at which it happened, which live is not quite that planned."""
    rows = [{"at_ns": at_ns, "kind": _KIND_OF[type(fault)], **_parameters(fault)} for at_ns, fault in faults]
    return {name: [row.get(name) for row in rows] for name in _FAULT_COLUMNS}


def _parameters(fault: Fault) -> dict[str, Any]:
    match fault:
        case Crash(_, node):
            return {"target": node}
        case Restart(_, node, copy_from):
            return {"target": node, "peer": copy_from or None}
        case Partition(_, side) | Heal(_, side):
            return {"side": list(side)}
        case LinkLoss(_, a, b, probability) | LinkDuplication(_, a, b, probability):
            return {"target": a, "peer": b, "probability": probability}
        case LinkReordering(_, a, b, probability, hold_ns):
            return {"target": a, "peer": b, "probability": probability, "hold_ns": hold_ns}
        case Handover(_, host, point):
            return {"target": host, "point": point}
        case ClockSkew(_, node, offset_ns):
            return {"target": node, "offset_ns": offset_ns}


def skipped_rows(skipped: Mapping[str, int]) -> Columns:
    """Columns of ``skipped_lines``; ``skipped``: reason -> lines."""
    return columns(("reason", "line_count"), skipped.items())
