"""Rows that several studies write: every kind of fault has its parameters in columns of their own."""

import ast
from pathlib import Path

import numpy as np

from collectors.schema import TABLES
from studies.tables import fault_rows, histogram_of, skipped_rows
from studies.throttling.study import cycle_tables
from testbed.faults import KINDS, read_faults

ROOT = Path(__file__).parents[2]
SUMMARIES = {"mean", "median", "quantile", "percentile", "average", "nanmean", "nanmedian", "nanquantile", "std", "var"}
WHAT_RUNS = ("studies", "harness", "testbed", "systems")
EXEMPT = {
    ("studies/distribution/windows.py", "quantile"),  # what a search is told
    ("studies/throttling/study.py", "mean"),  # the limit that a throttler is given
    *(("studies/distribution/calibrate.py", name) for name in ("median", "quantile")),  # no run: `ratebed calibrate`
    ("testbed/virtual/capacity.py", "quantile"),  # no run: the same
    ("testbed/servers/pulsar/trial.py", "percentile"),  # no run: what a cluster is tried with
    ("harness/nemesis/growth.py", "median"),  # no run: our own memory
    ("testbed/trust/fidelity.py", "quantile"),  # by which a run is judged, not what it tells
    ("testbed/virtual/topic_plane.py", "mean"),  # of what is offered: messages' sizes
    # Formulas of papers, of which nothing goes into a table as a summary.
    *((f"systems/parts/{part}.py", "mean") for part in ("frequency_threshold", "laplacian", "md1")),
}
FAULTS = [
    {"kind": "crash", "at": "1s", "node": "n1"},
    {"kind": "restart", "at": "2s", "node": "n1", "copy_from": "n2"},
    {"kind": "partition", "at": "3s", "side": ["n1", "n2"]},
    {"kind": "heal", "at": "4s"},
    {"kind": "link-loss", "at": "5s", "a": "n1", "b": "n2", "loss_probability": 0.1},
    {"kind": "link-duplication", "at": "6s", "a": "*", "b": "*", "duplication_probability": 0.2},
    {"kind": "link-reordering", "at": "7s", "a": "n1", "b": "n2", "reordering_probability": 0.3, "hold": "20ms"},
    {"kind": "handover", "at": "8s", "host": "n3", "point": "s1"},
    {"kind": "clock-skew", "at": "9s", "node": "n1", "offset": "-5ms"},
    {"kind": "server-crash", "at": "10s", "node": "n1"},
    {"kind": "link-delay", "at": "11s", "a": "n1", "b": "n2", "hold": "40ms"},
]


def told(columns):
    """Row by row, what is not null."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def test_every_fault_in_columns():
    faults = read_faults(FAULTS)
    columns = fault_rows([(fault.at_ns + 7, fault) for fault in faults])
    assert ["run_id", *columns] == TABLES["faults"].names
    rows = told(columns)
    assert [row.pop("at_ns") for row in rows] == [n * 1_000_000_000 + 7 for n in range(1, 12)]
    assert rows == [
        {"kind": "crash", "target": "n1"},
        {"kind": "restart", "target": "n1", "peer": "n2"},
        {"kind": "partition", "side": ("n1", "n2")},
        {"kind": "heal", "side": ()},
        {"kind": "link-loss", "target": "n1", "peer": "n2", "probability": 0.1},
        {"kind": "link-duplication", "target": "*", "peer": "*", "probability": 0.2},
        {"kind": "link-reordering", "target": "n1", "peer": "n2", "probability": 0.3, "hold_ns": 20_000_000},
        {"kind": "handover", "target": "n3", "point": "s1"},
        {"kind": "clock-skew", "target": "n1", "offset_ns": -5_000_000},
        {"kind": "server-crash", "target": "n1"},
        {"kind": "link-delay", "target": "n1", "peer": "n2", "hold_ns": 40_000_000},
    ]
    assert {row["kind"] for row in rows} == KINDS.keys(), "a kind of fault has no row here"


def test_a_latency_below_0_is_0():
    found = histogram_of("x", np.array([-5, 0]))
    assert found["low_ns"].tolist() == [0] and found["count"].tolist() == [2]


def test_no_fault_and_nothing_skipped_are_no_rows():
    assert fault_rows([])["kind"] == [] and skipped_rows({}) == {"reason": [], "line_count": []}
    assert told(skipped_rows({"no user": 2})) == [{"reason": "no user", "line_count": 2}]


def test_cycles_and_their_clients():
    samples = [
        (300, "n1", "limit", 5.0), (300, "n1", "demand", 7.0), (300, "n1", "admitted", 5.0),
        (300, "n1", "client_demand", 4.0), (300, "n1", "client_admitted", 3.0), (300, "n1", "client_demand", 3.0),
        (300, "n1", "client_admitted", 2.0), (300, "n1", "nodal_measure", 2.0),
        (300, "n2", "limit", -1.0), (300, "n2", "demand", 0.5), (300, "n2", "admitted", 0.0),
        (300, "n2", "negative_limit_count", 1.0), (500, "n1", "sent_count", 2.0), (600, "n1", "limit", 6.0),
    ]  # fmt: skip
    found = cycle_tables(samples, 300)
    assert [["run_id", *found[name]] for name in ("cycles", "client_cycles")] == [
        TABLES[name].names for name in ("cycles", "client_cycles")
    ]
    first, second, third = told(found["cycles"])
    assert first == {"at_ns": 300, "cycle": 0, "server": "n1", "limit": 5, "demand": 7, "admitted": 5,
                     "nodal_measure": 2}  # fmt: skip
    assert second == {"at_ns": 300, "cycle": 0, "server": "n2", "limit": -1, "demand": 0.5, "admitted": 0}
    assert third == {"at_ns": 600, "cycle": 1, "server": "n1", "limit": 6}
    assert [(row["client"], row["demand"], row["admitted"]) for row in told(found["client_cycles"])] == [
        (0, 4, 3), (1, 3, 2),
    ]  # fmt: skip
    assert told(found["samples"]) == [{"at_ns": 500, "node": "n1", "metric": "sent_count", "value": 2}]


def test_no_run_computes_what_spark_computes():
    found = set()
    for path in [path for folder in WHAT_RUNS for path in (ROOT / folder).rglob("*.py")]:
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}
        found |= {(path.relative_to(ROOT).as_posix(), name) for name in names & SUMMARIES}
    assert found == EXEMPT
