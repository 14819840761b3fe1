"""srtm-starts: Table I's own runs among its grid, what the models are told, claims that flip, the drawing."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.verdicts import Judgement, judge
from harness.experiment import SCALES
from paper_figs.srtm import starts, table1
from paper_figs.srtm.published import TABLE_1
from paper_figs.srtm.starts import BY_RATE, COSTS, MCAP
from testbed.brokers.model import load_calibration
from tests.paper_figs.tables import Case, Frames, check_published, check_spoiled, parametrised, scaled

KEY = "srtm-starts/runs"


def as_claimed() -> Frames:
    """Table I's rounds, and a quarter of them from a model, at the same p99; seeds scatter by a hundredth."""
    shares = {BY_RATE: 1.0, MCAP: 0.3, COSTS: 0.25}
    rows = [
        {"arrivals": kind, "envelope": "conformant", "start": start, "group_size": size, "repetition": n,
         "round_count": share * sum(rounds) * (1 + 0.01 * n), "broker_count": len(rounds) - 0.1 * (share < 1),
         "p99_ms": 0.9 * (1 + 0.01 * n), "slo_ms": 1.0}
        for kind in ("poisson", "periodic")
        for start, share in shares.items()
        for size, (rounds, _) in TABLE_1.items()
        for n in range(5)
    ]  # fmt: skip
    return {KEY: pd.DataFrame(rows)}


def changed(found: Frames, value: str, factor: float, **where: Any) -> Frames:
    return {KEY: scaled(found[KEY], value, factor, **where)}


def identical(found: Frames) -> Frames:
    """Models that change nothing."""
    by_rate = found[KEY][found[KEY].start == BY_RATE]
    return {KEY: pd.concat([by_rate.assign(start=start) for start in (BY_RATE, MCAP, COSTS)], ignore_index=True)}


CASES = (
    Case("M10", as_claimed, {
        "identical": identical,
        "more than half": lambda found: changed(found, "round_count", 2.2, start=COSTS, arrivals="poisson"),
        "p99 a tenth worse": lambda found: changed(found, "p99_ms", 1.1, start=COSTS, arrivals="periodic"),
    }),
    Case("M11", as_claimed, {
        "identical": identical,
        "more rounds": lambda found: changed(found, "round_count", 4.0, start=MCAP),
        "p99 a tenth worse": lambda found: changed(found, "p99_ms", 1.1, start=MCAP),
    }),
    Case("M12", as_claimed, {"more brokers": lambda found: changed(found, "broker_count", 1.2, start=COSTS)}),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_what_is_claimed_is_reproduced(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_are_seen(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_every_claim_has_a_case_and_is_undecided_without_runs() -> None:
    assert {case.claim for case in CASES} == {claim.id for claim in starts.CLAIMS}
    runs = as_claimed()[KEY]
    for claim in starts.CLAIMS:
        found = judge(claim, {KEY: runs[runs.start == BY_RATE]})
        assert found.judgement is Judgement.UNDECIDED and found.problem.startswith("no data: "), claim.id


@pytest.mark.parametrize("scale", ["tiny", "quick", "paper"])
def test_searches_by_rate_are_table_ones_very_runs(scale: str) -> None:
    ours = starts.EXPERIMENT.runs(SCALES[scale], {}, 3)
    its = {spec.to_json() for spec in table1.EXPERIMENT.runs(SCALES[scale], {}, 3)}
    assert {spec.to_json() for spec in ours if not spec.system_options} <= its
    assert len(ours) == 3 * sum(not spec.system_options for spec in ours)


def test_a_model_is_told_the_costs_of_the_calibration() -> None:
    """Two cores share a batch of 10, 134 us of work: one is done every 67 us, where mcap says every 91."""
    told = starts.starts(load_calibration("srtm-paper"), 10)
    assert told[BY_RATE] == {} and told[MCAP] == {"start": "model", "batch": 10}
    assert told[COSTS] == {"start": "model", "batch": 10, "drain": 0.737, "base": "338us"}


def test_differences_are_paired_by_seed() -> None:
    runs = as_claimed()[KEY]
    drain = np.where(runs.start == COSTS, 0.737, np.nan)
    given = runs.assign(start=[None if start == BY_RATE else "model" for start in runs.start], drain=drain)
    tables = starts.tables_of(given)
    assert list(tables["runs"].start) == list(runs.start)
    row = tables["paired"].query("arrivals == 'poisson' and start == @COSTS and group_size == 30")
    assert row.set_index("measure").loc["round_count", "mean"] == pytest.approx(-0.75 * 17 * 1.02)
    assert row.set_index("measure").loc["log2_p99", "mean"] == 0.0


@pytest.mark.slow
def test_it_is_drawn() -> None:
    from matplotlib import pyplot

    runs = as_claimed()[KEY]
    sheet = starts.draw({"runs": runs, "paired": starts.paired(runs)})
    assert len(sheet.axes) == 6
    pyplot.close(sheet)
