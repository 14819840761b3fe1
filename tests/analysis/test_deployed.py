"""Metrics of deployed limiters: Spark's answers against single-process twins, and histories worked by hand."""

from collections import defaultdict

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException

from analysis import deployed
from analysis.tables import collect, computed_once
from tests.analysis import deployed_twins as twins

pytestmark = pytest.mark.slow

SECOND_NS = 1_000_000_000
BY = ["shape", "factor"]
KEYS = {
    "even-1x-1": ("even", 1.0),
    "even-1x-2": ("even", 1.0),
    "even-5x-1": ("even", 5.0),
    "moving-5x-1": ("moving", 5.0),
}
LIMITS = {"a": (5, "1"), "b": (4, "1/3"), "c": (3, "2.5"), "oracle": (5, "1")}
CONTRACTS = {"windows": "fixed-window", "rolling": "sliding-window", "parts": "split"}
SYSTEMS = {"a": "windows", "b": "rolling", "c": "parts", "oracle": "centralised"}


def history(seed):
    """Requests of the runs of ``LIMITS``, by run, of all keys and of a user that is none: decisions at random."""
    rng = np.random.default_rng(seed)
    offered = [
        {
            "node": f"n{rng.integers(3)}",
            "user": [*KEYS, "another"][rng.integers(5)],
            "request_id": i,
            "cost": [None, 1, 2][rng.integers(3)],
            "intended_at_ns": int(rng.integers(0, 80)) * 250_000_000,
        }
        for i in range(240)
    ]
    tables = {}
    for run, share in zip(LIMITS, (0.6, 0.9, 0.3, 0.5), strict=True):
        tables[run] = rows = []
        for request in offered:
            decision = rng.choice(["admit", "reject", "lost"], p=[share, 0.95 - share, 0.05])
            wait_ns = int(rng.integers(0, 8)) * 125_000_000
            decided_at_ns = None if decision == "lost" else request["intended_at_ns"] + wait_ns
            rows.append({"run_id": run, **request, "decided_at_ns": decided_at_ns, "decision": str(decision)})
    return tables


def groups_of(rows):
    found = defaultdict(list)
    for row in rows:
        if row["user"] in KEYS:
            found[KEYS[row["user"]]].append(row)
    return found


@pytest.fixture
def grouped(spark, frame_of):
    """The frame of requests, with shape and factor."""

    def build(tables):
        rows = [row for its in tables.values() for row in its]
        groups = spark.createDataFrame(
            [(user, *key) for user, key in KEYS.items()], "user string, shape string, factor double"
        )
        columns = {name: [row.get(name) for row in rows] for name in rows[0]}
        return deployed.in_groups(frame_of("requests", columns), groups)

    return build


@pytest.fixture
def runs(frame_of):
    factors = [[("system.capacity", str(capacity)), ("system.rate", rate)] for capacity, rate in LIMITS.values()]
    columns = {"run_id": list(LIMITS), "system": list(SYSTEMS.values()), "factors": factors}
    return frame_of("runs", {**columns, "testbed": ["mininet", "mininet", "mininet", "virtual"]})


def by_group(frame):
    """run, shape, factor -> the rest of the row."""
    rows = collect(frame, ["run_id", *BY]).to_dict("records")
    return {tuple(row.pop(name) for name in ("run_id", *BY)): row for row in rows}


def over_contract(frame, runs, contracts):
    return deployed.over_contract(deployed.excess(frame, runs), deployed.busiest_windows(frame, runs), runs, contracts)


def points(tables):
    return [(run, *group, rows) for run, its in tables.items() for group, rows in groups_of(its).items()]


@pytest.mark.parametrize("seed", [1, 2])
def test_excess_windows_and_contracts_are_those_of_the_twins(grouped, runs, seed):
    tables = history(seed)
    frame = grouped(tables)
    excess, windows = by_group(deployed.excess(frame, runs)), by_group(deployed.busiest_windows(frame, runs))
    over = by_group(over_contract(frame, runs, CONTRACTS))
    assert set(excess) == set(windows) == set(over) == {point[:3] for point in points(tables)}
    for run, shape, factor, rows in points(tables):
        limit, point = LIMITS[run], (run, shape, factor)
        contract = CONTRACTS.get(SYSTEMS[run], "bucket")
        assert over[point].pop("contract") == contract
        for instant in twins.INSTANTS:
            wanted = float(twins.excess(rows, *limit, instant))
            assert excess[point][f"{instant}_excess_share"] == pytest.approx(wanted, abs=1e-6)
            for name, twin in (("window", twins.window), ("aligned", twins.aligned)):
                assert windows[point][f"{instant}_{name}_share"] == pytest.approx(float(twin(rows, *limit, instant)))
            wanted = float(twins.over_contract(rows, *limit, contract, instant))
            assert over[point][f"{instant}_over_share"] == pytest.approx(wanted, abs=1e-6)
    assert {value > 0 for row in excess.values() for value in row.values()} == {True, False}


