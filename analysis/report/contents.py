"""What a report is made of.  All text is given by the caller; nothing is looked up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from analysis.verdicts import Result
from core.records import Json, Row

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Digitised:
    """A curve that a user read off a paper's picture: columns x and y under their own names, ``series`` and ``error``.

    ``error``: how far y may be off by reading it, in y's unit; missing: not known.  ``conditions``: further columns,
    which say under what y was measured.  ``rows`` has besides ``ours``, the mean of our rows with that series, x and
    conditions, where the figure's table ``table`` has columns of these names; ``why`` says where it is missing.
    """

    source: str  # the file's name
    x: str
    y: str
    rows: "pd.DataFrame"
    table: str = ""
    conditions: Sequence[str] = ()
    why: str = ""

    @property
    def file(self) -> str:
        """What the report calls it among a figure's data, without an ending: a figure may have several."""
        return f"digitised-{self.source.removesuffix('.csv')}"


@dataclass(frozen=True)
class FigureSection:
    """One figure of the report."""

    key: str
    title: str
    source: str  # paper, section, figure
    svg: str | None  # the drawing; None where it was skipped
    skipped: str = ""  # why there is no drawing
    command: str = ""  # what redraws it
    results: Sequence[Result] = ()
    run_ids: Sequence[str] = ()
    runs: Sequence[Row] = ()  # what is known of them: run_id, validity and axes; empty: only their names are
    unlisted: int = 0  # further runs, of which ``runs`` says nothing
    tables: "dict[str, pd.DataFrame]" = field(default_factory=dict)  # the numbers behind the drawing
    sheets: Sequence[Json] = ()  # tables that the paper prints: title, header, rows of text
    usage: "pd.DataFrame | None" = None  # of live runs: what processes used over time (``live.usage_over_time``)
    notes: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)  # title -> text that is shown as it is
    paper: str = ""  # the slug of its paper
    digitised: Sequence[Digitised] = ()
    looks: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # system -> label and colour

    @property
    def page(self) -> str:
        """The file of its page."""
        return f"figure-{self.key}.html"

    @property
    def link(self) -> str:
        """A reference to that page."""
        return quote(self.page)


@dataclass(frozen=True)
class PaperEntry:
    """A paper, or what else groups figures: its figures' ``paper`` is the ``slug``."""

    slug: str
    name: str
    letters: tuple[str, ...] = ()  # its claims' ids begin with one of these
    counted: str = ""  # how many of its claims hold together

    @property
    def page(self) -> str:
        """The file of its page."""
        return f"paper-{self.slug}.html"


@dataclass(frozen=True)
class ReportContext:
    """What the report says about itself."""

    scale: str
    seed: str  # of the roots, where several commands made it
    code_version: str
    date: str
    machine: str
    command: str  # what made this report
    project: str = "Ratebed"
    notes: tuple[str, ...] = ()  # under the header: calibrations, degraded runs
    papers: Sequence[PaperEntry] = ()
    since: str = ""  # of which earlier report the changes are
    changes: Sequence[str] = ()
    made: Json = field(default_factory=dict)  # machine, commit, date, scales, seeds, testbeds: kept in report.json
    table_files: Mapping[str, Path] = field(default_factory=dict)  # figure -> folder with its tables in Parquet

    @property
    def title(self) -> str:
        """Of the index."""
        return f"{self.project}: what was reproduced"
