"""Results of record: kept whole, compared with, and complete."""

import hashlib
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.verdicts import Check, Claim, Evidence, Judgement, Result, judge
from collectors.integrity import Damage, forget
from collectors.writer import write_run
from core.errors import SpecError
from core.records import Json
from harness.code_version import commit
from paper_figs import all_claims
from ratebed.behind import made_by
from ratebed.judging import counts_line, readings_of
from ratebed.record import differences, read_record, write_record
from ratebed.reporting import _code_note
from ratebed.verbs.claims import _judged_here, _keep
from tests.command import ratebed
from tests.runs import write_small_run

ROOT = Path(__file__).parents[2]
DRAWN = {"scale": "quick", "seed": 7, "testbed": "virtual", "skipped": ""}
SECTIONS = [DRAWN, DRAWN, {**DRAWN, "testbed": "mininet", "skipped": "ask for it"}]
MADE = {"machine": "two cores", "commit": "abc", "date": "2001-02-03"}


def result(claim_id: str = "R4", at: float = 1.0) -> Result:
    checks = Evidence((Check("p99", (at,) * 5, 0.0, 2.0),))
    return judge(Claim(claim_id, "Fig. 4", "It is at most 2 ms.", ("srtm-fig4",), lambda tables: checks), {})


def verdict_counts(record: Json) -> Counter[str]:
    return Counter(claim["verdict"] for claim in record["claims"])


def kept(path: Path, *results: Result) -> Path:
    write_record(path, results, SECTIONS, MADE, path.parent)
    return path


def test_a_record_says_what_it_was_made_of(tmp_path: Path) -> None:
    record = read_record(kept(tmp_path / "results" / "a.json", result()))
    assert record["made"] == {**MADE, "scale": ["quick"], "seed": ["7"], "testbed": ["virtual"]}
    assert verdict_counts(record) == {"reproduced": 1} and len(record["claims"][0]["measured"]) == 1


def test_claims_of_other_figures_stay_when_some_are_added(tmp_path: Path) -> None:
    path = kept(tmp_path / "a.json", result("R10"), result("R4"), result("R5"))
    write_record(
        path, [result("R5", 5.0), result("D2")], SECTIONS, {**MADE, "commit": "def"}, tmp_path, read_record(path)
    )
    record = read_record(path)
    assert [claim["id"] for claim in record["claims"]] == ["D2", "R4", "R5", "R10"]
    assert verdict_counts(record) == {"reproduced": 3, "contradicted": 1}
    assert record["made"] == {**MADE, "commit": "abc, def", "scale": ["quick"], "seed": ["7"], "testbed": ["virtual"]}


def test_live_runs_are_known_by_the_hashes_of_their_manifests(tmp_path: Path) -> None:
    live = {**DRAWN, "name": "crdt-wan", "testbed": "mininet", "run_ids": ["a1", "b2", "gone"]}
    other = {**live, "name": "redis-wan", "run_ids": ["c3"]}
    for run_id in ("a1", "b2", "c3"):
        write_run(tmp_path / run_id, {}, {"run_id": run_id})
    path = tmp_path / "live.json"
    write_record(path, [result("W1")], [live], MADE, tmp_path)
    write_record(path, [result("W4")], [other, DRAWN], MADE, tmp_path, read_record(path))
    files = {run_id: tmp_path / run_id / "manifest.json" for run_id in ("a1", "b2", "c3")}
    hashes = {run_id: hashlib.sha256(file.read_bytes()).hexdigest() for run_id, file in files.items()}
    assert read_record(path)["runs"] == {
        "crdt-wan": {run_id: hashes[run_id] for run_id in ("a1", "b2")},
        "redis-wan": {"c3": hashes["c3"]},
    }
    assert "runs" not in read_record(kept(tmp_path / "virtual.json", result()))
    shutil.copy(files["b2"], files["a1"])
    forget()
    with pytest.raises(Damage, match="that of run b2"):
        write_record(path, [result("W1")], [live], MADE, tmp_path)


def test_which_code_made_the_numbers(tmp_path: Path) -> None:
    noted = {**DRAWN, "commits": ["def", "abc"], "run_ids": ["gone"]}
    there = [write_small_run(tmp_path, seed, commit="012").name for seed in (1, 2)]
    older = {**DRAWN, "run_ids": [*there, "gone"]}  # from before commits were noted
    assert made_by([noted], tmp_path) == ["abc", "def"]
    assert made_by([noted, older], tmp_path) == ["012", "abc", "def", "unknown"]
    assert made_by([{**older, "skipped": "ask for it"}], tmp_path) == []
    (note,) = _code_note(["012", "abc"], "abc")
    assert note == "Runs and tables were made by the code of 012, abc; that of abc judged them."
    assert _code_note(["abc"], "abc") == () == _code_note([], "abc")


