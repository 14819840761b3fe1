"""Maps: a colour a cell, for what has two axes of names.  Rows of a map read from the top."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from paper_figs.drawing import INK, SMALL, WHITE
from paper_figs.light import Axes, Floats

NOT_SURE, ABSENT = "#d9d9d9", "none"  # of a cell whose value may be chance; of one without a run
DARK = 0.55  # share of the largest value from which on numbers are white
ROOM = 260  # cells up to which numbers fit into them
Names = Sequence[Sequence[str]]  # of rows or columns: outer name, ..., inner name


def colours(values: Floats, most: float) -> Floats:
    """RGBA (…, 4) of values from -``most`` (green, lower) over 0 (white) to ``most`` (red, higher)."""
    from matplotlib.colors import LinearSegmentedColormap

    ramp = LinearSegmentedColormap.from_list("lower and higher", ["#00624a", "#009E73", WHITE, "#D55E00", "#7f3800"])
    painted: Floats = ramp(np.clip(values / most, -1, 1) / 2 + 0.5)
    return painted


def cells(axes: Axes, painted: Floats, texts: Sequence[Sequence[str]] = (), dark: Floats | None = None) -> None:
    """Cells (rows, columns, 4), with ``texts``, white on those that are ``dark``."""
    rows, columns = painted.shape[:2]
    axes.imshow(painted, aspect="auto", interpolation="nearest", extent=(-0.5, columns - 0.5, rows - 0.5, -0.5))
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for row, line in enumerate(texts):
        for column, text in enumerate(line):
            colour = WHITE if dark is not None and dark[row, column] else INK
            axes.text(column, row, text, ha="center", va="center", fontsize=SMALL, color=colour)


def names(axes: Axes, rows: Names, columns: Names, size: float = SMALL, with_columns: bool = True) -> None:
    """Inner names at every row and column, outer ones once a block, with a white rule between blocks."""
    axes.set_yticks(range(len(rows)), [name[-1] for name in rows], fontsize=size)
    axes.set_xticks(range(len(columns)), [name[-1] for name in columns] if with_columns else [], fontsize=size)
    for level in range(len(rows[0]) - 1):
        for first, last, name in blocks([row[: level + 1] for row in rows]):
            place: tuple[float, float] = (-0.012, (first + last) / 2)
            axes.annotate(
                name, place, (-16, 0), ("axes fraction", "data"), "offset points", ha="right", va="center",
                fontsize=size, annotation_clip=False,
            )  # fmt: skip
            if first:
                axes.axhline(first - 0.5, color=INK, linewidth=0.6)
    depth = len(columns[0]) - 1
    for level in range(depth):
        for first, last, name in blocks([column[: level + 1] for column in columns]):
            if with_columns:
                below = -(10 + (size + 2.5) * (depth - level))
                axes.annotate(
                    name, ((first + last) / 2, 0.0), (0, below), ("data", "axes fraction"), "offset points",
                    ha="center", va="center", fontsize=size, annotation_clip=False,
                )  # fmt: skip
            if first:
                axes.axvline(first - 0.5, color=INK, linewidth=0.6 if level == 0 else 0.3)


def blocks(heads: Names) -> list[tuple[int, int, str]]:
    """First and last place of neighbours with equal heads, and the last name of these."""
    found, at = [], 0
    for head, same in groupby(heads, key=tuple):
        count = len(list(same))
        found.append((at, at + count - 1, head[-1]))
        at += count
    return found
