"""The report stands alone, says what was judged and why, and is whole or absent."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from analysis import report
from analysis.report import FigureSection, ReportContext, claims_json, write_report
from analysis.report_numbers import number
from analysis.verdicts import Claim, Evidence, above, at_most, judge, within
from core.errors import MachineError

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="504pt" height="100pt"><text>§ drawn &amp; done</text></svg>'
VOID = {"meta", "img", "br", "link", "hr"}


class Page(HTMLParser):
    """Checks nesting while it collects what a test asks about."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        self.text += data

    def values(self, tag, name):
        return [attrs[name] for found, attrs in self.tags if found == tag and name in attrs]


def result(name, *exact, direction=(), **options):
    measure = None if options.get("needs") else lambda tables: Evidence(tuple(exact), tuple(direction))
    claim = Claim(
        name, f"Fig. {name}", f"sentence of {name} <b>", ("fig-a",), measure, minimum_repetitions=2, **options
    )
    return judge(claim, {})


RESULTS = [
    result("R1", within("p99 at k=6", (14.0, 14.1, 14.2), 14.7, unit="ms"), fitted=True, why="not shown"),
    result("R2", at_most("p99", (2.0, 2.1, 2.2), 1.05, "ms"), why="because of & that"),
    result("R3", within("p99", (1.0, 9.0), 1.0), direction=(above("slope", (1.0, 1.1, 1.05)),)),
    result("R4", *[at_most(f"check {i}", (1.0, 1.0), 2.0) for i in range(5)]),
    result("R5", needs="mininet", testbed="mininet"),
    result("R6", within("one run", (1.0,), 1.0)),
]
SECTIONS = [
    FigureSection(
        "fig-a",
        "First & best",
        "SRTM, Fig. 4",
        SVG,
        command="ratebed run fig-a --seed 1",
        results=RESULTS[:4],
        run_ids=["aa11", "bb22"],
        tables={"p99": pd.DataFrame({"system": ["lb"] * 150, "p99_ms": [1.2345] * 150})},
        notes="calibration <x>",
    ),
    FigureSection("fig.b", "Second", "SRTM, Fig. 5", None, skipped="no trace given: --trace FILE", run_ids=["bb22"]),
]


@pytest.fixture
def context(tmp_path):
    return ReportContext("quick", 7, "commit abc", "2001-02-03", "2 cores", "ratebed figures", tmp_path / "runs")


@pytest.fixture
def page(tmp_path, context):
    path = tmp_path / "report" / "index.html"
    write_report(path, SECTIONS, RESULTS, context)
    return Page(path.read_text(encoding="utf-8"))


def test_the_page_is_well_formed_and_its_links_meet(page):
    assert len(page.ids) == len(set(page.ids))
    inner = [link[1:] for link in page.values("a", "href") if link.startswith("#")]
    assert inner and set(inner) <= set(page.ids)


def test_nothing_is_fetched_and_nothing_runs(page):
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "iframe", "object"}
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.values("img", "src"))
    assert not any(re.match(r"[a-z]+:", link) for link in page.values("a", "href"))
    assert "http" not in report.CSS and "@import" not in report.CSS and "url(" not in report.CSS


def test_the_drawing_is_kept_byte_for_byte(page):
    (source,) = page.values("img", "src")
    assert base64.b64decode(source.partition(",")[2]).decode() == SVG


def test_manifests_are_linked_relative_to_the_report(page, tmp_path):
    links = [link for link in page.values("a", "href") if link.endswith(".json")]
    assert links == [f"../runs/{run}/manifest.json" for run in ("aa11", "bb22", "bb22")]
    assert (tmp_path / "report" / links[0]).resolve() == tmp_path / "runs" / "aa11" / "manifest.json"


def test_the_summary_counts_every_verdict_and_comes_first(page):
    counts = re.search(r"Claims\s*(.*?)Reproduced:", page.text, re.S)[1]
    assert re.findall(r"(\d)\S? ([a-z ]+)", counts) == [
        ("2", "reproduced"),
        ("1", "direction only"),
        ("1", "contradicted"),
        ("1", "undecided"),
        ("1", "not run"),
    ]
    assert page.ids.index("claims") < page.ids.index("figure-fig-a")
    for found in RESULTS:
        assert found.claim.sentence in page.text


