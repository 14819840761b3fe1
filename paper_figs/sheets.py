"""Tables in drawings, as text: the report shows them as tables, which can be read aloud, searched and copied."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from core.records import Json
from paper_figs.light import Axes, Drawing

_sheets: WeakKeyDictionary[Drawing, list[Json]] = WeakKeyDictionary()  # the tables drawn on it
_GREEK = {r"\Phi": "Φ", r"\gamma": "γ", r"\sigma": "σ", r"\alpha": "α"}


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
