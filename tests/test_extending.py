"""What comes from outside the tree: the commands of docs/extending.md as they stand there, files, and packages."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.verdicts import rank_of
from core.errors import SpecError
from core.files import files_of
from harness.code_version import files_of as code_files
from harness.code_version import id_of
from harness.matrix import read_matrix
from harness.run import execute
from paper_figs import FIGURES, all_claims, load_figure, paper_of, paper_of_claims
from paper_figs.catalogue import joined_claims
from ratebed.verbs.clean import _uselessness
from studies.inputs import inputs_of
from studies.spec import RunSpec
from systems.loader import load_system
from testbed.servers.found import load_server, servers_of
from testbed.topologies.topology import load_topology
from tests.tidy import ROOT
from workloads import load as load_workload

PAGE = (ROOT / "docs" / "extending.md").read_text()
EXAMPLES = ROOT / "docs" / "examples"
COMMANDS = re.findall(r"^ratebed (run .*)$", PAGE, re.MULTILINE)
LIMITER = {"system": "crdt-counter", "study": "limiting"}


def ratebed(*words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "ratebed", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


# --- the page -----------------------------------------------------------------------------------


def test_the_page_has_a_command_for_every_kind() -> None:
    words = " ".join(COMMANDS)
    for kind in ("--system docs/", "--workload docs/", "--topology docs/", "study=docs/", "--claims docs/", ":FIGURE"):
        assert kind in words
    assert all((ROOT / name).is_file() for name in re.findall(r"docs/examples/\w+\.py", PAGE))


def _is_drawn(command: str) -> bool:
    return ":FIGURE" in command or "--claims" in command


@pytest.mark.slow
@pytest.mark.parametrize("command", list(filter(_is_drawn, COMMANDS)))
def test_a_command_of_the_page_that_draws_does_what_it_says_and_once(command: str, out: Path) -> None:
    _runs_once(command.split(), out)


@pytest.mark.long
@pytest.mark.parametrize("command", [text for text in COMMANDS if not _is_drawn(text) and "--testbed" not in text])
def test_a_command_of_the_page_does_what_it_says_and_once(command: str, out: Path) -> None:
    _runs_once(command.split(), out)


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.parametrize("command", [text for text in COMMANDS if "--testbed" in text])
def test_a_live_command_of_the_page_does_what_it_says_and_once(command: str, out: Path) -> None:
    _runs_once(command.split(), out, "ratebed: invalid: ")


def _runs_once(words: list[str], out: Path, unless: str = "nothing excuses a failure") -> None:
    """``unless``: what a busy machine may make of a live run, and says."""
    done = ratebed(*words, "--out", str(out), "--json")
    assert done.returncode == 0 or unless in done.stderr, done.stderr
    told = json.loads(done.stdout)
    if isinstance(told, dict):
        assert not told["failed"] and not told["undrawn"]
    else:
        assert told and all(row["run_id"] for row in told)
        assert {Path(row["topology"]).suffix for row in told if "topology" in row} <= {""}
    again = ratebed("plan", *words[1:], "--out", str(out), "--json")
    total = json.loads(again.stdout)["total"]
    assert total["to_do"] == 0 and (total["runs"] or "--claims" in words), again.stderr


MINE = """
from analysis.verdicts import Claim, Evidence, above
from harness.experiment import Experiment
from paper_figs import drawing
from paper_figs.figure import Figure

def tables(data):
    import pandas as pd
    return {"numbers": pd.DataFrame({"x": [1.0, 2.0]})}

def draw(tables):
    return drawing.panels(1, 1)[0]

def measure(tables):
    return Evidence((above("x", list(tables["my.fig/numbers"].x)),))

