"""The report: one HTML file that opens from disk, without network and without scripts.

The summary of verdicts comes first, then each figure: the image, its claims with every check, the
published values beside ours, the command that redraws it, and the manifests of the runs behind it.
"""

import base64
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.report_numbers import interval_text, number, wanted_text
from analysis.report_style import CSS
from analysis.verdicts import Check, Judgement, Result, Status, readings_text
from collectors.schema import MANIFEST
from core.errors import MachineError
from core.records import Json
from core.writing import replace_file

if TYPE_CHECKING:
    import pandas as pd

_ROWS_SHOWN = 100  # of a table of data
_CHECKS_SHOWN = 3  # in the summary
_PIXELS_A_POINT = 1.75  # drawings are made for a column of print; on screen they are a third larger

# A sign each, so that verdicts are told apart without colour.
_SIGNS = {
    Judgement.REPRODUCED: "✓",
    Judgement.DIRECTION_ONLY: "↗",
    Judgement.CONTRADICTED: "✗",
    Judgement.UNDECIDED: "?",
    Judgement.NOT_RUN: "–",
}
_STATUS_SIGNS = {Status.HOLDS: "✓", Status.FAILS: "✗", Status.UNSURE: "?"}
_LEGEND = (
    "Reproduced: the 95 % interval lies inside the tolerance. Direction only: the sign is sure, the size is not. "
    "Contradicted: the interval excludes both. Undecided: too few runs, or the interval straddles a bound. "
    "Not run: this testbed cannot measure it. Readings: where a source leaves something open, a claim counts in the "
    "cell of record, what the text says best; other cells are shown and never counted. "
    "Fitted: our model was calibrated on this claim, so its agreement says little."
)


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
    tables: "dict[str, pd.DataFrame]" = field(default_factory=dict)  # the numbers behind the drawing
    notes: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)  # title -> text that is shown as it is
    paper: str = ""  # sections of one paper stand together under its name


@dataclass(frozen=True)
class ReportContext:
    """What the report says about itself.  All text is given by the caller; nothing is looked up."""

    scale: str
    seed: str  # of the roots, where several commands made it
    code_version: str
    date: str
    machine: str
    command: str  # what made this report
    runs_folder: Path  # where the run folders are; links are relative to the report
    project: str = "Ratebed"
    notes: tuple[str, ...] = ()  # under the header: calibrations, degraded runs
    papers: Mapping[str, str] = field(default_factory=dict)  # the first letter of claims' ids -> their paper


def write_report(
    path: Path, sections: Sequence[FigureSection], results: Sequence[Result], context: ReportContext
) -> None:
    """Write the report to ``path``, whole or not at all; MachineError where it cannot be written.

    ``results``: every claim, for the summary; the sections show their own with the details.
    """
    html = render(path, sections, results, context)
    try:
        replace_file(path, html.encode())
    except OSError as error:
        fix = "free disk space there, or write elsewhere (--out)"
        raise MachineError(f"cannot write {path}: {error.strerror}", fix) from None


def claims_json(results: Sequence[Result]) -> list[Json]:
    """Every claim as plain JSON values; an unbounded end of an interval is null.

    id, source, sentence, testbed, verdict, fitted, why, problem, validity (of the least valid run behind it; null:
    there is none) with validity_reasons, published (values), and measured: one entry a check with label, mean, low,
    high, count, unit, wanted_low, wanted_high, published, status, and of an unsure one the repetitions in all that
    would decide it.  readings: under which it was judged; tried: the verdicts under others.
    """
    return [
        {
            "id": result.claim.id,
            "source": result.claim.source,
            "sentence": result.claim.sentence,
            "testbed": result.claim.testbed,
            "verdict": result.judgement.value,
            "measured": [_check_json(result, kind, check) for kind, check in _checks(result)],
            "published": [check.published for _, check in _checks(result) if check.published is not None],
            "fitted": result.claim.fitted,
            "why": result.claim.why,
            "problem": result.problem,
            "validity": result.validity or None,
            "validity_reasons": list(result.validity_reasons),
            "readings": dict(result.record),
            "tried": [
                {"readings": dict(each.readings), "after": each.after, "verdict": each.judgement.value}
                for each in result.tried
            ],
            "repetitions_wanted": result.repetitions_wanted,
        }
        for result in results
    ]


