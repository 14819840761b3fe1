"""Writes the folder: pages, numbers, drawings, and ``report.json``; what a former report left goes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from analysis.report import charts, frame, pages
from analysis.report.claims import claims_json
from analysis.report.contents import FigureSection, ReportContext
from analysis.report.drawing import with_verdicts
from analysis.verdicts import Result
from core.digests import digest_of
from core.errors import SpecError
from core.reading import reading
from core.records import Json

if TYPE_CHECKING:
    import pandas as pd

RECORD = "report.json"
FILES = "files"  # its key: every file of the report
FIGURES = "figures"  # its key: figure -> table -> SHA-256 of its Parquet file


class _Former(msgspec.Struct):
    files: list[str]


def write_report(
    path: Path, sections: Sequence[FigureSection], results: Sequence[Result], context: ReportContext
) -> None:
    """Write the report whose index is ``path``; MachineError where it cannot be written.

    ``results``: every claim, for the index; the sections show their own with the details.  Each file is there whole or
    not at all, the index is written last, and pages of other verbs stay.
    """
    folder = path.parent
    former = _former(folder)
    written = frame.write_assets(folder, has_charts=any(section.tables for section in sections))
    book = pages.Book(sections, results, context)
    for section in sections:
        written += _write_figure(folder, section, book)
    for paper in book.papers:
        frame.write(folder / paper.page, book.paper(paper))
        written.append(folder / paper.page)
    names = sorted(each.relative_to(folder).as_posix() for each in written)
    record: Json = {
        "made": {**context.made, "date": context.date, "commit": context.code_version, "machine": context.machine},
        "claims": claims_json(results),
        FIGURES: {section.key: _digests(folder, section) for section in sections},
        FILES: [*names, RECORD, path.name],
    }
    frame.write(folder / RECORD, json.dumps(record, indent=1).encode() + b"\n")
    frame.write(path, book.index(folder))
    for name in {*former} - {*record[FILES]}:
        (folder / name).unlink(missing_ok=True)


def _former(folder: Path) -> list[str]:
    """The files of the report that is there; only such as lie in the folder.  Of one that is damaged none is known."""
    inside = folder.resolve()
    try:
        with reading(str(folder / RECORD)):
            names = msgspec.json.decode((folder / RECORD).read_bytes(), type=_Former).files
            paths = ((name, inside / name) for name in names)
            return [name for name, path in paths if path.resolve().is_relative_to(inside) and path.is_file()]
    except SpecError:
        return []


def _digests(folder: Path, section: FigureSection) -> dict[str, str]:
    parts = [folder / "data" / section.key / f"{table}.parquet" for table in section.tables]
    return {path.stem: digest_of(path.read_bytes()) for path in parts}


def _write_figure(folder: Path, section: FigureSection, book: pages.Book) -> list[Path]:
    """A figure's page, numbers and drawing; returns the files."""
    data, written = folder / "data" / section.key, []

    def keep(path: Path, content: str | bytes) -> None:
        frame.write(path, content)
        written.append(path)

    claims = book.claims_of(section)
    svg = None if section.svg is None else with_verdicts(section.svg, section.source, section.key, claims)
    if svg is not None:
        keep(folder / "drawings" / f"{section.key}.svg", svg)
    kept = book.context.table_files.get(section.key)
    for name, table in section.tables.items():
        keep(data / f"{name}.csv", table.to_csv(index=False))
        parquet = kept / f"{name}.parquet" if kept else None
        keep(data / f"{name}.parquet", parquet.read_bytes() if parquet else _parquet(table))
    if section.tables:
        keep(data / "tables.js", charts.tables_script(section))
    if section.usage is not None:
        keep(data / "usage.csv", section.usage.to_csv(index=False))
        keep(data / "usage.parquet", _parquet(section.usage))
        keep(data / "usage.js", charts.usage_script(section.usage))
    for curve in section.digitised:
        keep(data / f"{curve.file}.csv", curve.rows.to_csv(index=False))
    keep(folder / section.page, book.figure(section, svg))
    return written


def _parquet(table: "pd.DataFrame") -> bytes:
    content: bytes = table.to_parquet(index=False)
    return content
