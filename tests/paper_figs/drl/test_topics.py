"""drl-topics: its grid, claims that flip, what its tables say of topics, the drawing of what was run."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from harness.experiment import SCALES
from paper_figs.drl import topics
from paper_figs.drl.topics import EXPONENTIAL, FULL, HALF_FULL, LB, MAX_MIN, SHOWN, SPLIT, SRTM, STORE, WAYS
from tests.paper_figs.tables import Case, Frames, check_published, check_spoiled, parametrised, scaled, swapped

RUNS = "drl-topics/runs"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def test_smaller_grids_are_in_the_larger() -> None:
    tiny, quick, paper = (
        {spec.to_json() for spec in topics.points(SCALES[scale], {})} for scale in ("tiny", "quick", "paper")
    )
    assert tiny < quick < paper and topics.points(SCALES["small"], {}) == []
    assert (len(tiny), len(quick), len(paper)) == (3, 12, 40)


# --- claims ----------------------------------------------------------------------------------------


def as_claimed() -> Frames:
    """Runs as if all claims held; seeds scatter by a hundredth, the same for all."""
    missed = {(LB, SPLIT): 0.6, (SRTM, SPLIT): 0.3, (LB, STORE): 0.1}
    rows = []
    for gap in (HALF_FULL, FULL):
        for system, sharing in WAYS:
            share = missed.get((system, sharing), 0.4)
            rows += [
                {
                    "system": system, "sharing": sharing, "gap": gap, "life_kind": EXPONENTIAL, "repetition": n,
                    "missed_share": share + 0.01 * n, "late_share": share / 2 + 0.01 * n,
                    "spoilt_share": share * (1 + 0.01 * n), "broker_count": 1.5, "round_count": 1.2, "wait_s": 8.0,
                    "refused_share": 0.1,
                }
                for n in range(5)
            ]  # fmt: skip
    return {RUNS: pd.DataFrame(rows)}


def changed(found: Frames, value: str, factor: float, **where: object) -> Frames:
    return {RUNS: scaled(found[RUNS], value, factor, **where)}


def exchanged(found: Frames, column: str, one: object, other: object) -> Frames:
    return {RUNS: swapped(found[RUNS], column, one, other)}


def alike(found: Frames, value: str) -> Frames:
    """Everybody has LB's."""
    runs = found[RUNS]
    own = runs[(runs.system == LB) & (runs.sharing == SPLIT)].set_index(["gap", "repetition"])[value]
    return {RUNS: runs.assign(**{value: [own[gap, n] for gap, n in zip(runs.gap, runs.repetition, strict=True)]})}


CASES = (
    Case("F17", as_claimed, {
        "exchanged": lambda found: exchanged(found, "system", LB, SRTM),
        "when full it is not so": lambda found: changed(found, "missed_share", 3.0, system=SRTM, gap=FULL),
        "all alike": lambda found: alike(found, "missed_share"),
    }),
    Case("F18", as_claimed, {
        "exchanged": lambda found: exchanged(found, "sharing", SPLIT, STORE),
        "half full it is not so": lambda found: changed(found, "missed_share", 5.0, sharing=STORE, gap=HALF_FULL),
        "all alike": lambda found: alike(found, "missed_share"),
    }),
    Case("F19", as_claimed, {
        "lasts": lambda found: changed(found, "spoilt_share", 0.1),
        "lasts no longer elsewhere": lambda found: changed(found, "spoilt_share", 5.0, sharing=STORE),
        "all alike": lambda found: alike(found, "spoilt_share"),
    }),
    Case("F20", as_claimed, {
        "exchanged": lambda found: exchanged(found, "system", SRTM, MAX_MIN),
        "all alike": lambda found: alike(found, "late_share"),
    }),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_the_claim_holds_as_written(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_the_claim_falls_with_what_it_says(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


# --- drawings ----------------------------------------------------------------------------------------


def shown() -> dict[str, Any]:
    """A topic that stays, one that is refused, one whose turn has not come; a late window."""
    nothing = float("nan")
    stays = [
        (system, sharing, n, 10.0 * n, n == 1, *((5.0, 90.0) if n == 0 else (nothing, nothing)))
        for system, sharing in SHOWN
        for n in range(3)
    ]
    late = [(system, sharing, 0, 20.0, 30.0) for system, sharing in SHOWN]
    return {
        "stays": pd.DataFrame(
            stays, columns=["system", "sharing", "number", "arrived_s", "is_refused", "start_s", "end_s"]
        ),
        "late": pd.DataFrame(late, columns=["system", "sharing", "number", "from_s", "until_s"]),
    }


def test_what_was_not_run_is_not_drawn() -> None:
    runs = as_claimed()[RUNS]
    full = runs[runs.gap == FULL]
    tiny = full[[way in SHOWN for way in zip(full.system, full.sharing, strict=True)]]
    for part, bars in ((runs, 12), (tiny, 3)):
        drawn = topics.draw({"runs": part, **shown()})
        assert len(drawn.axes) == 6 and len(drawn.axes[3].patches) == bars == len(drawn.axes[4].patches)
        assert [len(axes.lines) for axes in drawn.axes[:3]] == [6, 6, 6]
