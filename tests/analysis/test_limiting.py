"""Metrics of limiters: Spark's answers against single-process twins on random tables, and cases worked by hand."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException

from analysis import limiting, metrics
from analysis.tables import collect
from systems.parts.limit import gcra, limit_of
from tests.analysis import limiting_twins as twins
from tests.analysis.twins import histogram_columns

pytestmark = pytest.mark.slow

SECOND_NS = 1_000_000_000


def columns_of(rows):
    return {name: [row.get(name) for row in rows] for name in rows[0]}


def none_of(value):
    """A value of a pandas frame, null as None."""
    return None if value is None or value is pd.NaT or value != value else value


# --- the oracle ----------------------------------------------------------------------------------

ORACLE = {"topology.delay": "0ms"}
RUNS = {  # run -> (system, workload, factors)
    "counter": ("crdt-counter", "w", {"topology.delay": "20ms"}),
    "same limit": ("crdt-queue", "w", {"system.capacity": "300", "system.rate": "3/10", "topology.nodes": "9"}),
    "other limit": ("crdt-queue", "w", {"system.rate": "1/3"}),
    "shorter": ("crdt-queue", "w", {"study.duration": "1min"}),
    "other load": ("crdt-queue", "v", {}),
    "oracle": ("centralised", "w", {**ORACLE, "system.rate": "0.3", "study.faults": "[]"}),
    "oracle of nine": ("centralised", "w", {"topology.delay": "0s", "topology.nodes": "9"}),
    "a lossy one": (
        "centralised",
        "w",
        {**ORACLE, "topology.nodes": "9", "topology.loss_probability": "0.1"},
    ),
    "a crash": ("centralised", "w", {**ORACLE, "study.faults": '[{"kind":"crash"}]'}),
    "a far one": ("centralised", "w", {"topology.delay": "10ms"}),
    "a default delay": ("centralised", "w", {}),
    "a skewed one": ("centralised", "w", {**ORACLE, "study.clock_skew": "5ms"}),
    "an invalid one": ("centralised", "w", ORACLE),
    "another oracle": ("centralised", "w", {**ORACLE, "system.rate": "0.33"}),
}


def test_every_run_gets_the_oracle_of_its_own_load_and_limit(frame_of):
    columns = {
        "run_id": list(RUNS),
        "system": [system for system, _, _ in RUNS.values()],
        "workload_id": [workload for _, workload, _ in RUNS.values()],
        "factors": [sorted(factors.items()) for _, _, factors in RUNS.values()],
        "validity": ["invalid" if run == "an invalid one" else "valid" for run in RUNS],
    }
    found = collect(limiting.with_oracle(frame_of("runs", columns)), ["run_id"])
    without = {"other limit", "shorter", "other load"}
    wanted = {run: "oracle" for run in RUNS if run not in without}
    wanted |= {run: "oracle of nine" for run in ("same limit", "oracle of nine", "a lossy one")}
    wanted |= {"another oracle": "another oracle"}
    assert dict(zip(found["run_id"], found["oracle_run_id"], strict=True)) == wanted


# --- precision -----------------------------------------------------------------------------------


def random_requests(seed):
    """Requests of runs "a" to "d", by run: random decisions on the same load, with ties of instants."""
    rng = np.random.default_rng(seed)
    count = 120
    offered = [
        {
            "user": f"u{rng.integers(5)}",
            "request_id": i,
            "cost": [None, 1, 2, 7][rng.integers(4)],
            "intended_at_ns": int(rng.integers(0, 60)) * 150_000_000,
        }
        for i in range(count)
    ]
    tables = {}
    for run, shares in {"a": (0.5, 0.4), "b": (0.2, 0.8), "c": (1.0, 0.0), "d": (0.6, 0.4)}.items():
        tables[run] = rows = []
        for request in offered:
            draw, delay_ns = rng.random(), int(rng.integers(0, 4)) * 100_000_000
            decision = "admit" if draw < shares[0] else "reject" if draw < sum(shares) else "lost"
            decided_at_ns = None if decision == "lost" else request["intended_at_ns"] + delay_ns
            rows.append({"run_id": run, **request, "decided_at_ns": decided_at_ns, "decision": decision})
    return tables


@pytest.fixture
def requests_frame(frame_of):
    def build(tables):
        return frame_of("requests", columns_of([row for rows in tables.values() for row in rows]))

    return build


@pytest.fixture
def oracles_frame(spark):
    def build(pairs):
        return spark.createDataFrame(list(pairs.items()), "run_id string, oracle_run_id string")

    return build


@pytest.mark.parametrize("seed", [1, 2])
def test_precision_is_that_of_the_twin(requests_frame, oracles_frame, seed):
    tables = random_requests(seed)
    oracles = {"a": "d", "b": "d", "c": "a", "d": "d"} if seed == 1 else {"a": "c", "b": "a", "d": "b"}
    found = collect(limiting.precision(requests_frame(tables), oracles_frame(oracles)), ["run_id"])
    assert list(found["run_id"]) == sorted(oracles)
    for row in found.to_dict("records"):
        run = row.pop("run_id")
        wanted = twins.precision(tables[run], tables[oracles[run]])
        assert row == pytest.approx(wanted, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("seed", [1, 2])
def test_netted_errors_are_those_of_the_twin(requests_frame, oracles_frame, frame_of, seed):
    tables = random_requests(seed)
    oracles, limits = {"a": "d", "b": "d", "c": "a", "d": "d"}, {"a": "3/10", "b": "0.5", "c": "2", "d": "0.3"}
    factors = [[("system.capacity", "2"), ("system.rate", rate)] for rate in limits.values()]
    runs = frame_of("runs", {"run_id": list(limits), "factors": factors})
    found = collect(limiting.netted(requests_frame(tables), oracles_frame(oracles), runs), ["run_id"])
    assert list(found["run_id"]) == sorted(oracles)
    for row in found.itertuples():
        wanted = twins.netted(tables[row.run_id], tables[oracles[row.run_id]], 2, limits[row.run_id])
        assert (row.over_admission_share, row.false_rejection_share) == pytest.approx(wanted, rel=1e-12)


def decided(run, arrivals, deciders):
    """Rows of a user whose request at ``(second, node)`` is decided by that node's bucket, as GCRA does."""
    full_at, rows = {}, []
    for i, (second, node) in enumerate(arrivals):
        limit = deciders[node]
        at_ns = int(second * SECOND_NS)
        after = gcra(limit.ticks(at_ns), full_at.get(id(limit), 0), limit)
        full_at[id(limit)] = full_at.get(id(limit), 0) if after is None else after
        decision = "reject" if after is None else "admit"
        instants = {"intended_at_ns": at_ns, "decided_at_ns": at_ns}
        rows.append({"run_id": run, "user": "u", "request_id": i, "cost": 1, **instants, "decision": decision})
    return rows