CLAIMS = (Claim("better", "mine", "It is above 0.", ("my.fig",), measure, minimum_repetitions=2),)
FIGURE = Figure(Experiment("my.fig", "A figure of mine", "mine", lambda scale, options: [], analytic=True), tables, draw, CLAIMS)
"""  # noqa: E501


def _report(out: Path) -> str:
    return "\n".join(path.read_text() for path in sorted((out / "report").rglob("*.html")))


@pytest.mark.slow
def test_a_figure_of_any_key_reaches_the_report_and_outlives_its_file(tmp_path: Path) -> None:
    figure, out = tmp_path / "mine.py", tmp_path / "out"
    figure.write_text(MINE.replace("[1.0, 2.0]", "[1.0, 1.0]"))
    done = ratebed("run", str(figure), "--scale", "tiny", "--out", str(out))
    assert done.returncode == 0 and "claims: 1 reproduced" in done.stdout, done.stderr + done.stdout
    report = _report(out)
    assert "Of your own" in report and "better" in report and f"ratebed run {figure}" in report
    found = {claim["id"]: claim for claim in json.loads(ratebed("claims", "--json", "--out", str(out)).stdout)}
    assert found["better"]["verdict"] == "reproduced"

    figure.unlink()
    done = ratebed("run", "dst-table2", "--out", str(out))
    assert done.returncode == 0 and "claims: 1 reproduced" in done.stdout, done.stderr
    report = _report(out)
    assert "Not to be had any more" in report and "mine.py: No such file" in report and "my.fig" in report
    assert "better" not in {claim["id"] for claim in json.loads(ratebed("claims", "--json", "--out", str(out)).stdout)}


@pytest.mark.long
def test_functions_of_a_figures_file_run_on_sparks_workers(tmp_path: Path) -> None:
    text, share = (EXAMPLES / "crowd_figure.py").read_text(), "    frame = with_point("
    assert share in text
    text = text.replace(share, f"    share = share.mapInPandas(_same, share.schema)\n{share}")
    text = text.replace("def tables(", "def _same(frames):\n    yield from frames\n\n\ndef tables(")
    (tmp_path / "mine.py").write_text(text)
    for name in ("ring.py", "flash_crowd.py"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    done = ratebed("run", str(tmp_path / "mine.py"), "--scale", "tiny", "--out", str(tmp_path / "out"))
    assert done.returncode == 0 and "claims: 1 reproduced" in done.stdout, done.stderr + done.stdout


# --- names --------------------------------------------------------------------------------------


def test_a_figure_of_the_tree_needs_no_paper_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIGURES, "my-fig", "tests.ratebed.forced:FIGURE")
    assert paper_of("my-fig") == paper_of("crowd") == "Of your own" and "SRTM" in paper_of("srtm-fig7")
    assert paper_of_claims("mine-") == "Of your own (mine)" and "SRTM" in paper_of_claims("R")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('Experiment("crowd"', 'Experiment("srtm-fig7"', "'srtm-fig7' is the tree's"),
        ('Experiment("crowd"', 'Experiment("a/b"', "has other letters"),
        ('"crowd-1"', '"S7"', "a claim's id 'S7'"),
        ('("crowd",)', '("crowds",)', "figures that there are not: crowds"),
        ("FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS)", "FIGURE = EXPERIMENT", "is a Experiment"),
    ],
)
def test_a_figure_takes_no_name_of_the_trees(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (EXAMPLES / "crowd_figure.py").read_text()
    assert old in text
    (tmp_path / "mine.py").write_text(text.replace(old, new))
    with pytest.raises(SpecError, match=re.escape(said)):
        load_figure(str(tmp_path / "mine.py"))


def test_two_claims_of_one_id_are_refused() -> None:
    figure = load_figure(str(EXAMPLES / "crowd_figure.py"))
    (claim,) = figure.claims
    assert claim in joined_claims([*figure.claims, claim])
    with pytest.raises(SpecError, match="claim crowd-1 is declared twice"):
        joined_claims([claim, replace(claim, sentence="Another.")])


def test_claims_are_ordered_as_before_whatever_they_are_called() -> None:
    ids = ["S20b", "mine-2", "T1", "S20a", "S7", "mine-10", "better", "W6"]
    assert sorted(ids, key=rank_of) == ["S7", "S20a", "S20b", "T1", "W6", "better", "mine-2", "mine-10"]
    ids = [claim.id for claim in all_claims()]
    assert ids == sorted(ids, key=lambda name: (name[0], int(name[1:].rstrip("ab")), name))


def test_a_workload_and_a_topology_are_called_by_their_keys_in_tables(tmp_path: Path) -> None:
    spec = RunSpec(**LIMITER, workload=str(EXAMPLES / "flash_crowd.py"), topology=str(EXAMPLES / "ring.py"),
                   study_options={"duration": "1s"})  # fmt: skip
    execute(spec, "0" * 16, tmp_path / "run")
    (row,) = pq.read_table(tmp_path / "run" / "runs.parquet").to_pylist()
    assert (row["workload"], row["topology"]) == ("flash-crowd", "ring")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert {Path(name).name for name in manifest["inputs"]} == {"flash_crowd.py", "ring.py"}


@pytest.mark.parametrize(
    ("load", "file", "said"),
    [
        (load_workload, "ring.py:TOPOLOGY", "must be a workloads.api.Workload"),
        (load_topology, "flash_crowd.py:WORKLOAD", "must be a function"),
        (load_topology, "flash_crowd.py:span_of", "needs option"),
        (load_server, "ring.py:TOPOLOGY", "must be a testbed.servers.server.Server"),
        (load_workload, "nowhere.py", "No such file"),
        (load_topology, "ring.py:NOTHING", "has no NOTHING"),
    ],
)
def test_what_is_of_another_kind_is_refused(load: Callable[[str], object], file: str, said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)):
        load(str(EXAMPLES / file))


def test_a_file_that_ends_the_process_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys\n\nsys.exit(0)\n")
    mine = os.path.relpath(tmp_path / "mine.py", ROOT)
    done = ratebed("plan", "--system", mine, "--workload", "poisson", "--out", str(tmp_path / "out"))
    assert done.returncode == 2 and f"{mine}:3: SystemExit: 0; mend the file" in done.stderr


WRONG_TYPES = """from dataclasses import dataclass
import numpy as np
from core.records import Population
from workloads.api import Workload

