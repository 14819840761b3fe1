"""Fig. 4.1: the sliding log and the token bucket admit equally many requests if requests never end.

Capacity 4, one token a second, one node; four requests every 10 ms stand for "infinitely often".  (a) Requests
admitted since the start.  (b) Which ones: an instant a mark.  Ours: that they are real systems on one node,
``sliding-log`` and ``crdt-queue``, beside the centralised limiter.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import at
from paper_figs.crdt.instants import LIFE_S, SYSTEMS, admitted, alone, draw_instants
from paper_figs.drawing import curve, panels
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, legend_above
from paper_figs.style import style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

PATTERN = {"at": ["0ms"] * 4, "period": "10ms", "repeats": 1_601}


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Three systems, saturated."""
    return at(scale, [alone(system, PATTERN) for system in SYSTEMS])


def tables(data: "Data") -> FigureTables:
    """``admitted``: one row an admitted request: at_s, and how many there were up to then, count."""
    return {"admitted": admitted(data)}


def draw(tables: FigureTables) -> "Drawing":
    """Two panels; the first repetition, since all are alike."""
    titles = ("how many", "which (marks of one instant side by side)")
    drawing, (counts, instants) = panels(1, 2, titles, widths=(1.0, 1.2))
    requests = tables["admitted"]
    requests = requests[requests.repetition == requests.repetition.min()]
    end_s = requests.at_s.max()
    for width, (system, name) in zip((3.4, 2.2, 1.2), SYSTEMS.items(), strict=True):
        part = requests[requests.system == system]
        at_s, count = [0, *part.at_s, end_s], [0, *part["count"], part["count"].max()]
        curve(counts, at_s, count, style_of(name), width=width, stairs=True)
    counts.set(xlabel="time (s)", ylabel="admitted requests")
    draw_instants(instants, requests)
    for panel in (counts, instants):
        panel.set_xticks(range(0, int(end_s) + 1, LIFE_S))
    legend_above(drawing, [key(style_of(name), marker=False) for name in SYSTEMS.values()])
    return drawing


EXPERIMENT = Experiment(
    "crdt-fig4.1", "Sliding log and token bucket, saturated: equally many", "CRDT thesis, Fig. 4.1", points
)
FIGURE = Figure(
    EXPERIMENT, tables, draw,
    notes="At multiples of c / r = 4 s both have admitted equally many; between them the log is behind by up to c - 1, "
    "as it gives its tokens back in bursts. Claim T23 stands with Fig. 4.2.",
)  # fmt: skip
