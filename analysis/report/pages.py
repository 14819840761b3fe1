"""What stands on each page: values for the templates."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import numpy as np

from analysis.report import live
from analysis.report.claims import LEGEND, Badge, ClaimRow, claim_row, verdict_of
from analysis.report.contents import FigureSection, PaperEntry, ReportContext
from analysis.report.drawing import inline
from analysis.report.frame import GUESTS, render
from analysis.report.numbers import number
from analysis.verdicts import Judgement, Result

if TYPE_CHECKING:
    import pandas as pd

ROWS_SHOWN = 100  # of a table on a page; its files have all
OTHERS = PaperEntry("more", "More figures")  # of no paper that the context names


class ClaimPlace(NamedTuple):
    """A claim on a page other than its figure's."""

    row: ClaimRow
    link: str  # to where it stands with all its checks
    paper: str  # slug
    is_elsewhere: bool  # judged on another testbed than its own


class TableView(NamedTuple):
    """The beginning of a table."""

    name: str
    link: str  # to its files, without suffix
    columns: list[str]
    rows: list[list[str]]
    total: int


class Book:
    """A report's pages; what several of them show is made once."""

    def __init__(self, sections: Sequence[FigureSection], results: Sequence[Result], context: ReportContext):
        self.sections, self.results, self.context = sections, results, context

    @cached_property
    def papers(self) -> list[PaperEntry]:
        """The papers that have figures or claims here; figures and claims of none come last, under ``OTHERS``."""
        letters = {result.claim.family for result in self.results}
        slugs = {section.paper for section in self.sections}
        known = [paper for paper in self.context.papers if paper.slug in slugs or letters & {*paper.letters}]
        named = {paper.slug for paper in known}
        lettered = {letter for paper in known for letter in paper.letters}
        return known + [OTHERS] * bool(slugs - named or letters - lettered)

    @cached_property
    def places(self) -> list[ClaimPlace]:
        """Every claim, by paper, with a link to its figure's page, or to its paper's where no figure shows it."""
        pages: dict[tuple[str, str], str] = {}
        for section in self.sections:
            for result in section.results:
                pages.setdefault((result.claim.id, result.claim.testbed), section.link)
        places, seen = [], set[str]()
        for result in self.results:
            claim = result.claim
            slug = next((paper.slug for paper in self.papers if claim.family in paper.letters), OTHERS.slug)
            page = pages.get((claim.id, claim.testbed), f"paper-{slug}.html")
            is_elsewhere = claim.id in seen
            row = claim_row(result, is_elsewhere)
            places.append(ClaimPlace(row, f"{page}#{quote(row.anchor)}", slug, is_elsewhere))
            seen.add(claim.id)
        order = {paper.slug: n for n, paper in enumerate(self.papers)}
        return sorted(places, key=lambda place: order[place.paper])

    def claims_of(self, section: FigureSection) -> list[ClaimRow]:
        """A figure's claims, judged where it was made."""
        rows = {(place.row.id, place.row.testbed): place.row for place in self.places}
        return [rows[result.claim.id, result.claim.testbed] for result in section.results]

    def index(self, folder: Path) -> str:
        """The index: a sentence, all claims as dots and as rows, a filter, contents."""
        context, places = self.context, self.places
        runs = len({run_id for section in self.sections for run_id in section.run_ids})
        facts = {
            "Scale": f"{context.scale}, seed {context.seed}",
            "Runs": f"{runs:,}",
            "Date": context.date,
            "Code": context.code_version,
            "Machine": context.machine,
        }
        of_papers = [(paper, self._figures(paper), self._claims(paper)) for paper in self.papers]
        values = self._frame(context.title) | {
            "context": context,
            "sentence": _sentence(self.results),
            "facts": facts,
            "counts": _counts(self.results),
            "legend": LEGEND,
            "of_papers": of_papers,
            "places": places,
            "testbeds": sorted({place.row.testbed for place in places}),
            "guests": {name: title for name, title in GUESTS.items() if (folder / name).is_file()},
        }
        return render("index.html", values)

    def paper(self, paper: PaperEntry) -> str:
        """A paper: its claims with all checks, its figures."""
        figures = self._figures(paper)
        values = self._frame(paper.name) | {
            "paper": paper,
            "places": self._claims(paper),
            "figures": figures,
            "verdicts": {section.key: self.claims_of(section) for section in figures},
            "legend": LEGEND,
            "drawings": {section.key: f"drawings/{quote(section.key)}.svg" for section in figures if section.svg},
        }
        return render("paper.html", values)

    def figure(self, section: FigureSection, svg: str | None) -> str:
        """A figure: drawing, claims with every check, numbers, command, runs."""
        paper = next((each for each in self.papers if each.slug == section.paper), OTHERS)
        data = f"data/{quote(section.key)}"
        values = self._frame(section.title, [paper]) | {
            "section": section,
            "claims": self.claims_of(section),
            "drawing": None if svg is None else inline(svg, section.title),
            "drawing_link": f"drawings/{quote(section.key)}.svg",
            "data": data,
            "tables": [_table_view(name, f"{data}/{quote(name)}", table) for name, table in section.tables.items()],
            "digitised": [
                (_table_view(curve.source, f"{data}/{quote(curve.file)}", curve.rows), curve.why)
                for curve in section.digitised
            ],
            "usage": live.run_usages(section.usage) if section.usage is not None else [],
            "runs": _runs(section),
        }
        return render("figure.html", values)

    def _frame(self, title: str, papers: Sequence[PaperEntry] = ()) -> dict[str, object]:
        return {"title": title, "project": self.context.project, "papers": papers or self.papers}

    def _figures(self, paper: PaperEntry) -> list[FigureSection]:
        own = {each.slug for each in self.context.papers}
        return [
            section
            for section in self.sections
            if section.paper == paper.slug or (paper is OTHERS and section.paper not in own)
        ]

    def _claims(self, paper: PaperEntry) -> list[ClaimPlace]:
        return [place for place in self.places if place.paper == paper.slug]


