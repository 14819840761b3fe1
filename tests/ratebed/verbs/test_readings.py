"""Readings of a source: each cell of the grid has results of its own, and the report shows them beside the claim."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import paper_figs
from analysis.verdicts import Judgement, Result, Tried
from core.digests import sealed
from core.errors import SpecError
from ratebed import judging
from ratebed.options import make_request
from ratebed.pipeline import SECTION, make_plan, sections
from ratebed.settings import other_readings
from ratebed.studio import Studio
from ratebed.verbs.readings import _cells, _stands_in, _tried, readings
from tests.ratebed import forced

KEY = "srtm-forced"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(paper_figs.FIGURES, KEY, "tests.ratebed.forced:FIGURE")


def test_one_at_a_time_or_every_combination() -> None:
    tried = {"a": ["1", "2"], "b": ["x"]}
    assert _cells(tried, False) == [{}, {"a": "1"}, {"a": "2"}, {"b": "x"}]
    assert _cells(tried, True) == [{}, {"b": "x"}, *({"a": a} | b for a in "12" for b in ({}, {"b": "x"}))]


def test_only_what_differs_from_the_cell_of_record_is_named() -> None:
    assert other_readings(forced.EXPERIMENT.options, {}) == {}
    assert other_readings(forced.EXPERIMENT.options, {"split": 1, "slo-text": "9ms"}) == {"slo-text": "9ms"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--slo-text", "7ms"], "--slo-text '7ms'; did you mean '9ms'? known: 5ms, 9ms"),
        (["--split", "two"], "--split 'two'; give an int"),
    ],
)
def test_a_reading_that_there_is_not(words: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as told:
        make_request([KEY], False, "tiny", 1, 1, tmp_path, words)
    assert said in f"{told.value}"


def test_a_grid_over_what_nobody_declares(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown reading 'splits'"):
        readings([KEY], over=["splits=2"], out=tmp_path)
    with pytest.raises(SpecError, match="dst-table2: nothing is left to a reading"):
        readings(["dst-table2"], out=tmp_path)
    with pytest.raises(SpecError, match="unknown figure"):
        readings(["srtm-forcd"], out=tmp_path)


@pytest.mark.slow
def test_every_cell_is_judged_and_only_that_of_record_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert readings([KEY], together=True, scale="tiny", jobs=1, out=tmp_path) == 0
    names = [KEY + cell for cell in ("", "~slo-text=9ms", "~slo-text=9ms~split=2", "~split=2")]
    assert sorted(sections(tmp_path)) == names
    assert [(tmp_path / "figures" / f"{name}.svg").is_file() for name in names] == [True, False, False, False]

    verdicts = judging.results_by_setting(tmp_path)
    (result,) = (each for each in verdicts[""] if each.claim.id == "R999")
    assert list(verdicts) == [""] and result.judgement is Judgement.REPRODUCED
    assert result.record == {"slo-text": "5ms", "split": 1}
    tried = {json.dumps(dict(each.readings)): (each.judgement, each.after) for each in result.tried}
    assert tried == {
        '{"slo-text": "9ms"}': (Judgement.REPRODUCED, True),
        '{"slo-text": "9ms", "split": 2}': (Judgement.CONTRADICTED, True),
        '{"split": 2}': (Judgement.CONTRADICTED, False),
    }
    (shown,) = (tmp_path / "report").glob("figure-*.html")
    page = shown.read_text()
    assert "it holds under 2 of 4 readings" in page and "thought of after results were seen" in page
    assert "slo-text 5ms, split 1" in page and page.count("<figure>") == 1
    assert "[read otherwise: reproduced with slo-text 9ms (thought of after" in capsys.readouterr().out

    # Of other commands, on another testbed: no part of what is asked.
    elsewhere = Path(shutil.copytree(tmp_path / "tables" / KEY, tmp_path / "tables" / f"{KEY}@local-small"))
    section = json.loads((elsewhere / SECTION).read_text())
    section |= {"name": elsewhere.name, "setting": "@local-small", "testbed": "local", "scale": "small", "drawing": {}}
    section |= {"run_ids": [], "doubtful": {run_id: ["invalid", "late"] for run_id in section["run_ids"]}}
    (elsewhere / SECTION).write_text(json.dumps(sealed(section)))
    assert readings([KEY], over=["split=2"], scale="tiny", jobs=1, out=tmp_path) == 0

    finish = Studio.finish

    def lost(studio: Studio) -> dict[str, str]:
        problems = finish(studio)
        (tmp_path / "tables" / f"{KEY}~split=2" / SECTION).unlink(missing_ok=True)
        return problems

    monkeypatch.setattr(Studio, "finish", lost)
    assert readings([KEY], over=["split=2"], scale="tiny", jobs=1, out=tmp_path) == 1
    assert f"{KEY}~split=2: not wholly in the report" in capsys.readouterr().out


def test_a_claim_is_fitted_where_what_it_is_read_with_was_made_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made_from = {"": [], "~slo-text=9ms": ["R999"], "~split=2": ["R998"]}
    described = {
        KEY + cell: {
            **{"name": KEY + cell, "key": KEY, "place": "", "claims": [], "skipped": "", "setting": "", "settings": {}},
            **{"readings": dict([cell[1:].split("=")] if cell else []), "fitted_on": claims},
            **{"run_ids": [], "failed": {}, "doubtful": {}},
        }
        for cell, claims in made_from.items()
    }
    monkeypatch.setattr(judging, "sections", lambda out: described)
    one = pd.DataFrame({"broker_count": [1.0] * 5})
    monkeypatch.setattr(judging, "tables_of", lambda out, name: {"used": one})
    (result,) = (each for each in judging.results_by_setting(Path())[""] if each.claim.id == "R999")
    assert result.judgement is Judgement.REPRODUCED and not result.claim.fitted
    assert {str(dict(each.readings)): each.fitted for each in result.tried} == {
        "{'slo-text': '9ms'}": True,
        "{'split': '2'}": False,
    }


def under(judgement: Judgement, fitted: bool = False) -> Tried:
    return Tried({"slo-text": "9ms"}, False, judgement, (), fitted)


@pytest.mark.parametrize(
    ("substitute", "tried", "said"),
    [
        (False, [under(Judgement.DIRECTION_ONLY)], "not reproduced either"),
        (False, [under(Judgement.REPRODUCED, True), under(Judgement.CONTRADICTED)],
         "not reproduced either; fitted under 1 of 2"),
        (False, [under(Judgement.REPRODUCED), under(Judgement.REPRODUCED, True)],
         "reproduced with slo-text 9ms; fitted under 1 of 2"),
        (False, [under(Judgement.REPRODUCED, True)], "fitted under 1 of 1"),
        (True, [under(Judgement.DIRECTION_ONLY), under(Judgement.CONTRADICTED)], "in direction under 1 of 2"),
        (True, [under(Judgement.UNDECIDED)], "in direction under 0 of 1"),
    ],
)  # fmt: skip
def test_a_line_says_under_which_readings_a_claim_holds(substitute: bool, tried: Sequence[Tried], said: str) -> None:
    claim = replace(forced.CLAIM, substitute=substitute)
    line = judging.summary_line(Result(claim, Judgement.UNDECIDED, tried=tried))
    assert line.endswith(f" [read otherwise: {said}]")


def test_lines_of_a_claim_that_was_judged_on_two_testbeds_are_told_apart() -> None:
    results = [Result(replace(forced.CLAIM, testbed=name), Judgement.UNDECIDED) for name in ("virtual", "mininet")]
    assert ["[mininet] " in judging.summary_line(result) for result in results] == [False, True]


def test_as_many_repetitions_as_are_asked_for(tmp_path: Path) -> None:
    scales = make_request([KEY], False, "tiny", 1, 1, tmp_path, [])
    assert [spec.repetition for spec in make_plan(scales).campaign.wanted.values()] == [0, 1, 2, 3, 4]
    seven = make_request([KEY], False, "tiny", 1, 1, tmp_path, [], repetitions=7)
    assert len(make_plan(seven).campaign.wanted) == 7 and "--repetitions 7" in seven.command(KEY)
    with pytest.raises(SpecError, match="--repetitions -1; give at least 1"):
        make_request([KEY], False, "tiny", 1, 1, tmp_path, [], repetitions=-1)


def test_of_all_figures_those_that_declare_a_reading_stand_in_its_cells() -> None:
    keys = tuple(paper_figs.FIGURES)
    tried = _tried(keys, [])
    for cell in _cells(tried, together=False):
        extra = [f"--{name}={value}" for name, value in cell.items()]
        there = {key for key in keys if _stands_in(key, tried, extra)}
        declaring = {
            key for key in keys for option in paper_figs.load_figure(key).experiment.options if option.name in cell
        }
        assert there and there == (declaring if cell else there)