def _check_json(result: Result, kind: str, check: Check) -> Json:
    interval = check.interval
    return {
        "label": check.label,
        "kind": kind,
        "mean": _finite(interval.mean),
        "low": _finite(interval.low),
        "high": _finite(interval.high),
        "count": interval.count,
        "unit": check.unit,
        "wanted_low": _finite(check.low),
        "wanted_high": _finite(check.high),
        "published": check.published,
        "status": result.status(check).value,
        "repetitions_wanted": check.repetitions_wanted() if result.status(check) is Status.UNSURE else None,
    }


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def _checks(result: Result) -> list[tuple[str, Check]]:
    """The checks of a claim, exact ones first."""
    evidence = result.evidence
    if evidence is None:
        return []
    return [("value", check) for check in evidence.exact] + [("direction", check) for check in evidence.direction]


# --- the page ------------------------------------------------------------------------------------


def render(path: Path, sections: Sequence[FigureSection], results: Sequence[Result], context: ReportContext) -> str:
    """The report's HTML; ``path`` is where it will be, for relative links."""
    runs = os.path.relpath(context.runs_folder, path.parent).replace(os.sep, "/")
    title = f"{context.project}: what was reproduced"
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>",
            _header(title, context, sections),
            "<main>",
            _summary(results, sections, context.papers),
            *_figures(sections, runs),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _header(title: str, context: ReportContext, sections: Sequence[FigureSection]) -> str:
    run_count = len({run_id for section in sections for run_id in section.run_ids})
    facts = {
        "Scale": f"{context.scale}, seed {context.seed}",
        "Runs": f"{run_count:,}",
        "Date": context.date,
        "Code": context.code_version,
        "Machine": context.machine,
    }
    rows = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    rows += f"<dt>Command</dt><dd><code>{escape(context.command)}</code></dd>"
    notes = "".join(f"<p>{escape(note)}</p>" for note in context.notes)
    return f"<header>\n<h1>{escape(title)}</h1>\n<dl>{rows}</dl>\n{notes}</header>"


def _summary(results: Sequence[Result], sections: Sequence[FigureSection], papers: Mapping[str, str]) -> str:
    counts = "".join(
        f"<li><b>{sum(result.judgement is judgement for result in results)}</b>{_badge(judgement)}</li>"
        for judgement in Judgement
    )
    places: dict[tuple[str, str], str] = {}  # a claim may be judged on several testbeds
    for section in sections:
        for result in section.results:
            places.setdefault((result.claim.id, result.claim.testbed), f"#{_anchor(section, result)}")
    rows = []
    for letter, group in groupby(results, lambda result: result.claim.family):
        if letter in papers:
            rows.append(f'<tr><th colspan="4" class="paper">{escape(papers[letter])}</th></tr>')
        rows += [_summary_row(result, places.get((result.claim.id, result.claim.testbed))) for result in group]
    links = []
    for paper, some in groupby(sections, lambda section: section.paper):
        items = "".join(f'<li><a href="#{_id(section.key)}">{escape(section.key)}</a></li>' for section in some)
        links.append((f"<h3>{escape(paper)}</h3>" if paper else "") + f"<ul>{items}</ul>")
    return (
        f'<section id="claims">\n<h2>Claims</h2>\n<ul class="counts">{counts}</ul>\n'
        f'<p class="legend">{escape(_LEGEND)}</p>\n<table class="claims">\n<thead><tr><th>Claim</th>'
        "<th>What the paper says</th><th>Verdict</th><th>Measured: mean [95 % interval]; published</th></tr></thead>\n"
        f"<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table>\n</section>\n"
        f"<section><h2>Figures</h2><nav>{''.join(links)}</nav></section>"
    )


