"""drl-frontier: its grid, claims that flip, who wins a cell and who ties, the drawing of what was run."""

from collections.abc import Iterator

import pandas as pd
import pytest

from harness.experiment import SCALES
from paper_figs.drl import frontier
from paper_figs.drl.drawing import LOOKS, draw
from paper_figs.drl.steady import CENTRAL, COUNTER, IDEAL, LB, SPLIT, SRTM, told
from paper_figs.intervals import geometric
from tests.paper_figs.tables import Case, Frames, check_published, check_spoiled, ends_of, parametrised, scaled, swapped

KEY = "drl-frontier/runs"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def test_smaller_grids_are_in_the_larger() -> None:
    tiny, quick, paper = (
        {spec.to_json() for spec in frontier.points(SCALES[scale], {})} for scale in ("tiny", "quick", "paper")
    )
    assert tiny < quick < paper and frontier.points(SCALES["small"], {}) == []


# --- claims ----------------------------------------------------------------------------------------


def runs() -> pd.DataFrame:
    """The quick grid as if all claims held; seeds scatter by a hundredth, the same for all."""
    rows = []
    for spec in frontier.points(SCALES["quick"], {}):
        sharing, place = spec.study_options["sharing"], spec.system
        trip_ms = float(spec.study_options.get("rtt", "0ms").removesuffix("ms"))
        waits = {SPLIT: 50.0, IDEAL: 0.0, CENTRAL: trip_ms + 0.5, COUNTER: 10.0}.get(sharing, 55.0)
        waits /= 2 if place == SRTM and sharing != CENTRAL else 1
        for n in range(5):
            near = 1 + 0.01 * n
            rows.append(
                {
                    "system": place, "sharing": sharing, "repetition": n, "outcome": "placed", "slo_ms": 20.0,
                    "group_size": spec.workload_options["group_size"], "rtt_ms": spec.study_options.get("rtt"),
                    "interval_ms": spec.study_options.get("interval"), "delay_ms": waits * near,
                    "p99_ms": (waits + 5) * near, "broker_count": 2 if place == SRTM else 4,
                    "debt_ms": 20.0 * near if sharing == COUNTER else 0.0, "message_count": 1_000,
                    "sent_bytes": {SPLIT: 0.0, IDEAL: 0.0, CENTRAL: 6e4}.get(sharing, 600.0) * near,
                }
            )  # fmt: skip
    return told(pd.DataFrame(rows))


def as_claimed() -> Frames:
    return {KEY: runs()}


def copied(found: Frames, sharing: str, onto: str) -> Frames:
    """Two identical sharings under two names; what the copy says of its point stays."""
    frame = found[KEY]
    point, told = ["system", "group_size", "repetition"], ["p99_ms", "delay_ms", "debt_ms", "control_bytes"]
    twin = frame[frame.sharing == sharing].groupby(point)[told].mean()
    copy = frame[frame.sharing == onto].drop(columns=told).join(twin, on=point)
    return {KEY: pd.concat([frame[frame.sharing != onto], copy], ignore_index=True)}


def changed(found: Frames, value: str, factor: float, **where: object) -> Frames:
    return {KEY: scaled(found[KEY], value, factor, **where)}


