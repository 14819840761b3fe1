"""Columns hold values: one run of each study in virtual time has no text that is more than a name."""

from pathlib import Path

import pytest

from collectors.writer import write_run
from harness.estimate import expected_seconds
from harness.experiment import SCALES
from harness.run import execute
from paper_figs import FIGURES, load_figure
from studies import STUDIES, load_study
from studies.spec import RunSpec
from tests import raw_data


def least_runs() -> dict[str, RunSpec]:
    """Of each study in virtual time the shortest run that a figure has, on our brokers or on Pulsar's model."""
    least: dict[str, RunSpec] = {}
    for key in FIGURES:
        experiment = load_figure(key).experiment
        own = {option.name: option.default for option in experiment.options}
        for options in [own] if experiment.analytic else [own, {**own, "broker": "pulsar"}][: 1 + ("broker" in own)]:
            for spec in experiment.runs(SCALES["tiny"], options, 1):
                if spec.testbed == "virtual":
                    least[spec.study] = min(least.get(spec.study, spec), spec, key=expected_seconds)
    return least


LEAST = least_runs()


def test_every_study_is_there_that_runs_in_virtual_time() -> None:
    no_figure_asks = {"links"}
    assert set(LEAST) == {key for key in STUDIES if load_study(key).virtual is not None} - no_figure_asks


@pytest.mark.parametrize("study", LEAST)
def test_no_text_of_a_run_packs_a_record(study: str, tmp_path: Path) -> None:
    execute(LEAST[study], "0" * 16, tmp_path / ("0" * 16))
    assert list(raw_data.packed_texts(tmp_path / ("0" * 16))) == []


def test_rows_are_summed_and_a_packed_text_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = {"at_ns": [0, 1, 2], "node": ["n1", "", "n2"], "metric": ["steal_ns"] * 3, "value": [1.0] * 3}
    skipped = {"reason": ["no such user"], "line_count": [4]}
    for number in "ab":
        tables = {"samples": samples, "skipped_lines": skipped}
        write_run(tmp_path / "runs" / (number * 16), tables, {"run_id": number * 16})
    assert raw_data.main([str(tmp_path)]) == 0 and "6  samples" in capsys.readouterr().out
    monkeypatch.setattr(raw_data, "SAMPLES_MOST", 6)
    assert raw_data.main([str(tmp_path)]) == 1
    monkeypatch.undo()
    packed = {**samples, "node": ["n1", "request of topic-1", "n2"]}
    write_run(tmp_path / "runs" / ("c" * 16), {"samples": packed}, {"run_id": "c" * 16})
    capsys.readouterr()
    assert raw_data.main([str(tmp_path)]) == 1
    assert "samples.node holds 'request of topic-1'" in capsys.readouterr().out
