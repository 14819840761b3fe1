"""The report is a folder that stands alone, says what was judged and why, and leaves no figure without its numbers."""

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest
from markupsafe import Markup

from analysis.report import claims_json, frame, write_page, write_report
from analysis.report.charts import columns_of, table_view
from analysis.report.claims import claim_row
from analysis.report.forest import WIDTH, forest
from analysis.report.live import run_usages, usage_over_time
from analysis.report.numbers import number
from analysis.verdicts import Check, Judgement, Tried, above, within
from collectors.integrity import Damage, forget
from collectors.writer import write_run
from core import writing
from core.errors import MachineError
from tests.analysis.report.reports import PAPERS, RESULTS, SECTIONS, TABLES, TRIED, USAGE, context, result, written

VOID = {"meta", "img", "br", "link", "hr", "input"}


class Page(HTMLParser):
    """Checks nesting while it collects what a test asks about."""

    def __init__(self, path: Path):
        super().__init__()
        self.open, self.tags, self.ids, self.text = [], [], [], ""
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        self.text += data

    def values(self, *names):
        return [attrs[name] for _, attrs in self.tags for name in names if attrs.get(name)]


def pages_of(folder: Path) -> dict[str, Page]:
    """Every page of a report."""
    return {path.name: Page(path) for path in sorted(folder.glob("*.html"))}


def repeated_ids(pages: dict[str, Page]) -> list[str]:
    """Pages on which an id stands twice."""
    return [name for name, page in pages.items() if len(page.ids) != len(set(page.ids))]


def broken_links(folder: Path) -> list[str]:
    """References of pages that lead nowhere, or out of the folder."""
    pages, broken = pages_of(folder), []
    for name, page in pages.items():
        for link in page.values("href", "src"):
            file, _, fragment = link.partition("#")
            target = folder / unquote(file) if file else folder / name
            there = target.is_file() and target.resolve().is_relative_to(folder.resolve())
            known = not fragment or target.name not in pages or unquote(fragment) in pages[target.name].ids
            if not there or not known:
                broken.append(f"{name}: {link}")
    return broken


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return written(tmp_path_factory.mktemp("sent") / "report")


@pytest.fixture(scope="module")
def pages(folder):
    return pages_of(folder)


@pytest.fixture(scope="module")
def figure(pages):
    return pages["figure-fig-a.html"]


def test_there_is_an_index_a_page_a_paper_and_a_page_a_figure(pages):
    assert list(pages) == ["figure-fig-a.html", "figure-fig.b@mininet-small~margin=1.1.html", "index.html",
                           "paper-crdt.html", "paper-srtm.html"]  # fmt: skip
    assert repeated_ids(pages) == []


def test_every_link_leads_somewhere_inside_the_folder_and_a_broken_one_is_found(folder, tmp_path):
    assert broken_links(folder) == []
    page = folder / "paper-crdt.html"
    whole = page.read_text()
    page.write_text(whole.replace("index.html", "../index.html").replace('href="#figures"', 'href="#nowhere"'))
    assert len(broken_links(folder)) == 2
    page.write_text(whole)


def test_scripts_are_classic_files_in_the_folder_and_nothing_is_fetched(folder, pages):
    for page in pages.values():
        assert not {"iframe", "object"} & {tag for tag, _ in page.tags}
        assert not any(re.match(r"[a-z]+:|//", link) for link in page.values("href", "src"))
        assert not any(attrs.get("type") == "module" for tag, attrs in page.tags if tag == "script")
    ours = "".join((folder / "assets" / name).read_text() for name in frame.ASSETS)
    assert not re.search(r"fetch\(|XMLHttpRequest|@import|url\(|^(import|export) ", ours, re.MULTILINE)
    vega = (folder / "assets" / frame.VEGA).read_text()
    assert vega.startswith("/* Vega") and "window.vegaEmbed" in vega and not re.search(r"^(import|export) ", vega, re.M)


