"""Figure pulsar-quota: its measures on known counts, Q1 to Q4 on known tables, its grid, a drawing of it."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.verdicts import Judgement, judge, t_interval
from harness.experiment import SCALES
from paper_figs.drl import quota
from paper_figs.drl.quota import (
    ADAPTOR,
    ADAPTOR_1S,
    BEYOND,
    FAR,
    GROUP,
    GROUP_1S,
    LOADS,
    LOOKS,
    NEAR,
    SPLIT,
    WAYS,
    WITHIN,
    ideal,
    measured,
)
from tests.paper_figs.tables import (
    Case,
    Frames,
    check_published,
    check_spoiled,
    claim_called,
    ends_of,
    parametrised,
    repeated,
    scaled,
)

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


def test_all_ways_are_offered_the_same() -> None:
    counts = {}
    for name, scale in SCALES.items():
        specs = quota.points(scale, {})
        offered = {way: set[tuple[str, str]]() for way in WAYS.values()}
        for spec in specs:
            way = str(spec.study_options["sharing"]), int(str(spec.study_options["interval"])[:-1])
            offered[way].add((str(spec.workload_options), str(spec.topology_options)))
        assert len({frozenset(cells) for cells in offered.values()}) == 1
        counts[name] = len(specs)
        assert len(specs) == len(WAYS) * len(offered[WAYS[GROUP]])
    assert counts == {"tiny": 10, "small": 30, "quick": 30, "paper": 60}


# --- claims --------------------------------------------------------------------------------------


def tables() -> Frames:
    """Who shares each second grants half as much again as is right, each 5 s a fifth; a group follows first."""
    rows = []
    for load, offer, delay_ms, way in product(LOADS, (WITHIN, BEYOND), (NEAR, FAR), LOOKS):
        rows.append({
            "load": load, "offer": offer, "delay_ms": float(delay_ms), "way": way,
            "p99_ms": {SPLIT: 9_000.0, ADAPTOR: 2_000.0}.get(way, 500.0),
            "granted_share": {GROUP_1S: 1.48, ADAPTOR_1S: 1.48, SPLIT: 0.99}.get(way, 1.2),
            "excess_s": 1.0,
            "settled_s": {SPLIT: float(quota.NEVER_S), ADAPTOR: 14.0}.get(way, 8.0),
        })  # fmt: skip
    return {RUNS: repeated(rows, ("p99_ms", "granted_share", "settled_s"))}


def on(value: str, factor: float, **where: object) -> Callable[[Frames], Frames]:
    return lambda found: {RUNS: scaled(found[RUNS], value, factor, **where)}


def named_apart(found: Frames) -> Frames:
    """The group is split under a name of its own."""
    runs = found[RUNS]
    copied = runs[runs.way == SPLIT].assign(way=GROUP)
    return {RUNS: pd.concat([runs[runs.way != GROUP], copied], ignore_index=True)}


def unlimited(found: Frames) -> Frames:
    """Everybody is granted what is offered."""
    return {RUNS: found[RUNS].assign(granted_share=BEYOND)}


def never(*ways: str) -> Callable[[Frames], Frames]:
    """They are off in the last second of each run."""

    def spoil(found: Frames) -> Frames:
        runs = found[RUNS]
        return {RUNS: runs.assign(settled_s=runs.settled_s.mask(runs.way.isin(ways), quota.NEVER_S))}

    return spoil


CASES = [
    Case("Q1", tables, {"the group holds them up": on("p99_ms", 20, way=GROUP, load="moving"),
                        "the same system twice": named_apart}),
    Case("Q2", tables, {"no more than one bucket": on("granted_share", 0.8, way=GROUP),
                        "as much each 5 s": on("granted_share", 1.2, way=ADAPTOR, load="even"),
                        "fixed parts, too": on("granted_share", 1.2, way=SPLIT),
                        "nothing is limited": unlimited,
                        "the same system twice": named_apart}),
    Case("Q3", tables, {"as slow": on("settled_s", 14 / 8, way=GROUP), "the same system twice": named_apart,
                        "the group never settles": never(GROUP)}),
    Case("Q4", tables, {"slower afar": on("settled_s", 2.0, way=GROUP, delay_ms=float(FAR)),
                        "faster afar": on("settled_s", 0.5, way=ADAPTOR, delay_ms=float(FAR))}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_tables_as_expected_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_perturbed_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_of_who_never_settles_nobody_says_how_fast() -> None:
    for claim, ways in (("Q3", (GROUP, ADAPTOR)), ("Q4", (GROUP, ADAPTOR)), ("Q4", (ADAPTOR,))):
        found = judge(claim_called(claim), never(*ways)(tables()))
        assert found.judgement is Judgement.UNDECIDED and "is right by its end" in found.problem
    late = judge(claim_called("Q3"), never(ADAPTOR)(tables()))
    assert late.judgement is Judgement.REPRODUCED, "it is later by that much at least"


def test_of_who_limits_nothing_nobody_says_how_fast() -> None:
    for claim, nobody in (("Q3", [GROUP]), ("Q3", [GROUP, ADAPTOR]), ("Q4", [GROUP]), ("Q4", list(WAYS))):
        runs = tables()[RUNS]
        at_once = runs.assign(settled_s=runs.settled_s.mask(runs.way.isin(nobody), 0.0))
        found = judge(claim_called(claim), {RUNS: at_once})
        assert found.judgement is Judgement.UNDECIDED and "the shift puts" in found.problem


def test_two_runs_of_whole_seconds_that_agree_are_not_sure() -> None:
    runs = tables()[RUNS]
    runs = runs[runs.repetition < 2].assign(settled_s=28.0)
    sooner = {RUNS: runs.assign(settled_s=runs.settled_s.mask(runs.way == ADAPTOR, 26.0))}
    found = judge(claim_called("Q3"), sooner)
    assert found.judgement is Judgement.UNDECIDED and not found.problem
    assert judge(claim_called("Q4"), sooner).judgement is Judgement.REPRODUCED, "within 5 s they are for sure"


def test_every_claim_has_a_case_and_waits_for_its_figure() -> None:
    assert {claim.id for claim in quota.CLAIMS} == {case.claim for case in CASES}
    assert {judge(claim, {"srtm-fig4/runs": None}).judgement for claim in quota.CLAIMS} == {Judgement.NOT_RUN}


@pytest.mark.slow
@pytest.mark.parametrize("cells", [quota.FEW, quota.SOME])
def test_what_there_is_is_drawn(cells: tuple[tuple[int, float, str], ...]) -> None:
    runs = tables()[RUNS]
    runs = runs[[cell in cells for cell in zip(runs.delay_ms, runs.offer, runs.load, strict=True)]]
    seconds = runs.merge(pd.DataFrame({"at_s": range(40)}), how="cross")
    seconds = seconds.assign(granted_rps=270.0, ideal_rps=270.0, offered_rps=270.0)
    drawing = quota.draw({"runs": runs, "seconds": seconds})
    near = [cell for cell in cells if cell[0] == NEAR]
    assert len([axes for part in drawing.subfigs for axes in part.axes]) == len(near) + 3


def test_what_is_granted_over_time_has_intervals() -> None:
    runs = tables()[RUNS]
    runs = runs[[cell in quota.FEW for cell in zip(runs.delay_ms, runs.offer, runs.load, strict=True)]]
    seconds = runs.merge(pd.DataFrame({"at_s": range(40)}), how="cross")
    seconds = seconds.assign(granted_rps=270.0 + seconds.repetition, ideal_rps=270.0, offered_rps=270.0)
    drawing = quota.draw({"runs": runs, "seconds": seconds})
    told = t_interval(sorted(set(seconds.granted_rps)))
    ends = [pair for part in drawing.subfigs for axes in part.axes for pair in ends_of(axes)]
    assert sum(pair == pytest.approx((told.low, told.high)) for pair in ends) >= len(set(seconds.way))
