"""Fig. 5.8: memory and bandwidth of the counter and the queue, substantial load (3.2 c in one minute).

The runs of Fig. 5.7.  The trace is a substitute with the secret one's length and number of requests; "the queue"
is F+L (A17).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Claim, Evidence, Tables
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt import usage
from paper_figs.crdt.checks import more
from paper_figs.crdt.grids import COUNTER, FL, at
from paper_figs.crdt.runs import EXTENSIONS_NOTE
from paper_figs.crdt.usage import BANDWIDTH, MEMORY
from paper_figs.figure import Figure, FigureTables

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

DATA_SET = "B-substantial"
VARIANTS = (COUNTER, FL)
PUBLISHED = {FL: {MEMORY: more(5.13), BANDWIDTH: more(4.95)}}  # 5.2.2


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The same at every scale but for small."""
    return at(scale, usage.points(DATA_SET, VARIANTS))


def draw(found: FigureTables) -> "Drawing":
    """Memory, bandwidth, their ratios, convergence."""
    return usage.draw(found, VARIANTS, PUBLISHED)


def measure_t12(tables: Tables) -> Evidence:
    """Areas of the queue over the counter's; the counter's last message."""
    runs = tables["crdt-fig5.8/runs"]
    exact, direction = usage.as_published(runs, FL, PUBLISHED[FL])
    silent = usage.silent_before_the_end(runs)
    return Evidence((*exact, silent), (*direction, silent))


CLAIMS = (
    Claim(
        "T12", "5.2.2, Fig. 5.8",
        'Substantial load: the queue needs "513 % more" memory and "495 % more" bandwidth than the counter, which '
        "stops sending before the last request.", ("crdt-fig5.8",), measure_t12, substitute=True,
        why="Memory is that of a model, in which the counter's delta states count in full (see T9); the ratio grows "
        "with the secret c, from 0.6 at c = 150 to 1.9 at 600 (crdt-sensitivity).",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crdt-fig5.8", "Memory and bandwidth, one user, substantial load", "CRDT, Fig. 5.8", points)
FIGURE = Figure(EXPERIMENT, usage.tables, draw, CLAIMS, notes=f"{EXTENSIONS_NOTE} {usage.USAGE_NOTE}")
