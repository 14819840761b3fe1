"""The whole way through the command line: every figure at tiny scale, the store, the report, each of its pages."""

import json
import shutil
from pathlib import Path

import pytest

from harness.campaign import finished_runs
from harness.experiment import SCALES
from paper_figs import FIGURES, all_claims, load_figure
from tests.analysis.report.test_report import broken_links
from tests.browser import browser, needs_browser
from tests.command import process, ratebed
from tests.harness.common import parquet_hashes
from tests.pages import SEEN_BY_AXE, index_problems, page_problems

pytestmark = [pytest.mark.slow, pytest.mark.long]
SCALE = ("--scale", "tiny", "--repetitions", "1")  # intervals are drawn in the figures' own tests


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Path:
    """Every figure at tiny scale."""
    out = tmp_path_factory.mktemp("smoke") / "out"
    done = process("figures", "--all", *SCALE, "--out", str(out))
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
    done = ratebed("figures", *keys, *SCALE, "--out", str(out))
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
    done = ratebed("run", "srtm-fig7", *SCALE, "--out", str(smoke))
    assert done.returncode == 0 and ", 0 to do" in done.stdout
    assert (smoke / "figures" / "srtm-fig7.svg").read_bytes() == before
    assert (smoke / "figures" / "srtm-fig7.png").is_file()
    assert "srtm-fig5" in (smoke / "report" / "index.html").read_text(), "the report keeps the other figures"


def test_show_tells_a_run(smoke):
    run_id = next(iter(json.loads((smoke / "tables" / "srtm-table1" / "section.json").read_text())["run_ids"]))
    done = ratebed("show", run_id[:10], "--out", str(smoke))
    assert done.returncode == 0 and "round 1 (iteration 1)" in done.stdout and "fresh round" in done.stdout


@needs_browser()
def test_every_page_of_the_report_is_sound_in_a_browser(smoke, tmp_path):
    """Both widths, dark, axe-core in one of two looks in turn, the console; only here are all figures' pages."""
    folder = smoke / "report"
    with browser(tmp_path) as driver:
        problems = index_problems(driver, folder)
        for number, page in enumerate(sorted(folder.glob("*.html"))):
            problems += page_problems(driver, page, [SEEN_BY_AXE[number % 2]])
    assert problems == []
