"""Every verb that shows a number of a run says how valid the run is; where all are invalid, it ends with 1."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.verdicts import Claim, Evidence, Judgement, Result
from harness import run as harness_run
from harness.campaign import Campaign
from harness.experiment import RunSpec
from harness.matrix import ad_hoc
from ratebed import judging
from ratebed.app import app
from ratebed.options import SEED, make_request
from ratebed.pipeline import make_plan, tables_of
from ratebed.validity import LINES_MOST, Standing, are_invalid, told, told_of_figures, worst
from studies.distribution.calibrate import Measures
from testbed import TESTBEDS
from tests.command import ratebed
from tests.harness.common import small
from tests.ratebed import elsewhere

WHY = "agent broker-broker1 was lost"
INVALID, VALID = Standing("invalid", (WHY,)), Standing()
POINT = ("--system", "crdt-counter", "--workload", "requests", "--topology", "full-mesh", "--set", "study.duration=2s")
Make = Callable[[Campaign, Sequence[RunSpec], Sequence[Standing]], list[str]]


def test_of_several_the_least_valid_counts() -> None:
    degraded = Standing("degraded", ("hot",))
    assert worst([VALID, degraded, INVALID, degraded]) == INVALID and worst([VALID, degraded]) == degraded
    assert worst([]) is None
    assert [are_invalid(each) for each in ([], [INVALID], [INVALID, degraded])] == [False, True, False]


def test_a_claim_says_what_it_is_judged_without() -> None:
    section = {"name": "fig", "run_ids": ["a", "b"], "failed": {}, "doubtful": {}, "skipped": ""}
    claim = Claim("X1", "ours", "It holds.", ("fig",), lambda tables: Evidence(()))
    result = Result(claim, Judgement.REPRODUCED, Evidence(()))
    whole = judging._trusted(result, [section])
    assert (whole.validity, whole.validity_reasons) == ("valid", ())
    lacking = {**section, "failed": {"c": "it broke"}, "doubtful": {"d": ["invalid", WHY]}}
    found = judging._trusted(result, [lacking])
    assert not found.from_invalid
    said = ("1 of 4 runs of fig failed", "1 of 4 runs of fig invalid and left out")
    assert (found.validity, found.validity_reasons) == ("degraded", said)


def test_a_claim_rests_on_invalid_runs_alone_whatever_others_do() -> None:
    claim = Claim("X1", "ours", "It holds.", ("fig",), lambda tables: Evidence(()))
    measured = Result(claim, Judgement.REPRODUCED, Evidence(()))
    drawn = {"name": "fig", "run_ids": ["a", "b"], "failed": {}, "doubtful": {"a": ["invalid", WHY]}, "skipped": ""}
    alone = {**drawn, "run_ids": ["a"]}
    undrawn = {**drawn, "run_ids": [], "skipped": f"all of its runs are invalid: {WHY}"}
    assert [judging._trusted(measured, [each]).from_invalid for each in (drawn, alone)] == [False, True]
    assert (
        not judging._trusted(measured, [alone, drawn]).from_invalid and not judging._trusted(measured, []).from_invalid
    )
    unmeasured = Result(claim, Judgement.UNDECIDED)
    assert judging._trusted(unmeasured, [undrawn]).from_invalid
    assert not judging._trusted(replace(unmeasured, claim=replace(claim, measure=None)), [undrawn]).from_invalid


def test_of_figures_one_of_invalid_runs_alone_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    valid = {"run_ids": ["a"], "doubtful": {}}
    mixed = {"run_ids": ["b", "c"], "doubtful": {"b": ["invalid", WHY]}}
    invalid = {"run_ids": [], "doubtful": {"b": ["invalid", WHY]}}
    assert told_of_figures([valid, mixed]) == told_of_figures([]) == 0 and told_of_figures([valid, invalid]) == 1
    assert f"invalid: {WHY} (b)" in capsys.readouterr().err


def test_what_is_not_valid_is_said_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert told({"a": VALID, "b": INVALID}) == 0
    assert capsys.readouterr().err == f"ratebed: invalid: {WHY} (b)\n"
    assert told({str(n): INVALID for n in range(LINES_MOST + 3)}) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == LINES_MOST + 1 and lines[-1] == "ratebed: and 3 more that are not valid"
    assert told({}) == 0 and not capsys.readouterr().err


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Runs that find themselves as valid as they are told to."""
    carried_out = harness_run.carried_out

    def made(campaign: Campaign, specs: Sequence[RunSpec], standings: Sequence[Standing]) -> list[str]:
        ids = campaign.add(specs)
        for run_id, spec, (validity, reasons) in zip(ids, specs, standings, strict=True):

            def doubtful(point: Any, validity: str = validity, reasons: tuple[str, ...] = reasons) -> Any:
                return elsewhere.doubtful(carried_out(point), *reasons, validity=validity)

            monkeypatch.setattr(harness_run, "carried_out", doubtful)
            harness_run.execute(spec, run_id, campaign.runs / run_id)
        return ids

    return made