def _summary_row(result: Result, place: str | None) -> str:
    claim = result.claim
    name = f'<a href="{place}">{escape(claim.id)}</a>' if place else escape(claim.id)
    # What did not hold is what the reader wants to see first.
    checks = sorted((check for _, check in _checks(result)), key=lambda c: result.status(c) is Status.HOLDS)
    lines = [_measured_line(check, result.status(check)) for check in checks[:_CHECKS_SHOWN]]
    if len(checks) > _CHECKS_SHOWN:
        lines.append(f'<div class="soft">and {len(checks) - _CHECKS_SHOWN} more</div>')
    return (
        f"<tr><td>{name}</td><td>{escape(claim.sentence)}"
        f'<div class="source">{escape(claim.source)} · {escape(claim.testbed)}</div>{_reason(result)}</td>'
        f'<td>{_badges(result)}</td><td class="measured">{"".join(lines)}</td></tr>'
    )


def _measured_line(check: Check, status: Status) -> str:
    sign = "" if status is Status.HOLDS else f'<span class="{status.value}">{_STATUS_SIGNS[status]}</span> '
    published = f"; published {number(check.published)}" if check.published is not None else ""
    measured = f'{escape(check.label)}: <span class="number">{interval_text(check)}</span>'
    return f"<div>{sign}{measured}{escape(published)}</div>"


def _badges(result: Result) -> str:
    fitted = ' <span class="badge fitted">fitted</span>' if result.claim.fitted else ""
    return _badge(result.judgement) + fitted


def _badge(judgement: Judgement) -> str:
    name = judgement.value.replace(" ", "-")
    return f'<span class="badge {name}">{_SIGNS[judgement]} {judgement.value}</span>'


def _reason(result: Result) -> str:
    """Why a claim was not reproduced, or not judged; and what is to be said against its runs."""
    texts = [result.problem] if result.problem else []
    if result.claim.why and result.judgement is not Judgement.REPRODUCED:
        texts.append(result.claim.why)
    if result.repetitions_wanted:
        texts.append(f"Some {result.repetitions_wanted:,} repetitions in all would decide it.")
    if result.validity_reasons:
        texts.append(f"Of its runs some are {result.validity}: {'; '.join(result.validity_reasons)}.")
    return "".join(f'<p class="why">{escape(text)}</p>' for text in texts)


# --- one figure ----------------------------------------------------------------------------------


def _figures(sections: Sequence[FigureSection], runs: str) -> list[str]:
    """Every section, under its paper's name."""
    parts = []
    for paper, some in groupby(sections, lambda section: section.paper):
        parts += [f'<h2 class="paper">{escape(paper)}</h2>'] * bool(paper)
        parts += [_figure(section, runs) for section in some]
    return parts


