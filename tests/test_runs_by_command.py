"""Runs through the command line: the same ones with any number of processes and after a kill; what is one's own."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

from harness.campaign import finished_runs
from tests.command import process, ratebed
from tests.harness.common import parquet_hashes
from tests.tidy import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_seed_7_is_the_same_with_one_process_two_and_after_a_kill(tmp_path):
    command = [sys.executable, "-m", "ratebed", "run", "srtm-fig9", "--scale", "tiny", "--seed", "7"]
    hashes = []
    for jobs in ("1", "2"):
        out = tmp_path / jobs
        done = subprocess.run([*command, "--jobs", jobs, "--out", str(out)], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        hashes.append(parquet_hashes(out / "runs"))
    for attempt in range(3):  # runs are short: a test that is kept from the processors comes too late
        out = tmp_path / f"killed-{attempt}"
        killed = [*command, "--jobs", "2", "--out", str(out)]
        child = subprocess.Popen(killed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
        while len(finished_runs(out)) < 3 and child.poll() is None:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        finished = {folder.name: (folder / "manifest.json").stat().st_mtime_ns for folder in finished_runs(out)}
        if len(finished) < len({name.split("/")[0] for name in hashes[0]}):
            break
    else:
        pytest.fail("three times it was over before it was killed")
    assert len(finished) >= 3
    done = subprocess.run([*command, "--jobs", "2", "--out", str(out)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    hashes.append(parquet_hashes(out / "runs"))
    assert hashes[0] == hashes[1] == hashes[2] and len(hashes[0]) > 10
    for name, at_ns in finished.items():
        assert (out / "runs" / name / "manifest.json").stat().st_mtime_ns == at_ns, "a finished run was repeated"


def test_a_system_of_ones_own_joins_a_figure_and_runs_alone(tmp_path):
    own = shutil.copy(ROOT / "docs" / "examples" / "weighted.py", tmp_path / "mine.py")
    out = tmp_path / "out"
    done = process("run", "srtm-fig9", "--scale", "tiny", "--system", f"{own}:SYSTEM", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "weighted" in (out / "figures" / "srtm-fig9.svg").read_text()
    done = process(
        "run", "--system", f"{own}:SYSTEM", "--workload", "poisson", "--set", "round=6s", "--out", str(out), "--json"
    )
    rows = json.loads(done.stdout)
    assert done.returncode == 0 and {row["system"] for row in rows} == {"weighted"} and rows[0]["p99_ns"] > 0


def test_a_failed_run_leaves_the_others_and_exit_code_1(tmp_path):
    path = tmp_path / "fails.py"
    example = (ROOT / "docs" / "examples" / "weighted.py").read_text()
    path.write_text(example.replace("measured = yield", "1 / 0\n    measured = yield"))
    out = tmp_path / "out"
    done = process("run", "srtm-fig9", "--scale", "tiny", "--system", f"{path}:SYSTEM", "--out", str(out))
    assert done.returncode == 1 and "ZeroDivisionError" in done.stdout
    assert (out / "figures" / "srtm-fig9.svg").exists() and list((out / "runs").glob("*.failed/manifest.json"))


def test_the_readme_shows_the_example_as_it_is():
    readme, example = (ROOT / "README.md").read_text(), (ROOT / "docs" / "examples" / "weighted.py").read_text()
    assert example[example.index("from dataclasses") :].strip() in readme


TRACE = ROOT.parent / "shared" / "data" / "ulb-library-wsn" / "library1-R1.txt.gz"


@pytest.mark.skipif(not TRACE.exists(), reason=f"the real trace is not here: {TRACE}")
def test_the_real_trace_as_it_is(tmp_path):
    done = ratebed("run", "srtm-trace", "--scale", "tiny", "--trace", str(TRACE), "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "srtm-trace" in (tmp_path / "report" / "index.html").read_text()
    assert (tmp_path / "figures" / "srtm-trace.svg").read_text().count("<path") > 10


def test_a_trace_of_ones_own_with_a_column_map(tmp_path):
    path = tmp_path / "mine.csv"
    rows = [f"{n * 7 % 4000};sensor-{n % 20}" for n in range(2_000)]
    path.write_text("when;who\n" + "\n".join(rows) + "\n")
    words = ["--columns", "publisher=who,instant=when", "--separator", ";", "--replicas", "5", "--speed", "1"]
    done = ratebed("run", "srtm-trace", "--scale", "tiny", "--trace", str(path), *words, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "out" / "figures" / "srtm-trace.svg").exists()
