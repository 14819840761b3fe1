"""Remark 1: which graphs are best and worst, by both performance measures, at the small g = 0.02.

All 106 trees of 10 nodes, all connected graphs of at most 7, and a sample of connected graphs of 10.  For
*all* graphs of 10 nodes the worst is then known too: any connected graph holds a spanning tree, and
adding links lowers no eigenvalue of L; while g l <= 1, both measures only fall as eigenvalues rise.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

from analysis.verdicts import Claim, Evidence, Tables, above, at_least
from core.records import Row
from core.seeds import generator
from paper_figs import drawing, keys
from paper_figs.dst.drawing import LOOKS, analytic, frame, sure
from paper_figs.dst.published import CYCLE
from paper_figs.figure import Figure, FigureTables
from paper_figs.light import Data, Drawing, Frame
from paper_figs.style import Style
from systems.parts.laplacian import phi_cr, phi_ss
from systems.parts.throttling_graphs import Graph, complete, graph_named, laplacian, path, star, unweighted

NODES = 10
SAMPLED = 1_000  # connected graphs of 10 nodes, over all densities
EXTREMES = {
    "path": Style("path", "#E69F00", "v", ":"),
    "star": Style("star", "#0072B2", "*", ":"),
    "complete": Style("complete graph", "#CC79A7", "s", ":"),
}
ANY = Style("any other", "#999999", ".", ":")
MEASURES = {"phi_cr": "$\\Phi_{cr}$", "phi_ss": "$\\Phi_{ss}$"}


def tables(data: Data) -> FigureTables:
    """One row a graph: ``trees`` of 10 nodes, ``small``: all connected ones of 3 to 7, ``sampled`` ones of 10.

    ``sampled``, and the path, the star and the complete graph, have a spanning tree of their own beside them.
    """
    line, hub = path(NODES), star(NODES)
    sampled = [(line, line), (hub, hub), (complete(NODES), line), *sampled_graphs()]
    beside = [{f"tree_{name}": value for name, value in _measures(tree).items()} for _, tree in sampled]
    return {
        "trees": frame(map(_row, trees_of(NODES))),
        "small": frame(map(_row, small_graphs())),
        "sampled": frame({**_row(graph), **of_tree} for (graph, _), of_tree in zip(sampled, beside, strict=True)),
    }


def _measures(graph: Graph) -> dict[str, float]:
    matrix = laplacian(graph)
    return {"phi_cr": phi_cr(matrix, CYCLE), "phi_ss": phi_ss(matrix, CYCLE)}


def _row(graph: Graph) -> Row:
    return {"nodes": graph.n, "links": len(graph.edges), "kind": kind_of(graph), **_measures(graph)}


def kind_of(graph: Graph) -> str:
    """Whether a "path", a "star" or "complete", by its degrees; else "".  The star of three nodes is a path."""
    if len(graph.edges) == graph.n * (graph.n - 1) // 2:
        return "complete"
    most = np.bincount(np.array(graph.links).ravel()).max()
    kind = "path" if most <= 2 else "star" if most == graph.n - 1 else ""
    return kind if len(graph.edges) == graph.n - 1 else ""


@cache
def trees_of(n: int) -> tuple[Graph, ...]:
    """All trees of n nodes, one of each shape."""
    import networkx

    return tuple(unweighted(n, tree.edges) for tree in networkx.nonisomorphic_trees(n))


def small_graphs() -> Iterator[Graph]:
    """All connected graphs of 3 to 7 nodes, one of each shape: Read and Wilson's atlas."""
    import networkx

    for drawn in networkx.graph_atlas_g():
        if drawn.number_of_nodes() >= 3 and networkx.is_connected(drawn):
            yield unweighted(drawn.number_of_nodes(), drawn.edges)


def sampled_graphs() -> Iterator[tuple[Graph, Graph]]:
    """``SAMPLED`` connected graphs of 10 nodes, each with a spanning tree: a tree of any shape and more links."""
    rng = generator(1, "dst-topologies")
    shapes = trees_of(NODES)
    for _ in range(SAMPLED):
        tree = shapes[rng.integers(len(shapes))]
        others = sorted(set(complete(NODES).links) - set(tree.links))
        chosen = rng.permutation(len(others))[: rng.integers(len(others) + 1)]
        yield unweighted(NODES, [*tree.links, *(others[i] for i in chosen)]), tree


