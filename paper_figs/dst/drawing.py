"""What the analytic figures of the DST paper share: graphs and tables drawn, the two graphs' colours, sure samples."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paper_figs.style import letter
from systems.parts.throttling_graphs import Graph

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Places = dict[int, tuple[float, float]]

LABELS = {"dst-1": "graph #1", "dst-2": "graph #2"}
COLOURS = {"dst-1": "#D55E00", "dst-2": "#009E73"}  # red and green, as in the paper's Fig. 5
CYCLE = 0.02  # g of Example 2
ADDED = "#D55E00"  # links that Fig. 4 adds
RULE = "#333333"


def sure(value: float) -> tuple[float, ...]:
    """Samples of a quantity that is computed, not drawn: computed again it is the same, and its interval a point."""
    return (float(value),) * 5


def frame(rows: Sequence[Mapping[str, Any]]) -> "pd.DataFrame":
    """A table of these rows."""
    import pandas as pd

    return pd.DataFrame(list(rows))


def places(graph: Graph) -> Places:
    """Where to draw the nodes: links about equally long, and without crossings where the graph is planar."""
    import networkx

    drawn = networkx.Graph(graph.links)
    planar, _ = networkx.check_planarity(drawn)
    start = networkx.planar_layout(drawn) if planar else networkx.circular_layout(drawn)
    found = networkx.kamada_kawai_layout(drawn, pos=start)
    return {int(node): (float(x), float(y)) for node, (x, y) in found.items()}


def draw_graph(
    axes: "Axes",
    graph: Graph,
    at: Places,
    colour: str,
    dotted: frozenset[tuple[int, int]] = frozenset(),
    widths: Sequence[float] | None = None,
    sizes: Sequence[float] | None = None,
) -> None:
    """Nodes as numbered discs at ``at``; links of ``dotted`` in red dots, the others as wide as ``widths`` (points)."""
    for index, (a, b) in enumerate(graph.links):
        (x0, y0), (x1, y1) = at[a], at[b]
        extra = (a, b) in dotted
        width = widths[index] if widths is not None else 1.4
        axes.plot([x0, x1], [y0, y1], color=ADDED if extra else "#555555", linestyle=":" if extra else "-",
                  linewidth=width, zorder=1, solid_capstyle="round")  # fmt: skip
    for node in range(graph.n):
        x, y = at[node]
        axes.scatter([x], [y], s=sizes[node] if sizes is not None else 130, color=colour, edgecolor="white",
                     linewidth=1.0, zorder=2)  # fmt: skip
        axes.text(x, y, str(node), ha="center", va="center", fontsize=6.5, color="white", zorder=3)
    axes.set_aspect("equal")
    axes.margins(0.12)
    axes.axis("off")


def draw_table(
    axes: "Axes",
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    widths: Sequence[float],
    title: str = "",
    rules_after: Sequence[int] = (),
) -> None:
    """Text in columns of relative ``widths``, with rules above, below the header and below; the first is set left.

    ``rules_after``: rows (from 0) that get a thin rule below them.
    """
    axes.axis("off")
    total = sum(widths)
    edges = [sum(widths[:column]) / total for column in range(len(widths) + 1)]
    height = 1.0 / (len(rows) + 1.4)
    for line, cells in enumerate([header, *rows]):
        y = 1.0 - height * (line + 0.5 + (0.2 if line else 0.0))
        for column, text in enumerate(cells):
            x = edges[column] if column == 0 else (edges[column] + edges[column + 1]) / 2
            axes.text(x, y, text, transform=axes.transAxes, ha="left" if column == 0 else "center", va="center",
                      fontsize=7.5, fontweight="bold" if line == 0 else "normal")  # fmt: skip
    lines = [(1.0, 1.2), (1.0 - 1.1 * height, 0.7), (1.0 - height * (len(rows) + 1.3), 1.2)]
    lines += [(1.0 - height * (row + 2.2), 0.4) for row in rules_after]
    for y, width in lines:
        axes.plot([0, 1], [y, y], transform=axes.transAxes, color=RULE, linewidth=width, clip_on=False)
    if title:
        letter(axes, title)
