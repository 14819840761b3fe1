"""Tables, drawn: text in columns between rules, cells shaded by their value where that helps."""

from collections.abc import Mapping, Sequence

from paper_figs import drawing
from paper_figs.light import Axes

Cell = tuple[int, int]  # row and column, from 0


def draw_table(
    axes: Axes,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    widths: Sequence[float],
    title: str = "",
    rules_after: Sequence[int] = (),
    shades: Mapping[Cell, float] | None = None,
) -> None:
    """Text in columns of relative ``widths``, with rules above, below the header and below; the first is set left.

    ``rules_after``: rows (from 0) that get a thin rule below them; ``shades``: of cells, from 0 (none) to 1.
    """
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
        drawing.title(axes, title)
