"""The whole way through the command line: every figure at tiny scale, the report, resume, determinism."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.campaign import finished_runs
from harness.experiment import SCALES
from paper_figs import FIGURES, all_claims, load_figure
from tests.analysis.test_report import broken_links
from tests.browser import browser, needs_browser
from tests.command import process, ratebed
from tests.harness.common import parquet_hashes
from tests.pages import index_problems, page_problems

pytestmark = [pytest.mark.slow, pytest.mark.long]
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Path:
    """Every figure at tiny scale."""
    out = tmp_path_factory.mktemp("smoke") / "out"
    done = process("figures", "--all", "--scale", "tiny", "--out", str(out))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert str(out / "report" / "index.html") in done.stdout
    return out


def needs_more(key: str) -> bool:
    """Whether a figure is left out of ``--all``: it wants a file, or a live testbed."""
    experiment = load_figure(key).experiment
    points = experiment.points(SCALES["tiny"], {option.name: option.default for option in experiment.options})
    return not (points or experiment.analytic) or any(spec.testbed != "virtual" for spec in points)


DRAWN = [key for key in FIGURES if not needs_more(key)]


def test_every_figure_is_drawn(smoke):
    assert len(DRAWN) > 40
    for key in DRAWN:
        svg = (smoke / "figures" / f"{key}.svg").read_text()
        assert svg.count("<path") + svg.count("<text") > 10, f"{key} is empty"
        assert (smoke / "figures" / f"{key}.png").stat().st_size > 10_000


@pytest.mark.night
def test_figures_from_a_store_that_was_made_anew_are_the_same(smoke, tmp_path):
    out = tmp_path / "out"
    keys = ("srtm-fig5", "crdt-fig5.9", "dst-fig7", "epulsar-fig6")
    shutil.copytree(smoke / "runs", out / "runs")
    done = ratebed("figures", *keys, "--scale", "tiny", "--out", str(out))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    stored = json.loads(ratebed("store", "--json", "--out", str(out)).stdout)
    assert 0 < stored["run_count"] < len(finished_runs(out)) and not stored["damaged"]
    for key in keys:
        assert parquet_hashes(out / "tables" / key) == parquet_hashes(smoke / "tables" / key) != {}, key


def test_the_report_has_every_figure_and_claim_in_one_folder(smoke):
    html = (smoke / "report" / "index.html").read_text()
    for key in FIGURES:
        assert f'href="figure-{key}.html"' in html
        page = (smoke / "report" / f"figure-{key}.html").read_text()
        assert "<svg" in page or "Skipped." in page
    for claim in all_claims():
        assert claim.id in html
    trace, accuracy = ((smoke / "report" / f"figure-{key}.html").read_text() for key in ("srtm-trace", "link-accuracy"))
    assert "--trace FILE" in trace and "ratebed run link-accuracy" in accuracy, "a skipped figure says why"
    assert broken_links(smoke / "report") == []


def test_claims_are_listed_for_machines(smoke):
    done = ratebed("claims", "--json", "--out", str(smoke))
    found = json.loads(done.stdout)
    assert done.returncode in (0, 1, 3) and [claim["id"] for claim in found] == [c.id for c in all_claims()]
    for claim in found:
        assert {"id", "source", "testbed", "verdict", "measured", "published"} <= claim.keys()
        assert claim["measured"] or claim["problem"], "an answer, or the reason why there is none"
    contradicted = any(claim["verdict"] == "contradicted" for claim in found)
    assert (done.returncode == 1) == contradicted


def test_a_repeated_command_runs_nothing_and_draws_the_same(smoke):
    before = (smoke / "figures" / "srtm-fig7.svg").read_bytes()
    (smoke / "figures" / "srtm-fig7.png").unlink()  # else what is there would stay
    done = ratebed("run", "srtm-fig7", "--scale", "tiny", "--out", str(smoke))
    assert done.returncode == 0 and ", 0 to do" in done.stdout
    assert (smoke / "figures" / "srtm-fig7.svg").read_bytes() == before
    assert (smoke / "figures" / "srtm-fig7.png").is_file()
    assert "srtm-fig5" in (smoke / "report" / "index.html").read_text(), "the report keeps the other figures"


def test_show_tells_a_run(smoke):
    run_id = next(iter(json.loads((smoke / "tables" / "srtm-table1" / "section.json").read_text())["run_ids"]))
    done = ratebed("show", run_id[:10], "--out", str(smoke))
    assert done.returncode == 0 and "round 1 (iteration 1)" in done.stdout and "fresh round" in done.stdout


def test_seed_7_is_the_same_with_one_process_two_and_after_a_kill(tmp_path):
    command = [sys.executable, "-m", "ratebed", "run", "srtm-fig9", "--scale", "tiny", "--seed", "7"]
    hashes = []
    for jobs in ("1", "2"):
        out = tmp_path / jobs
        done = subprocess.run([*command, "--jobs", jobs, "--out", str(out)], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        hashes.append(parquet_hashes(out / "runs"))
    out = tmp_path / "killed"
    killed = [*command, "--jobs", "2", "--out", str(out)]
    child = subprocess.Popen(killed, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    assert child.stdout is not None
    while len(finished_runs(out)) < 3:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    finished = {folder.name: (folder / "manifest.json").stat().st_mtime_ns for folder in finished_runs(out)}
    assert 3 <= len(finished) < len({name.split("/")[0] for name in hashes[0]})
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


@pytest.mark.night
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


@needs_browser()
def test_every_page_of_the_report_is_sound_in_a_browser(smoke, tmp_path):
    """Both widths, dark, axe-core, the console; how all figures look is known only with all of them."""
    folder = smoke / "report"
    with browser(tmp_path) as driver:
        problems = index_problems(driver, folder)
        for page in sorted(folder.glob("*.html")):
            problems += page_problems(driver, page)
    assert problems == []