CASES = (
    Case("F1", as_claimed, {
        "dividing pays": lambda found: changed(found, "delay_ms", 0.5, sharing="leases"),
        "ideal": lambda found: copied(found, IDEAL, "throttler"),
        "there is no penalty": lambda found: changed(found, "delay_ms", 0.0),
        "it never says a word": lambda found: changed(found, "control_bytes", 0.0, sharing="leases"),
    }),
    Case("F2", as_claimed, {
        "identical": lambda found: copied(found, SPLIT, COUNTER),
        "slower": lambda found: changed(found, "delay_ms", 9.0, sharing=COUNTER),
        "owes nothing": lambda found: changed(found, "debt_ms", 0.0, sharing=COUNTER),
    }),
    Case("F3", as_claimed, {
        "identical": lambda found: copied(found, SPLIT, CENTRAL),
        "never far": lambda found: changed(found, "delay_ms", 0.01, sharing=CENTRAL),
        "never near": lambda found: changed(found, "delay_ms", 99.0, sharing=CENTRAL),
    }),
    Case("F4", as_claimed, {
        "exchanged": lambda found: {KEY: swapped(found[KEY], "system", LB, SRTM)},
        "slower": lambda found: changed(found, "p99_ms", 9.0, system=SRTM),
    }),
    Case("F5", as_claimed, {
        "exchanged": lambda found: {KEY: swapped(found[KEY], "system", LB, SRTM)},
        "identical": lambda found: copied(found, SPLIT, CENTRAL),
    }),
    Case("F6", as_claimed, {
        "identical": lambda found: copied(found, SPLIT, CENTRAL),
        "as talkative": lambda found: changed(found, "control_bytes", 50.0, sharing="leases"),
    }),
    Case("F7", as_claimed, {
        "never far": lambda found: changed(found, "p99_ms", 0.01, sharing=CENTRAL),
        "never near": lambda found: changed(found, "p99_ms", 99.0, sharing=CENTRAL),
    }),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_the_claim_holds_as_written(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_the_claim_falls_with_what_it_says(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


# --- winners ---------------------------------------------------------------------------------------


def cell(found: pd.DataFrame, rtt_ms: float, size: int = 1) -> pd.DataFrame:
    won = frontier.winners(found)
    return won[(won.rtt_ms == rtt_ms) & (won.group_size == size) & (won.interval_ms == 1_000)]


def test_a_cell_is_won_by_the_lowest_p99_that_keeps_the_contract() -> None:
    near, far = cell(runs(), 1.0), cell(runs(), 100.0)
    assert set(near.sharing) == {CENTRAL} and set(near.system) == {LB, SRTM} and near.is_tie.all()
    assert far[["system", "sharing", "is_tie"]].values.tolist() == [[SRTM, SPLIT, False]]
    honest = runs().assign(debt_ms=0.0)
    assert set(cell(honest, 100.0).sharing) == {COUNTER}  # what it owed was what kept it out


def test_two_identical_sharings_give_no_winner() -> None:
    twins = copied({KEY: runs()}, SPLIT, "leases")[KEY]
    won = cell(twins, 100.0)
    assert set(won.sharing) == {SPLIT, "leases"} and won.is_tie.all() and (won.lead == 0).all()


def test_a_difference_that_may_be_chance_is_a_tie() -> None:
    found = runs()
    rows = (found.sharing == "leases") & (found.system == SRTM)
    found.loc[rows, "p99_ms"] = [30.0 * (0.7 if n % 2 else 1.4) for n in found[rows].repetition]
    won = cell(found, 100.0)
    assert {SPLIT, "leases"} <= set(won.sharing) and won.is_tie.all()
    assert (won.low[won.sharing == "leases"] < 0).all() and (won.high[won.sharing == "leases"] > 0).all()


def test_who_is_behind_each_time_does_not_tie_for_one_outlier() -> None:
    found = runs()
    found = pd.concat([found.assign(repetition=found.repetition + 10 * n) for n in (0, 1)])
    rows = (found.sharing == "leases") & (found.system == SRTM)
    for outlier_ms, tied in ((1e7, False), (1.0, True)):
        found.loc[rows, "p99_ms"] = [outlier_ms if n == 3 else 40.0 for n in found[rows].repetition]
        won = cell(found, 100.0)
        assert ("leases" in set(won.sharing)) == tied, "as much as it is ahead once, it may be chance"


def test_the_winner_has_the_lowest_number_in_spite_of_an_outlier() -> None:
    found = runs().assign(debt_ms=0.0)
    found = found[found.sharing.isin([SPLIT, "leases", IDEAL]) & (found.system == LB) & (found.group_size == 1)]
    for sharing, p99s in ((SPLIT, [1.0, 1.0, 1.0, 1.0, 1e4]), ("leases", [10.0] * 5)):
        rows = found.sharing == sharing
        found.loc[rows, "p99_ms"] = [p99s[n] for n in found[rows].repetition]
    won = cell(found, 1.0)
    assert won.sharing.tolist() == [SPLIT, "leases"] and won.p99_ms.tolist() == pytest.approx([1e4**0.2, 10.0])
    table = draw({"runs": found, "winners": frontier.winners(found)}).axes[-1]
    assert f"{1e4**0.2:.1f}" in {text.get_text() for text in table.texts}


def test_who_has_no_round_trip_has_an_interval() -> None:
    found = runs()
    axes = draw({"runs": found, "winners": frontier.winners(found)}).axes[0]
    shown = found[(found.system == LB) & (found.group_size == 1)]
    for sharing in (SPLIT, IDEAL):
        told = geometric(list(shown[shown.sharing == sharing].p99_ms))
        assert any(pair == pytest.approx((told.low, told.high)) for pair in ends_of(axes)), sharing


def test_what_was_not_run_is_not_drawn() -> None:
    found = runs()
    for part, blank_count in ((found, 0), (found[found.group_size == 1], 2), (found[found.system == LB], 2)):
        drawing = draw({"runs": part, "winners": frontier.winners(part)})
        panels = [axes for axes in drawing.axes if "not run" not in {text.get_text() for text in axes.texts}]
        assert len(drawing.axes) == 6 and len(panels) == 6 - blank_count
        assert all(axes.has_data() for axes in panels[:-1]), "the last is a table"
        (legend,) = drawing.legends
        labels = {text.get_text() for text in legend.texts}
        assert labels == {*(LOOKS[name].label for name in part.sharing), "SLO"}
