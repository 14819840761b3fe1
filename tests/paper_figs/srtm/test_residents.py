"""Topics that were there before: what the figure draws of a placement that harms one of them."""

from typing import Any

import pandas as pd
import pytest

from harness.experiment import SCALES
from paper_figs import load_figure
from paper_figs.srtm import concentration as residents


def rows() -> pd.DataFrame:
    """Conc puts the topic on broker 1, whose own topic then takes thrice as long; Max-Min leaves all as it was."""
    points = [
        {"system": system, "arrivals": "poisson", "batch": 1, "envelope": "conformant", "publishers": 8_000,
         "broker": broker, "repetition": n, "before_ms": 0.4 + 0.01 * n, "slo_ms": 1.0,
         "after_ms": (0.4 + 0.01 * n) * (3 if (system, broker) == ("conc", 0) else 1)}
        for system in ("conc", "max-min") for broker in range(6) for n in range(5)
    ]  # fmt: skip
    return pd.DataFrame(points)


def test_before_is_one_series_and_after_one_a_system() -> None:
    means = residents.long(rows()).groupby(["system", "broker"]).ms.agg(["mean", "count"])
    assert means["count"].eq(5).all() and len(means) == 18
    assert means["mean"][("conc", 0)] == pytest.approx(3 * means["mean"][(residents.ALONE, 0)])
    assert means["mean"][("max-min", 0)] == pytest.approx(means["mean"][(residents.ALONE, 0)])


@pytest.mark.parametrize("missing", ["", "conc"])
def test_it_is_drawn(missing: str) -> None:
    from matplotlib import pyplot

    drawing = residents.draw_residents({"residents": rows()[lambda frame: frame.system != missing]})
    drawing.canvas.draw()
    assert drawing.axes[0].has_data()
    pyplot.close(drawing)


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_it_takes_no_runs_of_its_own(scale: Any) -> None:
    grids = [load_figure(key).experiment.points(scale, {}) for key in ("srtm-residents", "srtm-fig6")]
    assert grids[0] == grids[1]