def _figure(section: FigureSection, runs: str) -> str:
    parts = [
        f'<section id="{_id(section.key)}">\n<h2>{escape(section.title)}</h2>',
        f'<p class="source">{escape(section.source)} · <code>{escape(section.key)}</code></p>',
        _drawing(section),
        f"<p>{escape(section.notes)}</p>" if section.notes else "",
        *[_claim(section, result) for result in section.results],
        "<h3>Behind this figure</h3>" if section.command or section.run_ids or section.tables or section.texts else "",
        f"<pre><code>{escape(section.command)}</code></pre>" if section.command else "",
        *[_text(title, text) for title, text in section.texts.items()],
        *[_data(name, table) for name, table in section.tables.items()],
        _run_list(section.run_ids, runs),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _drawing(section: FigureSection) -> str:
    if section.svg is None:
        return f'<p class="skipped"><b>Skipped.</b> {escape(section.skipped or "It was not asked for.")}</p>'
    # An image of its own: ids inside one drawing cannot meet those of another.
    data = base64.b64encode(section.svg.encode()).decode()
    points = re.search(r'<svg[^>]*\swidth="([0-9.]+)pt"', section.svg)
    width = f' width="{float(points[1]) * _PIXELS_A_POINT:.0f}"' if points else ""
    return f'<figure><img src="data:image/svg+xml;base64,{data}"{width} alt="{escape(section.title)}"></figure>'


def _claim(section: FigureSection, result: Result) -> str:
    claim, checks = result.claim, _checks(result)
    head = f"<p><b>{escape(claim.id)}</b> {_badges(result)} {escape(claim.sentence)}</p>"
    rows = "".join(
        f"<tr><td>{escape(check.label)}</td>"
        f'<td class="number">{interval_text(check)}</td><td class="number">{check.interval.count}</td>'
        f'<td class="number">{escape(wanted_text(check))}</td>'
        f'<td class="number">{escape(_published(check))}</td><td>{_status_text(result.status(check))}</td></tr>'
        for _, check in checks
    )
    table = (
        '<table><thead><tr><th>Check</th><th class="number">Mean [95 % interval]</th><th class="number">Runs</th>'
        '<th class="number">Wanted</th><th class="number">Published</th><th>Holds</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )
    body = head + _reason(result) + (table if checks else "") + _readings(result)
    return f'<div class="claim" id="{_anchor(section, result)}">{body}</div>'


def _readings(result: Result) -> str:
    """Under which readings of the source the claim holds: that of record, and the others that were tried."""
    if not result.record:
        return ""
    read = f'<p class="source">Read as of record: {escape(readings_text(result.record))}.</p>'
    if not result.tried:
        return read
    cells = [(f"of record: {readings_text(result.record)}", result.judgement)]
    cells += [(each.text, each.judgement) for each in result.tried]
    holding = sum(judgement is Judgement.REPRODUCED for _, judgement in cells)
    rows = "".join(f"<tr><td>{escape(text)}</td><td>{_badge(judgement)}</td></tr>" for text, judgement in cells)
    said = f"under {holding} of {len(cells)} readings" if holding else "under no reading tried"
    return (
        f'<table class="readings"><thead><tr><th>Readings: it holds {said}</th><th>Verdict</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _published(check: Check) -> str:
    return "" if check.published is None else f"{number(check.published)} {check.unit}".strip()


def _status_text(status: Status) -> str:
    return f'<span class="{status.value}">{_STATUS_SIGNS[status]} {status.value}</span>'


def _text(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary>\n<pre>{escape(text)}</pre></details>"


def _data(name: str, table: "pd.DataFrame") -> str:
    shown = table.head(_ROWS_SHOWN)
    head = "".join(f"<th>{escape(str(column))}</th>" for column in shown.columns)
    body = "".join(
        "<tr>" + "".join(f'<td class="number">{escape(_cell(value))}</td>' for value in row) + "</tr>"
        for row in shown.itertuples(index=False)
    )
    rows = f"{len(table):,} rows" + (f", the first {_ROWS_SHOWN} here" if len(table) > len(shown) else "")
    return (
        f"<details><summary>Numbers: {escape(name)} ({rows})</summary>"
        f'<div class="scroll"><table class="data"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></details>"
    )


def _cell(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _run_list(run_ids: Sequence[str], runs: str) -> str:
    if not run_ids:
        return ""
    items = "".join(
        f'<li><a href="{escape(runs)}/{escape(run_id)}/{MANIFEST}"><code>{escape(run_id)}</code></a></li>'
        for run_id in run_ids
    )
    return f'<details><summary>{len(run_ids):,} runs, their manifests</summary><ul class="runs">{items}</ul></details>'


def _id(key: str) -> str:
    return "figure-" + "".join(letter if letter.isalnum() else "-" for letter in key)


def _anchor(section: FigureSection, result: Result) -> str:
    return f"{_id(section.key)}-{escape(result.claim.id)}"