def test_a_static_split_scores_above_one_and_its_errors_are_one_sided(requests_frame, oracles_frame, frame_of):
    # 4 tokens, split in two; a user sends 5 requests to one node within 4 s, and hardly anything comes back.
    whole, half, other = limit_of(4, "0.001"), limit_of(2, "0.0005"), limit_of(2, "0.0005")
    arrivals = [(second, "n1") for second in range(5)]
    tables = {
        "oracle": decided("oracle", arrivals, {"n1": whole, "n2": whole}),
        "split": decided("split", arrivals, {"n1": half, "n2": other}),
    }
    frame = requests_frame(tables)
    oracles = oracles_frame({"split": "oracle", "oracle": "oracle"})
    exact, split = collect(limiting.precision(frame, oracles), ["run_id"]).to_dict("records")
    assert exact["rejected_ratio"] == exact["area_ratio"] == 1.0
    assert exact["false_admit_count"] == exact["false_reject_count"] == 0
    assert split["rejected_ratio"] == 3.0  # rejects the 3rd, 4th and 5th; the oracle the 5th
    assert split["area_ratio"] == 1 + 2 + 3
    assert (split["false_admit_count"], split["false_reject_count"], split["false_reject_share"]) == (0, 2, 0.4)
    gap = collect(limiting.rejection_gap_over_time(frame, oracles, SECOND_NS), ["run_id", "t_ns"])
    assert list(gap[gap["run_id"] == "split"]["gap_count"]) == [0, 0, -1, -2, -2]
    assert not gap[gap["run_id"] == "oracle"]["gap_count"].any()
    runs = frame_of(
        "runs", {"run_id": ["split", "oracle"], "factors": [[("system.capacity", "4"), ("system.rate", "0.001")]] * 2}
    )
    assert list(collect(limiting.worst_excess(frame, runs), ["run_id"])["excess_tokens"]) == [0.0, 0.0]


def test_a_run_that_was_offered_other_requests_than_its_oracle_is_an_error(requests_frame, oracles_frame):
    tables = random_requests(1)
    del tables["a"][-1]
    with pytest.raises(PySparkException, match="not offered the same requests as its oracle: run a"):
        limiting.precision(requests_frame(tables), oracles_frame({"a": "d"})).collect()