@pytest.mark.parametrize("seed", [3, 4])
def test_granted_is_that_of_the_twin(spark, grouped, seed):
    tables = history(seed)
    pairs = spark.createDataFrame([(run, "oracle") for run in LIMITS], "run_id string, oracle_run_id string")
    found = by_group(deployed.granted(grouped(tables), pairs))
    oracle = groups_of(tables["oracle"])
    for run, shape, factor, rows in points(tables):
        admitted, wanted = twins.granted(rows, oracle[shape, factor])
        row = found.pop((run, shape, factor))
        assert row["granted_ratio"] == pytest.approx(admitted / wanted)
        assert (row["admitted_count"], row["oracle_admitted_count"], row["offered_count"]) == (
            admitted,
            wanted,
            len(rows),
        )
        assert row["lost_count"] == sum(its["decision"] == "lost" for its in rows)
    assert not found


def test_a_group_that_was_offered_something_else_is_an_error(spark, grouped):
    tables = history(5)
    tables["a"].remove(next(row for row in tables["a"] if row["user"] in KEYS))
    pairs = spark.createDataFrame([("a", "oracle")], "run_id string, oracle_run_id string")
    with pytest.raises(PySparkException, match="not offered the same requests as its oracle: run a"):
        deployed.granted(grouped(tables), pairs).collect()


@pytest.mark.parametrize(("step_ns", "instant"), [(SECOND_NS, "intended"), (700_000_000, "decided")])
def test_what_is_admitted_over_time_is_that_of_the_twin(grouped, step_ns, instant):
    tables = history(6)
    for row in tables["a"]:  # a pause of all, and a run that ends early
        row["intended_at_ns"] = row["intended_at_ns"] // 4 + (row["intended_at_ns"] > 10 * SECOND_NS) * 3 * SECOND_NS
        row["decided_at_ns"] = row["decided_at_ns"] and row["intended_at_ns"] + 1
    found = collect(deployed.admitted_over_time(grouped(tables), step_ns, BY, instant), ["run_id", *BY, "t_ns"])
    for run, shape, factor, rows in points(tables):
        ours = [row for group in groups_of(tables[run]).values() for row in group]
        events = [row["intended_at_ns"] for row in ours] + [at_ns for at_ns, _ in twins.admitted(ours, instant)]
        part = found[(found.run_id == run) & (found["shape"] == shape) & (found.factor == factor)]
        columns = part[["t_ns", "user_count", "offered_rps", "admitted_rps"]]
        got = list(columns.itertuples(index=False, name=None))
        wanted = twins.over_time(rows, max(events), step_ns, instant)
        assert [row[:2] for row in got] == [row[:2] for row in wanted]
        np.testing.assert_allclose([row[2:] for row in got], [row[2:] for row in wanted], rtol=1e-12)


def test_waits_are_those_of_the_twin(grouped):
    tables = history(7)
    frame = grouped(tables)
    for by in ((), ("node",)):
        found = collect(deployed.waits(frame, by), ["run_id", *by])
        assert len(found) == len(tables) * (3 if by else 1)
        for row in found.itertuples():
            its = [each for each in tables[row.run_id] if each["user"] in KEYS and each["decided_at_ns"] is not None]
            its = [each for each in its if not by or each["node"] == row.node]
            waits = [each["decided_at_ns"] - each["intended_at_ns"] for each in its]
            assert row.decided_count == len(waits)
            assert (row.p50_ns, row.p99_ns) == (twins.quantile(waits, 0.5), twins.quantile(waits, 0.99))


# --- by hand -------------------------------------------------------------------------------------


