"""The report's Fig. 6a: percentiles of latency against the number of brokers k, 1,000 publishers.

One broker would do; every split only adds DRL penalty.  Ours: the second panel shows the access delay
of token buckets alone, without network and processing, beside the exact M/D/1 model.
"""

from analysis.verdicts import Claim, Evidence, Tables, above, within
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables, Given
from paper_figs.light import Data, Drawing, Frame
from paper_figs.series import by_repetition, samples, steps, where
from paper_figs.srtm.published import BROKERS, PUBLISHERS, REPORT_FIG6A_P99_MS
from paper_figs.srtm.series import slo_of
from paper_figs.srtm.splits import BUCKET_NOTE, draw_percentiles, latency_by_k, over_repetitions, split_points

ALONE = "bucket-only"  # the calibration of panel (b); (a) has any other, the figure's or one that the user names


def points(scale: Scale, options: Given) -> list[RunSpec]:
    """Every k, with processing and without."""
    return split_points(scale, PUBLISHERS, "srtm-paper", ALONE)


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run; ``latency``: over the repetitions; of token buckets alone, access delay."""
    import pandas as pd

    whole, alone = _part(latency_by_k(data), alone=False), _part(latency_by_k(data, "access_delay"), alone=True)
    runs = pd.concat([whole, alone], ignore_index=True)
    return {"runs": runs, "latency": over_repetitions(runs)}


def draw(tables: FigureTables) -> Drawing:
    """(a) the report's figure; (b) token buckets alone."""
    sheet, [whole, alone] = drawing.panels(1, 2, ("1,000 publishers", "token buckets alone (ours)"), (7.0, 3.0))
    runs = _part(tables["runs"], alone=False)
    drawing.log_axis(whole)
    marks = draw_percentiles(whole, runs)
    if (runs.k == BROKERS).any():
        drawing.published(whole, [BROKERS], [REPORT_FIG6A_P99_MS])
    drawing.rule(whole, slo_of(runs))
    keys.legend_above(sheet, [*marks, keys.published_key(), keys.rule_key("SLO (line ours)")])
    drawing.log_axis(alone, at=(0, 0.1, 0.3, 1, 3, 10), linear_below=0.1)  # zero is a value here
    draw_percentiles(alone, _part(tables["runs"], alone=True), "access delay (ms)")
    alone.set_ylim(bottom=0)
    return sheet


def _part(frame: Frame, alone: bool) -> Frame:
    return frame[(frame.calibration == ALONE) == alone]


def measure_r4(tables: Tables) -> Evidence:
    """p99 at k = 6 against the printed value, and its steps with k."""
    every = where(tables["srtm-fig4-1000/runs"], system="lb")
    runs = _part(every, alone=False)
    last = by_repetition(runs, "p99_ms", k=BROKERS)
    growth = steps(runs, "p99_ms", "k", unit="ms")
    alone = by_repetition(_part(every, alone=True), "p99_ms", k=BROKERS)
    penalty = above("p99 of access delay alone at k = 6, over the SLO", samples(alone), 1.0, "ms")
    return Evidence(
        (within("p99 at k = 6", samples(last), REPORT_FIG6A_P99_MS, unit="ms"), *growth), (*growth, penalty)
    )


CLAIMS = (
    Claim(
        "R4",
        "report, Fig. 6a",
        "1,000 publishers: the 99th percentile grows with k and reaches 14.7 ms at k = 6.",
        ("srtm-fig4-1000",),
        measure_r4,
        why="With r = 1.1 x the rate the exact M/D/1 bucket has a p99 access delay of 11.4 ms at k = 6 for the "
        "smallest b (26), and of 13.2 ms for any b, however small; so 14.7 ms takes more than token buckets: a token "
        "rate less than 1.1 x what was really sent, the artifact's release of tokens in quanta, or a minute's noise.",
    ),
)
EXPERIMENT = Experiment("srtm-fig4-1000", "The DRL penalty, 1,000 publishers", "SRTM report, Fig. 6a", points)
NOTES = f"{BUCKET_NOTE} The cross is the one value that the report prints."
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
