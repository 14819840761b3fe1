"""Fig. 5: p99 against the number of publishers, Conc against LB: the benefit of concentration.

Publishers x 10 msg/s on six idle brokers: (a) Poisson, batch 1, (b) Poisson, batch 10, (c) periodic,
batch 1, (d) periodic, batch 10.  Ours: the SLO line, and the strips below: brokers in use (beside the
points in the paper), capacity left, and time in violation of the SLO during the search.
"""

from analysis.verdicts import Claim, Evidence, Tables, above, at_most, below
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.light import Data, Drawing
from paper_figs.series import samples
from paper_figs.srtm import concentration as shared
from paper_figs.srtm.concentration import by_arrivals, by_size, cases
from paper_figs.srtm.grids import at, topic
from paper_figs.srtm.series import ENVELOPE_NOTE, SLO_MARGIN, slo_of
from paper_figs.srtm.strips import MEAN_NOTE, STRIPS_NOTE

SYSTEMS = ("lb", "conc")
KEY = "srtm-fig5/runs"


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Panels x publishers x systems."""
    fewer = {"small": [4_000, 10_000], "tiny": [2_000, 4_000], "quick": [2_000, 6_000, 10_000]}
    sizes = scale.pick(**fewer, paper=[2_000, 4_000, 6_000, 8_000, 10_000])
    panels = shared.shown(scale)
    specs = [topic(system, kind, size, batch) for kind, batch in panels for size in sizes for system in SYSTEMS]
    return at(scale, specs, shared.FEWER)


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run; ``p99``: over the repetitions."""
    return shared.publisher_tables(data)


def draw(tables: FigureTables) -> Drawing:
    """Four panels and their strips."""
    return shared.draw_cases(tables["runs"], SYSTEMS)[0]


def measure_r5(tables: Tables) -> Evidence:
    """Conc's p99 against the SLO, LB's against the SLO, and LB minus Conc."""
    exact, direction = [], []
    for label, part in cases(tables[KEY]):
        lb, conc = by_size(part, "lb"), by_size(part, "conc")
        for size in conc:
            where = f"{label}, {size} publishers"
            meets = at_most(f"{where}: p99 of Conc", samples(conc[size]), SLO_MARGIN * slo_of(part), "ms")
            exact += [meets, above(f"{where}: p99 of LB", samples(lb[size]), slo_of(part), "ms")]
            direction += [meets, above(f"{where}: p99, LB minus Conc", samples(lb[size] - conc[size]), 0.0, "ms")]
    return Evidence(tuple(exact), tuple(direction))


def measure_r6(tables: Tables) -> Evidence:
    """LB's p99 at the most against the fewest publishers, and the trend over all sizes."""
    exact = []
    for label, part in cases(tables[KEY]):
        lb = by_size(part, "lb")
        fewest, most = min(lb), max(lb)
        if fewest == most:
            raise KeyError("two numbers of publishers")
        change = samples(lb[most] - lb[fewest])
        exact.append(below(f"{label}: p99 of LB, {most} minus {fewest} publishers", change, 0.0, "ms"))
        exact.append(below(f"{label}: slope of log p99 against log publishers", shared.log_slope(lb), 0.0))
    return Evidence(tuple(exact))


def measure_r7(tables: Tables) -> Evidence:
    """LB's p99 at batch 10 minus that at batch 1."""
    exact = []
    for kind, part in by_arrivals(tables[KEY]):
        one, ten = (by_size(part[part.batch == batch], "lb") for batch in (1, 10))
        for size in sorted(one.keys() & ten.keys()):
            label = f"{kind}, {size} publishers: p99 of LB, batch 10 minus batch 1"
            exact.append(above(label, samples(ten[size] - one[size]), 0.0, "ms"))
    if not exact:
        raise KeyError("both batch sizes")
    return Evidence(tuple(exact))


CLAIMS = (
    Claim(
        "R5", "Fig. 5a-d, VI-B", "Conc meets the SLO of 1 ms in all configurations, LB in none.", ("srtm-fig5",),
        measure_r5,
        why="Periodic publishers with random phases differ much from one repetition to the next: at 10,000 publishers "
        "and batch 1 LB's p99 lies at the SLO, above it in some repetitions and below it in others. LB is worse than "
        "Conc throughout.",
    ),
    Claim(
        "R6", "Fig. 5, VI-B", "LB's 99th percentile falls as publishers, and so the token rate, increase.",
        ("srtm-fig5",), measure_r6,
        why="The phases of periodic publishers are drawn anew for each size, which can hide the trend in few "
        "repetitions.",
    ),
    Claim(
        "R7", "Fig. 5, VI-B", "Burstiness amplifies the DRL penalty: LB is worse at batch 10 than at batch 1.",
        ("srtm-fig5",), measure_r7,
        why="A bucket is larger for batches (b is the smallest that the traffic needs): if that gave it as much slack "
        "for its parts as single messages have, batches would cost nothing more.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("srtm-fig5", "The benefit of concentration", "SRTM, Fig. 5", points, open_to_systems=True)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, notes=f"{MEAN_NOTE} {STRIPS_NOTE} {ENVELOPE_NOTE}")
