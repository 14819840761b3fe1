"""Distances between runs against SciPy's, flipped decisions against counting, pairs by their specs."""

import shutil

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark")

from scipy import stats

from analysis import fidelity
from analysis.fidelity import Pair
from analysis.tables import collect
from collectors.histogram import bucket_index, bucket_values
from collectors.integrity import Damage, forget
from collectors.writer import write_run
from tests.analysis import twins

PAIRS = [Pair("v", "l", "mininet", "valid", {}), Pair("v", "other", "local", "valid", {})]


@pytest.fixture
def found(frame_of, spark):
    """Distances between runs that are given by their latencies."""

    def build(values_by_run, extra=()):
        labels = {"round": 0, "broker": 0, "metric": "access_delay"}
        parts = [twins.histogram_columns(values, run_id=run, **labels) for run, values in values_by_run.items()]
        frame = frame_of("latency_histogram", pd.concat([*parts, *extra]).to_dict("list"))
        pairs = fidelity.pair_frame(spark, PAIRS)
        return collect(fidelity.distances(frame, pairs), ["live_run_id"]).set_index("live_run_id")

    return build


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_distances_are_scipy_s(found, seed):
    rng = np.random.default_rng(seed)
    values = {
        "v": rng.lognormal(13, 1, 3_000).astype(np.int64),
        "l": (rng.lognormal(13.2, 1.3, 2_000)).astype(np.int64),
        "other": np.where(rng.random(500) < 0.8, 0, 10**6),
    }
    rows = found(values)
    shown = {run: bucket_values()[bucket_index(each)] for run, each in values.items()}
    for run in ("l", "other"):
        row = rows.loc[run]
        assert row.kolmogorov_distance == pytest.approx(stats.ks_2samp(shown["v"], shown[run]).statistic)
        assert row.wasserstein_ns == pytest.approx(stats.wasserstein_distance(shown["v"], shown[run]))
        for q in (0.5, 0.95, 0.99):
            for side, name in (("virtual", "v"), ("live", run)):
                wanted = np.quantile(shown[name], q, method="inverted_cdf")
                assert row[f"{side}_p{round(100 * q)}_ns"] == wanted
        assert (row.virtual_count, row.live_count) == (3_000, len(values[run]))


@pytest.mark.slow
def test_equal_runs_are_no_distance_apart_and_a_shift_is_what_it_is(found):
    values = np.arange(128)  # buckets of one nanosecond
    rows = found({"v": values, "l": values, "other": values[:-8] + 8})
    assert tuple(rows.loc["l", ["kolmogorov_distance", "wasserstein_ns"]]) == (0.0, 0.0)
    shifted = found({"v": values[:100], "other": values[:100] + 20}).loc["other"]
    assert shifted.wasserstein_ns == pytest.approx(20) and shifted.kolmogorov_distance == pytest.approx(0.2)


@pytest.mark.slow
def test_search_rounds_and_metrics_of_one_run_alone_are_no_part_of_it(found):
    values = np.arange(100)
    trial = twins.histogram_columns(values + 10**9, run_id="v", round=3, broker=0, metric="access_delay")
    alone = twins.histogram_columns(values, run_id="l", round=0, broker=0, metric="end_to_end_latency")
    rows = found({"v": values, "l": values}, [trial, alone])
    assert list(rows.metric) == ["access_delay"] and rows.wasserstein_ns.iloc[0] == 0


@pytest.mark.slow
def test_windows_of_time_are_compared_all_together(found):
    values, labels = np.arange(128), {"broker": 0, "metric": "access_delay"}
    halves = [twins.histogram_columns(values[n::2], run_id="v", round=n + 1, **labels) for n in (0, 1)]
    rows = found({}, [*halves, twins.histogram_columns(values, run_id="l", round=1, **labels)])
    assert tuple(rows.loc["l", ["virtual_count", "live_count", "kolmogorov_distance"]]) == (128, 128, 0.0)


@pytest.mark.slow
def test_what_one_run_of_a_pair_has_alone_is_named(frame_of):
    parts = [
        twins.histogram_columns(np.arange(9), run_id=run, round=number, broker=0, metric=metric)
        for run, number, metric in (
            ("v", 0, "access_delay"), ("l", 0, "access_delay"), ("l", 0, "end_to_end_latency"), ("v", 2, "held_time"),
        )
    ]  # fmt: skip
    histogram = frame_of("latency_histogram", pd.concat(parts).to_dict("list"))
    requests = frame_of("requests", {"run_id": ["v"], "request_id": [1], "decision": ["admit"]})
    alone = fidelity.one_sided(histogram, requests, PAIRS)
    wanted = {("access_delay", "virtual"): 1, ("decisions", "virtual"): 2, ("end_to_end_latency", "live"): 1}
    assert alone == wanted | {("held_time", "virtual"): 2}  # PAIRS' other live run has nothing at all


