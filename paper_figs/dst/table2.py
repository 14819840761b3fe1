"""Table 2: the link weights of the fastest throttler on a complete graph and on a star of five servers, g = 1.

The table's cells are missing from our text of the paper; Theorem 2 gives them, as the paper says: with
one weight w on all links g and w only occur as g w, so the best w at g = 1 is 2 / (l_2 + l_n).
"""

from typing import TYPE_CHECKING

from analysis.verdicts import Check, Claim, Evidence, Tables, at_most, within
from harness.experiment import Experiment
from paper_figs.dst.drawing import draw_table, frame, sure
from paper_figs.figure import Figure, FigureTables
from paper_figs.style import panels
from systems.parts.laplacian import fastest_phi_cr, optimal_cycle, phi_cr
from systems.parts.throttling_graphs import graph_named, laplacian

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

NETWORKS = {"complete-5": "complete graph K5", "star-5": "star S5"}
DERIVED = {"complete-5": (1 / 5, 0.0), "star-5": (1 / 3, 2 / 3)}  # weight, Phi_cr: by hand, from the known spectra
EXACT = 1e-6  # how near to it the solver of the convex problem comes


def tables(data: "Data") -> FigureTables:
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


def draw(found: FigureTables) -> "Drawing":
    """A table."""
    drawing, axes = panels(1, 1, gridspec_kw={"left": 0.0})
    drawing.set_size_inches(6.4, 1.5)
    rows = []
    for row in found["weights"].itertuples():
        programme = f"{row.least_weight:.4f} … {row.largest_weight:.4f}"
        cells = [NETWORKS[row.graph], "missing", f"{row.theorem_weight:.4f}", programme]
        rows.append([*cells, f"{row.theorem_phi_cr:.4f}", f"{abs(row.phi_cr):.4f}"])
    header = ["network", "published", "Theorem 2", "problem (33)", "$\\Phi_{cr}$, Thm. 2", "$\\Phi_{cr}$, (33)"]
    draw_table(axes[0][0], header, rows, (2.0, 1.2, 1.2, 2.0, 1.3, 1.3), "Table 2: optimal link weights, $\\gamma$ = 1")
    return drawing


def measure_s7(tables: Tables) -> Evidence:
    """Weights and Phi_cr of problem (33) and Theorem 2, against what the spectra give by hand."""
    checks: list[Check] = []
    for row in tables["dst-table2/weights"].itertuples():
        weight, factor = DERIVED[row.graph]
        name = NETWORKS[row.graph]
        checks.append(within(f"{name}: weight by Theorem 2", sure(row.theorem_weight), weight, EXACT))
        for bound in ("least", "largest"):
            of_row = sure(getattr(row, f"{bound}_weight"))
            checks.append(within(f"{name}: {bound} weight by problem (33)", of_row, weight, EXACT))
        checks.append(at_most(f"{name}: Phi_cr above {factor:.4g}", sure(row.phi_cr - factor), EXACT))
    return Evidence(tuple(checks))


CLAIMS = (
    Claim(
        "S7", "DST, Table 2, Ex. 1", "The fastest throttler on a complete graph and on a star has one weight on all "
        "links: 1/5 on K5, 1/3 on S5 (g = 1).", ("dst-table2",), measure_s7,
        why="Their links are alike (edge-transitive graphs), so that averaging over the symmetries makes no optimum "
        "worse: if weights differ, the solver has not finished.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment(
    "dst-table2", "Optimal link weights", "DST, Table 2", lambda scale, options: [], analytic=True
)  # fmt: skip
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="The published cells are missing from our text; the values follow from the spectra {0, 5, 5, 5, 5} and "
    "{0, 1, 1, 1, 5}: 2/(5 + 5) and 2/(1 + 5). Problem (33) is solved as the paper states it, every weight free.",
)  # fmt: skip
