"""Over-throttling by Spark against the law in matrices, on runs made for it."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from analysis import tables as raw
from harness.run import execute
from paper_figs.dst import fig5, fig7, loads
from systems.parts import throttling
from systems.parts.throttling_graphs import graph_named, laplacian
from tests.systems.parts.throttling_twins import admitted, over_throttling
from workloads import load

pytestmark = pytest.mark.slow
CYCLES = 60


def made(tmp_path: Path, specs: list[Any]) -> list[Path]:
    folders = [tmp_path / f"run{number}" for number in range(len(specs))]
    for folder, spec in zip(folders, specs, strict=True):
        execute(msgspec.structs.replace(spec, seed=3), folder.name, folder)
    return folders


def test_over_throttling_is_that_of_the_matrices(spark: Any, tmp_path: Path) -> None:
    graphs = ["dst-1", "dst-2", "none"]
    specs = [loads.point({"kind": "ar1"}, graph, cycles=CYCLES) for graph in graphs]
    late = loads.point({"kind": "ar1"}, "dst-1", "100ms", CYCLES, pairing="latest")
    data = raw.load(spark, made(tmp_path, [*specs, late]))
    found = fig5.named(loads.overthrottling(data, loads.totals(data)))
    workload = load("load-curve")
    demand = workload.make(workload.config(), 3).demands(10, CYCLES)
    start = np.full(10, demand.sum(axis=1).mean() / 10)
    for graph in graphs:
        matrix = laplacian(graph_named(graph, 10))
        limit = throttling.trajectory(matrix, start, demand, "throttled", 0.02)[:-1]
        row = found[(found.who == graph) & (found.delay == "0ms")].iloc[0]
        assert row.overthrottling_percent == pytest.approx(100 * float(over_throttling(limit, demand)))
        ideal = np.minimum(start.sum(), demand.sum(axis=1))
        excess = np.maximum(0.0, admitted(limit, demand).sum(axis=1) - ideal).sum() / ideal.sum()
        assert row.excess_percent == pytest.approx(100 * excess, abs=1e-9)
        assert abs(row.drift_percent) < 1e-9
        assert row.negative_percent == pytest.approx(100 * (limit < 0).mean())
    drifted = found[found.trouble == "late 100ms, latest"].iloc[0]
    assert abs(drifted.drift_percent) > 1e-3
    tables = fig5.tables(data)
    assert set(tables["reaction"].lag_cycles) == {1.0}
    assert len(tables["curves"]) == 4 * CYCLES


def test_fig7_gathers_each_client_once(spark: Any, tmp_path: Path) -> None:
    specs = [
        msgspec.structs.replace(spec, workload_options={"kind": "ar1", "clients": 6})
        for spec in fig7.points(None, {})  # type: ignore[arg-type]
    ]
    tables = fig7.tables(raw.load(spark, made(tmp_path, specs)))
    clients, servers = tables["clients"], tables["servers"]
    assert len(clients) == 4 * 10 * 6 and not clients.duplicated(["rule", "repetition", "server", "client"]).any()
    assert len(servers) == 4 * 10
    sums = clients.groupby(["rule", "server"]).demand.sum()
    wanted = servers.set_index(["rule", "server"]).demand
    np.testing.assert_allclose(sums.to_numpy(), wanted.loc[sums.index].to_numpy())
    assert (fig7.draw(tables).axes[0].patches) and fig7.shown(tables).startswith("n")
