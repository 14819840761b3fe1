"""Ratebed as a library: results, points, the page that describes them, and the notebook."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest

import ratebed
from collectors.schema import TABLES
from harness.executors.api import Finished
from paper_figs import load_figure
from ratebed.options import make_request
from ratebed.produce import Points, produce_points
from ratebed.results import _title
from tests import command
from tests.runs import write_small_run

ROOT = Path(__file__).parents[2]
PAGE, NOTEBOOK = ROOT / "docs" / "python.md", ROOT / "docs" / "examples" / "srtm-fig7.ipynb"


def program(code: str, folder: Path) -> subprocess.CompletedProcess:
    """Run a program of a user's in ``folder``."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "MPLBACKEND": "agg"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=environment)


def test_every_name_is_there_and_importing_takes_nothing_heavy(tmp_path):
    assert all(map(ratebed.__getattr__, ratebed.__all__)) and {*ratebed.__all__} <= {*dir(ratebed)}
    with pytest.raises(AttributeError, match="no attribute 'loda'"):
        ratebed.loda  # noqa: B018
    done = program("import sys, ratebed; print(*sys.modules)", tmp_path)
    assert not {"numpy", "pandas", "pyarrow", "pyspark", "matplotlib", "typer"} & {*done.stdout.split()}, done.stderr


