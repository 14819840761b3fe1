"""Memory, bandwidth, convergence: Spark's answers against a single-process twin, and cases worked by hand."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark")


from analysis import usage
from analysis.tables import collect
from collectors.rows import sorted_out
from tests.analysis import limiting_twins as twins

pytestmark = pytest.mark.slow

SECOND_NS = 1_000_000_000


@pytest.fixture
def tables(frame_of):
    """Frames of ``usage`` and ``samples`` from (run, at, node, metric, value), in seconds, as written."""

    def build(rows):
        found = {"usage": {"run_id": []}, "samples": {"run_id": []}}
        for run in dict.fromkeys(row[0] for row in rows):
            mine = [(round(at * SECOND_NS), *rest) for its, at, *rest in rows if its == run]
            for table, columns in sorted_out(mine).items():
                columns["run_id"] = [run] * len(columns["at_ns"])
                for name, column in columns.items():
                    found[table].setdefault(name, []).extend(column)
        return {table: frame_of(table, columns) for table, columns in found.items()}

    return build


@pytest.fixture
def used(tables):
    """The frame of ``usage`` alone."""
    return lambda rows: tables(rows)["usage"]


def random_samples(seed):
    """Runs of three nodes for some 20 s: one has a node that is down for a while, one never sends."""
    rng = np.random.default_rng(seed)
    rows = []
    for run in ("a", "b", "c"):
        for at in range(1, 20 + int(rng.integers(5))):
            for node in ("n1", "n2", "n3"):
                if run == "a" and node == "n2" and 5 <= at < 9:
                    continue
                rows.append((run, at, node, "state_bytes", float(rng.integers(0, 10**6))))
                if run != "c" and rng.random() < 0.4:
                    rows.append((run, at, node, "sent_bytes", float(rng.integers(1, 10**5))))
                    rows.append((run, at, node, "sent_count", 3.0))
        rows.append((run, 25, "", "load_end_ns", 2e10))
        rows.append((run, 0, "n1", "lost_count", 4.0))
    rows.append(("b", 25.5, "n1", "sent_bytes", 7.0))  # after a pause, off the beat
    return rows


def as_dicts(rows, run):
    names = ("at_ns", "node", "metric", "value")
    return [dict(zip(names, (round(at * SECOND_NS), *rest), strict=True)) for of, at, *rest in rows if of == run]


@pytest.mark.parametrize("step_ns", [SECOND_NS, 3 * SECOND_NS, SECOND_NS // 2])
def test_usage_over_time_is_that_of_the_twin(used, step_ns):
    rows = random_samples(step_ns)
    found = collect(usage.usage_over_time(used(rows), step_ns), ["run_id", "t_ns"])
    assert found["allocated_bytes"].isna().all()
    for run in ("a", "b", "c"):
        part = found[found["run_id"] == run][["t_ns", "state_bytes", "sent_bytes"]]
        wanted = pd.DataFrame(twins.usage_over_time(as_dicts(rows, run), step_ns), columns=part.columns)
        pd.testing.assert_frame_equal(part.reset_index(drop=True), wanted, check_dtype=False, rtol=1e-12)


def areas(rows):
    return collect(usage.usage_area(usage.usage_over_time(rows)), ["run_id"])


def test_areas_and_peaks_are_those_of_the_curves_whatever_the_partitions(used):
    rows = random_samples(2)
    frame = used(rows)
    found = areas(frame)
    for row in found.to_dict("records"):
        curve = twins.usage_over_time(as_dicts(rows, row["run_id"]), SECOND_NS)
        held, sent = [value for _, value, _ in curve if value is not None], [value for _, _, value in curve]
        assert row["state_byte_seconds"] == pytest.approx(sum(held), rel=1e-12)
        assert row["sent_bytes"] == pytest.approx(sum(sent), rel=1e-12)
        assert (row["state_peak_bytes"], row["sent_peak_bytes"]) == (max(held), max(sent))
        assert row["end_ns"] == curve[-1][0]
        assert pd.isna(row["allocated_byte_seconds"]) and pd.isna(row["allocated_peak_bytes"])
    shuffled = used([rows[i] for i in np.random.default_rng(1).permutation(len(rows))]).repartition(3)
    pd.testing.assert_frame_equal(areas(shuffled), found, check_exact=True)


def test_areas_by_hand(used):
    rows = [("a", at, node, "state_bytes", value) for at, node, value in [(1, "n1", 10), (1, "n2", 30), (2, "n1", 50)]]
    rows += [("a", 1, "n2", "sent_bytes", 100), ("a", 3, "n2", "sent_bytes", 40), ("a", 2, "n1", "allocated_bytes", 8)]
    [whole] = areas(used(rows)).to_dict("records")
    assert whole == {
        "run_id": "a",
        "state_byte_seconds": 20.0 + 50.0,  # n2 is down in the second
        "allocated_byte_seconds": 8.0,
        "sent_bytes": 70.0,
        "state_peak_bytes": 50.0,
        "allocated_peak_bytes": 8.0,
        "sent_peak_bytes": 50.0,
        "end_ns": 3 * SECOND_NS,
    }


# --- convergence ---------------------------------------------------------------------------------


def test_convergence_counts_from_the_last_request(tables, frame_of):
    rows = [
        ("late", 60, "", "load_end_ns", 60e9),
        ("late", 75, "", "convergence_ns", 74.25e9),
        ("late", 3, "n1", "sent_count", 2.0),
        ("late", 74, "n2", "sent_count", 1.0),
        ("late", 75, "n2", "sent_count", 0.0),
        ("early", 60, "", "load_end_ns", 60e9),
        ("early", 60, "", "convergence_ns", 14e9),
        ("early", 14, "n1", "sent_count", 1.0),
        ("never", 60, "", "load_end_ns", 60e9),
        ("never", 660, "n1", "sent_count", 1.0),
        ("silent", 60, "", "load_end_ns", 60e9),
    ]
    runs = frame_of("runs", {"run_id": ["late", "early", "never", "silent", "empty"]})
    found = tables(rows)
    found = collect(usage.convergence(found["samples"], found["usage"], runs), ["run_id"]).set_index("run_id")
    seconds = {run: [None if pd.isna(ns) else ns / SECOND_NS for ns in found.loc[run]] for run in found.index}
    assert list(found.columns) == ["load_end_ns", "converged_at_ns", "convergence_ns", "last_sent_at_ns"]
    assert seconds == {
        "late": [60, 74.25, 14.25, 74],
        "early": [60, 14, 0, 14],  # sent nothing more while requests still came
        "never": [60, None, None, 660],
        "silent": [60, None, None, None],
        "empty": [None, None, None, None],
    }
