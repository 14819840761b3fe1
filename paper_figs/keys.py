"""Keys to the marks of ``drawing``: above all panels, or above the one that they are for; never among data."""

from collections.abc import Sequence

from core.records import Options
from paper_figs.drawing import DASHED, GREY, INK, SMALL, TEXT, marker_of
from paper_figs.light import Artist, Axes, Drawing, SubFigure
from paper_figs.style import Style


def key(look: Style, line: bool = True, marker: bool = True) -> Artist:
    """A key's entry for lines, points or both in a look."""
    from matplotlib.lines import Line2D

    shape = marker_of(look, 4.5) if marker else {}
    return Line2D(
        [], [], color=look.colour, linestyle=look.dashes if line else "none", linewidth=1.2, label=look.label, **shape
    )


def bar_key(look: Style, alpha: float = 1.0) -> Artist:
    """A key's entry for bars, areas and bands."""
    from matplotlib.patches import Patch

    return Patch(color=look.colour, alpha=alpha, linewidth=0, label=look.label)


def rule_key(text: str, reference: bool = False) -> Artist:
    """A key's entry for a line of ``rule``."""
    from matplotlib.lines import Line2D

    colour = INK if reference else GREY
    return Line2D([], [], color=colour, linewidth=0.8, linestyle=":" if reference else DASHED, label=text)


def published_key(text: str = "published") -> Artist:
    """A key's entry for ``published``."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=INK, marker="x", markersize=6, linestyle="none", label=text)


def legend_above(
    drawing: Drawing | SubFigure, keys: Sequence[Artist], columns: int | None = None, below: bool = False
) -> None:
    """One key for all panels, above them, or ``below``."""
    look: Options = {"ncols": columns or len(keys), "fontsize": TEXT}
    drawing.legend(handles=list(keys), loc="outside lower center" if below else "outside upper center", **look)


def key_above(axes: Axes, keys: Sequence[Artist], columns: int = 2) -> None:
    """A panel's own key, between its title and its data; call it after ``title``."""
    lines = -(-len(keys) // columns)
    place: Options = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.5, "borderpad": 0.1}
    spaces: Options = {"labelspacing": 0.3, "columnspacing": 1.2, "handlelength": 2.0}
    axes.legend(handles=list(keys), ncols=columns, fontsize=SMALL, **place, **spaces)
    axes.set_title(axes.get_title(loc="left"), loc="left", fontsize=8, pad=8 + lines * 1.45 * SMALL)
