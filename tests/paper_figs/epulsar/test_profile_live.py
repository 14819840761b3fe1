"""Figure epulsar-profile from a real broker to the drawing, at tiny scale on loopback."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.experiment import SCALES
from harness.run import execute
from paper_figs import load_figure
from tests.live import needs

pytestmark = [needs("brokerd"), pytest.mark.slow, pytest.mark.long]


def test_from_the_broker_to_the_drawing(spark: Any, tmp_path: Path) -> None:
    from analysis.tables import load

    figure = load_figure("epulsar-profile")
    for number, spec in enumerate(figure.experiment.runs(SCALES["tiny"], {}, 1)):
        options = {**spec.study_options, "core_share": 1.0}  # a share of a core takes root
        here = msgspec.structs.replace(spec, testbed="local", study_options=options)
        execute(here, f"run{number}", tmp_path / f"run{number}")
    found = figure.tables(load(spark, sorted(tmp_path.iterdir())))
    runs = found["runs"].set_index("topics")
    assert runs.in_rps[1] == pytest.approx(50, rel=0.1) and runs.out_rps[1] == pytest.approx(50, rel=0.1)
    assert runs.in_rps[4] == pytest.approx(400, rel=0.1) and runs.out_rps[4] == pytest.approx(800, rel=0.1)
    assert runs.out_bps[4] == pytest.approx(1_000 * runs.out_rps[4]) and (runs.lost_share == 0).all()
    assert (runs.p50_ms > 0).all() and (runs.p95_ms >= runs.p50_ms).all() and (runs.p99_ms >= runs.p95_ms).all()
    assert (runs.clients_cores > 0).all() and (runs.topic_rps == [50, 100]).all()
    rho = found["correlations"].set_index("parameter").rho
    assert rho.dropna().abs().to_numpy() == pytest.approx(1.0), "two runs are in one order or in the other"
    assert found["knee"].knee_rps.item() in set(runs.out_rps)
    figure.draw(found).savefig(tmp_path / "drawn.png")
