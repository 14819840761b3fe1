"""Fig. 5.1: the counter against the centralised limiter on data set A.

The thesis draws Spotify's real system too, and gives both that system's parameters: all secret.  So
there is no curve of it here, only its printed percentage, and the counter has Table 4.1's parameters.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Claim, Evidence, Tables, below
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt import precision
from paper_figs.crdt.grids import COUNTER, at
from paper_figs.crdt.published import shares_of
from paper_figs.crdt.runs import PRECISION_NOTE
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

VARIANTS = (COUNTER,)
PUBLISHED = shares_of("A")


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The same at every scale but for small."""
    return at(scale, precision.points("A", VARIANTS))


def draw(tables: FigureTables) -> "Drawing":
    """Rejections over time, percentages, errors."""
    return precision.draw(tables, VARIANTS, PUBLISHED)


def measure_t1(tables: Tables) -> Evidence:
    """The counter's percentage; that it rejects too little, in both readings.  Spotify's system is not ours to run."""
    runs = tables["crdt-fig5.1/runs"]
    exact = precision.shares_as_published(runs, {COUNTER: PUBLISHED[COUNTER]})
    fewer = []
    for reading, name in precision.READINGS.items():
        label = f"rejections of the counter over the centralised ones ({name})"
        fewer.append(below(label, samples(by_repetition(runs, reading, variant=COUNTER)), 1.0))
    return Evidence(tuple(exact), tuple(fewer))


CLAIMS = (
    Claim(
        "T1", "5.1.1, Fig. 5.1",
        "Data set A: the counter rejects 95.7 % of what the centralised limiter rejects (and Spotify's system, secret, "
        "91.2 %): both reject too little.", ("crdt-fig5.1",), measure_t1, substitute=True,
        why="The substitute's users send evenly and at most 20 requests a second, and the parameters are those of "
        "Table 4.1, not Spotify's: gossip keeps up, and few rejections are missing.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crdt-fig5.1", "The counter against the centralised limiter", "CRDT, Fig. 5.1", points)
FIGURE = Figure(
    EXPERIMENT, precision.tables, draw, CLAIMS,
    notes="The curve of Spotify's system is secret, as are the parameters of this test: its printed 91.2 % is marked, "
    f"nothing is simulated for it. {PRECISION_NOTE}",
)  # fmt: skip
