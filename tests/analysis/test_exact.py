"""Exact percentiles are Spark's own and NumPy's, whatever the values are."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from analysis.exact import BROADCAST_ROWS, NAMED_BUCKETS, exact_percentiles, name_of

pytestmark = pytest.mark.slow
QUANTILES = (0.0, 0.5, 0.99, 0.999, 1.0)


def groups() -> dict[str, np.ndarray]:
    """One value, equal ones, few, signs mixed, and all sizes that a bucket's arm begins or ends with."""
    rng = np.random.default_rng(5)
    edges = np.array([(1 << bits) + off for bits in range(3, 62) for off in (-1, 0, 1)])
    return {
        "one": np.array([7]),
        "equal": np.full(1_000, 123_456_789),
        "two": np.array([-5, 10**15]),
        "signed": rng.integers(-(10**9), 10**9, 5_000),
        "latencies": rng.lognormal(13, 1.5, 20_000).astype(np.int64),
        "edges": np.concatenate([edges, -edges]),
    }


def rows(spark):
    values = [(name, 1, int(value)) for name, of in groups().items() for value in of]
    return spark.createDataFrame([*values, ("two", 1, None), ("none", 1, None)], "run_id string, broker int, v long")


@pytest.mark.parametrize(
    ("most", "named"),
    [(BROADCAST_ROWS, NAMED_BUCKETS), (0, NAMED_BUCKETS), (BROADCAST_ROWS, 0)],
    ids=["broadcast", "sorted", "buckets not named"],
)
def test_percentiles_are_spark_s_and_numpy_s(spark, monkeypatch, most, named):
    monkeypatch.setattr("analysis.exact.BROADCAST_ROWS", most)
    monkeypatch.setattr("analysis.exact.NAMED_BUCKETS", named)
    frame = rows(spark)
    found = exact_percentiles(frame, ["run_id", "broker"], "v", QUANTILES).toPandas().set_index("run_id")
    own = [F.percentile("v", q).alias(name_of(q)) for q in QUANTILES]
    sparks = frame.where("v is not null").groupBy("run_id").agg(*own).toPandas().set_index("run_id")
    assert sorted(found.index) == sorted(groups())
    for name, values in groups().items():
        assert found.value_count[name] == len(values)
        for q in QUANTILES:
            for known in (sparks[name_of(q)][name], np.quantile(values, q)):  # but for the last bit
                assert found[name_of(q)][name] == pytest.approx(known, rel=1e-14), (name, q)


def test_names_of_columns():
    assert [name_of(q) for q in (0.5, 0.99, 0.999, 1.0)] == ["p50", "p99", "p99_9", "p100"]