def test_every_drawn_number_is_in_a_file_beside_the_figure(folder, figure):
    for name, table in TABLES.items():
        kept = folder / "data" / "fig-a" / name
        pd.testing.assert_frame_equal(
            pd.read_csv(kept.with_suffix(".csv"), keep_default_na=False), table, check_dtype=False
        )
        pd.testing.assert_frame_equal(pd.read_parquet(kept.with_suffix(".parquet")), table)
        assert {f"data/fig-a/{name}.csv", f"data/fig-a/{name}.parquet"} <= set(figure.values("href"))
    assert pd.read_csv(folder / "data" / "fig-a" / "usage.csv").cpu_cores.max() == 0.7
    assert "drawings/fig-a.svg" in figure.values("href")
    assert "The first 100 of 150 rows" in figure.text


def test_a_claim_that_was_judged_on_two_testbeds_has_a_verdict_on_each(tmp_path):
    judged = {
        "reproduced": result("R1", within("p99", (1.0, 1.0), 1.0)),
        "contradicted": result("R1", within("p99", (9.0, 9.0), 1.0), testbed="mininet"),
    }
    keys = dict(zip(judged, ("fig-a", "fig-a@mininet"), strict=True))
    sections = [replace(SECTIONS[0], key=keys[said], results=[judged[said]]) for said in judged]
    write_report(tmp_path / "index.html", sections, list(judged.values()), context())
    pages = pages_of(tmp_path)
    for said, key in keys.items():
        for text in (pages[f"figure-{key}.html"].text, (tmp_path / "drawings" / f"{key}.svg").read_text()):
            assert [each for each in judged if each in text] == [said], key
    assert repeated_ids(pages) == [] and broken_links(tmp_path) == []
    assert {"row-R1", "row-R1-mininet"} <= {*pages["index.html"].ids}


def test_parquet_files_are_those_that_were_judged(tmp_path):
    (tmp_path / "tables").mkdir()
    for name, table in TABLES.items():
        table.to_parquet(tmp_path / "tables" / f"{name}.parquet", compression="gzip")
    folder = written(tmp_path / "report", table_files={"fig-a": tmp_path / "tables"})
    for name in TABLES:
        kept = (tmp_path / "tables" / f"{name}.parquet").read_bytes()
        assert (folder / "data" / "fig-a" / f"{name}.parquet").read_bytes() == kept


def test_the_drawing_is_text_in_the_page_and_says_what_was_found(folder, figure):
    drawn = (folder / "drawings" / "fig-a.svg").read_text()
    assert "§ drawn &amp; done" in drawn and 'height="112pt"' in drawn and 'viewBox="0 0 504 112"' in drawn
    assert "SRTM, Fig. 4 (fig-a) · R1 ✓ reproduced (fitted) · R2 ✗ contradicted" in drawn
    assert (
        "§ drawn & done" in figure.text and "R2 ✗ contradicted" in figure.text and "<!DOCTYPE svg>" not in figure.text
    )


def test_the_index_counts_every_verdict_in_a_sentence_a_strip_and_rows(pages):
    page = pages["index.html"]
    said = "Of 6 claims of the sources, 2 are reproduced (1 of them fitted), 1 reproduced in direction only, "
    assert said + "1 contradicted, 1 undecided and 1 not run." in " ".join(page.text.split())
    dots = [attrs for tag, attrs in page.tags if tag == "a" and "dot" in attrs.get("class", "").split()]
    assert len(dots) == len(RESULTS) and {attrs["data-row"] for attrs in dots} <= set(page.ids)
    for found in RESULTS:
        assert found.claim.sentence in page.text
    assert page.ids.index("strip") < page.ids.index("claims") < page.ids.index("figures")
    for text in ("quick, seed 7", "commit abc", "2001-02-03", "2 cores", "2 of 4 claims reproduced together"):
        assert text in page.text, text


def test_reasons_are_shown_where_something_is_not_reproduced(pages):
    text = pages["paper-srtm.html"].text + pages["paper-crdt.html"].text
    assert "because of & that" in text and "needs mininet" in text and "not shown" not in text


def test_checks_show_what_was_measured_wanted_and_published(figure):
    for text in ("14.1 ms [13.9, 14.3]", "11 to 18.4", "14.7 ms", "≤ 1.05", "> 0", "✗ fails", "fitted", "check 4"):
        assert text in figure.text, text
    assert sum(attrs.get("class") == "forest" for _, attrs in figure.tags) == 1 + 1 + 2 + 5


