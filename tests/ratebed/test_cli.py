"""The command line without Spark: words, errors of one line, exit codes."""

import json
import subprocess
import sys

import pytest

from paper_figs import FIGURES
from systems import SYSTEMS
from workloads import WORKLOADS


def ratebed(*words: str, **options) -> subprocess.CompletedProcess:
    """Run the command line as a user does."""
    return subprocess.run([sys.executable, "-m", "ratebed", *words], capture_output=True, text=True, **options)


def test_list_names_everything_that_is_registered():
    found = json.loads(ratebed("list", "--json").stdout)
    assert set(found["figures"]) == set(FIGURES) and set(found["systems"]) == set(SYSTEMS)
    assert set(found["workloads"]) == set(WORKLOADS)
    assert all(text for group in ("figures", "systems", "workloads", "topologies") for text in found[group].values())


def test_help_and_list_import_nothing_heavy():
    code = (
        "import sys\nsys.argv = ['ratebed', 'list']\nfrom ratebed.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numba', 'pandas', 'pyspark', 'matplotlib', 'seaborn', 'scipy', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_plan_counts_runs_and_starts_nothing(tmp_path):
    done = ratebed("plan", "srtm-fig7", "srtm-table1", "--scale", "tiny", "--out", str(tmp_path / "out"), "--json")
    found = json.loads(done.stdout)
    by_figure = {row["figure"]: row["runs"] for row in found["figures"]}
    assert by_figure["srtm-fig7"] > 0 and found["total"]["to_do"] == found["total"]["runs"] > 0
    assert found["total"]["runs"] < sum(by_figure.values()), "Table I shares Fig. 7's runs"
    assert not (tmp_path / "out").exists()


def test_plan_says_what_is_skipped_and_why():
    done = ratebed("plan", "srtm-trace")
    assert done.returncode == 0 and "--trace FILE" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["run", "srtm-fig77"], 2, "did you mean 'srtm-fig7'"),
        (["run"], 2, "nothing to run"),
        (["run", "srtm-fig7", "--scale", "huge"], 2, "quick"),
        (["run", "srtm-fig7", "--colour", "red"], 2, "--colour"),
        (["run", "srtm-fig7", "--seed", "x"], 2, "--seed"),
        (["run", "srtm-fig7", "--jobs", "-1"], 2, "--jobs"),
        (["run", "srtm-fig7", "--workload", "poisson"], 2, "ad-hoc"),
        (["run", "srtm-trace", "--trace"], 2, "--trace"),
        (["run", "srtm-trace", "--trace", "nowhere.csv"], 2, "nowhere.csv"),
        (["run", "srtm-trace", "--trace", __file__, "--speed", "fast"], 2, "--speed"),
        (["run", "nowhere.toml"], 2, "nowhere.toml"),
        (["run", "--system", "srmt", "--workload", "poisson"], 2, "did you mean 'srtm'"),
        (["run", "--system", "srtm", "--workload", "poisson", "--set", "workload.publishers=-1"], 2, "publishers"),
        (["show", "abc", "--out", "nowhere"], 2, "nowhere"),
        (["dance"], 2, "dance"),
        (["plan", "srtm-fig7", "--testbed", "moon"], 2, "virtual"),
    ],
)
def test_bad_input_is_one_line_with_the_fix(tmp_path, words, code, text):
    done = ratebed(*words, cwd=None)
    assert done.returncode == code, done.stderr
    assert text in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_unwritable_output_is_one_line_and_nothing_is_left(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = ratebed("run", "--system", "lb", "--workload", "poisson", "--out", str(file / "out"))
    assert done.returncode == 1 and "--out" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [file]


def test_missing_java_is_one_line(tmp_path):
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    done = ratebed("doctor", env=environment)
    assert done.returncode == 1 and "missing" in done.stdout and "Java" in done.stdout


def test_claims_without_results_are_undecided(tmp_path):
    done = ratebed("claims", "--json", "--out", str(tmp_path))
    found = json.loads(done.stdout)
    assert done.returncode == 3
    assert {claim["id"] for claim in found} == {f"R{n}" for n in range(1, 27)}
    assert {claim["verdict"] for claim in found} <= {"undecided", "not run"}
