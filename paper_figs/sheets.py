"""Tables in drawings, and their text: the report shows them as tables, which can be read aloud, searched and copied."""

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from core.records import Json
from paper_figs.light import Axes, Drawing

_sheets: WeakKeyDictionary[Drawing, list[Json]] = WeakKeyDictionary()  # the tables drawn on it
_GREEK = {r"\Phi": "Φ", r"\gamma": "γ", r"\sigma": "σ", r"\alpha": "α"}


def draw_table(
    axes: Axes,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    widths: Sequence[float],
    title: str = "",
    rules_after: Sequence[int] = (),
    shades: Mapping[tuple[int, int], float] | None = None,
) -> None:
    """Text in columns of relative ``widths``, with rules above, below the header and below; the first is set left.

    ``rules_after``: rows (from 0) that get a thin rule below them; ``shades``: of cells, from 0 (none) to 1.
    """
    keep_sheet(axes, header, rows, title)
    axes.axis("off")
    edges = [sum(widths[:column]) / sum(widths) for column in range(len(widths) + 1)]
    height = 1.0 / (len(rows) + 1.4)
    for (line, column), shade in (shades or {}).items():
        top = 1.0 - height * (line + 1.2)
        box = [edges[column], edges[column + 1]], [top - height] * 2, [top] * 2
        axes.fill_between(*box, color="#0072B2", alpha=0.6 * shade, linewidth=0, transform=axes.transAxes)
    for line, cells in enumerate([header, *rows]):
        y, weight = 1.0 - height * (line + 0.5 + (0.2 if line else 0.0)), "normal" if line else "bold"
        for column, text in enumerate(cells):
            x, side = (edges[0], "left") if column == 0 else ((edges[column] + edges[column + 1]) / 2, "center")
            axes.text(x, y, text, transform=axes.transAxes, ha=side, va="center", fontsize=7.5, fontweight=weight)
    lines = [(1.0, 1.2), (1.0 - 1.1 * height, 0.7), (1.0 - height * (len(rows) + 1.3), 1.2)]
    lines += [(1.0 - height * (row + 2.2), 0.4) for row in rules_after]
    for y, width in lines:
        axes.plot([0, 1], [y, y], transform=axes.transAxes, color="#333333", linewidth=width, clip_on=False)
    if title:
        axes.set_title(title, loc="left", fontsize=8)


def keep_sheet(axes: Axes, header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Keep the text of a table that is drawn, so that the report can show it as one (``sheets_of``)."""
    drawing = axes.get_figure(root=True)
    assert drawing is not None
    plain = [[_without_formulas(cell) for cell in cells] for cells in (header, *rows)]
    _sheets.setdefault(drawing, []).append({"title": _without_formulas(title), "header": plain[0], "rows": plain[1:]})


def sheets_of(drawing: Drawing) -> list[Json]:
    """The tables drawn on it, in their order: title, header and rows, as text."""
    return _sheets.get(drawing, [])


def _without_formulas(text: str) -> str:
    """Matplotlib's formulas as the letters that they show."""
    for name, letter in _GREEK.items():
        text = text.replace(name, letter)
    return text.replace("$", "").replace("{", "").replace("}", "").replace("\n", " ")
