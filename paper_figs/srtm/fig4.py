"""Fig. 4: median, 95th and 99th percentile of latency against the number of brokers k, 6,000 publishers.

Poisson publishers x 10 msg/s, batch 1, spread evenly over k idle brokers; the topic's bucket is split
k ways.  One broker is overloaded; more than two only add DRL penalty.
"""

from analysis.verdicts import Claim, Evidence, Tables, above
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables, Given
from paper_figs.light import Data, Drawing
from paper_figs.series import by_repetition, samples, steps, where
from paper_figs.srtm.published import FIG4_PUBLISHERS
from paper_figs.srtm.series import slo_of
from paper_figs.srtm.splits import BUCKET_NOTE, draw_percentiles, latency_by_k, over_repetitions, split_points

VERY_LARGE = 10.0  # "very large" at k = 1, as a multiple of the p99 at k = 2 (ours)


def points(scale: Scale, options: Given) -> list[RunSpec]:
    """One point a k."""
    return split_points(scale, FIG4_PUBLISHERS, "srtm-paper")


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run; ``latency``: over the repetitions."""
    runs = latency_by_k(data)
    return {"runs": runs, "latency": over_repetitions(runs)}


def draw(tables: FigureTables) -> Drawing:
    """One panel."""
    sheet, [panel] = drawing.panels(1, 1, inches=(3.8, 3.0))
    drawing.log_axis(panel)
    marks = draw_percentiles(panel, tables["runs"])
    drawing.rule(panel, slo_of(tables["runs"]))
    keys.legend_above(sheet, [*marks, keys.rule_key("SLO (line ours)")], columns=2)
    return sheet


def measure_r3(tables: Tables) -> Evidence:
    """p99 at k = 1 against k = 2, and its steps from k = 2 on."""
    runs = where(tables["srtm-fig4/runs"], system="lb")
    one, two = (by_repetition(runs, "p99_ms", k=k) for k in (1, 2))
    exact = [above("p99 at k = 1 over p99 at k = 2", samples(one / two), VERY_LARGE)]
    exact += steps(runs[runs.k >= 2], "p99_ms", "k", unit="ms")
    return Evidence(tuple(exact), (above("p99, k = 1 minus k = 2", samples(one - two), 0.0, "ms"), *exact[1:]))


CLAIMS = (
    Claim(
        "R3",
        "Fig. 4, VI-A",
        "6,000 publishers: the 99th percentile is very large at k = 1 (one broker is saturated), "
        "lowest at k = 2, and grows from there as the DRL penalty does.",
        ("srtm-fig4",),
        measure_r3,
        why="The figure's values are not printed in the text; where one broker saturates is a fit of the broker model.",
    ),
)
NOTES = (
    f"{BUCKET_NOTE} At k = 1 the queue of one broker grows throughout the minute, so its latency measures the length "
    "of the run."
)
EXPERIMENT = Experiment("srtm-fig4", "The DRL penalty, 6,000 publishers", "SRTM, Fig. 4; report, Fig. 6b", points)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, notes=NOTES)
