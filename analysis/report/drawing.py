"""A figure's vector drawing in the report: its text can be found, its foot says what was claimed and found."""

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

from analysis.report.claims import ClaimRow

PIXELS_A_POINT = 1.75  # drawings are made for a column of print; on screen they are a third larger
_TEXT, _LINE, _LETTER = 7.0, 10.0, 3.9  # points: size, distance of lines, width of a letter at most

_PROLOG = re.compile(r"<\?xml[^>]*\?>|<!DOCTYPE[^>]*>|<metadata>.*?</metadata>", re.S)


def with_verdicts(svg: str, source: str, key: str, claims: Sequence[ClaimRow]) -> str:
    """The drawing with lines at its foot: where it is from, its key, and the verdict of each claim that it shows.

    So it says what it is when it is sent alone.  A drawing without size and viewBox stays as it is.
    """
    view_box = re.search(r'<svg[^>]*?\sviewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg, re.S)
    sized = re.search(r'<svg[^>]*?\sheight="([0-9.]+)pt"', svg, re.S)
    if not view_box or not sized:
        return svg
    width, height = float(view_box[1]), float(view_box[2])
    said = [f"{source} ({key})"]
    said += [f"{claim.id} {claim.verdict.sign} {claim.verdict.text}{' (fitted)' * claim.is_fitted}" for claim in claims]
    lines = _wrapped(said, int(width / _LETTER))
    texts = "".join(
        f'<text x="4" y="{height + _LINE * (n + 0.7):.1f}" style="font: {_TEXT:g}px sans-serif; fill: #555555">'
        f"{escape(line)}</text>\n"
        for n, line in enumerate(lines)
    )
    taller = height + _LINE * len(lines) + 2
    grown = float(sized[1]) * taller / height
    svg = svg.replace(f'viewBox="0 0 {view_box[1]} {view_box[2]}"', f'viewBox="0 0 {view_box[1]} {taller:g}"', 1)
    svg = svg.replace(f'height="{sized[1]}pt"', f'height="{grown:g}pt"', 1)
    body, end, rest = svg.rpartition("</svg>")
    return f'{body}<g id="verdicts">\n{texts}</g>\n{end}{rest}'


def _wrapped(parts: Sequence[str], letters: int) -> list[str]:
    """Parts joined to lines of at most so many letters; a part is never cut."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 3 <= letters:
            lines[-1] += " · " + part
        else:
            lines.append(part)
    return lines


def inline(svg: str, title: str) -> Markup:
    """The drawing as an element of a page, so that the browser's find sees its text."""
    svg = _PROLOG.sub("", svg).strip()
    svg = svg.replace('<style type="text/css">*{', '<style type="text/css">.drawing *{')
    points = re.search(r'<svg[^>]*?\swidth="([0-9.]+)pt"', svg, re.S)
    size = f' style="width: {float(points[1]) * PIXELS_A_POINT:.0f}px"' if points else ""
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}"{size} ', 1))
