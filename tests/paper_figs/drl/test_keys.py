"""drl-keys: the grid, claims that flip, runs by what SRTM was told, the drawing."""

from typing import Any

import pandas as pd
import pytest

from analysis.verdicts import Judgement, judge
from harness.experiment import SCALES
from harness.run import check_all
from paper_figs.drl import keys
from paper_figs.drl.keys import ALIKE, CASES, HALF, MISSING, NOISY, RIGHT, WRONG
from tests.paper_figs.tables import Case, Frames, check_published, check_spoiled, parametrised, scaled

KEY = "drl-keys/runs"
QUICK = keys.points(SCALES["quick"], {})


def row(spec: Any) -> dict[str, Any]:
    """A point as the tables have it."""
    told = {name: spec.workload_options.get(name) for name in (*keys.MISTAKES, "rates")}
    cores = spec.study_options.get("broker_cores")
    return {"kind": spec.workload_options["arrivals"], **told, "broker_cores": cores, "system": spec.system}


def as_claimed() -> Frames:
    """The quick grid as if all claims held; seeds scatter by a hundredth, the same for all points."""
    runs = keys.named(pd.DataFrame([{**row(spec), "p99_ms": 0.9, "slo_ms": 1.0} for spec in QUICK]))
    costs = {RIGHT: 0.9, WRONG: 2.0, MISSING: 1.4, NOISY: 1.2}
    latency = [costs[m] if share < 1 else 2.1 for m, share in zip(runs.mistake, runs.share, strict=True)]
    runs["p99_ms"] = [{"lb": 90.0, "max-min": 2.1}.get(s, ms) for s, ms in zip(runs.system, latency, strict=True)]
    runs["access_ms"], runs["broker_count"] = runs.p99_ms - 0.9, 3.0
    runs["round_count"] = [
        {"lb": 0, "max-min": 6}.get(s, 7 + 7 * w) for s, w in zip(runs.system, runs.share, strict=True)
    ]
    parts = [runs.assign(repetition=n, p99_ms=runs.p99_ms * (1 + 0.01 * n), access_ms=runs.access_ms * (1 + 0.01 * n))
             for n in range(5)]  # fmt: skip
    return {KEY: pd.concat(parts, ignore_index=True)}


def changed(found: Frames, value: str, factor: float, **where: Any) -> Frames:
    return {KEY: scaled(found[KEY], value, factor, **where)}


def as_max_min(found: Frames) -> Frames:
    """SRTM is Max-Min under another name, whatever it is told."""
    runs = found[KEY].copy()
    same = found[KEY][found[KEY].system == "max-min"].set_index(["case", "repetition"])
    for value in ("p99_ms", "access_ms", "round_count"):
        its = [same[value].get((case, n)) for case, n in zip(runs["case"], runs.repetition, strict=True)]
        runs[value] = runs[value].where(runs.system != "srtm", its)
    return {KEY: runs}


CASES_OF_CLAIMS = (
    Case("K1", as_claimed, {
        "identical": as_max_min,
        "worse by a fifth": lambda found: changed(found, "p99_ms", 1.2, system="srtm", mistake=WRONG, share=1.0),
        "worse where brokers differ": lambda found: changed(
            found, "p99_ms", 1.4, system="srtm", mistake=WRONG, case=keys.BROKERS_DIFFER),
        "for nothing": lambda found: changed(found, "round_count", 0.3, system="srtm", mistake=WRONG),
    }),
    Case("K2", as_claimed, {
        "identical": as_max_min,
        "no access delay": lambda found: changed(found, "access_ms", 0.0, mistake=WRONG),
        "half does nothing": lambda found: changed(found, "p99_ms", 0.45, mistake=WRONG, share=HALF),
    }),
    Case("K3", as_claimed, {
        "identical": as_max_min,
        "missing keys cost more": lambda found: changed(found, "p99_ms", 2.0, mistake=MISSING),
    }),
    Case("K4", as_claimed, {
        "identical": as_max_min,
        "noise costs more": lambda found: changed(found, "p99_ms", 2.0, mistake=NOISY),
    }),
    Case("K5", as_claimed, {
        "better": lambda found: changed(found, "p99_ms", 0.8, mistake=MISSING, share=1.0),
        "worse": lambda found: changed(found, "p99_ms", 1.2, mistake=MISSING, share=1.0),
    }),
    Case("K6", as_claimed, {
        "identical": as_max_min,
        "not where rates differ": lambda found: changed(
            found, "p99_ms", 3.0, system="srtm", mistake=RIGHT, case=keys.PUBLISHERS_DIFFER),
    }),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES_OF_CLAIMS, ids=lambda case: case.claim)
def test_what_is_claimed_is_reproduced(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES_OF_CLAIMS))
def test_spoiled_tables_are_seen(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_every_claim_has_a_case_and_is_undecided_without_runs() -> None:
    assert {case.claim for case in CASES_OF_CLAIMS} == {claim.id for claim in keys.CLAIMS}
    for claim in keys.CLAIMS:
        found = judge(claim, {KEY: as_claimed()[KEY].iloc[:0]})
        assert found.judgement is Judgement.UNDECIDED and found.problem.startswith("no data: "), claim.id


def test_scales_are_parts_of_one_grid_that_can_be_run() -> None:
    tiny, quick, paper = (
        {spec.to_json() for spec in keys.points(SCALES[name], {})} for name in ("tiny", "quick", "paper")
    )
    assert tiny < quick < paper and keys.points(SCALES["small"], {}) == []
    assert (len(tiny), len(quick), len(paper)) == (12, 16, 2 * (9 + 3 * 13))
    check_all(keys.points(SCALES["tiny"], {}))


def test_a_run_is_named_by_what_srtm_was_told() -> None:
    runs = as_claimed()[KEY]
    assert set(runs["case"]) == set(CASES)
    told = runs[(runs.system == "srtm") & (runs["case"] == ALIKE)][["mistake", "share"]].drop_duplicates()
    assert set(told.itertuples(index=False, name=None)) == {
        (RIGHT, 0.0), (WRONG, 0.5), (WRONG, 1.0), (MISSING, 0.5), (MISSING, 1.0), (NOISY, 0.5)
    }  # fmt: skip


@pytest.mark.slow
def test_it_is_drawn() -> None:
    from matplotlib import pyplot

    sheet = keys.draw({"runs": as_claimed()[KEY]})
    titles = [axes.get_title(loc="left") for axes in sheet.axes]
    assert [title for title in titles if title] == [
        "(a) Poisson, all alike", "(b) Poisson, rates by Zipf", "(c) Poisson, brokers of 2 and 1 cores"
    ]  # fmt: skip
    pyplot.close(sheet)