def _counts(results: Sequence[Result]) -> list[tuple[Badge, int]]:
    return [(verdict_of(kind), sum(result.judgement is kind for result in results)) for kind in Judgement]


def _sentence(results: Sequence[Result]) -> str:
    """What came of it, in one sentence; a claim counts once, where it belongs."""
    own = list({result.claim.id: result for result in reversed(results)}.values())
    by_kind = Counter(result.judgement for result in own)
    fitted = sum(result.judgement is Judgement.REPRODUCED and result.claim.fitted for result in own)
    words = {
        Judgement.REPRODUCED: "reproduced" + f" ({fitted} of them fitted)" * bool(fitted),
        Judgement.DIRECTION_ONLY: "reproduced in direction only",
        Judgement.CONTRADICTED: "contradicted",
        Judgement.UNDECIDED: "undecided",
        Judgement.NOT_RUN: "not run",
    }
    parts = [f"{by_kind[kind]} {text}" for kind, text in words.items() if by_kind[kind]]
    if not parts:
        return "No claim was judged."
    listed = ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]
    verb = "is" if parts[0].startswith("1 ") else "are"
    return f"Of {len(own)} claims of the sources, {listed.replace(' ', f' {verb} ', 1)}."


def _runs(section: FigureSection) -> list[dict[str, str]]:
    """Every run with what is known of it; without facts their names alone."""
    if not section.runs:
        return [{"run_id": run_id} for run_id in section.run_ids]
    return [{name: _cell(value) for name, value in run.items()} for run in section.runs]


def _table_view(name: str, link: str, table: "pd.DataFrame") -> TableView:
    rows = [[_cell(value) for value in row] for row in table.head(ROWS_SHOWN).itertuples(index=False)]
    return TableView(name, link, [str(column) for column in table.columns], rows, len(table))


def _cell(value: object) -> str:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return number(value) if isinstance(value, float) else str(value)