def test_reasons_are_shown_where_something_is_not_reproduced(page):
    assert "because of & that" in page.text and "needs mininet" in page.text
    assert "not shown" not in page.text


def test_checks_show_what_was_measured_wanted_and_published(page):
    for text in ("14.1 ms [13.9, 14.3]", "11 to 18.4", "14.7 ms", "≤ 1.05", "> 0", "✗ fails", "1 [−∞, ∞]", "fitted"):
        assert text in page.text, text
    assert "and 2 more" in page.text  # R4 has five checks


def test_what_stands_behind_a_figure_is_there(page):
    for text in ("ratebed run fig-a --seed 1", "150 rows, the first 100 here", "1.23", "calibration <x>", "2 runs"):
        assert text in page.text, text
    assert "no trace given: --trace FILE" in page.text
    for text in ("quick, seed 7", "commit abc", "2001-02-03", "2 cores"):
        assert text in page.text, text


def test_the_same_input_gives_the_same_bytes(tmp_path, context):
    paths = [tmp_path / "report" / name for name in ("one.html", "two.html")]
    for path in paths:
        write_report(path, SECTIONS, RESULTS, context)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_full_disk_is_one_line_and_leaves_the_old_report(tmp_path, context):
    path = tmp_path / "index.html"
    path.write_text("old")
    partial = tmp_path / f".index.html.partial-{report.os.getpid()}"
    partial.symlink_to("/dev/full")
    with pytest.raises(MachineError, match=r"cannot write .*index\.html: No space left on device; free disk space"):
        write_report(path, SECTIONS, RESULTS, context)
    assert [item.name for item in tmp_path.iterdir()] == ["index.html"] and path.read_text() == "old"


def test_claims_as_json():
    claims = json.loads(json.dumps(claims_json(RESULTS), allow_nan=False))
    assert [claim["verdict"] for claim in claims] == [
        "reproduced",
        "contradicted",
        "direction only",
        "reproduced",
        "not run",
        "undecided",
    ]
    first, last = claims[0], claims[-1]
    assert first["published"] == [14.7] and first["fitted"] is True and first["testbed"] == "virtual"
    (check,) = first["measured"]
    assert check["mean"] == pytest.approx(14.1) and check["low"] < 14.1 < check["high"] and check["count"] == 3
    assert (check["wanted_low"], check["wanted_high"]) == pytest.approx((11.025, 18.375))
    assert (check["unit"], check["status"], check["published"]) == ("ms", "holds", 14.7)
    assert last["measured"][0]["low"] is None and claims[1]["measured"][0]["wanted_low"] is None
    assert claims[4]["measured"] == [] and claims[4]["problem"] == "needs mininet"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (14.7, "14.7"),
        (0.8765, "0.876"),
        (1.0, "1"),
        (110_000.4, "110,000"),
        (100.0, "100"),
        (99.96, "100"),
        (-2.5, "−2.5"),
        (0.00012, "1.20e−04"),
        (float("nan"), "–"),
        (float("-inf"), "−∞"),
        (None, "–"),
    ],
)
def test_numbers_for_readers(value, text):
    assert number(value) == text


def test_a_path_without_a_folder_is_made(tmp_path, context):
    path = tmp_path / "deep" / "er" / "index.html"
    write_report(path, [], [], context)
    assert Path(path).read_text().startswith("<!DOCTYPE html>")


def test_figures_and_claims_stand_under_their_paper(tmp_path: Path, context: ReportContext) -> None:
    path = tmp_path / "papers.html"
    both = [
        replace(section, paper=paper) for section, paper in zip(SECTIONS, ("First paper", "Second <one>"), strict=True)
    ]
    letters = {result.claim.id[0] for result in RESULTS}
    write_report(path, both, RESULTS, replace(context, papers=dict.fromkeys(letters, "Of the first")))
    page = path.read_text()
    headings = [
        page.index(text) for text in ('class="paper">First paper', "First &amp; best</h2>", "Second &lt;one&gt;</h2>")
    ]
    assert headings == sorted(headings)
    assert page.count('class="paper">Of the first</th>') == len(letters)