def points(repetitions: int) -> list[RunSpec]:
    return ad_hoc("crdt-counter", "requests", "full-mesh", ["study.duration=2s"], repetitions, SEED)


@pytest.mark.slow
def test_points(tmp_path: Path, make: Make) -> None:
    (run_id,) = make(Campaign(tmp_path / "runs"), points(1), [INVALID])
    done = ratebed("run", *POINT, "--out", str(tmp_path))
    assert done.returncode == 1 and " invalid " in done.stdout
    assert f"ratebed: invalid: {WHY} ({run_id})" in done.stderr
    done = ratebed("run", *POINT, "--json", "--out", str(tmp_path))
    assert done.returncode == 1 and f"invalid: {WHY}" in done.stderr
    rows = json.loads(done.stdout)
    assert rows and all((row["validity"], row["validity_reasons"]) == ("invalid", [WHY]) for row in rows)


@pytest.mark.slow
def test_of_two_points_one_may_be_invalid(tmp_path: Path, make: Make) -> None:
    ids = make(Campaign(tmp_path / "runs"), points(2), [VALID, INVALID])
    done = ratebed("run", *POINT, "--repetitions", "2", "--json", "--out", str(tmp_path))
    assert done.returncode == 0 and f"invalid: {WHY} ({ids[1]})" in done.stderr
    assert {row["run_id"]: row["validity"] for row in json.loads(done.stdout)} == {ids[0]: "valid", ids[1]: "invalid"}


@pytest.mark.slow
def test_figures_their_report_and_claims(tmp_path: Path, make: Make) -> None:
    figure, words = "srtm-fig4", ("--scale", "tiny", "--out", str(tmp_path))
    plan = make_plan(make_request([figure], False, "tiny", SEED, 1, tmp_path, ()))
    specs = [plan.campaign.wanted[run_id] for run_id in plan.run_ids[figure]]
    ids = make(plan.campaign, specs, [INVALID] * len(specs))
    done = ratebed("run", figure, *words, "--json")
    summary = json.loads(done.stdout)
    assert done.returncode == 1 and f"{figure}: not drawn, all of its runs are invalid: {WHY}" in done.stderr
    assert summary["validity"][figure] == {i: {"validity": "invalid", "validity_reasons": [WHY]} for i in ids}
    assert WHY in (tmp_path / "report" / "index.html").read_text()
    done = ratebed("claims", "--out", str(tmp_path))
    assert done.returncode == 1 and f"ratebed: invalid: {WHY}" in done.stderr
    assert f"({figure}: all of its runs are invalid: {WHY})" in done.stdout

    done = ratebed("figures", figure, *words, "--plot-invalid")
    assert done.returncode == 1 and f"{figure}: {len(ids)} run" in done.stdout and WHY in done.stdout
    done = ratebed("claims", "--json", "--out", str(tmp_path))
    claims = {claim["validity"]: claim for claim in json.loads(done.stdout)}
    assert done.returncode == 1 and claims["invalid"]["validity_reasons"] == [WHY] and set(claims) == {"invalid", None}
    assert f"invalid: {WHY}" in (tmp_path / "report" / f"figure-{figure}.html").read_text()

    # Beside a figure of valid runs they are what they were.
    assert ratebed("figures", "srtm-fig9", *words).returncode == 0
    for given in ((), ("--json",)):
        done = ratebed("claims", *given, "--out", str(tmp_path))
        assert done.returncode == 1 and f"invalid: {WHY}" in done.stderr
    record = tmp_path / "record.json"
    assert ratebed("claims", "--record", str(record), "--out", str(tmp_path)).returncode == 1
    done = ratebed("claims", "--against", str(record), "--out", str(tmp_path))
    assert done.returncode == 1 and f"invalid: {WHY}" in done.stderr
    assert f"every verdict and number is as in {record} (" in done.stdout and "from invalid runs alone" in done.stdout
    kept = json.loads(record.read_text())
    for claim in kept["claims"]:
        claim["validity"] = claim["validity"] and "valid"
    record.write_text(json.dumps(kept))
    done = ratebed("claims", "--against", str(record), "--out", str(tmp_path))
    assert done.returncode == 1 and f"as then; runs valid then, invalid now: {WHY}" in done.stdout
    done = ratebed("report", "--out", str(tmp_path))
    assert done.returncode == 1 and "from invalid runs alone" in done.stdout and f"invalid: {WHY}" in done.stderr
    done = ratebed("report", "--json", "--out", str(tmp_path))
    summary = json.loads(done.stdout)
    assert done.returncode == 1 and {each["validity"] for each in summary["validity"][figure].values()} == {"invalid"}
    assert {"invalid", "valid"} <= {claim["validity"] for claim in summary["claims"]} and summary["damaged"] == []


@pytest.mark.slow
def test_what_is_drawn_of_invalid_runs_is_in_every_table(tmp_path: Path, make: Make) -> None:
    figure = "srtm-adaptor"
    plan = make_plan(make_request([figure], False, "tiny", SEED, 1, tmp_path, ()))
    specs = [plan.campaign.wanted[run_id] for run_id in plan.run_ids[figure]]
    make(plan.campaign, specs, [INVALID] * len(specs))
    ratebed("figures", figure, "--scale", "tiny", "--out", str(tmp_path), "--plot-invalid")
    tables = tables_of(tmp_path, figure)
    drawn = {name: set(zip(table.share, table.enabled, strict=True)) for name, table in tables.items()}
    assert drawn["p99"] == drawn["phases"] == drawn["rates"] and drawn["p99"]


