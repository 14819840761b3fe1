"""Fig. 5.12: memory and bandwidth of the counter and the queue, not limited.

The runs of Fig. 5.11, of a trace that is fabricated there too (A16): two minutes, whatever the caption says.  LINF is
off, so "the queue" is F (A17).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Claim, Evidence, Tables, above, at_most
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt import usage
from paper_figs.crdt.grids import COUNTER, F, at
from paper_figs.crdt.runs import EXTENSIONS_NOTE
from paper_figs.crdt.usage import BANDWIDTH, MEMORY
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

DATA_SET = "B-not-limited"
VARIANTS = (COUNTER, F)
PUBLISHED = {F: {MEMORY: (0.90,), BANDWIDTH: (0.23,)}}  # 5.2.4


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The same at every scale but for small."""
    return at(scale, usage.points(DATA_SET, VARIANTS))


def draw(found: FigureTables) -> "Drawing":
    """Memory, bandwidth, their ratios, convergence."""
    return usage.draw(found, VARIANTS, PUBLISHED)


def measure_t15(tables: Tables) -> Evidence:
    """Rejections of both, areas of the queue over the counter's, and which comes to rest later."""
    decided, runs = tables["crdt-fig5.11/runs"], tables["crdt-fig5.12/runs"]
    none = [
        at_most(f"rejections of the {variant}", samples(by_repetition(decided, "rejected_count", variant=variant)), 0.0)
        for variant in VARIANTS
    ]
    exact, direction = usage.as_published(runs, F, PUBLISHED[F])
    later = by_repetition(runs, "rest_s", variant=F) - by_repetition(runs, "rest_s", variant=COUNTER)
    rest = above("convergence of the queue minus that of the counter", samples(later), 0.0, "s")
    return Evidence((*none, *exact, rest), (*none, *direction, rest))


CLAIMS = (
    Claim(
        "T15", "5.2.4, Figs. 5.11-5.12",
        "Not limited: no rejections; the queue needs 10 % less memory and 77 % less bandwidth than the counter, and "
        "converges later.", ("crdt-fig5.11", "crdt-fig5.12"), measure_t15,
        why="The thesis measured whole Erlang processes, most of it overhead: the model has none. An element lives "
        "1/r, 3.3 s at c = 300, and then leaves the delta states (4.4); the counter's changes stay queued until "
        "sent, to 29 neighbours in turn, which takes longer. So it is at c = 60, 150 and 600, and where a round "
        "may go to any neighbour.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crdt-fig5.12", "Memory and bandwidth, one user, not limited", "CRDT, Fig. 5.12", points)
FIGURE = Figure(EXPERIMENT, usage.tables, draw, CLAIMS, notes=f"{EXTENSIONS_NOTE} {usage.USAGE_NOTE}")
