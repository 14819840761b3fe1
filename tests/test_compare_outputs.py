"""``compare_outputs`` finds what differs, and takes old names for new ones."""

from pathlib import Path
from typing import Any

import pandas as pd

from collectors.writer import write_run
from tests.compare_outputs import figure_differences, run_differences

OLD = {"procedure": "place", "procedure_options": {"duration": "8s"}, "seed": 1}
NEW = {"study": "placement", "study_options": {"duration": "8s"}, "seed": 1}


def run(out: Path, run_id: str, spec: dict[str, Any], factor: str = "study.duration", value: float = 1.0) -> Path:
    tables = {
        "runs": {"run_id": [run_id], "factors": [[(factor, "8s")]], "seed": [1]},
        "samples": {"run_id": [run_id], "at_ns": [0], "node": ["n"], "metric": ["steal_ns"], "value": [value]},
    }
    write_run(out / "runs" / run_id, tables, {"run_id": run_id, "spec": spec})
    return out


def figure(out: Path, **columns: Any) -> Path:
    (out / "tables" / "f").mkdir(parents=True, exist_ok=True)
    pd.DataFrame(columns).to_parquet(out / "tables" / "f" / "runs.parquet")
    return out


def test_the_same_run_under_other_names_is_equal(tmp_path: Path) -> None:
    a = run(tmp_path / "a", "abc", OLD, "procedure.duration")
    assert list(run_differences(a, run(tmp_path / "b", "def", NEW))) == []


def test_another_value_another_table_another_run(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", "abc", OLD, "procedure.duration"), run(tmp_path / "b", "def", NEW, value=1.5)
    run(b, "ghi", {**NEW, "seed": 2})
    (b / "runs" / "def" / "usage.parquet").write_bytes((b / "runs" / "def" / "runs.parquet").read_bytes())
    assert list(run_differences(a, b)) == [
        f"1 runs only in {b}, one is ghi",
        "placement: table samples: differs in 1 runs, as abc, def",
        "placement: table usage: only on the second side in 1 runs, as abc, def",
    ]


def test_figure_tables_by_value_whatever_the_order_of_runs(tmp_path: Path) -> None:
    a = figure(tmp_path / "a", run_id=["r", "s"], name=["x", "y"], count=[1, 2], share=[0.5, 2e6])
    same = figure(tmp_path / "b", run_id=["p", "q"], name=["y", "x"], count=[2, 1], share=[2e6 * (1 + 1e-10), 0.5])
    assert list(figure_differences(a, same, ["f"], 1e-9)) == []
    off = figure(tmp_path / "c", name=["x", "y"], count=[1, 3], share=[0.5, 2.01e6])
    assert list(figure_differences(a, off, ["f"], 1e-9)) == [
        "figure table f/runs.parquet: column count: 1 of 2 values differ",
        "figure table f/runs.parquet: column share: off by up to 0.00498",
    ]
    assert len(list(figure_differences(a, off, ["f"], 0.01))) == 1
    assert list(figure_differences(a, tmp_path / "none", ["f"], 0)) == [
        f"figure table f/runs.parquet: only in {a}"
    ]  # fmt: skip
