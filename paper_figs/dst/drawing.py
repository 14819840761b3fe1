"""What the figures of the DST paper share: the two graphs' looks, graphs drawn, samples of what is computed."""

from collections.abc import Iterable, Sequence

from analysis.verdicts import Check
from core.records import Row
from harness.experiment import Experiment
from paper_figs.drawing import GREY, SMALL
from paper_figs.light import Axes, Frame
from paper_figs.style import Style
from systems.parts.throttling_graphs import Graph

Places = dict[int, tuple[float, float]]

# Red and green, as in the paper's Fig. 5.
LOOKS = {"dst-1": Style("graph #1", "#D55E00", "s", "-"), "dst-2": Style("graph #2", "#009E73", "D", "-")}
LABELS = {name: look.label for name, look in LOOKS.items()}
COLOURS = {name: look.colour for name, look in LOOKS.items()}
ADDED = "#D55E00"  # links that Fig. 4 adds


def analytic(key: str, title: str, source: str) -> Experiment:
    """A figure whose tables are formulas alone: no points."""
    return Experiment(key, title, source, lambda scale, options: [], analytic=True)


def sure(value: float) -> tuple[float, ...]:
    """Samples of a quantity that is computed, not drawn: computed again it is the same, and its interval a point."""
    return (float(value),) * 5


def as_printed(label: str, value: float, printed: str) -> Check:
    """``value`` is what is printed, to its last digit."""
    published, half = float(printed), 0.5 * 10.0 ** -len(printed.partition(".")[2])
    return Check(label, sure(value), published - half, published + half, published)


def frame(rows: Iterable[Row]) -> Frame:
    """A table of these rows."""
    import pandas as pd

    return pd.DataFrame(list(rows))


def places(graph: Graph) -> Places:
    """Where to draw the nodes: links about equally long, and without crossings where the graph is planar."""
    import networkx

    drawn = networkx.Graph(graph.links)
    planar, _ = networkx.check_planarity(drawn)
    start = networkx.planar_layout(drawn) if planar else networkx.circular_layout(drawn)
    layout = networkx.kamada_kawai_layout(drawn, pos=start)
    return {int(node): (float(x), float(y)) for node, (x, y) in layout.items()}


def draw_graph(
    axes: Axes,
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
        colour_of, dashes = (ADDED, ":") if (a, b) in dotted else (GREY, "-")
        width = widths[index] if widths is not None else 1.4
        axes.plot([x0, x1], [y0, y1], color=colour_of, linestyle=dashes, linewidth=width, zorder=1)
    for node in range(graph.n):
        x, y = at[node]
        size = sizes[node] if sizes is not None else 130
        axes.scatter([x], [y], s=size, color=colour, edgecolor="white", linewidth=1.0, zorder=2)
        axes.text(x, y, str(node), ha="center", va="center", fontsize=SMALL, color="white", zorder=3)
    axes.set_aspect("equal")
    axes.margins(0.12)
    axes.axis("off")