# --- worst excess --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [3, 4])
def test_worst_excess_is_that_of_the_twin(requests_frame, frame_of, seed):
    tables = random_requests(seed)
    limits = {"a": ("5", "1/3"), "b": ("1", "2.5"), "c": ("20", "0.7"), "d": None}
    factors = [[("system.capacity", limit[0]), ("system.rate", limit[1])] if limit else [] for limit in limits.values()]
    runs = frame_of("runs", {"run_id": list(limits), "factors": factors})
    found = collect(limiting.worst_excess(requests_frame(tables), runs), ["run_id"])
    for row in found.to_dict("records"):
        capacity, rate = limits[row["run_id"]] or ("300", "0.3")
        tokens, user = twins.worst_excess(tables[row["run_id"]], int(capacity), rate)
        assert row["excess_tokens"] == pytest.approx(float(tokens), abs=1e-6)
        assert row["excess_share"] == pytest.approx(float(tokens / int(capacity)), abs=1e-6)
        assert none_of(row["user"]) == user
    assert list(found["excess_tokens"] > 0) == [True, True, True, False]


def test_what_a_token_bucket_admits_is_never_above_its_envelope(requests_frame, frame_of):
    rng = np.random.default_rng(8)
    rates = {"a": "1/3", "b": "0.3", "c": "0.7"}
    tables = {}
    for run, rate in rates.items():  # a user with more than 5 tokens' worth of requests, all the time
        arrivals = [(Fraction(int(at), 3000), "n") for at in np.sort(rng.integers(0, 900_000, 600))]
        tables[run] = decided(run, arrivals, {"n": limit_of(5, rate)})
        assert {row["decision"] for row in tables[run]} == {"admit", "reject"}
    factors = [[("system.capacity", "5"), ("system.rate", rate)] for rate in rates.values()]
    runs = frame_of("runs", {"run_id": list(rates), "factors": factors})
    found = collect(limiting.worst_excess(requests_frame(tables), runs), ["run_id"])
    assert list(found["excess_tokens"]) == [0.0, 0.0, 0.0] and found["user"].isna().all()
    next(row for row in tables["a"] if row["decision"] == "reject")["decision"] = "admit"
    found = collect(limiting.worst_excess(requests_frame(tables), runs), ["run_id"])
    assert 0 < found["excess_tokens"][0] <= 1 and found["user"][0] == "u"


def test_data_set_d_without_a_limiter_exceeds_by_what_a_hand_calculation_gives(requests_frame, frame_of):
    # One request in 0.9 s for 100 s, all admitted: 112 - (5 + 1 * 99.9) tokens (digest, 1.7).
    rows = [
        {"run_id": "d", "user": "u", "request_id": i, "decided_at_ns": i * 900_000_000, "decision": "admit"}
        for i in range(112)
    ]
    runs = frame_of("runs", {"run_id": ["d"], "factors": [[("system.capacity", "5"), ("system.rate", "1")]]})
    [row] = collect(limiting.worst_excess(requests_frame({"d": rows}), runs), ["run_id"]).to_dict("records")
    assert row == {"run_id": "d", "excess_tokens": 7.1, "excess_share": 1.42, "user": "u"}


# --- over time -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step_ns", [50_000_000, 700_000_000, 100 * SECOND_NS])
def test_curves_are_those_of_the_twin_at_every_grid_point(requests_frame, step_ns):
    tables = random_requests(5)
    tables["b"] = [row for row in tables["b"] if 2 * SECOND_NS < row["intended_at_ns"] < 5 * SECOND_NS]
    frame = requests_frame(tables)
    curves = collect(limiting.rejections_over_time(frame, step_ns), ["run_id", "t_ns"])
    users = collect(limiting.users_seen_over_time(frame, step_ns), ["run_id", "t_ns"])
    wanted, wanted_users = [], []
    for run, rows in tables.items():
        for t_ns in twins.grid(rows, step_ns):
            wanted.append((run, t_ns, twins.cumulative(rows, t_ns, "reject"), twins.cumulative(rows, t_ns)))
            wanted_users.append((run, t_ns, twins.users_seen(rows, t_ns)))
    assert list(curves.itertuples(index=False, name=None)) == wanted
    assert list(users.itertuples(index=False, name=None)) == wanted_users


def test_decision_latency_has_percentiles_like_any_other(frame_of):
    latencies = {"near": np.arange(1, 101), "far": np.full(9, 40_000_000)}
    labels = {"round": 0, "broker": 0, "metric": "decision_latency"}
    parts = [histogram_columns(values, run_id=run, **labels) for run, values in latencies.items()]
    histogram = frame_of("latency_histogram", pd.concat(parts).to_dict("list"))
    found = collect(metrics.percentiles(metrics.final_round(histogram), ["run_id", "metric"]), ["run_id"])
    assert list(found["p50_ns"]) == [pytest.approx(40_000_000, rel=0.01), 50] and list(found["count"]) == [9, 100]
