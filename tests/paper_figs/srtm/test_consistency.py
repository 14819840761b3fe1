"""The map of readings: its bound, its cells, runs aggregated without Spark, going on where it was interrupted."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from analysis.verdicts import Claim, Evidence, at_most, judge
from collectors.histogram import quantile
from core.units import MILLISECOND_NS
from harness.experiment import RunSpec, repeated
from paper_figs.srtm import readings, table1
from paper_figs.srtm.consistency import __main__ as command
from paper_figs.srtm.consistency import bound, cells, fitting
from paper_figs.srtm.consistency.runs import canonical, carried_out, row_of, tables_of
from paper_figs.srtm.grids import grouped, split, topic
from testbed.brokers.model import load_calibration

CELL = cells.Cell(1.02, readings.CONSTANT, "srtm-paper", readings.FREE)
SMALL = {"publishers": 300, "batch": 10}


# --- the bound ---------------------------------------------------------------------------------------


def test_a_second_broker_costs_what_theory_says() -> None:
    assert bound.split_delay_ms() == pytest.approx(2.25, rel=0.05)
    assert bound.split_delay_ms(margin=1.5) == pytest.approx(1.13, rel=0.05)
    assert bound.split_delay_ms(margin=2.0) == 0.0 == bound.split_delay_ms(brokers=1)


def test_the_simulated_bucket_agrees_with_it() -> None:
    """Token buckets alone, five minutes, each with the smallest b of that very window."""
    study = {"envelope": "conformant"}
    workload = {"publishers": bound.PUBLISHERS, "batch": 10}
    spec = split(2, workload, calibration="bucket-only", round="300s", study_options=study)
    [one] = repeated([spec], 1, 3)
    p99_ms = quantile(carried_out(one).fresh.access_delay.sum(axis=0), 0.99) / MILLISECOND_NS
    assert p99_ms == pytest.approx(bound.split_delay_ms(), rel=0.05)


def test_the_exclusion_is_one_sentence_with_the_bound() -> None:
    assert bound.EXCLUSION.count(". ") == bound.EXCLUSION.count("Fig. ") and "2.25 ms" in bound.EXCLUSION


# --- cells -----------------------------------------------------------------------------------------


def test_the_map_has_enough_cells_and_both_pumps() -> None:
    every = cells.cells()
    axes = [{getattr(cell, name) for cell in every} for name in ("margin", "mcap")]
    costs = {(cell.costs, cell.pump) for cell in every}
    assert len(axes[0]) >= 4 and len(axes[1]) >= 3 and len(costs) >= 3
    assert len(set(every)) == len(every) == len(axes[0]) * len(axes[1]) * len(costs)
    assert {cell.pump for cell in every[:36]} == {"free", "shared"}, "the first 36 are a map of their own"


def test_what_a_reading_was_made_from_is_fitted_there() -> None:
    assert {"R3", "R12", "R17"} <= CELL.fitted
    implied = cells.Cell(2.0, readings.IMPLIED, "srtm-searched", readings.SHARED)
    assert {"R5", "R8", "R10", "R11", *fitting.FITTED_ON} <= implied.fitted and "R13" not in implied.fitted


def test_an_mcap_that_changes_nothing_makes_no_further_runs() -> None:
    for spec in (grouped("srtm", "poisson", 10, {"mcap": "implied"}), topic("lb", "poisson", 10_000, 1, {})):
        assert "mcap_rps" not in canonical(spec).study_options
    alike = [
        row_of(one, carried_out(one))
        for one in (grouped("srtm", "poisson", 20, {"mcap": mcap}) for mcap in ("constant", "implied"))
    ]
    assert alike[0] == alike[1]
    kept = topic("conc", "poisson", 10_000, 1, {"mcap": "implied"})
    assert canonical(kept) == kept


def test_a_fitted_claim_is_never_plainly_reproduced() -> None:
    rows = [
        row_of(one, carried_out(one))
        for system in ("srtm", "max-min")
        for one in repeated([grouped(system, "periodic", size, {}) for size in (5, 30)], 5, 2)
    ]
    said = cells.verdicts(CELL, rows)
    assert said["R13"]["verdict"] == "reproduced"
    assert said["R12"]["verdict"] in ("reproduced, fitted", "direction only, fitted")
    assert "R5" not in said, "no data, no verdict"


def test_what_fails_by_itself_but_not_among_many_is_not_said_to_fail() -> None:
    alone, badly = (0.2, 0.6, 1.0, 1.4, 1.8), (4.8, 4.9, 5.0, 5.1, 5.2)  # 0 is outside of both 95 % intervals
    checks = [at_most(f"check {n}", samples, 0.0) for n, samples in enumerate([alone, badly, *[(0.0,) * 5] * 18])]

    def fails(*those: Any) -> Any:
        claim = Claim("R13", "Fig. 7", "It is at most 0.", ("srtm-fig7",), lambda tables: Evidence(those))
        return cells._said(CELL, judge(claim, {}))["fails"]

    assert fails(checks[0]) == ["check 0: 1"]
    assert fails(*checks) == ["check 1: 5"]


# --- runs ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_searches_are_counted_as_spark_counts_them(spark: Any) -> None:
    [spec] = repeated([grouped("srtm", "poisson", 30, {})], 1, 4)
    search = carried_out(spec)
    assert len(search.rounds) > 4
    rounds = zip(search.rounds, search.iterations, strict=True)
    decisions = spark.createDataFrame(pd.DataFrame([
        {"run_id": "a", "kind": "trial", "iteration": iteration, "round": number, "broker": broker,
         "publisher_count": int((shown.assignment == broker).sum()), "duration_ns": shown.duration_ns,
         "seen_topic_p99_ns": shown.measured.p99_ns}
        for number, (shown, iteration) in enumerate(rounds, start=1)
        for broker in range(6)
    ]))  # fmt: skip
    counted = table1.searches(decisions, table1.iterations(decisions)).toPandas().iloc[0]
    row = row_of(spec, search)
    names = ("round_count", "iteration_count", "last_round_count", "first_reach", "reach_step", "moved_back_count")
    assert {name: row[name] for name in names} == {name: counted[name] for name in names}


def test_rows_are_sorted_into_the_figures_tables() -> None:
    specs = cells.points(CELL)
    rows = [_like(spec) for spec in specs]
    tables = tables_of(rows)
    assert {name.partition("/")[0] for name in tables} == set(cells.KEYS)
    assert set(tables["srtm-fig5/runs"].system) == {"lb", "conc"}
    assert set(tables["srtm-fig6/runs"].system) == {"conc", "max-min"} == set(tables["srtm-fig6/brokers"].system)
    assert set(tables["srtm-fig7/literal_runs"].envelope) == {"literal"}
    assert set(tables["srtm-table1/searches"].system) == {"srtm"}
    assert len(tables["srtm-fig9/runs"]) == 24 and set(tables["srtm-fig9/runs"].group_size) == {25}
    assert len(tables["srtm-fig4/runs"]) == 6 and len(tables["srtm-fig4-1000/runs"]) == 12


def _like(spec: RunSpec) -> dict[str, Any]:
    """A row as of a run that nobody made."""
    nothing = SimpleNamespace(**{
        "answer": SimpleNamespace(outcome=SimpleNamespace(value="placed")), "rounds": [], "iterations": [],
        "fresh": carried_out(LITTLE).fresh,
    })  # fmt: skip
    return row_of(spec, nothing)  # type: ignore[arg-type]


LITTLE = RunSpec(system="lb", workload="poisson", workload_options={"publishers": 20}, round="1s")


def test_a_map_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    specs = repeated([LITTLE], 3, 1)
    rows: dict[str, Any] = {}
    command.make(specs[:2], rows, file, jobs=1)
    assert command.known(file) == rows and len(rows) == 2
    file.write_text(file.read_text() + '["half a li')
    again = command.known(file)
    assert again == rows
    command.make(specs, again, file, jobs=1)
    assert len(again) == 3 and command.known(file) == again and len(file.read_text().splitlines()) == 4


def test_a_map_of_some_figures_keeps_the_others_and_what_has_more_seeds() -> None:
    old = {"R4": {"seeds": 20, "verdict": "undecided"}, "R5": {"seeds": 0, "verdict": "not run"}}
    new = {
        "R5": {"seeds": 3, "verdict": "reproduced"},
        "R4": {"seeds": 3, "verdict": "reproduced"},
        "R3": {"seeds": 3, "verdict": "undecided"},
    }
    both = command.merged(old, new)
    assert list(both) == ["R3", "R4", "R5"]
    assert (both["R3"], both["R4"], both["R5"]) == (new["R3"], old["R4"], new["R5"])
    assert {spec.workload_options["publishers"] for spec in cells.points(CELL, ["srtm-fig4-1000"])} == {1_000}


# --- calibrations ----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_search_is_recorded_and_its_best_candidate_is_a_calibration(tmp_path: Path) -> None:
    said: list[str] = []
    record = fitting.searched_costs(True, 4, 1, said.append)
    scores = [trial["score"] for trial in record["trials"]]
    assert scores == sorted(scores) and len(scores) == len(said) == 4
    assert record == fitting.searched_costs(True, 4, 1, said.append)
    file = tmp_path / "best.toml"
    file.write_text(fitting.calibration_text(record))
    model = load_calibration(str(file))
    assert model.pump_takes_core and model.fitted_on == fitting.FITTED_ON
    assert {name: getattr(model, name) for name in fitting.RANGES_NS} == record["trials"][0]["costs"]


@pytest.mark.parametrize("name", ["srtm-searched", "srtm-shared"])
def test_the_calibrations_are_those_of_the_record(name: str) -> None:
    records = json.loads(command.RECORD.read_text())
    [record] = [one for one in records if (one["pump"] == "shared") == (name == "srtm-shared")]
    assert (command.CALIBRATIONS / f"{name}.toml").read_text() == fitting.calibration_text(record)


def test_the_map_of_record_is_of_these_cells() -> None:
    result = json.loads(command.RESULT.read_text())
    keys = [tuple(cell[name] for name in ("margin", "mcap", "costs", "pump")) for cell in result["cells"]]
    assert keys == [tuple(vars(cell).values()) for cell in cells.cells()[: len(keys)]] and len(keys) >= 36
    assert result["exclusion"] == bound.EXCLUSION and result["left_out"] == cells.LEFT_OUT
    for cell in result["cells"]:
        plain = {name for name, said in cell["claims"].items() if said["verdict"] == "reproduced"}
        assert not plain & set(cell["fitted_on"])
    assert len(list(command.shown(result))) == len(keys) + 3