def test_what_stands_behind_a_figure_is_there_without_a_script(pages, figure):
    for text in ("ratebed run fig-a --seed 1", "1.25", "calibration <x>", "3 runs", "aa11", "limit < 20", "Φ <cr>",
                 "at most 0.7: node-n2 at 3 s", "fig7.csv", "Read off the source's picture",
                 "Ours is missing: 1 of 2 values."):  # fmt: skip
        assert text in figure.text, text
    assert "no trace given: --trace FILE" in pages["figure-fig.b@mininet-small~margin=1.1.html"].text


def test_the_same_input_gives_the_same_bytes_and_what_is_gone_goes(tmp_path):
    one, other = written(tmp_path / "one"), written(tmp_path / "other")
    names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert names and all((one / name).read_bytes() == (other / name).read_bytes() for name in names)
    (other / "advise.html").write_text("another verb's")
    write_report(other / "index.html", SECTIONS[1:], RESULTS, context())
    left = {path.name for path in other.rglob("*") if path.is_file()}
    assert "figure-fig-a.html" not in left and "p99.csv" not in left and {"advise.html", "index.html"} <= left


def test_a_former_report_cannot_have_files_elsewhere_removed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps({"files": ["../victim", str(victim), 7]}))
    written(folder)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("content", ["[" * 100_000, "3", '{"files": 3}', '{"files": ["a\\u0000b"]}', '{"files": [""]}'])
def test_a_former_report_that_is_damaged_is_written_over(tmp_path, content):
    (tmp_path / "report.json").write_text(content)
    written(tmp_path)
    assert "index.html" in json.loads((tmp_path / "report.json").read_bytes())["files"]


def test_the_pages_of_other_verbs_are_in_the_frame_and_linked(tmp_path):
    write_page(tmp_path, "advise.html", "Which limiter?", Markup("<section><h2>Ranking</h2></section>"))
    page = Page(tmp_path / "advise.html")
    assert "Ranking" in page.text and "assets/style.css" in page.values("href")
    written(tmp_path)
    assert "advise.html" in pages_of(tmp_path)["index.html"].values("href") and broken_links(tmp_path) == []


def test_changes_since_an_earlier_report_are_said(tmp_path):
    lines = ["R1 (virtual): undecided then, reproduced now"]
    page = pages_of(written(tmp_path, since="last week", changes=lines))["index.html"]
    assert "Changed since last week" in page.text and lines[0] in page.text
    page = pages_of(written(tmp_path, since="last week"))["index.html"]
    assert "Nothing: every verdict, number and table is as it was." in page.text


def test_the_index_keeps_its_bounds_with_many_claims(tmp_path):
    checks = [
        within(f"a check with a label of some length, number {n}", (14.0, 14.1), 14.7, unit="ms") for n in range(12)
    ]
    results = [replace(result(f"R{n}", *checks), tried=(TRIED,)) for n in range(220)]
    sections = [
        replace(SECTIONS[0], key=f"fig-{n}", results=results[n : n + 1], tables={}, usage=None) for n in range(71)
    ]
    write_report(tmp_path / "index.html", sections, results, context())
    page = Page(tmp_path / "index.html")
    assert len(page.tags) <= 5_000 and (tmp_path / "index.html").stat().st_size <= 500_000


def test_a_full_disk_is_one_line_and_leaves_the_old_report(tmp_path, monkeypatch):
    folder = written(tmp_path / "report")
    (folder / "index.html").write_text("old")
    monkeypatch.setattr(writing, "token_hex", lambda size: "0")
    (folder / ".index.html.partial-0").symlink_to("/dev/full")
    with pytest.raises(MachineError, match=r"cannot write .*index\.html: No space left on device; free disk space"):
        written(folder)
    assert (folder / "index.html").read_text() == "old" and not list(folder.glob(".*"))


