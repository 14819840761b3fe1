"""By which numbers ``diff`` compares two runs."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from analysis.measures import READ, measures
from analysis.tables import collect, load
from collectors.histogram import BUCKET_COUNT
from collectors.schema import TABLES
from collectors.writer import write_run
from studies.tables import histogram_rows, window_rows

pytestmark = pytest.mark.slow

MEASURED = ("p50 (ms)", "p99 (ms)", "mean (ms)")


def counts_at(bucket):
    counts = np.zeros((1, BUCKET_COUNT), np.int64)
    counts[0, bucket] = 10
    return {"access_delay": counts}


@pytest.fixture
def values_of(tmp_path, spark):
    """The measures of a run that left these tables."""

    def build(tables):
        write_run(tmp_path / "r", tables, {"run_id": "r"})
        frame = collect(measures(load(spark, [tmp_path / "r"])), ["measure"])
        return dict(zip(frame["measure"], frame["value"], strict=True))

    return build


def test_latencies_of_a_run_that_counts_in_windows_are_those_of_all(values_of):
    values = values_of({"latency_histogram": window_rows([counts_at(1_000), counts_at(2_000)])})
    assert set(values) == {f"access_delay {name}" for name in MEASURED}
    assert values["access_delay p50 (ms)"] < values["access_delay mean (ms)"] < values["access_delay p99 (ms)"]


def test_latencies_after_a_search_are_those_of_the_fresh_round(values_of):
    rounds = [histogram_rows(counts_at(bucket), number) for number, bucket in enumerate((1_000, 2_000))]
    values = values_of({"latency_histogram": {name: np.concatenate([r[name] for r in rounds]) for name in rounds[0]}})
    assert values["access_delay p50 (ms)"] == values["access_delay p99 (ms)"]


def test_latencies_of_topics_are_compared(values_of):
    latency = {"at_ns": [0, 1], "topic": ["a", "b"], "low_ns": [10, 30], "high_ns": [11, 31], "count": [3, 1]}
    assert values_of({"topic_latency": latency}) == {
        "topic_latency p50 (ms)": 1e-5,
        "topic_latency p99 (ms)": 3e-5,
        "topic_latency mean (ms)": 1.5e-5,
    }


def test_tables_that_are_read_are_in_the_schema():
    assert TABLES.keys() > READ
