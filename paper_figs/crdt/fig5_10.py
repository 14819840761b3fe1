"""Fig. 5.10: memory and bandwidth of the counter and the queue, barely limited (1.1 c in one minute).

The runs of Fig. 5.9.  The trace is a substitute with the secret one's length and number of requests; "the queue"
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

DATA_SET = "B-barely"
VARIANTS = (COUNTER, FL)
PUBLISHED = {FL: {MEMORY: more(4.27), BANDWIDTH: more(2.15)}}  # 5.2.3


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The same at every scale but for small."""
    return at(scale, usage.points(DATA_SET, VARIANTS))


def draw(found: FigureTables) -> "Drawing":
    """Memory, bandwidth, their ratios, convergence."""
    return usage.draw(found, VARIANTS, PUBLISHED)


def measure_t14(tables: Tables) -> Evidence:
    """Areas of the queue over the counter's."""
    exact, direction = usage.as_published(tables["crdt-fig5.10/runs"], FL, PUBLISHED[FL])
    return Evidence(tuple(exact), tuple(direction))


CLAIMS = (
    Claim(
        "T14", "5.2.3, Fig. 5.10",
        'Barely limited: the queue needs "427 % more" memory and "215 % more" bandwidth than the counter.',
        ("crdt-fig5.10",), measure_t14, substitute=True,
        why="Memory is that of a model, in which the counter's delta states count in full, up to 30 counters each "
        "(see T9); in memory as measured the queue needs more, as the thesis says.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crdt-fig5.10", "Memory and bandwidth, one user, barely limited", "CRDT, Fig. 5.10", points)
FIGURE = Figure(EXPERIMENT, usage.tables, draw, CLAIMS, notes=f"{EXTENSIONS_NOTE} {usage.USAGE_NOTE}")