def told(user, seconds, run="a", wait=0.0):
    """Requests of a user, all admitted, that wait so long for their verdict."""
    at_ns = [round(at * SECOND_NS) for at in seconds]
    return [
        {"run_id": run, "node": "n1", "user": user, "request_id": i, "cost": 1, "intended_at_ns": at,
         "decided_at_ns": at + round(wait * SECOND_NS), "decision": "admit"}
        for i, at in enumerate(at_ns)
    ]  # fmt: skip


def test_a_fixed_window_admits_twice_its_limit_within_its_contract(grouped, runs):
    # Five at the end of a period of 5 s, five at the begin of the next: 10 within 0.4 s, where c + r t is 5.4.
    rows = told("even-5x-1", [4.80, 4.82, 4.84, 4.86, 4.88, 5.0, 5.05, 5.1, 5.15, 5.2])
    frame = grouped({"a": rows})
    windows, excess = deployed.busiest_windows(frame, runs), deployed.excess(frame, runs)
    with computed_once(windows) as windows, computed_once(excess) as excess:
        [shares] = by_group(windows).values()
        assert shares["intended_window_share"] == 2.0 and shares["intended_aligned_share"] == 1.0
        [shares] = by_group(excess).values()
        assert shares["intended_excess_share"] == pytest.approx((10 - 5.4) / 5)
        for contract, over in (("fixed-window", 0.0), ("sliding-window", 1.0), ("bucket", 0.92), ("split", 0.92)):
            [row] = by_group(deployed.over_contract(excess, windows, runs, {"windows": contract})).values()
            assert (row["contract"], row["intended_over_share"]) == (contract, pytest.approx(over))


def test_a_verdict_that_comes_late_counts_in_another_window(grouped, runs):
    rows = told("even-5x-1", [4.80, 4.82, 4.84, 4.86, 4.88], wait=0.17)
    rows += [{**row, "request_id": 9 + row["request_id"]} for row in told("even-5x-1", [5.0, 5.05, 5.1, 5.15, 5.2])]
    [windows] = by_group(deployed.busiest_windows(grouped({"a": rows}), runs)).values()
    # Of the first five, three are decided from 5 s on.
    assert windows["intended_aligned_share"] == 1.0 and windows["decided_aligned_share"] == 8 / 5


def test_a_window_ends_before_the_next_begins(grouped, runs):
    # One a second is the limit itself: what comes 5 s after the first is in the next window.
    [windows] = by_group(deployed.busiest_windows(grouped({"a": told("even-1x-1", range(12))}), runs)).values()
    assert set(windows.values()) == {1.0}
    [excess] = by_group(deployed.excess(grouped({"a": told("even-1x-1", range(12))}), runs)).values()
    assert set(excess.values()) == {0.0}


def test_users_of_a_group_have_a_limit_each_and_the_worst_counts(grouped, runs):
    rows = told("even-1x-1", [0, 0, 0, 0, 0]) + told("even-1x-2", [0.1] * 7)
    found = by_group(deployed.excess(grouped({"a": rows}), runs))
    assert list(found) == [("a", "even", 1.0)] and found["a", "even", 1.0]["decided_excess_share"] == 2 / 5


def test_a_group_of_which_nothing_was_admitted_is_there(grouped, runs):
    rows = [{**row, "decision": "reject"} for row in told("even-1x-1", [1, 2])]
    frame = grouped({"a": rows})
    for metric in (deployed.excess(frame, runs), deployed.busiest_windows(frame, runs)):
        [row] = by_group(metric).values()
        assert set(row.values()) == {0.0}


def test_what_the_oracle_never_admits_has_no_share(spark, grouped):
    tables = {
        "a": told("even-1x-1", [1]),
        "oracle": [{**row, "decision": "reject"} for row in told("even-1x-1", [1], "oracle")],
    }
    pairs = spark.createDataFrame([("a", "oracle")], "run_id string, oracle_run_id string")
    [row] = by_group(deployed.granted(grouped(tables), pairs)).values()
    assert row["admitted_count"] == 1 and np.isnan(row["granted_ratio"])


def test_an_unknown_contract_is_refused(grouped, runs):
    with pytest.raises(AssertionError):
        over_contract(grouped(history(1)), runs, {"windows": "leaky"})


