"""The command line: words, errors of one line, exit codes, options of figures, progress, rows of points."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.campaign import finished_runs
from harness.executors.api import Finished
from harness.experiment import RunSpec
from paper_figs import FIGURES, all_claims
from ratebed import progress
from studies.inputs import run_id
from systems import SYSTEMS
from tests.command import process, ratebed
from tests.runs import write_small_run
from workloads import WORKLOADS


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
        (["run", "srtm-fig77"], 2, "did you mean srtm-fig7, "),
        (["run"], 2, "nothing to run"),
        (["run", "srtm-fig7", "--scale", "huge"], 2, "quick"),
        (["run", "srtm-fig7", "--colour", "red"], 2, "--colour"),
        (["run", "srtm-fig7", "--seed", "x"], 2, "--seed"),
        (["run", "srtm-fig7", "--jobs", "-1"], 2, "--jobs"),
        (["run", "srtm-fig7", "--workload", "poisson"], 2, "ad-hoc"),
        (["run", "srtm-fig7", "--topology", "star"], 2, "--topology belongs to ad-hoc points"),
        (["run", "srtm-fig7", "--repetitions", "-1"], 2, "--repetitions -1; give at least 1"),
        (["run", "srtm-fig7", "--jobs", "99999"], 2, "--jobs 99999; give 0 to"),
        (["run", "docs/examples/matrix.toml", "--topology", "star"], 2, "write it into docs/examples/matrix.toml"),
        (["run", "--system", "lb", "--workload", "posson"], 2, "ratebed: unknown workload 'posson'; did you mean"),
        (["run", "--system", "lb", "--workload", "poisson", "--topology", "sta"], 2, "ratebed: unknown topology 'sta'"),
        (["run", "srtm-trace", "--trace"], 2, "--trace"),
        (["run", "srtm-trace", "--trace", "nowhere.csv"], 2, "nowhere.csv"),
        (["run", "srtm-trace", "--trace", __file__, "--speed", "fast"], 2, "--speed"),
        (["run", "nowhere.toml"], 2, "nowhere.toml"),
        (["run", "--system", "srmt", "--workload", "poisson"], 2, "did you mean 'srtm'"),
        (["run", "--system", "srtm", "--workload", "poisson", "--set", "workload.publishers=-1"], 2, "publishers"),
        (["show", "abc", "--out", "nowhere"], 2, "nowhere"),
        (["dance"], 2, "dance"),
        (["calibrate", "mine.toml", "--span", "1ms"], 2, "--span 1ms; give at least 2s"),
        (["plan", "srtm-fig7", "--testbed", "moon"], 2, "virtual"),
        (["claims", "--out", "nowhere"], 2, "nowhere: no results there"),
        (["run", "--system", "lb", "--workload", "poisson", "--set", "procedure.slo=2ms"], 2, "--set slo=VALUE"),
        (["run", "--system", "lb", "--workload", "poisson", "--set", "study.slo=2ms"], 2, "--set slo=VALUE"),
        (["run", "docs/examples/matrix.toml", "--scale", "tiny"], 2, "--scale belongs to figures; leave it out"),
        (["run", "--system", "lb", "--workload", "poisson", "--plot-invalid"], 2, "--plot-invalid belongs to figures"),
    ],
)
def test_bad_input_is_one_line_with_the_fix(tmp_path, words, code, text):
    done = ratebed(*words)
    assert done.returncode == code, done.stderr
    assert text in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_unwritable_output_is_one_line_and_nothing_is_left(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = ratebed("run", "--system", "lb", "--workload", "poisson", "--out", str(file / "out"))
    assert done.returncode == 1 and "--out" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(("words", "stream"), [(["doctor"], "stdout"), (["run", "srtm-fig9"], "stderr")])
def test_missing_java_is_said_before_anything_runs(tmp_path, words, stream):
    """No JAVA_HOME, none in the checkout, none on the PATH."""
    code = (
        "import sys; from pathlib import Path; import core.java\n"
        f"core.java.CHECKOUT = Path({str(tmp_path)!r}); sys.argv = ['ratebed', *{words!r}]\n"
        "from ratebed.cli import main; main()"
    )
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300
    )
    said = getattr(done, stream)
    assert done.returncode == 1 and "Java" in said and "make setup" in said and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_claims_without_figures_are_undecided(tmp_path):
    write_small_run(tmp_path / "runs")
    done = ratebed("claims", "--json", "--out", str(tmp_path))
    found = json.loads(done.stdout)
    assert done.returncode == 3
    assert {claim["id"] for claim in found} == {claim.id for claim in all_claims()}
    assert {claim["id"] for claim in found if claim["id"][0] == "R"} == {f"R{n}" for n in range(1, 28)}
    assert {claim["verdict"] for claim in found} <= {"undecided", "not run"}


def test_a_record_has_the_claims_of_the_figures_that_were_asked_for(tmp_path):
    out, record = ["--out", str(tmp_path / "out")], tmp_path / "record.json"
    assert ratebed("run", "dst-table4", "--scale", "tiny", *out).returncode == 0
    ratebed("claims", "--record", str(record), *out)
    kept = {claim["id"] for claim in json.loads(record.read_text())["claims"]}
    assert kept == {claim.id for claim in all_claims() if not claim.figures or "dst-table4" in claim.figures}
    again = ratebed("claims", "--against", str(record), *out)
    assert again.returncode == 0 and "every verdict and number is as in" in again.stdout


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_with_130_and_loses_nothing_finished(tmp_path, sent):
    out = tmp_path / "out"
    words = ["run", "srtm-fig5", "--scale", "tiny", "--repetitions", "30", "--jobs", "2", "--out", str(out)]  # a minute
    child = subprocess.Popen(
        [sys.executable, "-m", "ratebed", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    while len(finished := finished_runs(out)) < 2:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(sent)
    _, errors = child.communicate(timeout=240)
    assert child.returncode == 130 and "interrupted" in errors and "Traceback" not in errors
    assert set(finished) <= set(finished_runs(out))


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ("workload = 'poisson'\nstudy_options = { envelope = 'guessed' }", "grid 1: study distribution: envelope"),
        ("workload = 'poisson'\ntopology = 'full-mesh'", "no brokers"),
        ("workload = 'requests'", "requests"),
        ("workload = 'poisson'\ncalibration = 'none'", "srtm-paper"),
        ("workload = 'poisson'\nworkload_options = 3", "workload_options"),
        ("workload = 'poisson'\nworkload_options = { rate_rps = -1.0 }", "grid 1: workload"),
        ("workload = 'poisson'\nstudy_options = { initial_loads_rps = [[1.0]] }", "brokers"),
    ],
)
def test_an_impossible_grid_is_said_before_anything_runs(tmp_path, grid, words):
    path = tmp_path / "matrix.toml"
    path.write_text(f"[[grid]]\nsystem = 'lb'\n{grid}\n")
    done = ratebed("run", str(path), "--out", str(tmp_path / "out"))
    assert done.returncode == 2 and words in done.stderr and str(path) in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and not (tmp_path / "out").exists()


def test_a_broken_trace_and_a_missing_calibration_are_said_before_anything_runs(tmp_path):
    trace = tmp_path / "broken.csv"
    trace.write_text("publisher,instant\n" + "".join(f"p{n % 3},{n}\n" for n in range(50)) + "p1,soon\n")
    out = tmp_path / "out"
    done = ratebed(
        "run",
        "srtm-trace",
        "--trace",
        str(trace),
        "--columns",
        "publisher=publisher,instant=instant",
        "--out",
        str(out),
    )
    assert done.returncode == 2 and "52" in done.stderr and "soon" in done.stderr and not out.exists()
    done = ratebed("run", "srtm-fig7", "--scale", "tiny", "--calibration", "mine.toml", "--out", str(out))
    assert done.returncode == 2 and "mine.toml" in done.stderr and not out.exists()


def test_a_figure_that_compares_no_systems_takes_no_further_one(tmp_path):
    done = process("run", "srtm-table1", "--system", "docs/examples/weighted.py:SYSTEM", "--out", str(tmp_path))
    assert done.returncode == 2 and "srtm-table1" in done.stderr


def test_a_matrix_of_what_virtual_time_has_not_is_checked_on_the_testbed_that_an_option_names(tmp_path):
    matrix = tmp_path / "matrix.toml"
    point = "study = 'profile'\nsystem = 'pulsar'\nworkload = 'static-topics'\ntopology_options = { brokers = 1 }\n"
    matrix.write_text(f"[[grid]]\n{point}workload_options = {{ sites = 1 }}\n")
    words = ("plan", str(matrix), "--out", str(tmp_path / "out"))
    done = ratebed(*words)
    assert done.returncode == 2 and "study profile does not run on testbed virtual" in " ".join(done.stderr.split())
    assert "1 runs to do" in " ".join(ratebed(*words, "--testbed", "local").stdout.split())


def test_ssh_wants_an_inventory_which_is_part_of_the_runs_identity(tmp_path):
    hosts = tmp_path / "hosts.toml"
    words = ("plan", "srtm-fig4", "--scale", "tiny", "--out", str(tmp_path / "out"))
    done = ratebed(*words, "--testbed", "ssh")
    assert done.returncode == 2 and "--inventory FILE" in done.stderr and len(done.stderr.splitlines()) == 1
    done = ratebed(*words, "--testbed", "ssh", "--inventory", str(hosts))
    assert done.returncode == 2 and "No such file" in done.stderr
    done = ratebed(*words, "--inventory", str(hosts))
    assert done.returncode == 2 and "--testbed ssh" in done.stderr
    hosts.write_text('[[host]]\nhost = "192.0.2.1"\n')
    assert ratebed(*words, "--testbed", "ssh", "--inventory", str(hosts)).returncode == 0
    spec = RunSpec(system="lb", workload="poisson", testbed="ssh", testbed_options={"inventory": str(hosts)})
    before = run_id(spec, "code")
    hosts.write_text('[[host]]\nhost = "192.0.2.2"\n')
    assert run_id(spec, "code") != before


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("ConnectionRefusedError(111, 'Connection refused')", ["Connection refused", "is gone"]),
        ("OSError(28, 'No space left on device')", ["No space left", "check space"]),
        ("PermissionError(13, 'Permission denied', '/nowhere')", ["/nowhere: Permission denied", "check space"]),
        ("KeyError('x' * 5000)", ["KeyError", "a fault of Ratebed's", "RATEBED_TRACEBACK=1"]),
        ("RecursionError('too deep')", ["RecursionError: too deep"]),
        ("AssertionError()", ["AssertionError"]),
    ],
)
def test_what_passes_all_guards_is_one_short_line(error, words):
    code = (
        "import sys; sys.argv = ['ratebed', 'list']\n"
        "from ratebed.verbs import listing\n"
        f"def broken(): raise {error}\n"
        "listing.list_ = broken\n"
        "from ratebed.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == "", done.stderr
    (line,) = done.stderr.splitlines()
    assert len(line) <= 300 and all(word in line for word in words), line


# --- options, progress, rows ---------------------------------------------------------------------


def test_figures_have_their_options_in_the_help_of_verbs():
    text = ratebed("run", "limiters-plane", "--help").stdout
    for name in ("--log", "--limit", "--columns", "--duration", "--start", "--speed", "--nodes", "--cities"):
        assert f" {name} " in text, name
    assert "--no-skip-bad" in text and "--log" not in ratebed("run", "--help").stdout
    assert "name one before --help" in ratebed("figures", "--help").stdout


def test_options_that_a_verb_lacks_are_named_with_what_was_meant():
    for words, told in (
        (["run", "srtm-fig7", "--sede", "7"], "unknown option --sede; did you mean --seed?"),
        (["run", "srtm-fig5", "--trace", "F"], "unknown option --trace; it belongs to srtm-trace"),
        (["plan", "--spede", "2"], "unknown option --spede; did you mean --speed?"),
        (["threshold", "--colums", "x"], "unknown option --colums; did you mean --columns?"),
        (["plan", "fig9"], "unknown figure 'fig9'; did you mean srtm-fig9"),
    ):
        done = ratebed(*words)
        assert done.returncode == 2 and done.stderr.startswith(f"ratebed: {told}"), done.stderr


def test_the_version_and_completion():
    assert re.fullmatch(r"ratebed \d+\.\d+\.\d+, commit \S+\n", process("--version").stdout)
    program = Path(sys.executable).parent / "ratebed"
    for shell in ("bash", "zsh", "fish"):
        typed = dict.fromkeys(("_TYPER_COMPLETE_ARGS", "COMP_WORDS"), "ratebed run srtm-fig") | {"COMP_CWORD": "2"}
        complete = {"_RATEBED_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"} | typed
        done = subprocess.run([program], env=os.environ | complete, capture_output=True, text=True)
        assert "srtm-fig7" in done.stdout and "dst-" not in done.stdout, (shell, done.stdout, done.stderr)


@pytest.mark.slow
def test_rows_of_two_slos_are_told_apart_and_said_with_units(tmp_path):
    matrix, out = tmp_path / "m.toml", str(tmp_path / "out")
    matrix.write_text(
        "[[grid]]\nsystem = 'lb'\nworkload = 'poisson'\nslo = ['1ms', '5ms']\nworkload_options = { publishers = 50 }\n"
    )
    planned = ratebed("plan", str(matrix), "--out", out).stdout
    assert re.match(r"points +2 of +2 runs to do", planned)
    done = ratebed("run", str(matrix), "--out", out)
    assert done.returncode == 0, done.stderr
    head, *rows = [line.split() for line in done.stdout.splitlines() if line.startswith("  ")]
    assert head[:3] == ["slo", "repetition", "run_id"] and "p99" in head and "(ms)" in head
    assert [row[0] for row in rows] == ["1ms", "1ms", "5ms", "5ms"]
    assert "workload.publishers = 50" in done.stdout
    assert "0 of     2 runs to do" in ratebed("plan", str(matrix), "--out", out).stdout
    quiet = ratebed("run", str(matrix), "--out", out, "--quiet").stdout.splitlines()
    assert quiet == done.stdout.splitlines()[-len(quiet) :] and not any("to do" in line for line in quiet)


def test_without_a_terminal_a_line_every_half_a_minute_says_what_is_left(capsys, monkeypatch):
    specs = {str(number): RunSpec(system="lb", workload="poisson", repetition=number) for number in range(100)}
    clock = iter(range(0, 10_000, 7))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with progress.RunProgress(specs, 120, 2, "2 processes") as shown:
        for number, spec in specs.items():
            shown.finished(Finished(spec, number, 1.0, "it broke" if number == "50" else ""))
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "120 runs: 20 there already, 100 to do on 2 processes"
    assert len(lines) == 19 + 1 and sum(line.startswith("failed: 50 lb poisson") for line in lines) == 1
    assert lines[0] == "5 of 100 runs, about 6 min left" and lines[-1].endswith("s left")
    with progress.RunProgress(specs, 100, 2, "2 processes", is_quiet=True) as shown:
        for number, spec in specs.items():
            shown.finished(Finished(spec, number, 1.0))
    assert capsys.readouterr().out == ""
