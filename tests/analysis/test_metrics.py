"""Spark's answers against single-process twins, on random data and on small cases worked by hand."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark")

from analysis import metrics
from analysis.tables import collect
from analysis.verdicts import t_interval
from tests.analysis import twins

pytestmark = pytest.mark.slow


def random_latencies(seed):
    """Values of several runs: zeros, ties, single values, and tails over many powers of two."""
    rng = np.random.default_rng(seed)
    return {
        "constant": np.full(7, 1_000_000),
        "exact": np.arange(1, 101),
        "one": np.array([123_456_789]),
        "tail": (rng.lognormal(12, 2.5, 5_000)).astype(np.int64),
        "waiting": np.where(rng.random(3_000) < 0.9, 0, rng.exponential(2e6, 3_000)).astype(np.int64),
    }


@pytest.fixture
def histogram(frame_of):
    def build(values_by_run, **labels):
        labels = {"round": 0, "broker": 0, "metric": "end_to_end_latency", **labels}
        parts = [twins.histogram_columns(values, run_id=run, **labels) for run, values in values_by_run.items()]
        return frame_of("latency_histogram", pd.concat(parts).to_dict("list"))

    return build


@pytest.mark.parametrize("seed", [1, 2])
def test_percentiles_are_those_of_the_single_process_twin(histogram, seed):
    values = random_latencies(seed)
    found = collect(metrics.percentiles(histogram(values), ["run_id"]), ["run_id"])
    pd.testing.assert_frame_equal(found, twins.percentiles(values), check_dtype=False, rtol=1e-12)


def test_percentiles_pool_brokers_and_keep_groups_apart(histogram):
    halves = [np.arange(0, 100, 2), np.arange(1, 100, 2)]
    frame = histogram({"a": halves[0]}).union(histogram({"a": halves[1]}, broker=1))
    pooled = collect(metrics.percentiles(frame, ["run_id"], (0.5, 0.999)), ["run_id"])
    assert pooled.to_dict("records") == [{"run_id": "a", "p50_ns": 49, "p99_9_ns": 99, "count": 100, "mean_ns": 49.5}]
    apart = collect(metrics.percentiles(frame, ["run_id", "broker"]), ["broker"])
    assert list(apart["p50_ns"]) == [48, 49]


def test_the_final_round_is_round_zero(histogram):
    frame = histogram({"a": [5]}).union(histogram({"a": [7]}, round=3))
    assert [row.low_ns for row in metrics.final_round(frame).collect()] == [5]


def test_exceed_probability(histogram):
    values = random_latencies(3)
    found = collect(metrics.exceed_probability(histogram(values), ["run_id"]), ["run_id"])
    exact = [float(np.mean(values[run] > 0)) for run in sorted(values)]
    np.testing.assert_allclose(found["exceed_probability"], exact)
    assert list(found["count"]) == [len(values[run]) for run in sorted(values)]


@pytest.mark.parametrize("step_ns", [1, 7, 100, 5_000])
def test_running_sum_of_delay_at_every_grid_point(frame_of, step_ns):
    rng = np.random.default_rng(step_ns)
    arrived = np.sort(rng.integers(0, 1_000, 60))
    wait = np.where(rng.random(60) < 0.3, 0, rng.integers(0, 300, 60))
    broker = np.arange(60) % 2
    columns = {"run_id": ["a"] * 60, "broker": broker, "arrived_at_ns": arrived, "released_at_ns": arrived + wait}
    frame = metrics.running_sum_of_delay(frame_of("messages", columns), step_ns, ["run_id", "broker"])
    found = collect(frame, ["broker", "t_ns"])
    for b in (0, 1):
        mine = broker == b
        rows = found[found["broker"] == b]
        assert rows["t_ns"].iloc[0] <= arrived.min() and rows["t_ns"].iloc[-1] >= (arrived + wait).max()
        assert (np.diff(rows["t_ns"]) == step_ns).all()
        for t_ns, delay_ns, waiting in rows[["t_ns", "delay_sum_ns", "waiting_count"]].itertuples(index=False):
            released = (arrived + wait)[mine]
            assert delay_ns == twins.running_sum_of_delay(arrived[mine], released, t_ns)
            assert waiting == ((arrived[mine] <= t_ns) & (released > t_ns)).sum()


def test_a_message_that_is_never_released_waits_on(frame_of):
    columns = {"run_id": ["a", "a"], "arrived_at_ns": [0, 10], "released_at_ns": [40, None]}
    found = collect(metrics.running_sum_of_delay(frame_of("messages", columns), 10, ["run_id"]), ["t_ns"])
    assert list(found["delay_sum_ns"]) == [0, 10, 30, 50, 70, 80]
    assert list(found["waiting_count"]) == [1, 2, 2, 2, 1, 1]


def test_released_in_window(frame_of):
    windows_ns = [0, 1, 13, 200, 10_000]
    released = np.random.default_rng(1).integers(0, 500, 80).tolist()
    run = ["a"] * 40 + ["b"] * 41
    frame = frame_of("messages", {"run_id": run, "released_at_ns": [*released, None]})
    found = collect(metrics.released_in_window(frame, windows_ns, ["run_id"]), ["run_id", "window_ns"])
    assert list(found["window_ns"]) == 2 * windows_ns
    assert list(found["released_count"]) == [
        twins.released_in_window(part, window_ns) for part in (released[:40], released[40:]) for window_ns in windows_ns
    ]


def test_workers_need_nothing_of_ours_for_what_they_are_sent(frame_of, monkeypatch):
    """Queries go to clusters whose Python has no Ratebed."""
    from pyspark import cloudpickle

    sent = []
    monkeypatch.setattr(
        "pyspark.sql.group.GroupedData.applyInArrow", lambda self, function, schema: sent.append(function)
    )
    frame = frame_of("messages", {"run_id": ["a", "a"], "released_at_ns": [1, 2]})
    metrics.released_in_window(frame, [0, 1], ["run_id"])
    code = (
        "import sys; import pyarrow as pa; from pyspark import cloudpickle\n"
        "sys.modules |= dict.fromkeys(('analysis', 'collectors', 'core', 'harness'))  # who imports one, fails\n"
        "most = cloudpickle.load(sys.stdin.buffer)\n"
        "print(most(pa.table({'run_id': ['a', 'a'], 'released_at_ns': [1, 2]}))['released_count'].to_pylist())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=cloudpickle.dumps(sent[0]), capture_output=True)
    assert done.stdout == b"[1, 2]\n", done.stderr


@pytest.fixture
def decisions(frame_of):
    """Run "a": two iterations of 2 + 1 rounds on three brokers; run "b": no search, all on broker 0."""
    rows = []
    for iteration, number, p99_ns, publishers in [(1, 1, 9, (4, 0, 0)), (1, 2, 3, (2, 0, 0)), (2, 3, 7, (2, 2, 0))]:
        rows += [("a", "trial", iteration, number, b, n, p99_ns, 0.0) for b, n in enumerate(publishers)]
    rows += [("a", "final", 0, 0, b, n, 3, load) for b, (n, load) in enumerate([(2, 50.0), (2, 60.0), (0, 30.0)])]
    rows += [("b", "final", 0, 0, b, n, 3, load) for b, (n, load) in enumerate([(4, 50.0), (0, 120.0), (0, 30.0)])]
    names = ["run_id", "kind", "iteration", "round", "broker", "publisher_count", "seen_topic_p99_ns", "load_rps"]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return frame_of("decisions", {**columns, "mcap_rps": [100.0] * len(rows), "duration_ns": [60] * len(rows)})


def test_search_rounds(decisions):
    found = collect(metrics.search_rounds(decisions), ["run_id", "iteration"])
    assert found.to_dict("list") == {
        "run_id": ["a", "a"],
        "iteration": [1, 2],
        "round_count": [2, 1],
        "broker_count": [1, 2],
        "search_ns": [120, 60],
        "total_round_count": [3, 3],
        "total_search_ns": [180, 180],
    }


def test_brokers_used(decisions):
    assert list(collect(metrics.brokers_used(decisions), ["run_id"])["broker_count"]) == [2, 1]


@pytest.mark.parametrize(("slo_ns", "violation_ns"), [(5, 180), (7, 120), (9, 60)])  # rounds of 9, 3 and 7 ns
def test_time_in_violation_counts_rounds_above_the_slo_once(decisions, frame_of, slo_ns, violation_ns):
    """The round of 3 ns has a broker for two of four publishers: it violates any SLO."""
    runs = frame_of("runs", {"run_id": ["a", "b"], "slo_ns": [slo_ns, slo_ns]})
    times = collect(metrics.time_in_violation(decisions, runs), ["run_id"])
    assert times.to_dict("list") == {"run_id": ["a", "b"], "violation_ns": [violation_ns, 0], "search_ns": [180, 0]}


def test_residual_capacity_is_that_of_untouched_brokers(decisions):
    found = collect(metrics.residual_capacity(decisions), ["run_id"])
    assert list(found["residual_rps"]) == [70.0, 70.0]  # b: broker 1 is overloaded and has none
    assert list(found["untouched_count"]) == [1, 2]


def test_factors_are_joined_and_cast(spark, frame_of):
    runs = frame_of(
        "runs",
        {
            "run_id": ["a", "b", "c"],
            "system": ["lb", "conc", "srtm"],
            "validity": ["valid", "invalid", None],
            "factors": [[("workload.publishers", "4000")], [], [("workload.batch", "10")]],
        },
    )
    frame = spark.createDataFrame([("a", 1), ("b", 2), ("c", 3)], ["run_id", "value"])
    wanted = {"publishers": ("workload.publishers", "int")}
    found = collect(metrics.with_factors(frame, runs, wanted), ["run_id"])
    assert list(found["run_id"]) == ["a", "b", "c"], "which runs are drawn is not for a metric to say"
    assert list(found["system"]) == ["lb", "conc", "srtm"]
    assert found["publishers"][0] == 4000 and pd.isna(found["publishers"][1:]).all()
    assert set(metrics.AXES) <= set(found.columns)


def test_repetitions_have_the_interval_of_the_verdicts(spark):
    rng = np.random.default_rng(5)
    samples = {
        "many": rng.normal(3, 1, 250).tolist(),
        "five": rng.normal(3, 1, 5).tolist(),
        "two": [1.0, 2.0],
        "one": [4.0],
        "same": [0.1, 0.1, 0.1],
        "gaps": [1.0, float("nan"), 3.0, None],
    }
    rows = [(group, value) for group, values in samples.items() for value in values]
    frame = spark.createDataFrame(rows, "system string, value double")
    found = collect(metrics.over_repetitions(frame, ["system"], "value"), ["system"]).set_index("system")
    for group, values in samples.items():
        kept = [value for value in values if value is not None and value == value]
        wanted, row = t_interval(kept), found.loc[group]
        np.testing.assert_allclose(
            [row["mean"], row["low"], row["high"]],
            [wanted.mean, wanted.low, wanted.high],
            rtol=1e-3 if group == "many" else 1e-12,
        )
        assert row["count"] == len(kept)
        if len(kept) > 1:
            np.testing.assert_allclose(row["std"], np.std(kept, ddof=1), atol=1e-15)
    assert pd.isna(found.loc["one", "std"]) and found.loc["same", "low"] == found.loc["same", "high"] == 0.1
