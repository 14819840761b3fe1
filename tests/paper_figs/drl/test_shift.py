"""drl-shift and drl-interval: their grids, claims that flip, names of ways, the drawing of what was run."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from harness.experiment import SCALES
from paper_figs.drl import frontier, interval, shift
from paper_figs.drl.shifts import ADAPTOR, BEYOND, BOTH, LEASES, MIGRATION, WAYS, WITHIN, way_of
from paper_figs.drl.steady import ALONE, COUNTER, IDEAL, LB, SPLIT, TALKING, ms_of
from tests.paper_figs.tables import Case, Frames, check_published, check_spoiled, parametrised, scaled, swapped

RUNS, STEADY, SHIFTS = "drl-shift/runs", "drl-interval/steady", "drl-interval/shifts"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.mark.parametrize("figure", [shift, interval])
def test_smaller_grids_are_in_the_larger(figure: Any) -> None:
    tiny, quick, paper = (
        {spec.to_json() for spec in figure.points(SCALES[scale], {})} for scale in ("tiny", "quick", "paper")
    )
    assert tiny < quick < paper and figure.points(SCALES["small"], {}) == []


def test_the_figures_share_runs() -> None:
    ours, shifts, steady = (
        {spec.to_json() for spec in figure.points(SCALES["quick"], {})} for figure in (interval, shift, frontier)
    )
    assert len(ours & shifts) == 2 and len(ours & steady) == 2 + 2 * len(TALKING)


# --- claims ----------------------------------------------------------------------------------------


def shifted() -> pd.DataFrame:
    """A shift's runs as if all claims held; seeds scatter by a hundredth, the same for all."""
    above = {SPLIT: 70.0, ADAPTOR: 70.0, LEASES: 70.0, MIGRATION: 40.0, BOTH: 20.0}
    rows = []
    for share in (WITHIN, BEYOND):
        for way in WAYS:
            moves = share == BEYOND and way in (MIGRATION, BOTH)
            cleared = moves or (share == WITHIN and way in (ADAPTOR, LEASES, BOTH))
            rows += [
                {
                    "way": way, "share": share, "interval": "1s", "repetition": n, "arrivals": "shifting",
                    "settled_ms": (10.0 if cleared else 5_000.0) * (1 + 0.01 * n), "slo_ms": 20.0,
                    "above_s": above[way] + 0.1 * n, "held_share": 0.01 * moves, "move_count": 22.0 * moves,
                    "closed_ms": 900.0 * moves, "control_bytes": 0.5,
                }
                for n in range(5)
            ]  # fmt: skip
    return pd.DataFrame(rows)


def steady() -> pd.DataFrame:
    rows = []
    for name in (SPLIT, IDEAL, *TALKING):
        for every_ms in (10.0, 100.0, 1_000.0) if name in TALKING else (None,):
            waits = {SPLIT: 50.0, IDEAL: 0.0, COUNTER: 0.7 * (every_ms or 0)}.get(name, 60.0)
            rows += [
                {
                    "system": LB, "sharing": name, "group_size": ALONE, "repetition": n, "interval_ms": every_ms,
                    "delay_ms": waits * (1 + 0.01 * n), "debt_ms": (every_ms or 0) / 10 * (name == COUNTER),
                    "control_bytes": 500 / (every_ms or 1e9), "slo_ms": 20.0,
                }
                for n in range(5)
            ]  # fmt: skip
    return pd.DataFrame(rows)


def shifts() -> pd.DataFrame:
    parts = []
    for every, late in (("100ms", 10.0), ("1s", 20.0), ("10s", 60.0)):
        part = shifted()
        chosen = part[[(way, share) in interval.SHIFTS for way, share in zip(part.way, part.share, strict=True)]]
        told = chosen.drop(columns="interval").assign(interval_ms=ms_of(every))
        parts.append(told.assign(above_s=late + 0.1 * part.repetition))
    return pd.concat(parts, ignore_index=True)


def as_claimed() -> Frames:
    return {RUNS: shifted(), STEADY: steady(), SHIFTS: shifts()}


def changed(found: Frames, key: str, value: str, factor: float, **where: object) -> Frames:
    return {**found, key: scaled(found[key], value, factor, **where)}