def test_readings_that_were_made_from_a_claim_are_counted_apart():
    def said(*tried, **options):
        claim = result("R1", within("p99", (1.0, 1.0), 1.0), **options)
        return claim_row(replace(claim, tried=tried)).said

    holding, fitted = replace(TRIED, judgement=Judgement.REPRODUCED), replace(TRIED, fitted=True)
    assert said(TRIED, holding) == "under 2 of 3 readings"
    assert said(TRIED, fitted) == "under 1 of 2 readings, 1 more fitted"
    assert said(TRIED, fitted, fitted=True) == "under no reading tried, 2 more fitted"
    assert said(fitted, fitted=True) == "under no reading that is not fitted"
    assert said(TRIED, substitute=True) == "in direction under 1 of 2 readings"
    row = claim_row(replace(RESULTS[0], tried=(fitted,)))
    assert [each.text.endswith("(fitted)") for each in row.readings] == [True, True]
    (found,) = claims_json([replace(RESULTS[0], tried=(fitted,))])
    assert found["tried"][0]["fitted"] is True


def test_claims_as_json(folder):
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
    assert json.loads((folder / "report.json").read_text())["claims"] == claims


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


def test_figures_and_claims_stand_on_their_papers_page(tmp_path):
    pages = pages_of(written(tmp_path))
    assert "First & best" in pages["paper-srtm.html"].text and "sentence of R1" in pages["paper-srtm.html"].text
    assert "Second" in pages["paper-crdt.html"].text and "sentence of R1" not in pages["paper-crdt.html"].text
    write_report(tmp_path / "index.html", SECTIONS, RESULTS, replace(context(), papers=PAPERS[:1]))
    assert "sentence of T5" in pages_of(tmp_path)["paper-more.html"].text, "what is of no paper is not lost"
    assert broken_links(tmp_path) == []


# --- forest plots, charts, what live runs used -----------------------------------------------------


def x_of(plot: str, kind: str) -> list[float]:
    """Where a mark stands."""
    tag = re.search(rf'<\w+ class="{kind}"[^>]*>', plot)
    assert tag is not None, kind
    return [float(text) for text in re.findall(r'(?:[ "]x="|width="|cx="|d="M|H)([0-9.]+)', tag[0])]


def test_a_forest_plot_has_everything_in_its_place():
    plot = str(forest(within("p99", (10.0, 14.0, 15.0), 20.0, 0.5), [("margin 1.1", TRIED.checks[0].interval)]))
    (mean,), (left, right), (band, width) = x_of(plot, "mean"), x_of(plot, "interval"), x_of(plot, "band")
    (published,) = (x + 4 for x in x_of(plot, "published")[:1])
    assert 0 <= left < mean < right <= WIDTH and band < published < band + width
    assert "margin 1.1" in plot and "measured 13 [6.43, 19.6]; wanted 10 to 30; published 20" in plot


def lines_of_readings(checks: list[Check], others: list[Check], direction: tuple[Check, ...] = ()) -> list[int]:
    """How many thin lines each check's plot has, where another reading measured ``others``."""
    tried = Tried({"envelope": "literal"}, False, Judgement.UNDECIDED, others)
    row = claim_row(replace(result("R1", *checks, direction=direction), tried=(tried,)))
    return [str(check.plot).count('class="reading"') for check in row.checks]


def test_other_readings_are_drawn_where_labels_name_them_or_what_was_measured():
    ours = [within(f"groups of {size}, conformant: it takes {size / 3:.1f}", (1.0, 1.1), 1.0) for size in (5, 15)]
    theirs = [within(f"groups of {size}, literal: it takes {size / 4:.2f}", (2.0, 2.1), 1.0) for size in (5, 15)]
    assert lines_of_readings(ours, theirs) == [1, 1]
    assert lines_of_readings(ours, theirs[:1]) == [0, 0], "one check too few"
    assert lines_of_readings(ours, theirs[::-1]) == [0, 0], "other sizes"
    assert lines_of_readings(ours, [theirs[0], above("groups of 15, literal", (2.0, 2.1))]) == [0, 0], "another kind"
    assert lines_of_readings(ours, [theirs[0], ours[1], theirs[1]]) == [0, 1], "a label that is the same is enough"
    assert lines_of_readings(ours[:1], [ours[0], ours[0]], (ours[0],)) == [1, 1], "one line a reading"