def test_answers_that_did_not_come_are_counted_where_somebody_counts(frame_of, runs):
    rows = [row for run in ("a", "b", "oracle") for row in told("even-1x-1", range(4), run)]
    rows[0] |= {"decision": "lost", "decided_at_ns": None}
    rows[1]["node"] = rows[0]["node"] = "n2"
    requests = frame_of("requests", {name: [row[name] for row in rows] for name in rows[0]})
    told_samples = [("n1", "unanswered_count", 1.0), ("n2", "unanswered_count", 1.0), ("n1", "error_answer_count", 1.0)]
    columns = zip(*[("a", 0, *sample) for sample in told_samples], strict=True)
    samples = frame_of(
        "samples", dict(zip(("run_id", "at_ns", "node", "metric", "value"), map(list, columns), strict=True))
    )
    found = collect(deployed.answers(requests, samples, runs), ["run_id"]).set_index("run_id")
    counts = ["offered_count", "lost_count", "unanswered_count", "error_answer_count"]
    shares = ["lost_share", "unanswered_share", "error_answer_share"]
    assert list(found.loc["a", counts]) == [4, 1, 2, 1] and list(found.loc["a", shares]) == [0.25, 0.5, 0.25]
    assert list(found.loc["b", counts]) == [4, 0, 0, 0]
    assert found.loc["oracle", ["unanswered_count", "unanswered_share", "error_answer_share"]].isna().all()
    of_nodes = collect(deployed.answers(requests, samples, runs, ["node"]), ["run_id", "node"])
    of_a = of_nodes[of_nodes.run_id == "a"][["node", *counts]]
    assert list(of_a.itertuples(index=False, name=None)) == [("n1", 2, 0, 1, 1), ("n2", 2, 1, 1, 0)]


def test_a_request_belongs_to_the_second_of_its_verdict_and_an_answer_that_did_not_come_to_its(spark, frame_of, runs):
    """A time-out of 1 s: what was asked in one second is decided alone in the next."""
    told_at = [(0.2, 0.4, "admit"), (0.9, 1.9, "admit"), (1.1, 1.2, "reject"), (1.5, None, "lost"), (2.0, 2.0, "admit")]
    rows = told("even-1x-1", [at for at, *_ in told_at])
    for row, (_, decided, decision) in zip(rows, told_at, strict=True):
        decided_at_ns = None if decided is None else round(decided * SECOND_NS)
        row |= {"decision": decision, "decided_at_ns": decided_at_ns}
    frame = frame_of("requests", {name: [row[name] for row in rows] for name in rows[0]})
    # The collector says at a second's end how many it was; an error is said at once.
    told_samples = [
        (2 * SECOND_NS, "unanswered_count"),
        (3 * SECOND_NS, "unanswered_count"),
        (2 * SECOND_NS, "error_answer_count"),
    ]
    columns = {
        "run_id": ["a"] * 3,
        "at_ns": [at_ns for at_ns, _ in told_samples],
        "node": ["n1"] * 3,
        "metric": [metric for _, metric in told_samples],
        "value": [1.0] * 3,
    }
    requests, samples = deployed.by_second(frame, frame_of("samples", columns))
    found = collect(deployed.answers(requests, samples, runs, ["t_ns"]), ["t_ns"])
    wanted = [(0, 1, 0, 0, 0), (SECOND_NS, 3, 1, 1, 0), (2 * SECOND_NS, 1, 0, 1, 1)]
    counts = ["t_ns", "offered_count", "lost_count", "unanswered_count", "error_answer_count"]
    assert list(found[counts].itertuples(index=False, name=None)) == wanted

    spans = spark.createDataFrame([("a", SECOND_NS, 2 * SECOND_NS)], "run_id string, from_ns long, until_ns long")
    inside = deployed.within(requests, spans), deployed.within(samples, spans)
    (row,) = collect(deployed.answers(*inside, runs), ["run_id"]).itertuples()
    assert (row.offered_count, row.lost_count, row.unanswered_count, row.error_answer_count) == (3, 1, 1, 0)
    sent = deployed.within(frame, spans, "intended_at_ns")
    assert sorted(row.intended_at_ns for row in sent.collect()) == [round(1.1 * SECOND_NS), round(1.5 * SECOND_NS)]
    assert sent.columns == frame.columns
    assert deployed.within(frame, spans.where("run_id = 'b'"), "intended_at_ns").count() == 0
