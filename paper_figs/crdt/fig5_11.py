"""Fig. 5.11: rejections of one user, not limited.

The one trace of data set B that is fabricated there too: requests 1.05/r apart (A16), two minutes.  LINF is off
(5.2.4), so "the queue" is F (A17).  Nothing should be rejected.  Claim T15 stands at Fig. 5.12.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt import precision
from paper_figs.crdt.grids import COUNTER, F, at
from paper_figs.crdt.runs import EXTENSIONS_NOTE, PRECISION_NOTE
from paper_figs.figure import Figure, FigureTables

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

DATA_SET = "B-not-limited"
VARIANTS = (COUNTER, F)


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The same at every scale but for small."""
    return at(scale, precision.points(DATA_SET, VARIANTS))


def draw(found: FigureTables) -> "Drawing":
    """Rejections over time, percentages, errors."""
    return precision.draw(found, VARIANTS, {})


EXPERIMENT = Experiment("crdt-fig5.11", "Precision, one user, not limited", "CRDT, Fig. 5.11", points)
FIGURE = Figure(EXPERIMENT, precision.tables, draw, notes=f"{EXTENSIONS_NOTE} {PRECISION_NOTE}")
