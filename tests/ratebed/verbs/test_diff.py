"""``ratebed diff``: two folders, an option, a system at two versions, two commits."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from collectors.integrity import read_manifest
from core.digests import sealed
from harness.code_version import id_of
from harness.run import chosen_environment, execute
from ratebed.pairing import RunPair, Side, paired
from ratebed.reasons import reasons
from tests.command import process, ratebed
from tests.harness.common import small
from tests.tidy import ROOT


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Two figures, one of them with SRTM."""
    out = tmp_path_factory.mktemp("diff") / "plain"
    done = ratebed("run", "srtm-fig9", "dst-table4", "--scale", "tiny", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return out


def diffed(*words: str) -> tuple[int, dict]:
    done = ratebed("diff", *words, "--json")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_the_same_code_twice_has_no_difference(plain, tmp_path):
    again = tmp_path / "again"
    done = ratebed("run", "srtm-fig9", "dst-table4", "--scale", "tiny", "--out", str(again))
    assert done.returncode == 0, done.stderr
    code, found = diffed(str(plain), str(again))
    assert code == 0 and not found["differs"]
    assert found["pair_count"] == found["same_count"] == 16
    assert found["reasons"] == found["differences"] == found["claims"] == []
    assert found["figures"] == found["only_figures"] == {}


def test_runs_that_failed_on_one_side_are_a_difference(plain, tmp_path):
    other = shutil.copytree(plain, tmp_path / "other")
    file = other / "tables" / "srtm-fig9" / "section.json"
    section = json.loads(file.read_text())
    lost, *rest = section["run_ids"]
    shutil.rmtree(other / "runs" / lost)
    file.write_text(json.dumps(sealed({**section, "run_ids": rest, "failed": {lost: "ZeroDivisionError"}})))
    code, found = diffed(str(plain), str(other))
    assert code == 1 and found["differs"] and found["failing_figures"] == {"srtm-fig9": str(other)}
    assert found["only_one"] == [lost] and found["differences"] == []
    text = ratebed("diff", str(plain), str(other)).stdout
    assert f"changed figure: srtm-fig9, of which runs failed in {other} alone" in text
    assert "0 differences" not in text and "runs that failed on one side alone" in text


def test_a_commit_whose_runs_failed_is_no_success(plain, monkeypatch):
    for has_failed in (True, False):
        monkeypatch.setattr("ratebed.at_commit.results_at", lambda *_, failed=has_failed: (plain, failed))
        done = ratebed("diff", str(plain), "HEAD", "srtm-fig9", "--scale", "tiny")
        assert done.returncode == has_failed, done.stderr
        assert ("at HEAD something failed" in done.stderr) is has_failed
        _, found = diffed(str(plain), "HEAD", "srtm-fig9", "--scale", "tiny")
        assert found["failed_commits"] == ["HEAD"] * has_failed and not found["is_void"]


def test_of_two_folders_some_figures_can_be_compared(plain, tmp_path):
    other = shutil.copytree(plain, tmp_path / "other")
    code, found = diffed(str(plain), str(other), "dst-table4")  # which has no runs
    assert code == found["pair_count"] == 0
    shutil.rmtree(other / "tables" / "dst-table4")
    code, found = diffed(str(plain), str(other), "srtm-fig9")
    assert code == 0 and found["pair_count"] == 16 and not found["only_one"] and not found["only_figures"]
    done = ratebed("diff", str(plain), str(other), "dst-table4")
    assert done.returncode == 2 and "no results of dst-table4" in done.stderr
    # What is of one side alone is never passed over by the answer.
    text = ratebed("diff", str(plain), str(other)).stdout
    assert "0 differences in 16 pairs of runs, and 1 figure of one side alone" in text
    # Nothing is made of folders: what says how would be passed over.
    done = ratebed("diff", str(plain), str(other), "--scale", "tiny")
    assert done.returncode == 2 and "both sides are folders" in done.stderr


@pytest.mark.night
@pytest.mark.long
def test_an_option_is_named_and_only_figures_that_have_it_differ(plain, tmp_path):
    other = tmp_path / "other"
    words = ["run", "srtm-fig9", "dst-table4", "--scale", "tiny", "--set", "system.band=0.5", "--out", str(other)]
    done = ratebed(*words)
    assert done.returncode == 0, done.stderr
    name = "srtm-fig9~system.band=0.5"
    assert sorted(path.stem for path in (other / "figures").glob("*.svg")) == ["dst-table4", name]
    assert "system.band 0.5" in (other / "figures" / f"{name}.svg").read_text()
    _, found = diffed(str(plain), str(other))
    (reason,) = found["reasons"]
    assert (reason["kind"], reason["what"], reason["systems"]) == ("option", "system.band", ["srtm"])
    assert (reason["one"], reason["other"]) == (["0.8 (default)"], ["0.5"])
    assert set(found["figures"]) == {"srtm-fig9"} and found["pair_count"] == 16
    assert {each["system"] for each in found["differences"]} == {"srtm"}
    text = ratebed("diff", str(plain), str(other)).stdout
    assert "option system.band: 0.8 (default) -> 0.5" in text and "changed figure: srtm-fig9" in text
    page = (other / "report" / "diff.html").read_text()
    assert all(word in page for word in ("system.band", "0.8 (default)", "search rounds", "srtm-fig9"))


@pytest.mark.night
@pytest.mark.long
def test_a_claim_of_record_is_not_judged_from_a_figure_with_an_option_set(plain, tmp_path):
    out = shutil.copytree(plain, tmp_path / "both")
    before = ratebed("claims", "--json", "--out", str(out)).stdout
    done = ratebed("run", "srtm-fig9", "--scale", "tiny", "--set", "slo=9ms", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert ratebed("claims", "--json", "--out", str(out)).stdout == before
    code, found = diffed(str(out), str(plain))
    assert code == 0 and found["only_figures"] == {"srtm-fig9~slo=9ms": str(out)}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("system.bandd=0.5", "did you mean 'system.band'"),
        ("system.band=wide", "band"),
        ("colour=red", "AXIS.KEY=VALUE"),
        ("workload.=3", "AXIS.KEY=VALUE"),
    ],
)
def test_an_option_that_no_point_has_is_refused(word, said, tmp_path):
    done = ratebed("plan", "srtm-fig9", "--scale", "tiny", "--set", word, "--out", str(tmp_path))
    assert done.returncode == 2 and said in done.stderr