@pytest.mark.parametrize(("is_substitute", "where"), [(False, "under 1 of 3"), (True, "in direction under 2 of 3")])
def test_a_claim_whose_input_is_secret_holds_in_direction_at_most(is_substitute, where):
    found = result("T1", within("share", (1.0, 1.01), 1.0), substitute=is_substitute)
    cells = [Tried({"margin": 1.1}, False, each) for each in (Judgement.DIRECTION_ONLY, Judgement.CONTRADICTED)]
    assert claim_row(replace(found, tried=tuple(cells))).said == f"{where} readings"
    never = replace(found, judgement=Judgement.UNDECIDED, tried=tuple(cells[1:]))
    assert claim_row(never).said == "under no reading tried"


def test_what_is_infinite_reaches_the_edge_and_identical_values_are_a_point():
    plot = str(forest(above("sign", (1.0,))))
    assert x_of(plot, "interval") == [0.0, WIDTH]
    left, right = x_of(str(forest(above("sign", (3.0, 3.0, 3.0)))), "interval")
    assert right - left <= 1.0
    assert forest(above("none", ())) == ""


def test_axes_of_a_table():
    view = table_view(TABLES["p99"])
    assert (view["x"], view["y"], view["series"]) == ("size", "mean", "system")
    assert view["telling"] == ["system", "size", "arrivals"] and view["intervals"] and view["measures"] == ["mean"]
    assert view["rows"][0] == ["lb", 5, "poisson", 1.0, 0.9, "inf"]
    assert columns_of(TABLES["runs"]) == (["p99_ms"], ["system", "size"])


def test_numbers_that_an_experiment_set_tell_rows_apart_and_are_axes():
    grid = [(way, rtt, each) for each in range(3) for way in ("split", "central") for rtt in (0.1, 1.0, 40.0)]
    rows = pd.DataFrame(grid, columns=["way", "rtt_ms", "repetition"])
    rows["debt_ms"] = rows.rtt_ms.where(rows.way == "central", 0.0)  # what follows from both
    rows["broker_count"], rows["list"] = 2, [[1]] * len(rows)
    rows["p99_ms"] = [1.0, 2.0, 2.0, 3.0, 3.0, 1.0] * 3
    rows.loc[0, "p99_ms"] = 3.0  # measured: not the same in every repetition
    assert columns_of(rows) == (["debt_ms", "broker_count", "p99_ms"], ["way", "rtt_ms"])
    assert table_view(rows)["x"] == "rtt_ms" and table_view(rows)["series"] == "way"
    averaged = rows[rows.repetition == 0].drop(columns="repetition")
    assert columns_of(averaged) == (["debt_ms", "broker_count", "p99_ms"], ["way", "rtt_ms"])
    assert columns_of(rows.drop(columns="repetition"))[1] == ["way"], "nobody knows: three rows are alike in both"


def test_without_repetitions_numbers_left_of_the_means_tell_rows_apart_if_nothing_else_does():
    grid = [(kind, system, ms) for kind in ("poisson", "periodic") for system in ("lb", "srtm") for ms in (0.0, 2.0)]
    rows = pd.DataFrame(grid, columns=["arrivals", "system", "spread_ms"])
    rows["mean"], rows["std"], rows["count"] = [1.0, 2.0, 3.0, 1.0, 2.0, 4.0, 5.0, 1.5], 0.1, 5
    rows["violation_s"] = [0.0, 0.0, 1.0, 1.0] * 2  # few values, but right of the means
    measures, telling = columns_of(rows)
    assert telling == ["arrivals", "system", "spread_ms"] and measures == ["mean", "std", "count", "violation_s"]
    view = table_view(rows)
    assert (view["x"], view["y"], view["series"], view["telling"]) == ("spread_ms", "mean", "system", telling)
    rows["arrivals"] = [f"kind {n}" for n in range(8)]
    assert columns_of(rows)[1] == ["arrivals", "system"], "nothing else is needed"


