"""Maps: a colour a cell, for what has two axes of names.  Rows of a map read from the top."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from core.records import Options
from paper_figs.drawing import GREY, INK, SMALL, TEXT, WHITE
from paper_figs.light import Axes, Drawing, Floats

UNSURE, ABSENT = "#d0d0d0", "#ffffff00"  # of a cell whose value may be chance; of one without a run
LOWER, HIGHER = ("#3f1466", "#8f63b5"), ("#D55E00", "#6e3100")
DARK = 0.6  # share of the largest value from which on numbers are white
FEW_ROWS, TINY = 12, 5.0  # rows whose names have the usual size; points of more rows' names
ROOM = 120  # cells up to which numbers fit into them
Names = Sequence[tuple[str, ...]]  # of rows or columns: outer name, ..., inner name
FIRST_LINE, LINE = 10.0, 9.0  # points: from a map's lower edge to the foot of its inner names, and between lines


def painted(values: Floats, most: float) -> Floats:
    """RGBA (…, 4) of values from -``most`` (purple) over 0 (white) to ``most`` (brown)."""
    colours: Floats = _ramp()(np.clip(np.nan_to_num(values) / most, -1, 1) / 2 + 0.5)
    return colours


def rgba(colour: str) -> Floats:
    """A colour as red, green, blue and opacity."""
    from matplotlib.colors import to_rgba

    return np.array(to_rgba(colour))


def cells(axes: Axes, colours: Floats, texts: Sequence[Sequence[str]], dark: Floats | None = None) -> None:
    """Cells (rows, columns, 4), and where there is room ``texts`` in them, white on those that are ``dark``."""
    rows, columns = colours.shape[:2]
    axes.imshow(colours, aspect="auto", interpolation="nearest", extent=(-0.5, columns - 0.5, rows - 0.5, -0.5))
    axes.grid(visible=False)
    axes.tick_params(length=0, pad=2)
    if rows * columns > ROOM:
        return
    for row, line in enumerate(texts):
        for column, text in enumerate(line):
            colour = WHITE if dark is not None and dark[row, column] else INK
            axes.text(column, row, text, ha="center", va="center", fontsize=SMALL, color=colour)


def names(
    axes: Axes, rows: Names, columns: Names, row_labels: Sequence[str], column_labels: Sequence[str] = ()
) -> None:
    """Inner names at every row and column; outer ones once a block, with a rule between blocks.

    ``row_labels``, ``column_labels``: what the names are, outer to inner; columns without them have no names.
    """
    size = SMALL if len(rows) <= FEW_ROWS else TINY
    axes.set_yticks(range(len(rows)), [name[-1] for name in rows], fontsize=size)
    axes.set_xticks(range(len(columns)), [name[-1] for name in columns], fontsize=SMALL)
    axes.tick_params(labelbottom=bool(column_labels))
    _beside(axes, ", ".join(row_labels), (0.0, -0.5), (-3.0, 3.0), GREY, "bottom")
    for level in range(len(rows[0]) - 1):
        for first, last, name in _blocks(rows, level):
            _beside(axes, name, (0.0, (first + last) / 2), (-16.0, 0.0))
            if first:
                axes.axhline(first - 0.5, color=INK, linewidth=0.5)
    depth = len(columns[0]) - 1
    for level, label in enumerate(column_labels):
        _below(axes, label, depth - level, GREY)
    for level in range(depth):
        for first, last, name in _blocks(columns, level):
            if column_labels:
                _below(axes, name, depth - level, INK, (first + last) / 2)
            if first:
                axes.axvline(first - 0.5, color=INK, linewidth=0.3 if level else 0.8)


def scale(drawing: Drawing, axes: Sequence[Axes], most: float, text: str) -> None:
    """What the colours of ``painted`` mean, below all panels."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    look: Options = {"location": "bottom", "aspect": 60, "shrink": 0.6, "pad": 0.02, "extend": "both"}
    bar = drawing.colorbar(ScalarMappable(Normalize(-most, most), _ramp()), ax=list(axes), **look)
    bar.ax.tick_params(labelsize=SMALL, length=2)
    bar.set_label(text, fontsize=TEXT)


def _ramp() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("lower and higher", [*LOWER, WHITE, *HIGHER])


def _beside(
    axes: Axes, text: str, at: tuple[float, float], points: tuple[float, float], colour: str = INK, va: str = "center"
) -> None:
    """Small text that ends so many points from the left edge of a map."""
    look: Options = {"ha": "right", "va": va, "fontsize": SMALL, "color": colour, "annotation_clip": False}
    axes.annotate(text, at, points, ("axes fraction", "data"), "offset points", **look)


def _below(axes: Axes, text: str, line: int, colour: str, column: float | None = None) -> None:
    """Small text so many lines below the inner names of columns: at a column, else at the left edge."""
    at, points = ((column, 0.0), 0.0) if column is not None else ((0.0, 0.0), -3.0)
    where = ("data" if column is not None else "axes fraction", "axes fraction")
    look: Options = {"va": "bottom", "fontsize": SMALL, "color": colour, "annotation_clip": False}
    ha = "center" if column is not None else "right"
    axes.annotate(text, at, (points, -FIRST_LINE - LINE * line), where, "offset points", ha=ha, **look)


def _blocks(names: Names, level: int) -> list[tuple[int, int, str]]:
    """First and last place of neighbours that are equal down to ``level``, and their name there."""
    blocks, at = [], 0
    for head, same in groupby(name[: level + 1] for name in names):
        count = len(list(same))
        blocks.append((at, at + count - 1, head[-1]))
        at += count
    return blocks