def test_what_a_figure_itself_compares_cannot_be_set(tmp_path):
    done = ratebed("plan", "srtm-fig7", "--set", "workload.group_size=4", "--out", str(tmp_path))
    assert done.returncode == 2 and "srtm-fig7 itself compares values" in done.stderr


@pytest.mark.night
@pytest.mark.long
def test_a_system_at_two_versions_is_told_from_its_file(tmp_path):
    """The same file, edited: the input is named; its copy that does the same has no difference."""
    own, twin = tmp_path / "mine.py", tmp_path / "twin.py"
    text = (ROOT / "docs" / "examples" / "weighted.py").read_text()
    own.write_text(text)
    twin.write_text(text + "\n# another version, of the same behaviour\n")
    point = ["--workload", "poisson", "--set", "round=6s", "--repetitions", "2"]
    outs = [str(tmp_path / name) for name in ("one", "two", "three")]
    assert process("run", "--system", f"{own}:SYSTEM", *point, "--out", outs[0]).returncode == 0
    assert process("run", "--system", f"{twin}:SYSTEM", *point, "--out", outs[1]).returncode == 0
    code, found = diffed(outs[0], outs[1])
    assert code == 0 and found["same_count"] == found["pair_count"] == 2
    assert {(reason["kind"], reason["what"]) for reason in found["reasons"]} >= {("option", "system")}
    done = process("diff", outs[0], outs[1], "--systems", f"{own}:SYSTEM={twin}:SYSTEM", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["pair_count"] == 2


@pytest.mark.slow
@pytest.mark.long
def test_points_of_one_repetition_with_other_seeds_are_one_draw_and_every_table_that_differs_is_named(tmp_path):
    for name, seed in {"one": 11, "other": 12}.items():
        for publishers in (200, 300):
            spec = small(seed=seed, workload_options={"publishers": publishers}, keep=("messages",))
            execute(spec, id_of(spec), tmp_path / name / "runs" / id_of(spec))
    code, told = diffed(str(tmp_path / "one"), str(tmp_path / "other"))
    assert code == 0 and told["pair_count"] == 2 and told["differences"]
    for row in told["differences"]:
        assert (row["pair_count"], row["draw_count"], row["p_holm"], row["difference_low"]) == (2, 1, 1.0, None)
    assert told["unmeasured_tables"] == {"messages.parquet": 2}
    text = ratebed("diff", str(tmp_path / "one"), str(tmp_path / "other")).stdout
    assert "all points of a repetition have one draw of the load" in text and "too few to tell" in text
    assert "nothing is compared of what differs in 1 table" in text


def test_folders_without_anything_in_common_are_refused(plain, tmp_path):
    (tmp_path / "empty").mkdir()
    done = ratebed("diff", str(plain), str(tmp_path / "empty"))
    assert done.returncode == 2 and "no results" in done.stderr
    done = ratebed("diff", str(plain), str(tmp_path / "nowhere"))
    assert done.returncode == 2 and "no folder of results and no commit" in done.stderr
    done = ratebed("diff", str(plain), "HEAD")
    assert done.returncode == 2 and "no figures" in done.stderr


@pytest.mark.long
def test_two_commits_that_differ_in_one_system_are_told_by_its_name(tmp_path):
    copy, out = tmp_path / "copy", tmp_path / "out"

    def git(*words: str) -> None:
        who = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *words], cwd=copy, check=True, capture_output=True)

    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(copy)], check=True)
    file = copy / "systems" / "distribution" / "srtm.py"
    changed = file.read_text().replace("band: float = 0.8", "band: float = 0.5")
    assert changed != file.read_text()
    file.write_text(changed)
    git("commit", "-qam", "a narrower band")
    words = ["diff", "HEAD~1", "HEAD", "srtm-fig9", "dst-table4", "--scale", "tiny", "--out", str(out), "--json"]
    done = process(*words, cwd=copy)
    found = json.loads(done.stdout)
    named = {(reason["kind"], reason["what"]): reason["systems"] for reason in found["reasons"]}
    assert named == {("code", "systems/distribution/srtm.py"): ["srtm"]}
    assert set(found["figures"]) == {"srtm-fig9"} and {each["system"] for each in found["differences"]} == {"srtm"}
    assert len(list((out / "commits").iterdir())) == 2, "results, and no checkout"