def test_a_record_names_the_code_behind_what_was_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = {**DRAWN, "setting": "", "run_ids": ["a1"]}
    behind = {"key": "srtm-fig4", "name": "srtm-fig4", "commits": ["abc"]}
    beside = {"key": "srtm-fig5", "name": "srtm-fig5", "commits": ["def"]}
    monkeypatch.setattr("ratebed.pipeline.sections", lambda out: {"a": section | behind, "b": section | beside})
    path = tmp_path / "a.json"
    _keep(str(path), [result("R4")], tmp_path, adds=False)
    made = read_record(path)["made"]
    assert (made["commit"], made["made_by"]) == (commit(), ["abc"])
    assert f"made by the code of abc; judged by that of {commit()}" in capsys.readouterr().err
    behind["commits"] = [commit()]
    _keep(str(path), [result("R4")], tmp_path, adds=True)
    assert read_record(path)["made"]["made_by"] == sorted(["abc", commit()]) and not capsys.readouterr().err


def test_of_runs_that_are_not_as_they_were_written_nobody_says_who_made_them(tmp_path: Path) -> None:
    one, other = (write_small_run(tmp_path, seed, commit=name) for seed, name in ((1, "012"), (2, "345")))
    shutil.copy(other / "manifest.json", one)
    forget()
    older = {**DRAWN, "run_ids": [one.name, other.name]}
    assert made_by([older], tmp_path) == ["345", "unknown"]


def test_of_a_record_from_before_it_is_not_known_which_code_made_it(tmp_path: Path) -> None:
    path = kept(tmp_path / "a.json", result("R4"))
    for name in ("def", "abc"):
        write_record(path, [result("R5")], SECTIONS, {**MADE, "made_by": [name]}, tmp_path, read_record(path))
    assert read_record(path)["made"]["made_by"] == ["abc", "def", "unknown"]


def test_only_what_was_judged_here_is_added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = [("srtm-fig4", "", ""), ("srtm-fig5", "", "ask for it"), ("srtm-fig6", "@mininet", "")]
    found = {key + at: {"key": key, "setting": at, "skipped": skipped} for key, at, skipped in made}
    monkeypatch.setattr("ratebed.pipeline.sections", lambda out: found)
    both = replace(result("R5").claim, figures=("srtm-fig4", "srtm-fig5"))
    elsewhere = replace(result("R6").claim, figures=("srtm-fig5",))
    nowhere = replace(result("R7").claim, figures=())
    emulated = replace(result("R9").claim, figures=("srtm-fig6",), testbed="mininet")
    modelled = replace(result("R9").claim, figures=("srtm-fig6",))
    own = replace(result("W1").claim, testbed="mininet")  # the testbed of its figure's own runs
    others = [replace(result(), claim=claim) for claim in (both, elsewhere, nowhere, emulated, modelled, own)]
    not_run = replace(result("R8"), judgement=Judgement.NOT_RUN)
    here = _judged_here([result("R4"), *others, not_run], tmp_path)
    assert [(each.claim.id, each.claim.testbed) for each in here] == [
        ("R4", "virtual"),
        ("R9", "mininet"),
        ("W1", "mininet"),
    ]


def test_what_differs_is_named_claim_by_claim(tmp_path: Path) -> None:
    record = read_record(kept(tmp_path / "a.json", result("R4"), result("R5"), result("R6"), result("R10")))
    assert differences(record, [result("R4"), result("R5"), result("R6", 1.0 + 1e-12), result("R10")]) == []
    assert differences(record, [result("R4"), result("R5", 5.0), result("R6", 1.25), result("R11")]) == [
        "R5 (virtual): reproduced then, contradicted now",
        "R6 (virtual): reproduced as then; other numbers: p99 1, now 1.25",
        "R10 (virtual): only in the record",
        "R11 (virtual): not in the record",
    ]
    unmeasured = replace(result("R4"), evidence=None, judgement=Judgement.UNDECIDED)
    assert differences(record, [unmeasured, result("R5"), result("R6"), result("R10")]) == [
        "R4 (virtual): reproduced then, undecided now"
    ]


def test_validity_that_is_another_is_named_and_is_no_other_verdict(tmp_path: Path) -> None:
    record = read_record(kept(tmp_path / "a.json", replace(result("R4"), validity="valid"), result("R5")))
    doubtful = replace(result("R4"), validity="invalid", validity_reasons=("a node was lost",))
    (line,) = differences(record, [doubtful, result("R5")])
    assert line == "R4 (virtual): reproduced as then; runs valid then, invalid now: a node was lost"
    moved = replace(result("R4", 5.0), validity="degraded", validity_reasons=("hot",))
    (line,) = differences(record, [moved, result("R5")])
    assert line == "R4 (virtual): reproduced then, contradicted now; runs valid then, degraded now: hot"
    del record["claims"][0]["validity"]  # as of old
    assert differences(record, [doubtful, result("R5")]) == []


