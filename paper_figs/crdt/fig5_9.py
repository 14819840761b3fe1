"""Fig. 5.9: rejections of one user, barely limited in one minute (1.1 c).

The trace is a substitute with the secret one's length and number of requests; "the queue" is F+L (A17).
The centralised limiter rejects a dozen requests, so that the percentages differ much between repetitions.
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

DATA_SET = "B-barely"
VARIANTS = (COUNTER, FL)
PUBLISHED = {COUNTER: 0.1, FL: 0.8}  # 5.2.3


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The same at every scale but for small."""
    return at(scale, precision.points(DATA_SET, VARIANTS))


def draw(found: FigureTables) -> "Drawing":
    """Rejections over time, percentages, errors."""
    return precision.draw(found, VARIANTS, PUBLISHED)


def measure_t13(tables: Tables) -> Evidence:
    """The percentages, and which is nearer to 100 %."""
    return precision.measure(tables["crdt-fig5.9/runs"], PUBLISHED)


CLAIMS = (
    Claim(
        "T13", "5.2.3, Fig. 5.9",
        "Barely limited: the counter rejects 10 % of what the centralised limiter rejects, the queue 80 %.",
        ("crdt-fig5.9",), measure_t13, substitute=True,
        why="The centralised limiter rejects some 13 requests, and how many of them a limiter misses depends on where "
        "the last few fall: the thesis has one trace, here each repetition has its own.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crdt-fig5.9", "Precision, one user, barely limited", "CRDT, Fig. 5.9", points)
FIGURE = Figure(EXPERIMENT, precision.tables, draw, CLAIMS, notes=f"{EXTENSIONS_NOTE} {PRECISION_NOTE}")
