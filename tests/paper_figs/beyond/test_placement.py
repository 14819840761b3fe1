"""The placement policies beyond the paper: grids, names of matrices, drawings."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.verdicts import t_interval
from core.errors import SpecError
from harness.experiment import SCALES
from harness.run import check_all
from paper_figs.beyond import other_matrices, placement_bookies, placement_bound
from paper_figs.figure import FigureTables
from studies.inputs import inputs_of
from studies.policies.study import POLICIES
from tests.paper_figs.tables import ends_of, repeated

NO_TABLE = {"latency-table": None}
MODULES = (placement_bound, other_matrices)


def row(policy: str, **point: Any) -> dict[str, Any]:
    """A row of ``runs`` with the same measures everywhere."""
    worst = 90.0 if policy == "pulsar" else 50.0
    ratios = {f"{how}_violation_ratio": 0.1 for how in ("estimated", "printed", "true")}
    delays = {"estimated_worst_ms": worst, "true_worst_ms": worst}
    return {"policy": policy, **point, **delays, **ratios, "feasible_ratio": 1.0}


def bound_tables() -> FigureTables:
    """Swarms at three access delays and bounds, the game too, both ways."""
    at = {"swarms": ((0, 40), (8, 40), (8, 20), (8, 80)), "game": ((0, 100), (10, 100), (0, 50), (0, 30))}
    points = [
        row(policy, scenario=scenario, access=float(access), bound=float(bound), only_violated=moving)
        for scenario, moving, policy in product(at, (False, True), POLICIES)
        for access, bound in at[scenario]
        if scenario == "game" or not moving
    ]
    return {"runs": repeated(points, ("true_worst_ms",))}


def matrix_tables() -> FigureTables:
    """Every matrix with three numbers of sites."""
    points = list(product(other_matrices.TITLES, (4, 8, 16)))
    runs = [
        {**row(p, matrix=m, sites=n), "file": "rtt.txt" if m == "table" else "", "over_best": 1.1}
        for (m, n), p in product(points, POLICIES)
    ]
    errors = [{"matrix": m, "sites": n, "median_error_ratio": 0.05, "p90_error_ratio": 0.2} for m, n in points]
    return {"runs": repeated(runs, ("over_best",)), "estimates": repeated(errors, ("p90_error_ratio",))}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_point_is_a_run_that_can_be_made(module: Any) -> None:
    for scale in SCALES.values():
        specs = module.points(scale, NO_TABLE)
        assert len({spec.to_json() for spec in specs}) == len(specs) > 0
    check_all(specs)


def test_the_base_of_both_sweeps_is_run_once() -> None:
    specs = placement_bound.points(SCALES["quick"], {})
    times = [
        tuple(spec.study_options[name] for name in ("scenario", "access", "bound", "only_violated")) for spec in specs
    ]
    assert times.count(("swarms", "8ms", "40ms", False)) == times.count(("game", "0ms", "100ms", False)) == 1


def test_a_table_joins_the_matrices(tmp_path: Path) -> None:
    table = tmp_path / "rtt.txt"
    size = 6
    table.write_text("\n".join(" ".join(str(10 * abs(i - j)) for j in range(size)) for i in range(size)))
    specs = other_matrices.points(SCALES["quick"], {"latency-table": str(table)})
    mine = [spec for spec in specs if inputs_of(spec)]
    assert [spec.topology_options["sites"] for spec in mine] == [4, 6]
    assert len(specs) == len(mine) + len(other_matrices.points(SCALES["quick"], NO_TABLE))
    check_all(mine)
    with pytest.raises(SpecError):
        other_matrices.points(SCALES["quick"], {"latency-table": str(tmp_path / "none.txt")})


def test_matrices_are_told_apart() -> None:
    nothing = {"cities": None, "sites": 8, "shuffled": None, "table": None}
    rows = [
        {**nothing, "topology": "us-cities"}, {**nothing, "topology": "city-mec"},
        {**nothing, "topology": "matrix-sites"}, {**nothing, "topology": "matrix-sites", "shuffled": True},
        {**nothing, "topology": "matrix-sites", "table": "rtt.txt"},
    ]  # fmt: skip
    found = [other_matrices._matrix(each) for each in pd.DataFrame(rows).itertuples()]
    assert found == ["us-cities", "zones", "world", "shuffled", "table"]


def test_the_bounds_are_drawn() -> None:
    drawing = placement_bound.draw(bound_tables())
    lines = [sum(line.get_linestyle() != "None" and np.size(line.get_xdata()) > 1 for line in panel.get_lines())
             for panel in drawing.axes]  # fmt: skip
    assert lines[:3] == [7, 7, 3]  # estimates of three, the truth of four; feasible: Pulsar does not ask
    assert lines[3:] == [7, 7 + 1, 5 + 1]  # with a line for the bound


def test_a_column_a_matrix_is_drawn() -> None:
    drawing = other_matrices.draw(matrix_tables())
    assert len(drawing.axes) == 2 * len(other_matrices.TITLES)
    assert drawing.axes[4].get_title(loc="left") == "(e) rtt.txt"
    for panel in drawing.axes[: len(other_matrices.TITLES)]:
        assert sum(np.size(line.get_xdata()) == 3 and line.get_linestyle() != "None" for line in panel.get_lines()) == 3


@pytest.mark.parametrize(("module", "tables"), [(placement_bound, bound_tables), (other_matrices, matrix_tables)])
def test_nothing_can_be_drawn(module: Any, tables: Any) -> None:
    module.draw({name: frame[:0] for name, frame in tables().items()})


def test_the_worst_message_has_an_interval_beside_the_mean() -> None:
    points = [{"bookies": 0, "quorum": 0, "site": "same", "mean_ms": 16.0}]
    points += [{"bookies": bookies, "quorum": quorum, "site": site, "mean_ms": 20.0}
               for bookies, quorum in placement_bookies.QUORUMS for site in placement_bookies.SITES]  # fmt: skip
    runs = repeated(points, ())
    (panel,) = placement_bookies.draw({"runs": runs.assign(worst_ms=30.0 + runs.repetition)}).axes
    told = t_interval([30.0, 31.0, 32.0, 33.0, 34.0])
    assert sum(pair == pytest.approx((told.low, told.high)) for pair in ends_of(panel)) == len(points)
