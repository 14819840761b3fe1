"""The page of an answer, ``report/advise.html``: one file that opens from disk, without script, light or dark."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from core.errors import MachineError, described
from core.writing import replace_file
from ratebed.advising import words
from ratebed.advising.answer import Advice
from ratebed.advising.drawing import drawn
from ratebed.advising.grid import LEFT_OUT

FILE = "advise.html"
_CSS = """
:root { color-scheme: light dark; --ink: light-dark(#1c2024, #e4e7eb); --soft: light-dark(#555e6a, #a6afba);
  --line: light-dark(#d9dde2, #3a4048); --tint: light-dark(#f6f7f9, #22262b); --page: light-dark(#fff, #15181b);
  --good: light-dark(#0a5c3f, #7fd6b0); }
* { box-sizing: border-box; }
html { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
body { color: var(--ink); background: var(--page); max-width: 72rem; margin: 0 auto; padding: 1rem 1.5rem 5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 1.6rem 0 .3rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 .4rem; }
p, li { max-width: 48rem; overflow-wrap: anywhere; }
section { border-top: 1px solid var(--line); margin-top: 2.4rem; padding-top: 1.6rem; }
.sentence { font-size: 1.15rem; }
.soft { color: var(--soft); font-size: .92rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; line-height: 1.4; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .8rem; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem 1.2rem .35rem 0; vertical-align: top; }
td { font-variant-numeric: tabular-nums; min-width: 4.5rem; }
tr.best td { color: var(--good); font-weight: 600; }
figure { margin: 1.2rem 0; background: #fff; }
figure svg { display: block; max-width: 100%; height: auto; }
pre { background: var(--tint); border-radius: .5rem; padding: .6rem .9rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
@media print { html { font-size: 10.5px; } body { max-width: none; } tr, figure { break-inside: avoid; } }
"""


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
    body += section_of("Again", f"<pre><code>{escape(words.command(advice, where or 'out'))}</code></pre>")
    return written(out / "report" / FILE, f"Advice for {Path(advice.question.asked.path).name}", body)


def written(path: Path, title: str, body: str) -> Path:
    """A page on its own, whole or not at all."""
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} · Ratebed</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
    try:
        replace_file(path, page.encode("utf-8", "replace"))
    except OSError as error:
        raise MachineError(f"cannot write {path}: {described(error)}", "free disk space there, or use --out") from None
    return path


def _ranking(advice: Advice) -> str:
    rows = words.rows(advice.base)
    table = table_of(words.HEAD, rows, [row[-1] == words.BEST for row in rows], "the ranking")
    return f'{table}<figure role="img" aria-label="errors, bytes and wait of each limiter">{drawn(advice)}</figure>'


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]], is_marked: Sequence[bool], name: str) -> str:
    """A table that scrolls by itself where the page is narrow."""
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = "".join(
        f"<tr{' class=best' if marked else ''}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n"
        for row, marked in zip(rows, is_marked, strict=True)
    )
    inside = f"<table><thead><tr>{heads}</tr></thead>\n<tbody>{lines}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{inside}</div>\n'


def section_of(title: str, body: str) -> str:
    """A part of a page."""
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}</section>\n"