# --- pairing, by itself ---------------------------------------------------------------------------


def _side(name: str, *specs: dict) -> Side:
    whole = {"system": "a", "workload": "w", "seed": 1, "repetition": 0, "testbed": "virtual"}
    manifests = {f"{name}{number}": {"spec": {**whole, **spec}} for number, spec in enumerate(specs)}
    return Side(name, Path(name), manifests, {}, {})


def test_runs_are_paired_by_their_spec_then_by_the_fewest_options():
    one = _side("x", {}, {"system": "b", "system_options": {"k": 1}}, {"workload": "only here", "repetition": 7})
    other = _side("y", {"system": "b", "system_options": {"k": 2}}, {}, {"system": "c", "seed": 5, "round": "9s"})
    found = paired(one, other, {})
    assert {pair[:2]: pair.apart for pair in found.pairs if pair.one != "x2"} == {
        ("x0", "y1"): (),
        ("x1", "y0"): ("system.k",),
    }


def test_an_axis_that_both_sweep_is_no_difference():
    one = _side("x", *({"workload_options": {"n": n}} for n in (1, 2, 3)))
    other = _side("y", *({"workload_options": {"n": n}, "seed": 2} for n in (1, 2, 3, 4)))
    found = paired(one, other, {})
    assert [(pair.one, pair.other, pair.apart) for pair in found.pairs] == [
        (f"x{number}", f"y{number}", ("seed",)) for number in range(3)
    ]
    assert found.only_other == ["y3"]


def test_a_renamed_system_stands_for_the_other():
    one = _side("x", {"system": "old"}, {"system": "new"}, {})
    other = _side("y", {"system": "old"}, {"system": "new"}, {})
    found = paired(one, other, {"old": "new"})
    assert {pair[:2] for pair in found.pairs} == {("x0", "y1"), ("x2", "y2")}


def test_what_was_chosen_by_environment_variables_is_kept_shown_and_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests, its = {}, id_of(small())
    for name, chosen in {"plain": "1", "two": "2"}.items():
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", chosen)
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
        folder = tmp_path / name / "runs" / its
        execute(small(), its, folder)
        manifests[name] = read_manifest(folder)
    monkeypatch.undo()
    assert "OPENBLAS_NUM_THREADS" not in manifests["plain"]["environment"]
    assert manifests["two"]["environment"]["OPENBLAS_NUM_THREADS"] == "2"
    assert "NUMBA_CACHE_DIR" not in manifests["two"]["environment"]
    sides = [Side(name, tmp_path / name, {its: manifest}, {}, {}) for name, manifest in manifests.items()]
    (reason,) = reasons(*sides, [RunPair(its, its)])
    assert (reason.kind, reason.what) == ("environment", "OPENBLAS_NUM_THREADS")
    assert (reason.one, reason.other) == ({"none"}, {"2"})
    assert "with OPENBLAS_NUM_THREADS=2" in ratebed("show", its, "--out", str(tmp_path / "two")).stdout


@pytest.mark.parametrize("name", ["NUMBA_DISABLE_JIT", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONHASHSEED"])
def test_variables_that_may_move_results_are_noted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name, raising=False)
    before = chosen_environment()
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    assert chosen_environment() == {**before, name: "1"}


def test_what_spark_sets_on_its_workers_nobody_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONHASHSEED", "OMP_NUM_THREADS", "GOGC"):
        monkeypatch.delenv(name, raising=False)
    before = chosen_environment()
    set_there = {"SPARK_PYTHON_RUNTIME": "PYTHON_WORKER", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "4", "GOGC": "50"}
    for name, value in {**set_there, "OMPI_COMM_WORLD_RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    assert chosen_environment() == {**before, "GOGC": "50"}, "nor what mpirun says"
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert chosen_environment() == {**before, "GOGC": "50", "PYTHONHASHSEED": "7"}, "the driver's own comes along"
