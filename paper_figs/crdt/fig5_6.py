"""Fig. 5.6: memory and bandwidth of the counter and the queue, extreme load (21.5 c in one minute).

The runs of Fig. 5.5.  The trace is a substitute with the secret one's length and number of requests; "the queue"
is F+L (A17).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Claim, Evidence, Tables, at_most
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt import usage
from paper_figs.crdt.checks import more
from paper_figs.crdt.grids import COUNTER, FL, at
from paper_figs.crdt.runs import EXTENSIONS_NOTE
from paper_figs.crdt.usage import BANDWIDTH, MEMORY
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

DATA_SET = "B-extreme"
VARIANTS = (COUNTER, FL)
PUBLISHED = {FL: {MEMORY: more(7.98), BANDWIDTH: more(8.83)}}  # 5.2.1


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The same at every scale but for small."""
    return at(scale, usage.points(DATA_SET, VARIANTS))


def draw(found: FigureTables) -> "Drawing":
    """Memory, bandwidth, their ratios, convergence."""
    return usage.draw(found, VARIANTS, PUBLISHED)


SILENT_S, LONG_S = 10.0, 10.0  # after 10 s the counter sends nothing (5.2.1); ours: what "long after" the load is


def measure_t9(tables: Tables) -> Evidence:
    """Areas of the queue over the counter's."""
    exact, direction = usage.as_published(tables["crdt-fig5.6/runs"], FL, PUBLISHED[FL])
    return Evidence(tuple(exact), tuple(direction))


def measure_t10(tables: Tables) -> Evidence:
    """Last messages: the counter's by 10 s (+25 %), the queue's long after the load; or before and after its end."""
    runs = tables["crdt-fig5.6/runs"]
    last = samples(by_repetition(runs, "last_sent_s", variant=COUNTER))
    exact = (
        at_most("last message of the counter", last, 1.25 * SILENT_S, "s"),
        usage.talks_after_the_end(runs, FL, LONG_S),
    )
    return Evidence(exact, (usage.silent_before_the_end(runs), usage.talks_after_the_end(runs, FL)))


CLAIMS = (
    Claim(
        "T9", "5.2.1, Fig. 5.6",
        "Extreme load: the queue's memory is 7.98 times the counter's, its bandwidth 8.83 times.",
        ("crdt-fig5.6",), measure_t9, substitute=True,
        why="The ratio of bytes grows with the secret c: about 6, 14 and 30 at c = 150, 300 and 600. Memory is that "
        "of a model in which every delta state counts in full; an Erlang process probably holds one copy of a "
        "counter's bucket to which all 29 delta states refer, so that the thesis' counter looks smaller.",
    ),
    Claim(
        "T10", "5.2.1, Fig. 5.6",
        "Extreme load: the counter sends nothing after 10 s, the queue goes on long after the last request.",
        ("crdt-fig5.6",), measure_t10, substitute=True,
        why="The counter's order is right: 29 neighbours at one a round take 8.7 s after the last news. The queue "
        "sends little after 10 s and nothing after the load, as it admits only what is refilled, and dead "
        "elements leave delta states (4.4). Where a round may go to any neighbour the queue does not outlast the "
        "load either, and the counter goes on to about 110 s.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crdt-fig5.6", "Memory and bandwidth, one user, extreme load", "CRDT, Fig. 5.6", points)
FIGURE = Figure(EXPERIMENT, usage.tables, draw, CLAIMS, notes=f"{EXTENSIONS_NOTE} {usage.USAGE_NOTE}")