def exchanged(found: Frames, key: str, column: str, one: object, other: object) -> Frames:
    return {**found, key: swapped(found[key], column, one, other)}


CASES = (
    Case("F8", as_claimed, {
        "exchanged": lambda found: exchanged(found, RUNS, "way", SPLIT, LEASES),
        "no help": lambda found: changed(found, RUNS, "settled_ms", 1e4, way=ADAPTOR),
    }),
    Case("F9", as_claimed, {
        "tokens are enough": lambda found: changed(found, RUNS, "settled_ms", 1e-3, way=LEASES),
        "exchanged": lambda found: exchanged(found, RUNS, "way", ADAPTOR, BOTH),
    }),
    Case("F10", as_claimed, {
        "never cleared": lambda found: changed(found, RUNS, "settled_ms", 10.0, way=BOTH),
        "as late": lambda found: changed(found, RUNS, "above_s", 2.0, way=MIGRATION),
        "exchanged": lambda found: exchanged(found, RUNS, "way", ADAPTOR, MIGRATION),
    }),
    Case("F11", as_claimed, {"exchanged": lambda found: exchanged(found, RUNS, "way", BOTH, MIGRATION)}),
    Case("F12", as_claimed, {
        "everybody waits": lambda found: changed(found, RUNS, "held_share", 20.0),
        "everybody moves": lambda found: changed(found, RUNS, "move_count", 4.0),
        "nobody moves": lambda found: changed(found, RUNS, "move_count", 0.0),
        "shifts exchanged": lambda found: exchanged(found, RUNS, "share", WITHIN, BEYOND),
    }),
    Case("F13", as_claimed, {
        "it pays": lambda found: changed(found, STEADY, "delay_ms", 0.3, interval_ms=10.0),
        "there is no penalty": lambda found: changed(found, STEADY, "delay_ms", 0.0),
        "it never says a word": lambda found: changed(found, STEADY, "control_bytes", 0.0, sharing=LEASES),
    }),
    Case("F14", as_claimed, {
        "never fast": lambda found: changed(found, STEADY, "delay_ms", 50.0, sharing=COUNTER),
        "never slow": lambda found: changed(found, STEADY, "delay_ms", 0.01, sharing=COUNTER),
        "exchanged": lambda found: exchanged(found, STEADY, "interval_ms", 10.0, 1_000.0),
    }),
    Case("F15", as_claimed, {
        "exchanged": lambda found: exchanged(found, STEADY, "interval_ms", 10.0, 1_000.0),
        "owes nothing": lambda found: changed(found, STEADY, "debt_ms", 0.0),
    }),
    Case("F16", as_claimed, {
        "exchanged": lambda found: exchanged(found, SHIFTS, "interval_ms", 100.0, 10_000.0),
        "as late": lambda found: changed(found, SHIFTS, "above_s", 9.0, interval_ms=100.0),
    }),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_the_claim_holds_as_written(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_the_claim_falls_with_what_it_says(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


# --- tables and drawings -----------------------------------------------------------------------------


def test_ways_have_the_names_of_their_options() -> None:
    for way, (system, options, study) in WAYS.items():
        assert way_of(system, options.get("enabled", True), study.get("migrates", False)) == way


def seconds() -> pd.DataFrame:
    rows = [
        (share, way, n, 10.0 + n, 9.0 + n, 11.0 + n) for share in (WITHIN, BEYOND) for way in WAYS for n in range(4)
    ]
    return pd.DataFrame(rows, columns=["share", "way", "second", "mean", "low", "high"])


def test_what_was_not_run_is_not_drawn() -> None:
    found, each = shifted(), seconds()
    for keeps in ((WITHIN, BEYOND), (BEYOND,)):
        part = found[found.share.isin(keeps)]
        drawing = shift.draw({"runs": part, "seconds": each[each.share.isin(keeps)]})
        assert len(drawing.axes) == 2 * len(keeps)
    for part in (steady(), steady()[lambda rows: rows.sharing != "leases"]):
        assert len(interval.draw({"steady": part, "shifts": shifts()}).axes) == 3
