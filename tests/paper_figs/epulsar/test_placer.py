"""epulsar-placer: the grid, claims that flip, moves as they are counted, the drawing."""

from typing import Any

import pandas as pd
import pytest

from analysis.verdicts import Judgement, judge, t_interval
from core.units import SECOND_NS
from harness.experiment import SCALES
from harness.run import check_all
from paper_figs.beyond.faults import NO_FAULT
from paper_figs.epulsar import placer
from paper_figs.epulsar.placer import CHURN, CLOUD_CUT, RUNS, SITE_CUT, STAY, SWARMS
from tests.paper_figs.tables import (
    REPETITIONS,
    Case,
    Frames,
    check_published,
    check_spoiled,
    ends_of,
    parametrised,
    repeated,
    scaled,
    swapped,
)

CENTRAL, GOSSIP = placer.BOTH


def row(load: str, fault: str, system: str, topics: int = 0) -> dict[str, Any]:
    """A point of the quick grid as if all claims held."""
    missed = {("cloud", CENTRAL): 0.3, ("site", CENTRAL): 0.15, ("site", GOSSIP): 0.2}.get((fault, system), 0.0)
    each = {"pulsar": 10, CENTRAL: 25, GOSSIP: 28}[system]
    late = {"pulsar": 0.7, CENTRAL: 0.05, GOSSIP: 0.05}[system]
    rate = {CENTRAL: 400.0 + 50 * topics, GOSSIP: 560.0 + 20 * topics}.get(system, 300.0)
    in_time = 3000 * (0.98 - missed)
    point = {"load": load, "topics": topics, "fault": fault, "system": system}
    return {**point, "late": late, "born": 3000.0, "in_time": in_time, "moves": float(each), "Bps": rate}


def as_claimed() -> Frames:
    rows = [row(CHURN, fault, system) for fault in placer.FAULTS for system in placer.BOTH]
    rows += [row(STAY, NO_FAULT, system, each) for each in placer.EACH for system in placer.BOTH]
    rows += [row(SWARMS, NO_FAULT, system) for system in placer.SYSTEMS]
    rows += [row(SWARMS, CLOUD_CUT, system) for system in placer.BOTH]
    return {RUNS: repeated(rows, ("late", "moves", "Bps"))}


def changed(value: str, factor: float, **where: Any) -> Any:
    return lambda found: {RUNS: scaled(found[RUNS], value, factor, **where)}


def exchanged(found: Frames) -> Frames:
    return {RUNS: swapped(found[RUNS], "system", CENTRAL, GOSSIP)}


def identical(found: Frames) -> Frames:
    """The gossip placer is ePulsar under another name."""
    runs = found[RUNS]
    same = runs[runs.system == CENTRAL].assign(system=GOSSIP)
    return {RUNS: pd.concat([runs[runs.system != GOSSIP], same], ignore_index=True)}


CASES = (
    Case("P1", as_claimed, {
        "later by two points": changed("late", 1.4, system=GOSSIP),
        "no better than Pulsar": changed("late", 14.0, system=GOSSIP),
    }),
    Case("P2", as_claimed, {
        "identical": identical,
        "the other way round": exchanged,
        "brokers lose as well": changed("in_time", 0.9, system=GOSSIP, fault=CLOUD_CUT),
        "ePulsar goes on": changed("in_time", 1.4, system=CENTRAL, fault=CLOUD_CUT),
        "who keeps little": changed("in_time", 0.2, system=GOSSIP),
    }),
    Case("P3", as_claimed, {"identical": identical, "the other way round": exchanged}),
    Case("P4", as_claimed, {"brokers chase each other": changed("moves", 1.5, system=GOSSIP)}),
    Case("P5", as_claimed, {
        "identical": identical,
        "the other way round": exchanged,
        "gossip costs more than reports": changed("Bps", 2.0, system=GOSSIP),
        "and less": changed("Bps", 0.5, system=GOSSIP),
    }),
    Case("P6", as_claimed, {
        "identical": identical,
        "the other way round": exchanged,
        "who is cut off goes on": changed("in_time", 1.2, system=GOSSIP, fault=SITE_CUT),
        "ePulsar keeps little": changed("in_time", 0.2, system=CENTRAL),
    }),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_what_is_claimed_is_reproduced(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_are_seen(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_every_claim_has_a_case_and_is_undecided_without_runs() -> None:
    assert {case.claim for case in CASES} == {claim.id for claim in placer.CLAIMS}
    for claim in placer.CLAIMS:
        found = judge(claim, {RUNS: as_claimed()[RUNS].iloc[:0]})
        assert found.judgement is Judgement.UNDECIDED and found.problem.startswith("no data: "), claim.id


def test_scales_are_parts_of_one_grid_that_can_be_run() -> None:
    tiny, quick, paper = (
        {spec.to_json() for spec in placer.points(SCALES[name], {})} for name in ("tiny", "quick", "paper")
    )
    assert tiny < quick == paper and (len(tiny), len(quick)) == (6, 15)
    check_all(placer.points(SCALES["quick"], {}))


def test_a_topic_that_goes_on_at_another_broker_has_moved() -> None:
    late = 2 * placer.SETTLED_S
    spells = [
        ("a", "red", "broker1", 0),  # where it is first is no move,
        ("a", "red", "broker2", 5),  # nor is what happens before all is settled
        ("a", "red", "broker3", late),
        ("a", "blue", "broker3", late),
        ("a", "blue", "broker3", late + 1),  # it was given up, and had again
        ("a", "blue", "broker1", late + 2),
        ("b", "red", "broker1", late),
    ]
    frame = pd.DataFrame(spells, columns=["run_id", "topic", "broker", "start_s"])
    frame["start_ns"] = frame.start_s * SECOND_NS
    ordered = frame.sort_values(["run_id", "topic", "start_ns"], ignore_index=True)
    assert placer._moves(ordered).to_dict() == {"a": 2, "b": 0}


@pytest.mark.slow
@pytest.mark.parametrize("empty", [False, True], ids=["drawn", "empty"])
def test_it_is_drawn(empty: bool) -> None:
    from matplotlib import pyplot

    runs = as_claimed()[RUNS].iloc[: 0 if empty else None]
    steps = [
        runs.assign(t_s=t_s, pairs=100, late=10)[[*placer.POINT, "t_s", "pairs", "late"]] for t_s in range(0, 100, 2)
    ]
    sheet = placer.draw({"runs": runs, "curves": pd.concat(steps, ignore_index=True)})
    assert [axes.get_title(loc="left")[:3] for axes in sheet.axes if axes.get_title(loc="left")] == [
        "(a)", "(b)", "(c)", "(d)", "(e)", "(f)"
    ]  # fmt: skip
    pyplot.close(sheet)


def test_curves_have_the_intervals_of_their_repetitions() -> None:
    runs = as_claimed()[RUNS]
    late = runs.repetition.map({0: 0, 1: 20}).fillna(10)
    curves = [runs.assign(t_s=t_s, pairs=100, late=late)[[*placer.POINT, "t_s", "pairs", "late"]] for t_s in (0, 2, 4)]
    sheet = placer.draw({"runs": runs, "curves": pd.concat(curves, ignore_index=True)})
    told = t_interval([100.0, 80.0, *(REPETITIONS - 2) * [90.0]])
    ends = ends_of(sheet.axes[3])
    assert len(ends) == 2 * len(placer.BOTH) and told.high < 100
    assert all(pair == pytest.approx((told.low, told.high)) for pair in ends)
