"""The study of throttlers: a run's cycles are the law's, and what does not fit is refused."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from core.errors import SpecError
from harness.experiment import RunSpec
from harness.run import check_all, execute
from systems.parts import throttling
from systems.parts.throttling_graphs import DST_1, laplacian
from tests.harness.common import parquet_hashes
from tests.systems.parts.throttling_twins import admitted as granted
from workloads import load

CYCLES = 40


def spec(**changes: Any) -> RunSpec:
    base = RunSpec(
        system="throttler",
        system_options={"graph": "dst-1", "g": 0.02, "clamp": "none"},
        workload="load-curve",
        topology="full-mesh",
        topology_options={"nodes": 10, "delay": "0ms"},
        study="throttling",
        study_options={"cycles": CYCLES},
        seed=5,
    )
    return msgspec.structs.replace(base, **changes)


def cycles(folder: Path, column: str) -> np.ndarray:
    """One column by cycle and server, n1, n2, … in order."""
    frame = pq.read_table(folder / "cycles.parquet").to_pandas()
    wide = frame.pivot(index="cycle", columns="server", values=column)
    assert list(wide.index) == list(range(len(wide)))
    return wide[sorted(wide.columns, key=lambda name: int(name[1:]))].to_numpy()


def test_a_run_follows_the_law_on_the_workloads_demands(tmp_path: Path) -> None:
    execute(spec(), "run", tmp_path / "a")
    demand, limit, admitted, p = (cycles(tmp_path / "a", m) for m in ("demand", "limit", "admitted", "nodal_measure"))
    workload = load("load-curve")
    np.testing.assert_array_equal(demand, workload.make(workload.config(), 5).demands(10, CYCLES))
    start = np.full(10, demand.sum(axis=1).mean() / 10)  # l_total is the mean total demand
    np.testing.assert_allclose(limit, throttling.trajectory(laplacian(DST_1), start, demand, "throttled", 0.02)[:-1])
    np.testing.assert_allclose(admitted, granted(limit, demand))
    np.testing.assert_allclose(p, demand - limit)
    execute(spec(), "run", tmp_path / "b")
    assert parquet_hashes(tmp_path / "a") == parquet_hashes(tmp_path / "b")


def test_the_limit_may_be_the_systems_own(tmp_path: Path) -> None:
    options = {"graph": "none", "rate": "2000", "cycle": "500ms"}
    execute(spec(system_options=options, study_options={"cycles": 3, "load": 0.0}), "run", tmp_path / "a")
    assert (cycles(tmp_path / "a", "limit") == 100.0).all()
    execute(spec(system_options=options, study_options={"cycles": 3, "load": 2.0}), "run", tmp_path / "b")
    half = cycles(tmp_path / "b", "demand").sum(axis=1).mean() / 2
    np.testing.assert_allclose(cycles(tmp_path / "b", "limit").sum(axis=1), half)
    options = {"graph": "none", "total": 77.0}
    execute(spec(system_options=options, study_options={"cycles": 3, "load": 0.0}), "run", tmp_path / "c")
    np.testing.assert_allclose(cycles(tmp_path / "c", "limit"), 7.7)


def test_clients_are_told_apart_in_the_cycles_asked_for(tmp_path: Path) -> None:
    options = {"graph": "dst-1", "g": 0.02, "rule": "water-filling"}
    study = {"cycles": 5, "clients_at": [3]}
    found = spec(system_options=options, workload_options={"clients": 7}, study_options=study)
    execute(found, "run", tmp_path / "a")
    clients = pq.read_table(tmp_path / "a" / "client_cycles.parquet").to_pandas()
    assert len(clients) == 10 * 7 and set(clients.cycle) == {3}
    clients["number"] = [int(name[1:]) for name in clients.server]
    asked, given = (
        clients.pivot(index="number", columns="client", values=name).to_numpy() for name in ("demand", "admitted")
    )
    np.testing.assert_allclose(asked.sum(axis=1), cycles(tmp_path / "a", "demand")[3])
    np.testing.assert_allclose(given.sum(axis=1), cycles(tmp_path / "a", "admitted")[3])
    cut = given < asked * (1 - 1e-12)
    assert cut.any() and all(np.ptp(row[hit]) < 1e-9 for row, hit in zip(given, cut, strict=True) if hit.any())


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"system": "static-split", "system_options": {}}, "static-split.* is not for the study throttling"),
        ({"system": "lb", "system_options": {}}, "'lb' is not for the study throttling"),
        ({"workload": "requests"}, "'requests' offers requests, .*wants demands"),
        ({"study_options": {"cycles": 0}}, "cycles = 0"),
        ({"study_options": {"load": -1.0}}, "load = -1"),
        ({"study_options": {"cycles": 5, "clients_at": [5]}}, "cycles are 0 to 4"),
        ({"study_options": {"faults": [{"kind": "crash", "at": "1s", "node": "n99"}]}}, "n99"),
        ({"study_options": {"faults": [{"kind": "flood", "at": "1s"}]}}, "flood"),
        ({"workload_options": {"kind": "log", "path": "/nowhere"}}, "nowhere"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_runs(changes: dict[str, Any], names: str) -> None:
    with pytest.raises(SpecError, match=names):
        check_all([spec(**changes)])


def test_a_graph_needs_as_many_nodes_as_the_topology_has(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="dst-1"):
        execute(spec(topology_options={"nodes": 4}), "run", tmp_path / "a")
    assert not (tmp_path / "a").exists()
