"""Fig. 5.5: rejections of one user, an extreme number of requests in one minute (21.5 c).

The trace is a substitute with the secret one's length and number of requests; "the queue" is F+L (A17).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Claim, Evidence, Tables
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt import precision
from paper_figs.crdt.grids import COUNTER, FL, at
from paper_figs.crdt.runs import EXTENSIONS_NOTE, PRECISION_NOTE
from paper_figs.figure import Figure, FigureTables

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

DATA_SET = "B-extreme"
VARIANTS = (COUNTER, FL)
PUBLISHED = {COUNTER: 0.969, FL: 0.997}  # 5.2.1


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The same at every scale but for small."""
    return at(scale, precision.points(DATA_SET, VARIANTS))


def draw(found: FigureTables) -> "Drawing":
    """Rejections over time, percentages, errors."""
    return precision.draw(found, VARIANTS, PUBLISHED)


def measure_t8(tables: Tables) -> Evidence:
    """The percentages, and which is nearer to 100 %."""
    return precision.measure(tables["crdt-fig5.5/runs"], PUBLISHED)


CLAIMS = (
    Claim(
        "T8", "5.2.1, Fig. 5.5",
        "Extreme load: the counter rejects 96.9 % of what the centralised limiter rejects, the queue 99.7 %.",
        ("crdt-fig5.5",), measure_t8, substitute=True,
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crdt-fig5.5", "Precision, one user, extreme load", "CRDT, Fig. 5.5", points)
FIGURE = Figure(EXPERIMENT, precision.tables, draw, CLAIMS, notes=f"{EXTENSIONS_NOTE} {PRECISION_NOTE}")
