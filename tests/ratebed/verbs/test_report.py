"""``ratebed report``: the report anew over what is there, what changed since, curves that a user digitised."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from analysis.report import Digitised
from analysis.report.live import usage_over_time
from collectors.integrity import Damage, check_run, forget
from collectors.partials import PARTIAL, own_mark
from collectors.schema import SCHEMA_VERSION
from collectors.writer import DAMAGED
from core.digests import sealed
from core.errors import MachineError, SpecError
from core.records import Json
from ratebed import digitised
from ratebed.behind import RUNS_LISTED, runs_of
from ratebed.comparing import found_pairs
from ratebed.options import make_request
from ratebed.pairing import side_of
from ratebed.pipeline import SECTION, section_of, sections
from ratebed.produce import produce_figures
from ratebed.results import load
from ratebed.studio import Studio, _written
from ratebed.verbs.clean import _uselessness, clean
from ratebed.verbs.store import store
from ratebed.verbs.verify import verify
from tests import command
from tests.runs import SPEC, write_small_run

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
KEY = "dst-table4"  # analytic: without a run


def ratebed(*words: str) -> tuple[int, str]:
    """The exit code of a command, and what it says of an error."""
    done = command.ratebed(*words)
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """An out folder with one figure."""
    out = tmp_path_factory.mktemp("made")
    assert ratebed("run", KEY, "--scale", "tiny", "--out", str(out))[0] == 0
    return out


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "out"))


def test_tables_that_the_paper_prints_are_tables_in_the_page(out: Path) -> None:
    page = (out / "report" / f"figure-{KEY}.html").read_text()
    assert (
        '<table class="sheet">' in page
        and "<caption>Table 4: overall performance, γ = 0.02, Cov(v) = I</caption>" in page
    )
    assert "Φ_cr" in page and "published" in page


def test_nothing_changed_and_then_something_did(out: Path, tmp_path: Path) -> None:
    before = Path(shutil.copytree(out / "report", tmp_path / "before"))
    assert ratebed("report", "--out", str(out), "--since", str(before))[0] == 0
    index = out / "report" / "index.html"
    assert "Nothing: every verdict, number and table is as it was." in index.read_text()

    record = json.loads((before / "report.json").read_text())
    assert record["made"]["made_by"] == [record["made"]["commit"]]
    claim = next(each for each in record["claims"] if each["verdict"] == "reproduced")
    claim["verdict"] = "contradicted"
    record["figures"][KEY]["measures"] = "another"
    (before / "report.json").write_text(json.dumps(record))
    assert ratebed("report", "--out", str(out), "--since", str(before / "report.json"))[0] == 0
    page = index.read_text()
    assert f"{claim['id']} (virtual): contradicted then, reproduced now" in page
    assert f"{KEY}: other numbers in measures" in page
    code, said = ratebed("report", "--out", str(out), "--since", str(tmp_path / "nowhere"))
    assert code == 2 and "nowhere" in said and index.read_text() == page, "the report that is there stays"


def test_a_drawing_that_is_another_s_is_named_left_out_and_drawn_anew(out: Path) -> None:
    svg, png = (out / "figures" / f"{KEY}.{suffix}" for suffix in ("svg", "png"))
    before = svg.read_bytes()
    svg.write_bytes(before.replace(b"</svg>", b"<text>of another figure</text></svg>"))
    png.unlink()
    words = ("report", "--out", str(out))
    done = command.ratebed(*words)
    said = f"figures/{KEY}.svg is gone, or not as it was written: `ratebed run {KEY} "
    assert done.returncode == 1 and f"damaged, left out: {said}" in done.stdout
    page = (out / "report" / f"figure-{KEY}.html").read_text()
    assert "of another figure" not in page and f"figures/{KEY}.svg is gone, or not as it was written" in page
    assert "phi_ss" in page and not (out / "report" / "drawings" / f"{KEY}.svg").exists(), "its numbers stay"
    (told,) = json.loads(command.ratebed(*words, "--json").stdout)["damaged"]
    assert told.startswith(said)
    done = command.ratebed("verify", "--json", "--out", str(out))
    damaged = json.loads(done.stdout)["damaged"]
    assert done.returncode == 1 and sorted(damaged) == [str(png), str(svg)]
    assert ratebed("figures", KEY, "--scale", "tiny", "--out", str(out))[0] == 0
    assert svg.read_bytes() == before and ratebed("verify", "--out", str(out))[0] == ratebed(*words)[0] == 0


def test_tables_whose_section_is_gone_are_named(out: Path) -> None:
    folder = out / "tables" / KEY
    (folder / SECTION).unlink()
    for verb in ("report", "claims", "verify"):
        done = command.ratebed(verb, "--out", str(out))
        assert done.returncode == 1 and f"{SECTION} is not as it was written" in done.stdout + done.stderr
    for file in folder.iterdir():
        file.unlink()
    assert not sections(out)
    with pytest.raises(MachineError, match="run `ratebed run dst-table4` again"):
        section_of(folder)


def test_what_is_damaged_of_another_figure_does_not_end_a_run(out: Path) -> None:
    (out / "tables" / KEY / SECTION).unlink()
    done = command.ratebed("run", "dst-table2", "--scale", "tiny", "--out", str(out))
    said = f"damaged, left out of the report: {out / 'tables' / KEY}: {SECTION} is not as it was written"
    assert done.returncode == 0 and said in done.stdout, done.stderr
    assert (out / "report" / "figure-dst-table2.html").exists()
    assert not (out / "report" / f"figure-{KEY}.html").exists()


@pytest.mark.parametrize("lost", ["samples.parquet", "manifest.json"])
def test_a_run_that_is_damaged_leaves_its_figure_out_of_the_report(out: Path, lost: str) -> None:
    run = write_small_run(out / "runs")
    folder = out / "tables" / KEY
    section = json.loads((folder / SECTION).read_text())
    (folder / SECTION).write_text(json.dumps(sealed(section | {"run_ids": [run.name]})))
    (run / lost).unlink()
    done = command.ratebed("report", "--out", str(out))
    assert done.returncode == 1 and f"damaged, left out: {KEY}: {run}: {lost}: No such file" in done.stdout, done.stderr
    assert not (out / "report" / f"figure-{KEY}.html").exists()


def drawn_anew(out: Path) -> tuple[int, list[str]]:
    """The exit code of a command, and the figures that its report is without."""
    code, summary = produce_figures(make_request([KEY], False, "tiny", 1, 1, out, []))
    return code, summary["left_out"]


def lose_section(out: Path) -> None:
    (out / "tables" / KEY / SECTION).unlink()


def lose_all(out: Path) -> None:
    shutil.rmtree(out / "tables" / KEY)


def lose_drawing(out: Path) -> None:
    (out / "figures" / f"{KEY}.svg").unlink()


def lose_run(out: Path) -> None:
    run, section = write_small_run(out / "runs"), out / "tables" / KEY / SECTION
    section.write_text(json.dumps(sealed(json.loads(section.read_text()) | {"run_ids": [run.name]})))
    (run / "manifest.json").unlink()


@pytest.mark.parametrize("lose", [lose_section, lose_all, lose_drawing, lose_run])
def test_a_command_whose_figure_is_not_in_the_report_says_so_and_fails(
    out: Path, lose: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finish = Studio.finish

    def meddled(studio: Studio) -> dict[str, str]:
        problems = finish(studio)
        lose(out)
        return problems

    assert drawn_anew(out) == (0, [])
    monkeypatch.setattr(Studio, "finish", meddled)
    assert drawn_anew(out) == (1, [KEY])
    assert f"{KEY}: not wholly in the report" in capsys.readouterr().out


def test_a_figure_that_could_not_be_made_is_not_missed_twice(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finish = Studio.finish

    def fails(studio: Studio) -> dict[str, str]:
        finish(studio)
        lose_all(out)
        return {KEY: "all of its runs failed"}

    monkeypatch.setattr(Studio, "finish", fails)
    assert drawn_anew(out) == (1, [])
    said = capsys.readouterr().out
    assert f"{KEY}: not drawn, all of its runs failed" in said and "not wholly in the report" not in said


def test_a_figure_that_another_command_writes_just_now_is_not_to_be_removed(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def looked_at(tables: dict[str, pd.DataFrame], folder: Path) -> Json:
        files = _written(tables, folder)
        with pytest.raises(MachineError, match="another command writes it just now; wait until") as other:
            section_of(folder)
        assert "remove" not in str(other.value)
        seen.append(folder.name)
        return files

    shutil.rmtree(out / "tables" / KEY)
    monkeypatch.setattr("ratebed.studio._written", looked_at)
    assert drawn_anew(out) == (0, []) and seen == [KEY]
    assert [path.name for path in (out / "tables").iterdir()] == [KEY], "the mark is gone"
    lose_section(out)
    ended = own_mark().rpartition("-")[0] + "-1"
    (out / "tables" / f"{KEY}{ended}").mkdir()
    with pytest.raises(MachineError, match="remove the folder and run"):
        section_of(out / "tables" / KEY)


def test_clean_that_is_interrupted_leaves_no_damaged_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_small_run(tmp_path / "runs")

    def interrupted(folder: Path) -> None:
        (folder / "manifest.json").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr("ratebed.verbs.clean._clean_machine", lambda: False)
    monkeypatch.setattr("ratebed.verbs.clean.shutil.rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clean(tmp_path, yes=True)
    (left,) = (tmp_path / "runs").iterdir()
    assert left.name.startswith(f"{run.name}{PARTIAL}") and verify(tmp_path) == 0


def test_what_an_interrupted_clean_left_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = own_mark().rpartition("-")[0] + "-1"
    folders = [
        tmp_path / f"store{ended}",
        tmp_path / "runs" / f"0123456789abcdef{ended}",
        tmp_path / "tables" / f"a{ended}",
    ]
    for folder in folders:
        folder.mkdir(parents=True)
    monkeypatch.setattr("ratebed.verbs.clean._clean_machine", lambda: False)
    assert clean(tmp_path) == 0 and not any(folder.exists() for folder in folders)
    assert capsys.readouterr().out == "removed 1 run folders\n"


def test_runs_of_another_version_are_left_out_where_all_runs_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {**SPEC, "testbed": "virtual"}
    one, _ = (
        write_small_run(tmp_path / "runs", 1, spec=spec, started_at="2001-01-01"),
        write_small_run(tmp_path / "runs", 2, spec=spec, schema_version=SCHEMA_VERSION - 1),
    )
    said = f"{tmp_path}: 1 run with tables of another schema version left out; `ratebed clean` removes them"
    for asked in (found_pairs, partial(side_of, "one"), partial(store, build=True)):
        asked(tmp_path)
        assert capsys.readouterr().err == f"ratebed: {said}\n"
    with pytest.warns(UserWarning, match="1 run with tables of another schema version left out"):
        assert set(load(tmp_path).raw("samples").run_id) == {one.name}


def test_runs_with_tables_of_another_version_are_as_if_they_were_elsewhere(tmp_path: Path) -> None:
    spec = {**SPEC, "workload": "poisson", "topology": "line", "testbed": "local", "repetition": 0}
    spec |= {f"{axis}_options": {} for axis in ("system", "workload", "topology", "study", "testbed")}
    one = write_small_run(tmp_path, 1, spec=spec)
    older = write_small_run(tmp_path, 2, spec=spec, schema_version=SCHEMA_VERSION - 1)
    (first, second), _ = runs_of(tmp_path, {"run_ids": [one.name, older.name], "doubtful": {}})
    assert (first["system"], first["reasons"]) == ("lb", "")
    said = f"tables of schema version {SCHEMA_VERSION - 1}, this is {SCHEMA_VERSION}"
    assert (second["system"], second["validity"], second["reasons"]) == ("", "valid", said)
    assert usage_over_time({older.name: older}) is None
    assert _uselessness(older) == "of another schema version"


def test_the_command_that_damage_names_sets_the_run_aside(tmp_path: Path) -> None:
    run = write_small_run(tmp_path / "runs", 2)
    (run / "runs.parquet").write_bytes(b"")
    with pytest.raises(Damage) as seen:
        check_run(run)
    _, words, _ = seen.value.fix.split("`")
    code, _ = ratebed(*words.split()[1:], "--out", str(tmp_path))
    (left,) = (tmp_path / "runs").iterdir()
    assert code == 1 and left.name == f"{run.name}{DAMAGED}"


def test_verify_tells_runs_of_another_version_from_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    older = write_small_run(runs, 2, schema_version=SCHEMA_VERSION - 1)
    assert verify(tmp_path, aside=True) == 0 and older.is_dir()
    assert f"not read: {older}: tables of schema version" in (said := capsys.readouterr().out)
    assert said.endswith("0 runs and 0 figures read, 0 damaged\n")
    kept = Path(shutil.copytree(runs, tmp_path / "kept")) / older.name
    for table in older.glob("*.parquet"):
        table.unlink()
    assert verify(tmp_path) == 1 and f"damaged: {older}: runs.parquet: No such file" in capsys.readouterr().out
    shutil.rmtree(older)
    kept.rename(older)
    changed = write_small_run(runs, 3)
    manifest = json.loads((changed / "manifest.json").read_text())
    (changed / "manifest.json").write_text(json.dumps(manifest | {"schema_version": SCHEMA_VERSION - 1}))
    assert verify(tmp_path, as_json=True) == 1, "what was changed by hand is damage, whichever version it says"
    told = json.loads(capsys.readouterr().out)
    assert list(told["damaged"]) == [str(changed)] and list(told["unread"]) == [str(older)] and told["run_count"] == 1


def test_what_another_run_s_manifest_says_is_no_option_of_a_run(tmp_path: Path) -> None:
    spec = {**SPEC, "workload": "poisson", "topology": "line", "testbed": "virtual", "repetition": 0}
    spec |= {f"{axis}_options": {} for axis in ("system", "workload", "topology", "study", "testbed")}
    one, other = (write_small_run(tmp_path, seed, spec={**spec, "system": name}) for seed, name in ((1, "a"), (2, "b")))
    section = {"run_ids": [one.name, other.name], "doubtful": {}}
    assert [row["system"] for row in runs_of(tmp_path, section)[0]] == ["a", "b"]
    for harm in (lambda: shutil.copy(other / "manifest.json", one), (one / "samples.parquet").unlink):
        shutil.copytree(one, tmp_path / "kept")
        harm()
        forget()
        with pytest.raises(Damage, match=one.name):
            runs_of(tmp_path, section)
        shutil.rmtree(one)
        (tmp_path / "kept").rename(one)


def test_a_digitised_curve_is_drawn_marked_and_kept(out: Path, tmp_path: Path) -> None:
    table = pd.read_parquet(out / "tables" / KEY / "measures.parquet")
    row = table[table.graph == "dst-1"].iloc[0]
    curve = tmp_path / "read-off.csv"
    curve.write_text(
        f"phi_cr,phi_ss,noise,series,error\n{float(row.phi_cr)!r},300,{row.noise},dst-1,5\n0.5,1,{row.noise},dst-1,\n"
    )
    assert ratebed("report", "--out", str(out), "--published", f"{KEY}={curve}")[0] == 0
    page = (out / "report" / f"figure-{KEY}.html").read_text()
    assert "Digitised by hand: read-off.csv" in page and "not printed in its text and not ours" in page
    found = pd.read_csv(out / "report" / "data" / KEY / "digitised-read-off.csv")
    assert found.ours.iloc[0] == pytest.approx(row.phi_ss) and found.apart.iloc[0] == pytest.approx(row.phi_ss - 300)
    assert found.iloc[1][["error", "ours", "apart"]].isna().all()
    assert "Ours is missing: 1 of 2 values, for which measures has no row (series is compared with graph)." in page
    other = tmp_path / "another one.csv"
    other.write_text(f"phi_cr,phi_ss,noise,series\n0.7,2,{row.noise},dst-1\n")
    assert ratebed("report", "--out", str(out), "--published", f"{KEY}={other}")[0] == 0
    page, data = (out / "report" / f"figure-{KEY}.html").read_text(), out / "report" / "data" / KEY
    assert "read-off.csv" in page and "another one.csv" in page
    assert len(pd.read_csv(data / "digitised-read-off.csv")) == 2, "later reports have it too"
    assert len(pd.read_csv(data / "digitised-another one.csv")) == 1


def beside(folder: Path, text: str, tables: dict[str, pd.DataFrame]) -> Digitised:
    """The curve of this text, beside what the tables have."""
    (folder / digitised.FOLDER / "srtm-fig7").mkdir(parents=True, exist_ok=True)
    (folder / digitised.FOLDER / "srtm-fig7" / "curve.csv").write_text(text)
    (curve,) = digitised.curves_of(folder, "srtm-fig7", tables)
    return curve


def test_ours_is_of_the_table_of_runs_and_of_one_condition(tmp_path: Path) -> None:
    grid = [(kind, system, n) for kind in ("poisson", "periodic") for system in ("srtm", "max-min") for n in range(2)]
    runs = pd.DataFrame(grid, columns=["arrivals", "system", "repetition"]).assign(group_size=5, envelope="conformant")
    runs["p99_ms"], runs["outcome"] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, float("inf")], ["placed", "failed"] * 4
    tables = {"literal_runs": runs.assign(p99_ms=99.0), "runs": runs}

    plain = beside(tmp_path, "group_size,p99_ms,series\n5,0.9,srtm\n", tables)
    assert plain.table == "runs" and plain.rows.ours.isna().all(), "a mean of both panels would be of neither"
    assert "1 of 1 values, where rows of runs differ in arrivals" in plain.why

    text = "group_size,p99_ms,arrivals,series\n5,1,poisson,srtm\n5,1,periodic,max-min\n7,1,poisson,srtm\n"
    told = beside(tmp_path, text, tables)
    assert told.conditions == ["arrivals"] and list(told.rows)[:4] == ["group_size", "p99_ms", "arrivals", "series"]
    assert told.rows.ours.tolist()[:2] == [1.5, float("inf")] and told.rows.apart.iloc[0] == 0.5
    assert told.rows.ours.isna().tolist() == [False, False, True]
    assert told.why == "Ours is missing: 1 of 3 values, for which runs has no row (series is compared with system)."
    whole = beside(tmp_path, "\n".join(text.splitlines()[:3]), tables)
    assert whole.why == "", "outcomes differ among repetitions of one condition"

    several = beside(tmp_path, "group_size,p99_ms,series\n5,1,srtm\n", {"a": runs, "b": runs})
    assert several.table == "" and several.why.startswith("Several tables, a, b, have the columns group_size, p99_ms:")
    none = beside(tmp_path, "group_size,p99_ms,colour,series\n5,1,red,srtm\n", tables)
    assert none.rows.ours.isna().all() and "No table of the figure has" in none.why


def test_conditions_of_a_curve_may_be_numbers_texts_and_truth_values(tmp_path: Path) -> None:
    grid = [(k, spread, name, on) for k in (1, 2) for spread in (0.5, 2.0) for name in "ab" for on in (True, False)]
    table = pd.DataFrame(grid, columns=["k", "spread_ms", "policy", "is_on"])
    table["mean"] = [float(n) for n in range(len(table))]
    curve = beside(tmp_path, "k,mean,spread_ms,is_on,series\n2,0,2,True,b\n1,0,0.5,False,a\n", {"means": table})
    assert curve.rows.ours.tolist() == [14.0, 1.0] and curve.why == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,y\n1,2\n", "has the columns x, y"),
        ("x,series\n1,a\n", "has the columns x, series"),
        ("x,y,z,series\n1,2,3,a\n1,2,,a\n", "line 3: z is empty"),
        ("x,y,series\n1,two,a\n", "line 2: y is no number"),
        ("x,y,series\n1,,a\n", "line 2: y is no number"),
        ("x,y,series,error\n1,2,a,wide\n", "line 2: error is no number"),
        ("x,y,series\n", "has no values"),
        ("", "give a CSV"),
        ("\0\xff", "give a CSV"),
    ],
)
def test_a_file_that_is_no_curve_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(SpecError, match=said):
        digitised.keep(tmp_path / "out", [f"srtm-fig7={path}"])
    assert not (tmp_path / "out").exists()


def test_words_that_name_no_figure_or_file() -> None:
    for words, said in (["curve.csv"], "write FIGURE=FILE"), (["srtm-fig77=x.csv"], "unknown figure"):
        with pytest.raises(SpecError, match=said):
            digitised.keep(Path("nowhere"), words)


def test_a_curve_of_a_figure_from_a_file_is_kept_under_its_key(tmp_path: Path) -> None:
    figure = Path(shutil.copy(ROOT / "docs" / "examples" / "crowd_figure.py", tmp_path))
    (curve := tmp_path / "read-off.csv").write_text("delay_ms,percent,series\n1,50,centralised\n")
    digitised.keep(out := tmp_path / "out", [f"{figure}:FIGURE={curve}"])
    assert [each.source for each in digitised.curves_of(out, "crowd", {})] == [curve.name]
    assert not list(tmp_path.glob("*:FIGURE")), "nothing is beside the user's file"


def test_an_empty_folder_has_no_report(tmp_path: Path) -> None:
    code, said = ratebed("report", "--out", str(tmp_path))
    assert code == 2 and "has no figure" in said
    assert not sections(tmp_path) and not (tmp_path / "report").exists()


def test_of_very_many_runs_a_page_lists_some_and_all_that_are_not_valid(tmp_path: Path) -> None:
    ids = [f"{number:016x}" for number in range(RUNS_LISTED + 5)]
    rows, unlisted = runs_of(tmp_path, {"run_ids": ids[:-1], "doubtful": {ids[-1]: ["invalid", "late"]}})
    assert [row["run_id"] for row in rows] == [*ids[: RUNS_LISTED - 1], ids[-1]]
    assert (rows[-1]["validity"], rows[-1]["reasons"], unlisted) == ("invalid", "late", 5)
    rows, unlisted = runs_of(tmp_path, {"run_ids": ids[:3], "doubtful": {}})
    assert ([row["run_id"] for row in rows], unlisted) == (ids[:3], 0)
