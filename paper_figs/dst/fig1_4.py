"""Figs. 1 to 4: the graphs of the paper, with their spectra.

Our text of the paper has no pictures.  Fig. 2 (complete graph and star of five) is said in words.  Figs. 3
and 4 are recovered from the numbers of Tables 3 and 4, which select them: see
``systems.parts.throttling_graphs``.  Of Fig. 1 only "six servers" is said: the six drawn are ours.
"""

import numpy as np

from analysis.verdicts import Claim, Evidence, Tables, at_most, within
from paper_figs import drawing
from paper_figs.dst.drawing import COLOURS, Places, analytic, draw_graph, frame, places, sure
from paper_figs.dst.published import CYCLE
from paper_figs.figure import Figure, FigureTables
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.style import SERIES
from systems.parts.laplacian import phi_cr, phi_ss_identical, phi_ss_short_cycles, spectrum, spread_matrix
from systems.parts.throttling_graphs import DST_1, Graph, graph_named, laplacian

SIX = {"six": "0-1 1-2 2-3 3-4 4-5 0-5 1-4"}  # Fig. 1: ours
GRAPHS = {  # name -> what it is called
    "six": "Fig. 1: six servers (drawing ours)",
    "complete-5": "Fig. 2: K5",
    "star-5": "Fig. 2: S5",
    "dst-1": "Fig. 3: graph #1 (recovered)",
    "dst-2": "Fig. 4: graph #2 (recovered)",
}
SHORT = {"six": "six", "complete-5": "K5", "star-5": "S5", "dst-1": "#1", "dst-2": "#2"}
CYCLES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # g -> 0 of Eq. (25)


def tables(data: Data) -> FigureTables:
    """``spectra``; ``links``; ``servers`` with c_ii of Eq. (23) at g = 0.02; ``short_cycles``: (24) against (25)."""
    spectra, links, servers, short = [], [], [], []
    for name in GRAPHS:
        graph = graph_named(SIX.get(name, name))
        matrix = laplacian(graph)
        added = set(graph.links) - set(DST_1.links) if name == "dst-2" else set()
        values = spectrum(matrix)
        spectra += [{"graph": name, "index": i + 1, "eigenvalue": max(0.0, float(v))} for i, v in enumerate(values)]
        links += [{"graph": name, "a": a, "b": b, "added": (a, b) in added} for a, b in graph.links]
        weight = np.diag(spread_matrix(matrix, CYCLE))
        servers += [{"graph": name, "server": i, "c_ii": float(c)} for i, c in enumerate(weight)]
        for g in CYCLES:
            row = {"graph": name, "g": g, "phi_cr": phi_cr(matrix, g), "phi_ss": phi_ss_identical(matrix, g)}
            short.append({**row, "resistance_phi_ss": phi_ss_short_cycles(matrix)})
    return {"spectra": frame(spectra), "links": frame(links), "servers": frame(servers), "short_cycles": frame(short)}


def draw(tables: FigureTables) -> Drawing:
    """Five graphs, and all spectra."""
    sheet, axes = drawing.panels(2, 3, (*GRAPHS.values(), "eigenvalues of L"), (8.0, 4.8))
    links, servers = tables["links"], tables["servers"]
    tree = places(graph_named("dst-2"))
    for panel, name in zip(axes, GRAPHS, strict=False):
        graph = graph_named(SIX.get(name, name))
        extra = links[(links.graph == name) & links.added]
        dotted = frozenset(zip(extra.a, extra.b, strict=True))
        weight = servers[servers.graph == name].c_ii.to_numpy()
        at = tree if name in COLOURS else _regular(name, graph)
        draw_graph(panel, graph, at, COLOURS.get(name, SERIES[0]), dotted, sizes=60 + 90 * weight / weight.mean())
    _draw_spectra(axes[5], tables["spectra"])
    return sheet


def _regular(name: str, graph: Graph) -> Places:
    """A circle; a star's hub in the middle of it."""
    around = range(name == "star-5", graph.n)
    turns = {node: 2 * np.pi * n / len(around) + np.pi / 2 for n, node in enumerate(around)}
    return {0: (0.0, 0.0), **{node: (float(np.cos(at)), float(np.sin(at))) for node, at in turns.items()}}


def _draw_spectra(axes: Axes, spectra: Frame) -> None:
    drawing.categories(axes, [SHORT[name] for name in GRAPHS], "y")
    for line, name in enumerate(GRAPHS):
        values = spectra[spectra.graph == name].sort_values("index").eigenvalue.to_numpy()
        colour = COLOURS.get(name, SERIES[0])
        axes.plot(values, np.full(len(values), line), color=colour, marker="|", markersize=9, linewidth=0.5)
        ends = f"$\\lambda_2$ = {values[1]:.4g},  $\\lambda_n$ = {values[-1]:.4g}"
        axes.text(1.0, line - 0.32, ends, transform=axes.get_yaxis_transform(), ha="right", fontsize=7, color=colour)
    axes.set_xlabel("eigenvalue")


def measure_s17(tables: Tables) -> Evidence:
    """Eq. (24) over Eq. (25) at the smallest g, and how the difference shrinks with g; the worst graph."""
    short = tables["dst-fig1-4/short_cycles"]
    short = short.assign(off=(short.phi_ss / short.resistance_phi_ss - 1).abs())
    least, next_least = sorted(set(short.g))[:2]
    off, ten = short.pivot_table(index="graph", columns="g", values="off"), next_least / least
    ratio = off[next_least] / off[least]
    slope = float(ratio.iloc[int((ratio - ten).abs().argmax())])
    small = at_most(f"largest relative difference at g = {least:g}", sure(off[least].max()), 1e-4)
    return Evidence((small, within("how many times smaller with g ten times smaller", sure(slope), ten, 0.01)))


S17 = (
    "For g -> 0 the performance under independent changes tends to the total effective resistance, sigma^2/(2n) "
    "sum_{i>j} r_ij."
)
WHY_S17 = "It is a theorem: the pseudo-inverse, the sum over pairs, or Eq. (24) would be wrong here."
CLAIMS = (Claim("S17", "DST, Eq. (25)", S17, ("dst-fig1-4",), measure_s17, why=WHY_S17),)
EXPERIMENT = analytic("dst-fig1-4", "The graphs, and their spectra", "DST, Figs. 1-4")
NOTES = (
    "Graphs #1 and #2 are recovered by us from the printed numbers: #1 is the only tree of 10 nodes, #2 up to "
    "isomorphism the only supergraph of it, with the values of Tables 3 and 4. Where the tree lies inside #2 is not "
    "determined: 476 placements (238 up to the tree's symmetry) have the same spectrum, the first in lexicographic "
    "order is drawn (dst-2@0 to dst-2@475 are all). Solid: the tree; dotted: the links that Fig. 4 adds. The "
    "larger a disc, the larger the server's weight c_ii in the performance, Eq. (23), at g = 0.02. Of Fig. 1 our "
    "text has only the number of servers: its links are ours."
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
