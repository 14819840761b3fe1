"""The page of an answer, ``report/advise.html``, in the report's frame."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from markupsafe import Markup

from analysis.report import write_page as write_in_frame
from ratebed.advising import words
from ratebed.advising.answer import Advice
from ratebed.advising.drawing import drawn
from ratebed.advising.grid import LEFT_OUT

FILE = "advise.html"


def write_page(advice: Advice, out: Path) -> Path:
    """Write it below ``out``; returns its path.  MachineError where it cannot be written."""
    where = "" if str(out) == "out" else str(out)
    body = section_of("The answer", f'<p class="sentence">{escape(words.headline(advice))}</p>' + _ranking(advice))
    if advice.others:
        turned = f'<p class="sentence">{escape(words.turned(advice))}</p>'
        marked = [row[-1] != "" for row in words.turn_rows(advice)]
        table = table_of(words.TURN_HEAD, words.turn_rows(advice), marked, "where the answer turns")
        body += section_of("Where it turns", turned + table)
    items = "".join(f"<li>{escape(line)}</li>" for line in [*words.about(advice), LEFT_OUT])
    body += section_of("What was asked, and how it is judged", f'<ul class="soft">{items}</ul>')
    body += section_of(
        "Again", f"<pre class='command'><code>{escape(words.command(advice, where or 'out'))}</code></pre>"
    )
    return written(out / "report" / FILE, f"Advice for {Path(advice.question.asked.path).name}", body)


def written(path: Path, title: str, body: str) -> Path:
    """A page of the report, whole or not at all; ``body``: HTML."""
    return write_in_frame(path.parent, path.name, title, Markup(body))


def _ranking(advice: Advice) -> str:
    rows = words.rows(advice.base)
    table = table_of(words.HEAD, rows, [row[-1] == words.BEST for row in rows], "the ranking")
    figure = '<figure class="drawing scroll" role="img" aria-label="errors, bytes and wait of each limiter">'
    return f"{table}{figure}{drawn(advice)}</figure>"


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]], is_marked: Sequence[bool], name: str) -> str:
    """A table that scrolls by itself where the page is narrow."""
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = "".join(
        f"<tr{' class=best' if marked else ''}>"
        + "".join(f"<td>{escape(_unbroken(cell))}</td>" for cell in row)
        + "</tr>\n"
        for row, marked in zip(rows, is_marked, strict=True)
    )
    inside = f"<table><thead><tr>{heads}</tr></thead>\n<tbody>{lines}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{inside}</div>\n'


def _unbroken(cell: str) -> str:
    """A number keeps its interval beside it."""
    return cell.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")


def section_of(title: str, body: str) -> str:
    """A part of a page."""
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}</section>\n"
