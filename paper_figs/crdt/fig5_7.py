"""Fig. 5.7: rejections of one user, a substantial number of requests in one minute (3.2 c).

The trace is a substitute with the secret one's length and number of requests; "the queue" is F+L (A17).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Claim, Evidence, Tables, above
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt import precision
from paper_figs.crdt.grids import COUNTER, FL, at
from paper_figs.crdt.runs import EXTENSIONS_NOTE, PRECISION_NOTE
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

DATA_SET = "B-substantial"
VARIANTS = (COUNTER, FL)
PUBLISHED = {COUNTER: 0.964, FL: 0.986}  # 5.2.2


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The same at every scale but for small."""
    return at(scale, precision.points(DATA_SET, VARIANTS))


def draw(found: FigureTables) -> "Drawing":
    """Rejections over time, percentages, errors."""
    return precision.draw(found, VARIANTS, PUBLISHED)


def measure_t11(tables: Tables) -> Evidence:
    """The percentages, which is nearer to 100 %, and that the largest gap is not the last."""
    runs = tables["crdt-fig5.7/runs"]
    shrinks = [
        above(f"gap of the {variant} to the centralised limiter, largest minus last",
              samples(by_repetition(runs, "gap_peak_count", variant=variant)
                      - by_repetition(runs, "gap_end_count", variant=variant)), unit="requests")
        for variant in VARIANTS
    ]  # fmt: skip
    return precision.measure(runs, PUBLISHED, *shrinks)


CLAIMS = (
    Claim(
        "T11", "5.2.2, Fig. 5.7",
        "Substantial load: the counter rejects 96.4 % of what the centralised limiter rejects, the queue 98.6 %; both "
        "approach it over time.", ("crdt-fig5.7",), measure_t11, substitute=True,
        why="In the area under the curves, the reading that comes nearest, both percentages are as printed within 1 "
        "%. In total the two do not differ: by the end of the minute the counter's debt has made up for most of "
        "what it admitted (T17).",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crdt-fig5.7", "Precision, one user, substantial load", "CRDT, Fig. 5.7", points)
FIGURE = Figure(EXPERIMENT, precision.tables, draw, CLAIMS, notes=f"{EXTENSIONS_NOTE} {PRECISION_NOTE}")