def test_a_stranger_with_a_name_of_ours_is_named(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("")
    done = program("import ratebed; ratebed.load()", tmp_path)
    assert f"core is {tmp_path / 'core'}" in done.stderr.splitlines()[-1]


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(ratebed.SpecError, match="no results there"):
        ratebed.load(tmp_path)
    with pytest.raises(ratebed.SpecError, match="no results there"):
        ratebed.load(tmp_path / "nowhere")


def test_damage_is_noticed(tmp_path):
    write_small_run(tmp_path / "runs")
    results = ratebed.load(tmp_path)
    assert results.raw("samples").shape == results.raw("samples", as_="arrow").shape == (50, len(TABLES["samples"]))
    table = write_small_run(tmp_path / "runs", seed=2) / "samples.parquet"
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(ratebed.MachineError, match=f"{table.parent.name}: samples.parquet has"):
        results.raw("samples")
    with pytest.raises(ratebed.MachineError, match=r"samples\.parquet"):
        results.runs()


def test_points_are_those_of_the_command_line(tmp_path):
    specs = ratebed.point("srtm", "poisson", set={"workload.publishers": 50, "slo": "2ms"}, repetitions=2, seed=7)
    assert [spec.repetition for spec in specs] == [0, 1] and {spec.slo for spec in specs} == {"2ms"}
    assert specs[0].workload_options == {"publishers": 50}
    matrix = tmp_path / "m.toml"
    matrix.write_text(
        'repetitions = 2\n[[grid]]\nsystem = "srtm"\nworkload = "poisson"\nslo = "2ms"\n'
        "workload_options = { publishers = 50 }\n"
    )
    assert ratebed.matrix(matrix, seed=7) == specs
    with pytest.raises(ratebed.SpecError, match="publishers"):
        ratebed.point("srtm", "poisson", set={"workload.publishers": -1})
    with pytest.raises(ratebed.SpecError, match="--set slo=VALUE"):
        ratebed.point("srtm", "poisson", set={"study.slo": "2ms"})


def test_text_that_looks_like_a_number_stays_text():
    (spec,) = ratebed.point("crdt-queue", "requests", "full-mesh", set={"system.rate": "20"})
    assert spec.system_options == {"rate": "20"}


def test_values_of_options_are_plain_or_named(tmp_path):
    (spec,) = ratebed.point("srtm", "poisson", set={"workload.publishers": np.int64(50)})
    assert spec.workload_options == {"publishers": 50}
    trace = tmp_path / "trace.csv"
    trace.write_text("publisher,instant\n" + "".join(f"p{at % 3},{at}\n" for at in range(50)))
    (spec,) = ratebed.point("srtm", "trace", set={"workload.path": trace})
    assert spec.workload_options == {"path": str(trace)}
    with pytest.raises(ratebed.SpecError, match=r"set workload\.publishers = .*object"):
        ratebed.point("srtm", "poisson", set={"workload.publishers": object()})


def test_the_hint_after_a_failed_run_is_of_its_folder(monkeypatch):
    (spec,) = ratebed.point("srtm", "poisson")
    failed = Points({"abc": spec}, {}, [], [Finished(spec, "abc", 0.0, "it broke")])
    monkeypatch.setattr("ratebed.produce.made_points", lambda *asked: failed)
    for out, hint in (("out", "ratebed show abc tells"), ("out/mine", "ratebed show abc --out out/mine tells")):
        with pytest.raises(ratebed.HarnessError, match=hint):
            ratebed.run([spec], out=out)


def test_points_that_failed_say_why_for_machines(monkeypatch, tmp_path):
    (spec,) = ratebed.point("srtm", "poisson")
    failed = Points({"abc": spec}, {}, [], [Finished(spec, "abc", 0.0, "it broke")])
    monkeypatch.setattr("ratebed.produce.made_points", lambda *asked: failed)
    request = make_request((), False, "quick", 1, 1, tmp_path, ())
    assert produce_points([spec], request) == (1, [{"run_id": "abc", "error": "it broke"}])


# --- on the tables of a figure -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with ``out/``, of srtm-fig7 at tiny scale, and the place where the notebook is."""
    folder = tmp_path_factory.mktemp("home")
    done = command.ratebed("run", "srtm-fig7", "--scale", "tiny", "--out", str(folder / "out"))
    assert done.returncode == 0, done.stderr
    (folder / "docs" / "examples").mkdir(parents=True)
    return folder


@pytest.mark.slow
def test_results_of_a_figure(home):
    results = ratebed.load(home / "out")
    (figure,) = results.figures().to_dict("records")
    assert (figure["figure"], figure["scale"], figure["doubtful_count"]) == ("srtm-fig7", "tiny", 0)
    runs = results.runs("srtm-fig7")
    assert len(runs) == figure["run_count"] == len(results.runs()) and {*runs.validity} == {"valid"}
    assert {5, 20} <= {*runs["workload.group_size"]} and (runs.wall_seconds > 0).all()
    p99 = results.table("srtm-fig7/p99")
    assert results.table("srtm-fig7/p99", as_="arrow").to_pandas().equals(p99)
    with pytest.raises(ratebed.SpecError, match=r"did you mean srtm-fig7/p99"):
        results.table("srtm-fig7/p9")
    with pytest.raises(ratebed.SpecError, match=r"did you mean 'arrow'"):
        results.table("srtm-fig7/p99", as_="arow")
    with pytest.raises(ratebed.SpecError, match=r"did you mean srtm-fig7"):
        results.raw("runs", figure="srtm-fig77")
    claims = results.claims().set_index("id")
    assert claims.verdict["R12"] == "undecided" and claims.verdict["D1"] == "not run"


def test_a_figure_whose_file_is_gone_has_its_key_for_a_title(tmp_path):
    assert _title({"key": "mine", "place": str(tmp_path / "gone.py")}) == "mine"
    assert _title({"key": "srtm-fig7", "place": ""}) == load_figure("srtm-fig7").experiment.title


@pytest.mark.slow
def test_a_drawing_leaves_the_users_style_alone(home):
    import matplotlib

    def style() -> dict[str, object]:
        return {name: value for name, value in matplotlib.rcParams.items() if name != "backend_fallback"}

    matplotlib.get_backend()  # decides, once, which it is
    before = style()
    drawing = ratebed.load(home / "out").draw("srtm-fig7")
    assert len(drawing.axes) >= 2 and style() == before


@pytest.mark.slow
def test_the_page_says_what_works(home):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    done = program("\n".join([*blocks, "print(rows.to_json(orient='records'))"]), home)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"validity":"valid"') >= 2 and "publishers" in done.stdout
    for name in re.findall(r"`(\w+)\(", PAGE.read_text().partition("## Names")[2].partition("##")[0]):
        assert hasattr(ratebed, name) or hasattr(ratebed.Results, name), name


@pytest.mark.slow
def test_the_notebook_draws_the_figure_in_ten_lines(home):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.get("outputs") for cell in notebook.cells)
    assert len([line for line in cells[0].splitlines() if line and "import" not in line]) <= 10
    code = "\n".join([*cells, "figure.savefig('drawn.png'); print(sum(len(axes.lines) for axes in panels))"])
    done = program(code, home / "docs" / "examples")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["6"], "two panels of two systems and an objective"
    assert (home / "docs" / "examples" / "drawn.png").stat().st_size > 10_000
