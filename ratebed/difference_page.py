"""What ``diff`` found, as a page of the report."""

from pathlib import Path

from markupsafe import Markup

from analysis.report.frame import render, write, write_assets
from core.records import Row
from ratebed.difference_words import (
    answer,
    as_json,
    changed_figures,
    draw_lines,
    made,
    pair_lines,
    row_texts,
    unmeasured_lines,
)
from ratebed.differing import FoundDifferences

PAGE = "diff.html"
_WIDTH, _HEIGHT, _REACH = 120, 14, 0.5  # of a bar, in pixels; what is half as large again reaches its end


def write_difference(compared: FoundDifferences) -> Path:
    """Write ``report/diff.html`` beside the results of the other side; returns its path."""
    told = as_json(compared)
    sides = (("one", compared.one), ("other", compared.other))
    values = {
        "title": "What differs",
        "project": "Ratebed",
        "answer": answer(compared),
        "sides": [{"mark": mark, "name": side.name, "made": made(side)} for mark, side in sides],
        "pairs": list(pair_lines(compared)),
        "reasons": told["reasons"],
        "differences": [{**row, **row_texts(row), "bar": _bar(row)} for row in told["differences"]],
        "unmeasured": [*draw_lines(compared), *unmeasured_lines(compared)],
        "figures": list(changed_figures(compared)),
        "claims": told["claims"],
        "is_repeatable": compared.is_repeatable,
    }
    folder = compared.other.out / "report"
    write(folder / PAGE, render("diff.html", values))
    write_assets(folder, has_charts=False)
    return folder / PAGE


def _bar(row: Row) -> Markup:
    """The difference and its interval, of the mean of both sides, about the line of none."""
    size = (abs(row["one"]) + abs(row["other"])) / 2
    if not size or row["difference_low"] is None:
        return Markup("")
    low, mean, high = (_place(row[name] / size) for name in ("difference_low", "difference", "difference_high"))
    said = (
        f"{row['difference'] / size:+.1%} [{row['difference_low'] / size:+.1%}, {row['difference_high'] / size:+.1%}]"
    )
    middle = _HEIGHT / 2
    return Markup(
        '<svg width="{w}" height="{h}" role="img" aria-label="{said}"><title>{said}</title>'
        '<line x1="{zero}" x2="{zero}" y1="0" y2="{h}" stroke="currentColor" stroke-opacity=".4"/>'
        '<line x1="{low}" x2="{high}" y1="{y}" y2="{y}" stroke="currentColor" stroke-width="2"/>'
        '<circle cx="{mean}" cy="{y}" r="3.5" fill="currentColor"/></svg>'
    ).format(w=_WIDTH, h=_HEIGHT, said=said, zero=_WIDTH / 2, low=low, high=high, mean=mean, y=middle)


def _place(relative: float) -> float:
    """Where a relative difference lies on the bar; what is beyond its ends is at them."""
    return round(_WIDTH / 2 * (1 + max(-1.0, min(1.0, relative / _REACH))), 1)