@pytest.mark.slow
def test_pairs(tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TESTBEDS, "elsewhere", "tests.ratebed.elsewhere:ELSEWHERE")
    make(Campaign(tmp_path / "runs"), [small(testbed=where) for where in ("virtual", "elsewhere")], [VALID, INVALID])
    done = ratebed("compare", "--out", str(tmp_path), "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1 and f"invalid: {WHY}" in done.stderr
    assert told["pairs"] == told["latencies"] == [] and told["left_out"][0]["validity_reasons"] == [WHY]
    done = ratebed("compare", "--out", str(tmp_path), "--json", "--plot-invalid")
    told = json.loads(done.stdout)
    assert done.returncode == 1 and told["pairs"][0]["validity"] == "invalid"
    assert {row["validity"] for row in told["latencies"]} == {"invalid"}
    assert "(1 pair, invalid)" in ratebed("compare", "--out", str(tmp_path), "--plot-invalid").stdout


@pytest.mark.parametrize("standings", [(VALID, INVALID), (INVALID, VALID)])
def test_what_is_compared_with_invalid_runs_alone_is_not_called_equal(
    tmp_path: Path, make: Make, capsys: pytest.CaptureFixture[str], standings: Sequence[Standing]
) -> None:
    folders = [tmp_path / name for name in ("one", "other")]
    for folder, standing in zip(folders, standings, strict=True):
        make(Campaign(folder / "runs"), [small()], [standing])
    words = ["diff", *map(str, folders)]
    assert app(words, standalone_mode=False) == 1
    printed = capsys.readouterr()
    assert "nothing is compared" in printed.out and "0 differences" not in printed.out
    assert f"invalid: {WHY}" in printed.err
    assert app([*words, "--json"], standalone_mode=False) == 1
    found = json.loads(capsys.readouterr().out)
    assert {"validity": "invalid", "validity_reasons": [WHY]} in found["standings"].values()
    assert found["is_void"] and not found["differs"]


@pytest.mark.parametrize(("standing", "code"), [(VALID, 0), (Standing("degraded", ("hot",)), 0), (INVALID, 1)])
def test_one_run(tmp_path: Path, make: Make, standing: Standing, code: int) -> None:
    (run_id,) = make(Campaign(tmp_path / "runs"), points(1), [standing])
    done = ratebed("show", run_id, "--out", str(tmp_path))
    assert done.returncode == code and f"  validity: {standing.validity}" in done.stdout
    assert ("ratebed: " in done.stderr) is (standing != VALID)
    done = ratebed("show", run_id, "--json", "--out", str(tmp_path))
    assert done.returncode == code and json.loads(done.stdout)["manifest"]["validity"] == standing.validity


@pytest.mark.parametrize(("standing", "code"), [(VALID, 0), (INVALID, 1)])
def test_a_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], standing: Standing, code: int
) -> None:
    measured = Measures(100, 200, 30, 40, 2, 5_000, 25_000_000, 1, 2, 3, 4, 5)
    found = replace(measured, validity=standing.validity, validity_reasons=standing.reasons)
    monkeypatch.setattr("studies.distribution.calibrate.measure", lambda *words, **more: found)
    monkeypatch.setattr("testbed.hosts.lock.machine_lock", nullcontext)
    file = tmp_path / "mine.toml"
    assert app(["calibrate", str(file), "--json"], standalone_mode=False) == code
    printed = capsys.readouterr()
    assert json.loads(printed.out)["validity"] == standing.validity
    assert file.exists() is (code == 0) and (f"invalid: {WHY}" in printed.err) is (code == 1)
    assert code or "The trials were valid." in file.read_text()


def test_a_calibration_is_written_whole_and_its_place_is_tried_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[object] = []

    def measure(*words: object, **more: object) -> Measures:
        measured.append(words)
        return Measures(100, 200, 30, 40, 2, 5_000, 25_000_000, 1, 2, 3, 4, 5)

    def fails(*words: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr("studies.distribution.calibrate.measure", measure)
    monkeypatch.setattr("testbed.hosts.lock.machine_lock", nullcontext)
    (tmp_path / "folder.toml").mkdir()
    for place in (tmp_path / "nowhere" / "mine.toml", tmp_path / "folder.toml"):
        done = ratebed("calibrate", str(place))
        assert done.returncode == 1 and "it cannot be written there" in done.stderr and not measured
    file = tmp_path / "mine.toml"
    file.write_text("of before")
    monkeypatch.setattr(Path, "replace", fails)
    done = ratebed("calibrate", str(file))
    assert done.returncode == 1 and "no space left" in done.stderr and measured
    assert file.read_text() == "of before" and {path.name for path in tmp_path.iterdir()} == {file.name, "folder.toml"}