def test_without_means_and_repetitions_it_is_the_numbers_that_come_first():
    grid = [(mode, ms, n, n / 2) for mode in ("merge", "write") for ms in (100, 1_000) for n in range(3)]
    rows = pd.DataFrame(grid, columns=["mode", "gossip_ms", "rejected_count", "rejected_count_std"])
    rows["t_s"] = [0.0, 1.0, 2.0] * 4
    assert columns_of(rows) == (["rejected_count", "rejected_count_std"], ["mode", "gossip_ms"])
    assert (table_view(rows)["x"], table_view(rows)["telling"]) == ("t_s", ["mode", "gossip_ms"])
    rows.loc[:, "t_s"] = 0.0
    assert columns_of(rows)[1] == ["mode"], "rows that only what was measured tells apart"


@pytest.mark.parametrize("name", ["count", "landed_count"])
def test_a_chart_opens_on_what_was_measured_rather_than_on_how_many(name):
    rows = pd.DataFrame(
        {"system": ["lb", "srtm"] * 6, name: [*range(100, 112)], "p50_ms": [1 + n / 16 for n in range(12)]}
    )
    assert table_view(rows)["y"] == "p50_ms"
    assert table_view(rows.drop(columns="p50_ms"))["y"] == name


def test_a_table_of_one_row_lists_and_no_numbers_can_be_shown():
    odd = pd.DataFrame({"name": ["a"], "way": [[1, 2]], "is_on": [True], "nothing": [None]})
    view = json.loads(json.dumps(table_view(odd), allow_nan=False))
    assert view["rows"] == [["a", "[1, 2]", True, None]] and view["y"] == ""


def test_what_is_infinite_is_told_apart_from_what_is_missing():
    values = [1.23456789, float("inf"), float("-inf"), float("nan")]
    for column in (values, pd.Series(values, dtype=object)):
        rows = table_view(pd.DataFrame({"p99_ms": column}))["rows"]
        assert json.loads(json.dumps(rows, allow_nan=False)) == [[1.234568], ["inf"], ["-inf"], [None]]


def test_counters_become_rates_and_one_that_falls_began_anew(tmp_path):
    counted = {
        "at_ns": [0, 10**9, 2 * 10**9, 4 * 10**9],
        "node": ["p"] * 4,
        "cpu_ns": [5, 5 + 5 * 10**8, 10**8, 5 * 10**8],
    }
    network = {"at_ns": [0, 2 * 10**9], "node": ["n1"] * 2, "interface_sent_bytes": [100, 300]}
    tables = {"processes": {**counted, "rss_bytes": [1, 2, 3, 4]}, "network": network}
    for run_id, its in (("r", tables), ("none", {})):
        write_run(tmp_path / run_id, its, {"run_id": run_id})
    usage = usage_over_time({"r": tmp_path / "r", "none": tmp_path / "none"})
    assert usage is not None
    assert usage[usage.process == "p"].cpu_cores.tolist()[1:] == [0.5, 0.1, 0.2]
    assert usage[usage.process == "n1 (host)"].sent_bytes_per_s.tolist()[1:] == [100.0]
    assert usage_over_time({"none": tmp_path / "none"}) is None
    shutil.copy(tmp_path / "r" / "processes.parquet", tmp_path / "none")
    forget()
    with pytest.raises(Damage, match=r"processes\.parquet does not belong to it"):
        usage_over_time({"none": tmp_path / "none"})


def test_small_drawings_show_the_busiest_of_each_kind():
    (run,) = run_usages(USAGE)
    cpu, memory, sent = run.plots
    assert cpu.most == "at most 0.7: node-n2 at 3 s" and cpu.drawing.count("<polyline") == 1
    assert memory.most.startswith("at most 2:") and (sent.most, sent.drawing) == ("not counted", "")


def test_a_page_says_how_many_runs_it_does_not_list(tmp_path):
    section = replace(SECTIONS[0], unlisted=99_997)
    write_report(tmp_path / "index.html", [section], RESULTS, context())
    text = " ".join(pages_of(tmp_path)[section.page].text.split())
    assert "100,000 runs, 3 of them in this list, first those that are not valid; ratebed show RUN" in text