@pytest.mark.slow
def test_flips_are_counted_request_by_request(frame_of, spark):
    rng = np.random.default_rng(5)
    verdicts = {run: rng.choice(["admit", "reject", "lost"], 400, p=[0.7, 0.2, 0.1]) for run in ("v", "l")}
    columns = {
        "run_id": ["v"] * 400 + ["l"] * 400 + ["other"] * 400,
        "request_id": [*range(400), *reversed(range(400)), *range(400)],
        "decision": [*verdicts["v"], *verdicts["l"][::-1], *["lost"] * 400],
    }
    pairs = fidelity.pair_frame(spark, PAIRS)
    rows = collect(fidelity.flips(frame_of("requests", columns), pairs), ["live_run_id"])
    row, undecided = rows.to_dict("records")
    both = [pair for pair in zip(verdicts["v"], verdicts["l"], strict=True) if "lost" not in pair]
    flipped = sum(one != other for one, other in both)
    assert row["flipped_count"] == flipped and row["decided_count"] == len(both) and row["offered_count"] == 400
    wanted = stats.binomtest(flipped, len(both)).proportion_ci(method="wilson")
    assert (row["flipped_low"], row["flipped_high"]) == pytest.approx((wanted.low, wanted.high))
    assert row["live_admitted_count"] == (verdicts["l"] == "admit").sum()
    assert row["virtual_lost_count"] == (verdicts["v"] == "lost").sum()
    assert undecided["decided_count"] == 0 and undecided["live_lost_count"] == 400
    assert all(np.isnan(undecided[name]) for name in ("flipped_share", "flipped_low", "flipped_high"))


def folder(root, name, started_at="2001-01-01", validity="valid", inputs=(), **spec):
    spec = {"system": "lb", "testbed": "virtual", "keep": [], "seed": 1, "repetition": 0, **spec}
    manifest = {"run_id": name, "spec": spec, "started_at": started_at, "validity": validity, "inputs": dict(inputs)}
    write_run(root / name, {}, manifest)
    return root / name


def test_pairs_differ_in_the_testbed_alone(tmp_path):
    folders = [
        folder(tmp_path, "v1"),
        folder(tmp_path, "m1", testbed="mininet", keep=["messages"], validity="degraded"),
        folder(tmp_path, "l1", testbed="local"),
        folder(tmp_path, "s1", testbed="ssh", testbed_options={"inventory": "hosts.toml"}, inputs={"hosts.toml": "00"}),
        folder(tmp_path, "m2", testbed="mininet", seed=2),
        folder(tmp_path, "m3", testbed="mininet", system="srtm"),
    ]
    there = {"testbed_options": {"inventory": "others.toml"}, "inputs": {"others.toml": "00"}}
    folders.append(folder(tmp_path, "s2", "2001-01-02", testbed="ssh", **there))  # later, and at another place
    found = fidelity.pairs_of(folders)
    live = [("v1", "l1", "local", "valid"), ("v1", "m1", "mininet", "degraded")]
    live += [("v1", name, "ssh", "valid") for name in ("s1", "s2")]
    assert [tuple(pair)[:4] for pair in found] == live


def test_runs_on_a_file_that_was_edited_in_between_are_no_pair(tmp_path):
    folders = [
        folder(tmp_path, "v", inputs={"log.csv": "00"}),
        folder(tmp_path, "m1", testbed="mininet", inputs={"log.csv": "00"}),
        folder(tmp_path, "m2", "2001-01-02", testbed="mininet", inputs={"log.csv": "01"}),
    ]
    assert [pair.live_run_id for pair in fidelity.pairs_of(folders)] == ["m1"]


def test_runs_that_are_not_as_they_were_written_are_no_pair(tmp_path):
    folders = [folder(tmp_path, "v"), folder(tmp_path, "m", testbed="mininet"), folder(tmp_path, "o", seed=2)]
    (folders[1] / "requests.parquet").write_bytes(b"of another run")
    with pytest.raises(Damage, match=r"requests\.parquet does not belong to it"):
        fidelity.pairs_of(folders)
    (folders[1] / "requests.parquet").unlink()
    shutil.copy(folders[2] / "manifest.json", folders[1])
    forget()
    with pytest.raises(Damage, match="that of run o"):
        fidelity.pairs_of(folders)


def test_of_runs_of_one_spec_by_several_codes_the_latest_is_paired(tmp_path):
    folders = [
        folder(tmp_path, "new", "2001-01-02"), folder(tmp_path, "old", "2001-01-01"),
        folder(tmp_path, "m", testbed="mininet"),
    ]  # fmt: skip
    assert [pair.virtual_run_id for pair in fidelity.pairs_of(folders)] == ["new"]
