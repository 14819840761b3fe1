"""Table 2: the link weights of the fastest throttler on a complete graph and on a star of five servers, g = 1.

The cells are missing from our text; Theorem 2 gives them: with one weight w on all links the best w at g = 1 is
2 / (l_2 + l_n), as g and w only occur as g w.
"""

from analysis.verdicts import Claim, Evidence, Tables, at_most, within
from paper_figs import drawing
from paper_figs.dst.drawing import analytic, frame, sure
from paper_figs.figure import Figure, FigureTables
from paper_figs.light import Data, Drawing
from paper_figs.sheets import draw_table
from systems.parts.laplacian import fastest_phi_cr, optimal_cycle, phi_cr
from systems.parts.throttling_graphs import graph_named, laplacian

NETWORKS = {"complete-5": "complete graph K5", "star-5": "star S5"}
DERIVED = {"complete-5": (1 / 5, 0.0), "star-5": (1 / 3, 2 / 3)}  # weight, Phi_cr: by hand, from the known spectra
EXACT = 1e-6  # how near to it the solver of the convex problem comes


def tables(data: Data) -> FigureTables:
    """``weights``, a row a network: Theorem 2's weight, and the smallest and largest of problem (33)."""
    from systems.parts.link_weights import fastest

    rows = []
    for name in NETWORKS:
        graph = graph_named(name)
        best = fastest(graph)
        row = {"graph": name, "theorem_weight": optimal_cycle(laplacian(graph))}
        row |= {"theorem_phi_cr": fastest_phi_cr(laplacian(graph)), "phi_cr": phi_cr(laplacian(best.graph), 1.0)}
        rows.append({**row, "least_weight": best.graph.weights.min(), "largest_weight": best.graph.weights.max()})
    return {"weights": frame(rows)}


def draw(tables: FigureTables) -> Drawing:
    """A table."""
    sheet, [panel] = drawing.panels(1, 1, inches=(7.0, 1.4))
    rows = []
    for row in tables["weights"].itertuples():
        weights = [f"{row.theorem_weight:.4f}", f"{row.least_weight:.4f} to {row.largest_weight:.4f}"]
        rows.append([NETWORKS[row.graph], *weights, f"{row.theorem_phi_cr:.4f}", f"{abs(row.phi_cr):.4f}"])
    header = ["network", "weight: Theorem 2", "all weights: problem (33)", "$\\Phi_{cr}$: Thm. 2", "$\\Phi_{cr}$: (33)"]
    draw_table(panel, header, rows, (1.7, 1.5, 2.0, 1.5, 1.0), "Table 2: optimal link weights, $\\gamma$ = 1")
    return sheet


def measure_s7(tables: Tables) -> Evidence:
    """Weights and Phi_cr of problem (33) and Theorem 2, against what the spectra give by hand."""
    checks = []
    for row in tables["dst-table2/weights"].itertuples():
        (weight, factor), name = DERIVED[row.graph], NETWORKS[row.graph]
        checks += [
            within(f"{name}: weight by Theorem 2", sure(row.theorem_weight), weight, EXACT),
            within(f"{name}: least weight by problem (33)", sure(row.least_weight), weight, EXACT),
            within(f"{name}: largest weight by problem (33)", sure(row.largest_weight), weight, EXACT),
            at_most(f"{name}: Phi_cr above {factor:.4g}", sure(row.phi_cr - factor), EXACT),
        ]
    return Evidence(tuple(checks))


S7 = (
    "The fastest throttler on a complete graph and on a star has one weight on all links: 1/5 on K5, 1/3 on S5 (g = 1)."
)
WHY_S7 = (
    "Their links are alike (edge-transitive graphs), so that averaging over the symmetries makes no optimum worse: if "
    "weights differ, the solver has not finished."
)
CLAIMS = (Claim("S7", "DST, Table 2, Ex. 1", S7, ("dst-table2",), measure_s7, why=WHY_S7),)
EXPERIMENT = analytic("dst-table2", "Optimal link weights", "DST, Table 2")
NOTES = (
    "The published cells are missing from our text of the paper; the values follow from the spectra {0, 5, 5, 5, 5} "
    "and {0, 1, 1, 1, 5}: 2/(5 + 5) and 2/(1 + 5). Problem (33) is solved as the paper states it, every weight free."
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
