"""Samples are sorted out: typed tables take what they have a column for, and what is no metric is refused."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collectors import page
from collectors.metrics import METRICS
from collectors.rows import sorted_out, with_typed_samples
from collectors.schema import COUNTERS, DESCRIBED, TABLES
from collectors.writer import write_run
from core.errors import SystemFault
from tests.tidy import PRODUCT, python_sources


def test_values_of_one_node_and_instant_become_a_row():
    found = sorted_out([
        (0, "n1", "sent_count", 2.0), (0, "n2", "sent_count", 1.0), (0, "n1", "sent_bytes", 40.0),
        (1, "n1", "state_bytes", 64.0), (1, "", "lost_count", 3.0),
    ])  # fmt: skip
    assert found == {
        "usage": {
            "at_ns": [0, 0, 1], "node": ["n1", "n2", "n1"], "state_bytes": [None, None, 64],
            "allocated_bytes": [None] * 3, "sent_count": [2, 1, None], "sent_bytes": [40, None, None],
        },
        "samples": {"at_ns": [1], "node": [""], "metric": ["lost_count"], "value": [3.0]},
    }  # fmt: skip


def test_a_value_told_twice_is_not_lost():
    found = sorted_out([(5, "n1", "sent_count", 2.0), (5, "n1", "sent_count", 3.0)])
    assert found["usage"]["sent_count"] == [2, 3] and found["usage"]["at_ns"] == [5, 5]


@pytest.mark.parametrize(("metric", "close"), [("elected_counts", "elected_count"), ("state_byte", "state_bytes")])
def test_what_is_no_metric_is_refused_with_the_nearest_name(metric, close):
    with pytest.raises(SystemFault, match=f"'{metric}'.*did you mean '{close}'"):
        sorted_out([(0, "n1", "elected_count", 1.0), (0, "n1", metric, 1.0)])


def test_a_run_is_not_written_with_an_unknown_metric(tmp_path):
    samples = {"run_id": ["a"], "at_ns": [0], "node": ["n"], "metric": ["client_7_demand"], "value": [1.0]}
    with pytest.raises(SystemFault, match="no metric"):
        write_run(tmp_path / "a", {"samples": samples}, {"run_id": "a"})
    assert list(tmp_path.iterdir()) == []


def test_the_run_goes_along_into_the_typed_table(tmp_path):
    samples = {"run_id": ["a"] * 2, "at_ns": [0, 0], "node": ["n", "n"], "metric": ["cpu_ns", "steal_ns"],
               "value": [7.0, 8.0]}  # fmt: skip
    write_run(tmp_path / "a", {"samples": samples}, {"run_id": "a"})
    processes = pq.read_table(tmp_path / "a" / "processes.parquet")
    assert processes.schema.equals(TABLES["processes"])
    row = {name: value for name, value in processes.to_pylist()[0].items() if value is not None}
    assert row == {"run_id": "a", "at_ns": 0, "node": "n", "cpu_ns": 7}
    assert pq.read_table(tmp_path / "a" / "samples.parquet")["metric"].to_pylist() == ["steal_ns"]


def test_columns_of_counters_are_given_through_samples_alone():
    samples = {"at_ns": [0], "node": ["n"], "metric": ["cpu_ns"], "value": [7.0]}
    with pytest.raises(AssertionError, match="processes"):
        with_typed_samples({"samples": samples, "processes": {"at_ns": [1], "node": ["n"], "cpu_ns": [2]}})


def test_a_name_has_one_place():
    columns = [column.name for table in COUNTERS.values() for column in table.columns[2:]]
    assert len(columns) == len(set(columns)) and not set(columns) & METRICS.keys()
    assert all(table.columns[0].name == "at_ns" and table.columns[1].name == "node" for table in COUNTERS.values())


def test_there_are_few_metrics_and_each_says_its_unit():
    assert len(METRICS) <= 60
    for name, metric in METRICS.items():
        assert name.endswith(f"_{metric.unit}") and metric.meaning and metric.source, name


def test_no_run_adds_to_the_metrics():
    """The page tells all names: only what lies outside the tree enters others."""
    writes = re.compile(r"\bMETRICS(\.(update|setdefault|pop|clear)\(|\[[^\]]*\] = | \|= )")
    assert writes.search("METRICS.update(MORE)") and writes.search('metrics.METRICS["my_count"] = Metric()')
    sources = [source for source in python_sources() if source.path != "collectors/metrics.py"]
    assert [source.path for source in sources if source.folder in PRODUCT and writes.search(source.text)] == []


def test_no_column_packs_a_record():
    """Text columns are names or one sentence; lists and maps hold texts."""
    assert {column.kind for table in DESCRIBED.values() for column in table.columns} <= {
        pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.list_(pa.string()), pa.map_(pa.string(), pa.string()),
    }  # fmt: skip


def test_the_page_of_results_is_current():
    assert page.PAGE.read_text() == page.text(), "run python -m collectors.page"
