"""Figure pulsar-quota: its measures on known counts, Q1 to Q5 on known tables, its grid, a drawing of it."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.verdicts import Judgement, judge
from harness.experiment import SCALES
from paper_figs.drl import quota
from paper_figs.drl.quota import ADAPTOR, BEYOND, FAR, GROUP, LOADS, LOOKS, NEAR, SPLIT, WITHIN, ideal, measured
from tests.paper_figs.tables import Case, Frames, check_published, check_spoiled, parametrised, repeated, scaled

RUNS = "pulsar-quota/runs"
QUOTA = 100.0
steps = st.lists(st.integers(0, 60), min_size=20, max_size=80).map(
    lambda counts: np.array(counts[: len(counts) // 10 * 10], float)
)


# --- measures ------------------------------------------------------------------------------------


@given(steps)
def test_one_bucket_grants_all_that_it_may_and_never_more(offered):
    granted = ideal(offered, QUOTA)
    assert (granted <= offered.cumsum() - np.concatenate([[0], granted.cumsum()[:-1]]) + 1e-9).all()
    assert measured(offered, granted, QUOTA, 0)[:2] == pytest.approx((min(1.0, offered.sum()), 0.0))
    assert measured(offered, granted, QUOTA, 0)[2] == 0
    waiting = offered.cumsum() - granted.cumsum()
    assert (granted[waiting > 1e-9] >= QUOTA * quota.STEP_S - 1e-9).all(), "nobody waits while there are tokens"


def test_what_is_granted_above_the_bucket_counts_in_seconds_of_the_quota():
    """Three buckets instead of one for two seconds: 600 of 100 a second, and a second's tokens; then what is right."""
    offered = np.full(60, 30.0)
    granted = np.array([30.0] * 20 + [10.0] * 40)
    share, excess_s, settled_s = measured(offered, granted, QUOTA, 0)
    assert excess_s == pytest.approx(4 - 1) and settled_s == 2
    assert share == pytest.approx(1000 / (100 + 600 - 10))


def test_it_settles_when_the_last_second_that_is_off_is_over():
    offered = np.full(100, 9.0)
    granted = offered.copy()
    granted[50:70] = 5.0  # a shift at 5 s holds messages up for two seconds; they come in the third
    granted[70:80] = 9.0 + 8.0
    assert measured(offered, granted, QUOTA, 5)[2] == 3
    assert measured(offered, offered, QUOTA, 5)[2] == 0


# --- grid ----------------------------------------------------------------------------------------


def test_all_sharings_are_offered_the_same_and_the_far_ones_move():
    for scale in SCALES.values():
        specs = quota.points(scale, {})
        loads = {name: set() for name in LOOKS}
        for spec in specs:
            loads[spec.study_options["sharing"]].add((str(spec.workload_options), str(spec.topology_options)))
        assert loads[GROUP] == loads[SPLIT] == loads[ADAPTOR] and len(specs) == 3 * len(loads[GROUP])
    assert len(quota.points(SCALES["small"], {})) == 24 and len(quota.points(SCALES["paper"], {})) == 36


# --- claims --------------------------------------------------------------------------------------


def tables() -> Frames:
    """A group follows in 3 s, the adaptor in 10, split never; a group begins with two buckets too many for a second."""
    rows = []
    for load, offer, delay_ms, sharing in product(LOADS, (WITHIN, BEYOND), (NEAR, FAR), LOOKS):
        rows.append({
            "load": load, "offer": offer, "delay_ms": float(delay_ms), "sharing": sharing,
            "p99_ms": {GROUP: 500.0, SPLIT: 9_000.0, ADAPTOR: 2_000.0}[sharing],
            "granted_share": {GROUP: 1.04, SPLIT: 0.6, ADAPTOR: 0.97}[sharing],
            "excess_s": {GROUP: 2.0, SPLIT: 0.02, ADAPTOR: 0.02}[sharing],
            "settled_s": {GROUP: 3.0, SPLIT: 20.0, ADAPTOR: 10.0}[sharing],
        })  # fmt: skip
    return {RUNS: repeated(rows, ("p99_ms", "granted_share", "excess_s", "settled_s"))}


def on(value: str, factor: float, **where):
    return lambda found: {RUNS: scaled(found[RUNS], value, factor, **where)}


def named_apart(found: Frames) -> Frames:
    """The group is split under a name of its own."""
    runs = found[RUNS]
    copied = runs[runs.sharing == SPLIT].assign(sharing=GROUP)
    return {RUNS: pd.concat([runs[runs.sharing != GROUP], copied], ignore_index=True)}


CASES = [
    Case("Q1", tables, {"the group holds them up": on("p99_ms", 20, sharing=GROUP, load="moving"),
                        "the same system twice": named_apart}),
    Case("Q2", tables, {"no more than one bucket": on("excess_s", 0.0, sharing=GROUP),
                        "parts exceed it, too": on("excess_s", 20.0, sharing=SPLIT, load="even"),
                        "the same system twice": named_apart}),
    Case("Q3", tables, {"as slow": on("settled_s", 10 / 3, sharing=GROUP), "the same system twice": named_apart}),
    Case("Q4", tables, {"slower afar": on("settled_s", 2.0, sharing=GROUP, delay_ms=float(FAR)),
                        "faster afar": on("settled_s", 0.5, sharing=ADAPTOR, delay_ms=float(FAR))}),
    Case("Q5", tables, {"too much": on("granted_share", 1.2, sharing=GROUP, load="even"),
                        "too little": on("granted_share", 0.8, sharing=ADAPTOR, load="skewed")}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_tables_as_expected_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_perturbed_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_every_claim_has_a_case_and_waits_for_its_figure():
    assert {claim.id for claim in quota.CLAIMS} == {case.claim for case in CASES}
    assert {judge(claim, {"srtm-fig4/runs": None}).judgement for claim in quota.CLAIMS} == {Judgement.NOT_RUN}


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_what_there_is_is_drawn(scale: str) -> None:
    points = {
        (spec.workload_options["share_before"], spec.workload_options["share_after"], spec.workload_options["rate_rps"],
         spec.topology_options["delay"])
        for spec in quota.points(SCALES[scale], {})
    }  # fmt: skip
    names = {shares: load for load, shares in LOADS.items()}
    cells = {
        (names[at[0], at[1]], round(at[2] * quota.PUBLISHERS / quota.QUOTA_RPS, 6), float(at[3][:-2])) for at in points
    }
    runs = tables()[RUNS]
    kept = [cell in cells for cell in zip(runs.load, runs.offer, runs.delay_ms, strict=True)]
    runs = runs[kept]
    seconds = runs.merge(pd.DataFrame({"at_s": range(40)}), how="cross")
    seconds = seconds.assign(granted_rps=270.0, ideal_rps=270.0, offered_rps=270.0)
    drawing = quota.draw({"runs": runs, "seconds": seconds})
    assert len([axes for part in drawing.subfigs for axes in part.axes]) == len({cell[:2] for cell in cells}) + 3