def test_checks_of_one_label_are_paired_in_their_order(tmp_path: Path) -> None:
    checks = Evidence(tuple(Check("rise", (at,) * 5, 0.0) for at in (1.0, 2.0, 1e-16)))
    several = judge(replace(result().claim, measure=lambda tables: checks), {})
    record = read_record(kept(tmp_path / "a.json", several))
    assert differences(record, [several]) == []
    fewer = replace(several, evidence=Evidence(checks.exact[1:]))
    assert differences(record, [fewer])[0].endswith("rise 1, now 2; rise 2, now 1e-16; rise is gone")
    wider = replace(several, evidence=Evidence((replace(checks.exact[0], low=-1.0), *checks.exact[1:])))
    assert differences(record, [wider])[0].endswith("rise wanted in [0, none, none], now in [-1, none, none]")


_OF = json.dumps({**MADE, "scale": [], "seed": [], "testbed": []})
_CHECK = '{"kind": "value", "label": "a", "mean": 1}'
_CLAIM = '{{"id": "{}", "testbed": "virtual", "verdict": "reproduced", "measured": [{}]}}'


def test_a_record_of_the_least_is_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(f'{{"made": {_OF}, "claims": [{_CLAIM.format("R4", _CHECK)}]}}')
    assert len(differences(read_record(path), [result()])) == 1


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", '{"made": {}}', "\xff", "[" * 100_000, '{"made": {}, "claims": [{}]}'),
        *(f'{{"made": {_OF}, "claims": {claims}}}' for claims in ("3", "{}", "[{}]", "[3]")),
        f'{{"made": [], "claims": [{_CLAIM.format("R4", _CHECK)}]}}',
        f'{{"made": {_OF}, "claims": [{_CLAIM.format("R4", "{}")}]}}',
        f'{{"made": {_OF}, "claims": [{_CLAIM.format("R" + "1" * 5_000, _CHECK)}]}}',
        *(f'{{"made": {_OF}, "claims": [], "{key}": {{"a": 3}}}}' for key in ("runs", "figures")),
    ],
)
def test_what_is_no_record_is_refused_in_a_line(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(SpecError, match=r"a\.json"):
        read_record(path)


def test_every_claim_is_in_the_record() -> None:
    names = {claim.id for claim in all_claims()}
    for scale in ("quick", "paper"):
        path = ROOT / "results" / f"claims-{scale}.json"
        record = read_record(path)
        assert {claim["id"] for claim in record["claims"]} == names, (
            f"make reference: {path.name} is older than the claims"
        )
        assert record["made"].keys() - {"made_by"} == {*MADE, "scale", "seed", "testbed"}


def test_what_takes_real_processes_is_judged_in_the_live_record() -> None:
    record = read_record(ROOT / "results" / "claims-live.json")
    judged = {claim["id"] for claim in record["claims"] if claim["verdict"] != Judgement.NOT_RUN.value}
    assert {claim.id for claim in all_claims() if claim.needs} <= judged, "make reference-live"
    assert set(record["made"]["testbed"]) >= {"mininet"}


def test_what_is_contradicted_was_judged_under_every_reading() -> None:
    """S20b has none: a formula, and a graph for which it is false.  K2, F2, F13 are ours: no source to read."""
    claims = {claim.id: claim for claim in all_claims()}
    for found in read_record(ROOT / "results" / "claims-quick.json")["claims"]:
        if found["verdict"] != Judgement.CONTRADICTED.value:
            continue
        wanted = {
            (reading.name, str(value))
            for reading in readings_of(claims[found["id"]])
            for value in reading.values
            if value != reading.default
        }
        tried = {(name, str(value)) for cell in found["tried"] for name, value in cell["readings"].items()}
        assert wanted <= tried, f"{found['id']}: make readings, for {wanted - tried}"
        assert wanted or found["id"] in ("S20b", "K2", "F2", "F13")


@pytest.mark.parametrize("scale", ["quick", "paper", "live"])
def test_the_readme_shows_the_record_s_count(scale: str) -> None:
    counted = verdict_counts(read_record(ROOT / "results" / f"claims-{scale}.json"))
    text = ", ".join(f"{counted[each.value]} {each.value}" for each in Judgement if each.value in counted)
    assert text in " ".join((ROOT / "README.md").read_text().split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--record", "new.json", "--against", "old.json"), "--record and --against; give one of them"),
        (("--json", "--record", "new.json"), "--record and --json"),
        (("--json", "--against", "old.json"), "--against and --json"),
        (("--add",), "--add belongs to --record"),
    ],
)
def test_what_would_be_passed_over_is_refused(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = ratebed("claims", *words, "--out", str(tmp_path))
    assert done.returncode == 2 and said in done.stderr


def test_counts_are_said_in_the_same_words() -> None:
    assert counts_line([result(), result("R5", 5.0)]) == "1 reproduced, 1 contradicted"
    hot, lost = replace(result(), validity="degraded"), replace(result(), validity="invalid")
    several = [hot, hot, lost, replace(lost, from_invalid=True), result()]
    doubts = "1 from invalid runs alone, 2 with degraded runs, 1 with invalid runs"
    assert counts_line(several) == f"5 reproduced ({doubts})"
