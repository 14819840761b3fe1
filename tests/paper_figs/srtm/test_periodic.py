"""Periodic publishers in groups need no oracle: b by the letter, from a 70 s trace, with a margin of 2 %."""

import pytest

from analysis.verdicts import t_interval
from harness.experiment import repeated
from paper_figs.srtm.consistency.runs import carried_out, row_of
from paper_figs.srtm.grids import grouped

SEEDS, ROOT = 10, 2027


def p99_ms(system: str, size: int) -> list[float]:
    """Of ten fresh seeds."""
    specs = repeated([grouped(system, "periodic", size, {})], SEEDS, ROOT)
    assert {spec.study_options["envelope"] for spec in specs} == {"profiled"}
    return [row_of(spec, carried_out(spec))["p99_ms"] for spec in specs]


@pytest.mark.parametrize("size", [5, 10, 15, 20, 25])
def test_srtm_meets_the_slo(size: int) -> None:
    assert t_interval(p99_ms("srtm", size)).mean <= 1.05


@pytest.mark.parametrize("size", [10, 20, 30])
def test_max_min_does_not(size: int) -> None:
    assert t_interval(p99_ms("max-min", size)).mean > 1.2