@dataclass(frozen=True)
class Config: ...

def make(config, seed):
    return Population(np.ones(5), np.arange(5))

WORKLOAD = Workload("mine", "groups of int64", Config, make)
"""


def test_a_mistake_in_a_file_is_not_called_one_of_ours(tmp_path: Path) -> None:
    (mine := tmp_path / "mine.py").write_text(WRONG_TYPES)
    done = ratebed("plan", "--system", "lb", "--workload", str(mine), "--out", str(tmp_path / "out"))
    assert done.returncode == 2 and f"{mine}:10: AssertionError" in done.stderr, done.stderr
    assert "core/records.py" in done.stderr and "Ratebed's" not in done.stderr


def test_a_server_is_found_by_its_path_beside_the_system_that_names_it() -> None:
    (server,) = servers_of(load_system(str(EXAMPLES / "tally.py")))
    assert server is load_server(str(EXAMPLES / "tally_server.py")) and server.name == "tally"


# --- identity -----------------------------------------------------------------------------------


def _spec(**more: str) -> RunSpec:
    return RunSpec(**LIMITER, **{"workload": "requests", "topology": "star", **more})


def test_a_byte_of_a_file_voids_the_runs_that_use_it_and_no_other(tmp_path: Path) -> None:
    ring = Path(shutil.copy(EXAMPLES / "ring.py", tmp_path / "ring.py"))
    using, other = _spec(topology=str(ring)), _spec()
    before = id_of(using), id_of(other)
    (tmp_path / "unused.csv").write_text("1")
    assert (id_of(using), id_of(other)) == before
    ring.write_text(ring.read_text() + "# changed\n")
    assert id_of(using) != before[0] and id_of(other) == before[1]


def test_files_that_a_file_names_and_that_its_options_name_count(tmp_path: Path) -> None:
    table, log, second = (tmp_path / name for name in ("table.csv", "log.csv", "second.py"))
    for path in (table, log):
        path.write_text("1")
    second.write_text('TABLE = "table.csv"\n')
    text = (EXAMPLES / "flash_crowd.py").read_text().replace("    users: int", '    log: str = ""\n    users: int')
    crowd = tmp_path / "crowd.py"
    crowd.write_text(text + 'OTHER = "second.py:TABLE"\n')
    assert files_of(str(crowd)) == [crowd, second, table]
    spec = RunSpec(**LIMITER, workload=str(crowd), workload_options={"log": str(log)}, topology="star")
    ids = {id_of(spec)}
    for path in (table, log, second):
        path.write_text(path.read_text() + "\n")
        ids.add(id_of(spec))
    assert len(ids) == 4


def test_what_of_the_tree_a_file_imports_counts_and_what_it_draws_with_does_not(tmp_path: Path) -> None:
    crowd = tmp_path / "crowd.py"
    crowd.write_text((EXAMPLES / "flash_crowd.py").read_text() + "from systems.parts import md1\nimport paper_figs\n")
    used = {path.as_posix() for path in code_files(_spec(workload=str(crowd)))}
    assert "systems/parts/md1.py" in used and not [path for path in used if path.startswith("paper_figs")]
    assert "systems/parts/md1.py" not in {path.as_posix() for path in code_files(_spec())}


@pytest.mark.parametrize("text", ["import helper", "from helper import X", "def f():\n    import helper.x",
                                  "from . import helper", "from .helper import X"])  # fmt: skip
def test_a_file_that_imports_its_neighbour_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "helper.py").write_text("X = 1\n")
    (tmp_path / "mine.py").write_text(f"import json\n{text}\nWORKLOAD = 1\n")
    with pytest.raises(SpecError, match=r"mine.py:[23]: it imports a file beside it"):
        load_workload(str(tmp_path / "mine.py"))


def test_clean_tells_runs_of_older_files_from_those_of_files_that_are_gone(tmp_path: Path) -> None:
    ring = Path(shutil.copy(EXAMPLES / "ring.py", tmp_path / "ring.py"))
    spec = RunSpec(**LIMITER, workload="requests", topology=str(ring), study_options={"duration": "1s"})
    folder = tmp_path / "runs" / id_of(spec)
    execute(spec, folder.name, folder)
    assert _uselessness(folder) == ""
    ring.write_text(ring.read_text() + "# changed\n")
    assert _uselessness(folder) == "of older code"
    ring.unlink()
    assert _uselessness(folder) == "of files that are gone"


def test_matrix_files_take_every_kind_by_its_path(tmp_path: Path) -> None:
    matrix = tmp_path / "m.toml"
    kinds = {
        "system": "my_limiter.py",
        "workload": "flash_crowd.py",
        "topology": "ring.py:TOPOLOGY",
        "study": "burst.py",
    }
    matrix.write_text("[[grid]]\n" + "".join(f'{kind} = "{EXAMPLES / file}"\n' for kind, file in kinds.items()))
    (spec,) = read_matrix(matrix, 1)
    assert {Path(name).name for name in inputs_of(spec)} == {file.partition(":")[0] for file in kinds.values()}


# --- installed packages -------------------------------------------------------------------------

IDS = """
import sys
from harness.code_version import id_of
from studies.spec import RunSpec
crowd = RunSpec(system="crdt-counter", study="limiting", workload="my-crowd", topology="my-ring")
print(id_of(RunSpec(system="srtm", workload="poisson")), id_of(crowd) if sys.argv[1:] else "")
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with an installed package."""
    crowd = (EXAMPLES / "flash_crowd.py").read_text().replace('Workload("flash-crowd"', 'Workload("my-crowd"')
    figure = (EXAMPLES / "crowd_figure.py").read_text().replace('"crowd', '"my-crowds')
    files = {
        "__init__.py": "",
        "crowds.py": crowd + "from . import parts\n",
        "parts.py": "import extra_ratebed.deep.last\n",
        "deep/__init__.py": "",
        "deep/last.py": "",
        "unused.py": "",
        "rings.py": (EXAMPLES / "ring.py").read_text(),
        "figures.py": figure,
    }
    for name, text in files.items():
        path = tmp_path / "site" / "extra_ratebed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    points = {
        "workloads": "my-crowd = extra_ratebed.crowds:WORKLOAD",
        "topologies": "my-ring = extra_ratebed.rings:ring",
        "figures": "my-crowds = extra_ratebed.figures:FIGURE",
    }
    _install(tmp_path / "site", points)
    return tmp_path / "site"


def _install(site: Path, points: dict[str, str]) -> None:
    place = site / "extra_ratebed-1.0.dist-info"
    place.mkdir(exist_ok=True)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: extra-ratebed\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text("".join(f"[ratebed.{group}]\n{line}\n" for group, line in points.items()))


def _ids(site: Path, *words: str) -> list[str]:
    return _printed(site, IDS, *words)


def _printed(site: Path, script: str, *words: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_an_installed_package_adds_names_and_voids_nothing(site: Path) -> None:
    found = json.loads(ratebed("list", "--json", path=str(site)).stdout)
    assert found["workloads"]["my-crowd"] == "users who all at once ask many times faster (extra_ratebed)"
    assert found["figures"]["my-crowds"] and found["topologies"]["my-ring"]
    before = _ids(site, "crowd")
    assert before[0] == _ids(ROOT)[0] == id_of(RunSpec(system="srtm", workload="poisson"))
    package = site / "extra_ratebed"
    (package / "unused.py").write_text("X = 1\n")
    assert _ids(site, "crowd") == before
    for name in ("deep/last.py", "rings.py"):
        (package / name).write_text((package / name).read_text() + "\n")
        after = _ids(site, "crowd")
        assert after[0] == before[0] and after[1] != before[1]
        before = after
    moved = site.rename(site.with_name("elsewhere"))
    assert _ids(moved, "crowd") == before, "wherever it is installed"


def test_what_was_drawn_of_a_packages_figure_is_void_where_the_package_changed(site: Path) -> None:
    script = "from ratebed.kept import origin_of\nprint(origin_of({}, 'srtm-fig5'), origin_of({}, 'my-crowds'))"
    before = _printed(site, script)
    (site / "extra_ratebed" / "unused.py").write_text("X = 1\n")
    assert _printed(site, script) == before
    figure = site / "extra_ratebed" / "figures.py"
    figure.write_text(figure.read_text() + "\n")
    after = _printed(site, script)
    assert after[0] == before[0] and after[1] != before[1]


def test_names_of_packages_are_taken_by_every_option(site: Path, tmp_path: Path) -> None:
    matrix = tmp_path / "m.toml"
    matrix.write_text('[[grid]]\nsystem = "crdt-counter"\nworkload = "my-crowd"\ntopology = ["my-ring", "star"]\n')
    out = ("--out", str(tmp_path / "out"), "--json")
    done = ratebed("plan", str(matrix), *out, path=str(site))
    assert json.loads(done.stdout)["total"]["to_do"] == 2, done.stderr
    done = ratebed("plan", "my-crowds", "--scale", "tiny", *out, path=str(site))
    assert done.returncode == 2 and "flash_crowd.py: No such file" in done.stderr, "it names files that are not there"
    done = ratebed("plan", "my-crowd", *out, path=str(site))
    assert done.returncode == 2 and "did you mean my-crowds?" in done.stderr


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ({"workloads": "poisson = extra_ratebed.crowds:WORKLOAD"}, "adds a workload 'poisson', which there is"),
        ({"workloads": "other = extra_ratebed.crowds:WORKLOAD"}, "its key is 'my-crowd'"),
        ({"workloads": "my-crowd = extra_ratebed.gone:WORKLOAD"}, "No module named"),
    ],
)  # fmt: skip
def test_a_package_that_is_wrong_is_named_and_the_trees_names_stay(
    site: Path, tmp_path: Path, points: dict[str, str], said: str
) -> None:
    _install(site, points)
    done = ratebed("list", path=str(site))
    assert said in done.stdout + done.stderr and "Traceback" not in done.stderr
    planned = ("plan", "--system", "lb", "--workload", "poisson", "--out", str(tmp_path / "out"))
    assert ratebed(*planned, path=str(site)).returncode == 0