def draw(tables: FigureTables) -> Drawing:
    """Trees; small graphs by links; the sample of graphs of 10 nodes."""
    trees, sampled = tables["trees"], tables["sampled"]
    most = tables["small"].nodes.max()
    small = tables["small"][tables["small"].nodes == most]
    titles = (f"all {len(trees)} trees of {NODES} nodes", f"all {len(small)} connected graphs of {most} nodes")
    sheet, axes = drawing.panels(1, 3, (*titles, f"{SAMPLED:,} sampled graphs of {NODES} nodes"), (7.8, 2.9))
    columns = ("phi_cr", "links", "phi_cr")
    for panel, graphs, x in zip(axes, (trees, small, sampled), columns, strict=True):
        drawing.log_axis(panel)
        drawing.marks(panel, graphs[x], graphs.phi_ss, ANY, alpha=0.6)
        for kind, look in EXTREMES.items():
            part = graphs[graphs.kind == kind]
            drawing.marks(panel, part[x], part.phi_ss, look, size=7)
        panel.set(xlabel=MEASURES.get(x, "links"), ylabel=MEASURES["phi_ss"] if panel is axes[0] else "")
    for panel, name in ((axes[0], "dst-1"), (axes[2], "dst-1"), (axes[2], "dst-2")):
        point = _measures(graph_named(name))
        drawing.marks(panel, [point["phi_cr"]], [point["phi_ss"]], LOOKS[name], size=5)
    looks = (*EXTREMES.values(), *LOOKS.values(), ANY)
    keys.legend_above(sheet, [keys.key(look, line=False) for look in looks])
    return sheet


def extreme(graphs: Frame, kind: str, measure: str, best: bool) -> float:
    """How far ``kind`` is below every other graph of its size (``best``), or above; the least over the sizes.

    As a share of its own Phi_ss, or of 1 - Phi_cr.  KeyError if a size lacks the kind.
    """
    leads = []
    for nodes, part in graphs.groupby("nodes"):
        mine, others = part[part.kind == kind][measure], part[part.kind != kind][measure]
        if mine.empty:
            raise KeyError(f"{kind} of {nodes} nodes")
        value = float(mine.iloc[0])
        gap = float(others.min()) - value if best else value - float(others.max())
        leads.append(gap / (1.0 - value if measure == "phi_cr" else value))
    return min(leads)


def measure_s8(tables: Tables) -> Evidence:
    """By how much star and path, complete graph and path, are the ends of their lists."""
    trees, small, sampled = (tables[f"dst-topologies/{name}"] for name in ("trees", "small", "sampled"))
    checks = []
    for measure in MEASURES:
        exhaustive = (("trees of 10", trees, "star"), ("graphs of 3 to 7", small, "complete"))
        for name, graphs, best in (*exhaustive, ("sample", sampled, "complete")):
            lead, lag = extreme(graphs, best, measure, best=True), extreme(graphs, "path", measure, best=False)
            checks.append(above(f"{name}, {measure}: lead of the {best}", sure(lead)))
            checks.append(above(f"{name}, {measure}: lag of the path", sure(lag)))
        less = (sampled[f"tree_{measure}"] - sampled[measure]).min()
        checks.append(at_least(f"sample, {measure}: what links beyond the tree's gain, least", sure(less), -1e-9))
    return Evidence(tuple(checks))


S8 = (
    "For small g the path is the worst graph and the complete graph the best; among trees the star is the best and the"
    " path the worst."
)
WHY_S8 = (
    "Adding links lowers no eigenvalue, so that only the trees need a search; at g = 0.02, g l_n is at most 0.2, small"
    " enough."
)
CLAIMS = (Claim("S8", "DST, Remark 1", S8, ("dst-topologies",), measure_s8, why=WHY_S8),)
EXPERIMENT = analytic("dst-topologies", "Best and worst graphs", "DST, Remark 1")
NOTES = (
    "At g = 0.02, Cov(v) = I. Exhaustive: all 106 trees of 10 nodes and all 994 connected graphs of 3 to 7 nodes, one "
    f"of each shape. Sampled: {SAMPLED:,} of the 11.7 million connected graphs of 10 nodes (a random tree and more "
    "links). That the path is the worst of all of them follows from (a), and that the complete one is the best: a "
    "connected graph has a spanning tree, and adding links lowers no eigenvalue of L. The paper has no figure of this."
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
