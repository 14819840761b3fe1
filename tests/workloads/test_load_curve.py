"""Load curves: what each kind looks like, that servers' curves are their own, and logs as rates."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from core.errors import SpecError
from workloads import load
from workloads.load_curve import LoadCurve, LoadCurveConfig


def curve(seed: int = 1, **options: object) -> LoadCurve:
    workload = load("load-curve")
    made: LoadCurve = workload.make(workload.configure(options), seed)
    return made


def a_log(path: Path, instants: list[float]) -> str:
    lines = ["TIMESTAMP,ContextTokens", *(f"2023-11-16 18:{int(t // 60):02}:{t % 60:010.7f},7" for t in instants)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return str(path)


@pytest.mark.parametrize("kind", ["iid", "ar1"])
def test_more_servers_and_more_cycles_move_nobody(kind: str) -> None:
    few, many = curve(kind=kind).demands(3, 100), curve(kind=kind).demands(8, 100)
    assert few.shape == (100, 3) and few.dtype == np.float64 and (many >= 0).all()
    np.testing.assert_array_equal(few, many[:, :3])
    np.testing.assert_array_equal(curve(kind=kind).demands(3, 60), few[:60])
    assert (curve(2, kind=kind).demands(3, 100) != few).any()


def test_iid_increments_are_a_walk_from_the_mean() -> None:
    found = curve(kind="iid", mean=1e6, step_sd=100.0).demands(50, 400)
    steps = np.diff(found, axis=0)
    assert (found[0] == 1e6).all()
    assert abs(steps.std() / 100.0 - 1) < 0.02 and abs(steps.mean()) < 2.0
    apart = np.corrcoef(steps[:, 0], steps[:, 1])[0, 1], np.corrcoef(steps[1:, 0], steps[:-1, 0])[0, 1]
    assert max(map(abs, apart)) < 0.2


def test_ar1_has_the_mean_spread_and_memory_that_it_says_from_the_start() -> None:
    found = curve(kind="ar1", phi=0.9, relative_sd=0.2).demands(400, 100)
    assert abs(found.mean() / 1000 - 1) < 0.02
    assert abs(found[0].std() / 200 - 1) < 0.1 and abs(found[-1].std() / 200 - 1) < 0.1
    z = (found - 1000) / 200
    assert abs((z[1:] * z[:-1]).mean() - 0.9) < 0.03 and abs((z[10:] * z[:-10]).mean() - 0.9**10) < 0.05


def test_demands_stop_at_zero() -> None:
    for options in ({"kind": "ar1", "relative_sd": 3.0}, {"kind": "iid", "step_sd": 500.0}):
        found = curve(**options).demands(20, 200)
        assert found.min() == 0.0 and found.max() > 1000.0


def test_a_log_is_its_rate_from_each_servers_own_instant(tmp_path: Path) -> None:
    """Ten bins of a second: 1, 2, … 10 requests in them."""
    instants = [second + (i + 0.5) / (second + 1) for second in range(10) for i in range(second + 1)]
    instants = [0.0, *instants[1:-1], 9.9999999]
    found = curve(kind="log", path=a_log(tmp_path / "log.csv.gz", instants)).demands(40, 10)
    np.testing.assert_allclose(found.mean(axis=0), 1000.0)
    whole = np.arange(1, 11) * (1000.0 / 5.5)
    starts = set()
    for server in range(40):
        start = int(np.argmin(found[:, server]))
        np.testing.assert_allclose(np.roll(found[:, server], -start), whole)
        starts.add(start)
    assert len(starts) > 5


def test_a_hashed_log_gives_each_request_to_one_server(tmp_path: Path) -> None:
    instants = list(np.sort(np.random.default_rng(1).uniform(0, 300, 5_000)))
    path = a_log(tmp_path / "log.csv.gz", instants)
    found = curve(kind="log", path=path, spread="hashed", mean=2.0).demands(5, 100)
    counts = found * 5_000 / 1_000.0  # 5,000 requests, 500 servers' cycles, 10 each on average, scaled to 2
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    assert counts.sum() == pytest.approx(5_000) and abs(counts.std() - 10**0.5) < 0.5


def test_clients_share_their_servers_demand() -> None:
    row = np.array([1000.0, 0.0, 500.0])
    found = curve(clients=50).client_demands(row)
    assert found.shape == (3, 50) and (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), row)
    assert found[0].max() > 3 * found[0].mean()
    assert np.ptp(curve(clients=50, client_spread=0.0).client_demands(row)[0]) < 1e-9


def test_the_id_is_the_logs_content(tmp_path: Path) -> None:
    workload = load("load-curve")
    first = workload.configure({"kind": "log", "path": a_log(tmp_path / "a.csv.gz", [1.0, 2.0])})
    second = workload.configure({"kind": "log", "path": a_log(tmp_path / "b.csv.gz", [1.0, 3.0])})
    Path(second.path).unlink()
    assert workload.id(first, 1) != workload.id(LoadCurveConfig(), 1)
    with pytest.raises(SpecError, match=r"b\.csv\.gz"):
        workload.id(second, 1)
    assert workload.id(LoadCurveConfig(path="nowhere"), 1) == workload.id(LoadCurveConfig(), 1)
    assert workload.id(LoadCurveConfig(phi=0.5), 1) != workload.id(LoadCurveConfig(), 1)


def test_a_bad_log_is_refused_by_line_or_counted(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("TIMESTAMP,x\n2023-11-16 18:00:01,1\nyesterday,1\n2023-11-16 18:00:03,1\n2023-11-16 18:00:02,1\n")
    with pytest.raises(SpecError, match=r"bad\.csv, line 3"):
        curve(kind="log", path=str(path)).demands(2, 4)
    kept = curve(kind="log", path=str(path), skip_bad=True)
    assert kept.demands(2, 4).shape == (4, 2) and sum(kept.skipped.values()) == 2
    with pytest.raises(SpecError, match="column"):
        curve(kind="log", path=str(path), column="when").demands(2, 4)
    assert curve().skipped == {}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"kind": "sine"}, "kind='sine'"),
        ({"kind": "log"}, "path=''"),
        ({"spread": "even"}, "spread='even'"),
        ({"mean": 0.0}, "mean=0.0"),
        ({"phi": 1.0}, "phi=1.0"),
        ({"relative_sd": -1.0}, "relative_sd=-1.0"),
        ({"clients": 0}, "clients=0"),
    ],
)
def test_options_that_make_no_sense_are_spec_errors(options: dict[str, object], names: str) -> None:
    with pytest.raises(SpecError, match=names):
        curve(**options)
