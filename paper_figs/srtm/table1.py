"""Table I: measurement rounds of each iteration of SRTM's search, and its total time, by group size.

The searches of Fig. 7: 1,000 publishers x 10 msg/s, batch 10, six idle brokers.  No claim is about time, of which a
part is not measured by us: see the notes.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf

from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_least, at_most, below, t_interval
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.light import Data, Drawing, SparkFrame
from paper_figs.series import by_repetition, joined, samples, where, whole, with_point
from paper_figs.sheets import draw_table
from paper_figs.srtm import readings
from paper_figs.srtm.grids import ARRIVALS, group_searches
from paper_figs.srtm.p99 import ENVELOPE_NOTE, by_arrivals, called, per_run
from paper_figs.srtm.published import BROKERS, OVERHEAD_S, ROUND_S, TABLE_1

Rows = Mapping[int, tuple[Sequence[float], float]]  # by group size: rounds of each iteration, seconds
HARDLY, MOST = 0.05, 0.8  # of the searches (ours)
REPETITIONS = {"quick": 20, "paper": 20}  # what it takes to tell six brokers from five, and the spread of one search


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """SRTM's points of Fig. 7."""
    return group_searches(scale, ["srtm"], options)


def tables(data: Data) -> FigureTables:
    """``iterations``: rounds and reach of each iteration; ``searches``: one row a run, with what ``per_run`` has."""
    factors = {"group_size": "workload.group_size"}
    steps = iterations(data.decisions)
    runs = joined(per_run(data, factors).drop(columns="round_count"), searches(data.decisions, steps))
    every = {"iterations": with_point(data, steps, factors), "searches": runs}
    return {name: frame[frame.system == "srtm"].reset_index(drop=True) for name, frame in every.items()}


def iterations(decisions: SparkFrame) -> SparkFrame:
    """A row a run and iteration: ``round_count``, and ``reach``: the last broker in use when it starts, from 1."""
    from pyspark.sql import functions as f

    from analysis.metrics import search_rounds

    used = decisions.where("kind = 'trial' and publisher_count > 0")
    rounds = used.groupBy("run_id", "iteration", "round").agg((f.max("broker") + 1).alias("reach"))
    reach = rounds.groupBy("run_id", "iteration").agg(f.min_by("reach", "round").alias("reach"))
    rounds = search_rounds(decisions).select("run_id", "iteration", "round_count", "search_ns")
    return rounds.join(reach, ["run_id", "iteration"])


def searches(decisions: SparkFrame, steps: SparkFrame) -> SparkFrame:
    """A row a run: rounds, of all and the last iteration; brokers, of the first and most added; time; moves back."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    ends = steps.groupBy("run_id").agg(
        f.sum("round_count").alias("round_count"),
        f.max("iteration").alias("iteration_count"),
        f.max_by("round_count", "iteration").alias("last_round_count"),
        f.min_by("reach", "iteration").alias("first_reach"),
        (f.sum("search_ns") / SECOND_NS + OVERHEAD_S * f.sum("round_count")).alias("search_s"),
    )
    before = f.lag("reach", 1, 0).over(Window.partitionBy("run_id").orderBy("iteration"))
    added = steps.select("run_id", (f.col("reach") - before).alias("added"))
    largest = added.groupBy("run_id").agg(f.max("added").alias("reach_step"))
    return ends.join(moved_back(decisions), "run_id").join(largest, "run_id")


def moved_back(decisions: SparkFrame) -> SparkFrame:
    """A row a run, ``moved_back_count``: publishers that came to a broker at the start of a later iteration.

    Compared are an iteration's first round and the last one before it: within an iteration a binary search changes
    the numbers.  Growth counts at every broker that is earlier than the iteration's first new one, full or not.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    count = f.col("publisher_count")
    trials = decisions.where("kind = 'trial'").groupBy("run_id", "broker", "iteration")
    used = f.max(f.when(count > 0, f.col("broker"))).alias("used")
    ends = trials.agg(f.min_by(count, "round").alias("first"), f.max_by(count, "round").alias("last"), used)
    before = Window.partitionBy("run_id", "broker").orderBy("iteration")
    iterations = Window.partitionBy("run_id").orderBy("iteration")
    reach = f.max("used").over(iterations.rangeBetween(Window.unboundedPreceding, -1))
    growth = f.greatest(f.lit(0), f.col("first") - f.lag("last").over(before))
    back = f.when(f.col("broker") <= reach, growth).otherwise(0)
    return ends.withColumn("back", back).groupBy("run_id").agg(f.sum("back").alias("moved_back_count"))


def draw(tables: FigureTables) -> Drawing:
    """Three tables side by side: published, Poisson, periodic; cells shaded by rounds."""
    sheet, axes = drawing.panels(1, 3, inches=(9.0, 2.2))
    width = max([BROKERS, *tables["iterations"].iteration])
    every = {f"ours, {kind} (mean)": _means(tables, kind, width) for kind in ARRIVALS}
    header = ["group", *(f"k = {k}" if k == 1 else str(k) for k in range(1, width + 1)), "all", "s"]
    for panel, (name, rows) in zip(axes, {"published": TABLE_1, **every}.items(), strict=True):
        cells: list[list[str]] = []
        shades: dict[tuple[int, int], float] = {}
        for line, size in enumerate(sorted(TABLE_1)):
            rounds, seconds = rows.get(size, ((), 0.0))
            shades |= {(line, column): value / 9 for column, value in enumerate(rounds, 1)}
            ours = [*rounds, *[0.0] * (width - len(rounds)), sum(rounds)]
            cells.append([str(size), *(whole(value) if value else "" for value in ours), f"{seconds:.0f}"])
        draw_table(panel, header, cells, (1.4, *[1.0] * (width + 1), 1.2), name, shades=shades)
    return sheet


def _means(tables: FigureTables, kind: str, width: int) -> Rows:
    """Mean rounds of each iteration (0 where a repetition did not get there) and mean time, by group size."""
    steps, runs = (tables[name][tables[name].arrivals == kind] for name in ("iterations", "searches"))
    means = {}
    for size, part in runs.groupby("group_size"):
        rounds = steps[steps.group_size == size].groupby("iteration")["round_count"].sum() / len(part)
        means[int(size)] = (tuple(float(rounds.get(k, 0.0)) for k in range(1, width + 1)), float(part.search_s.mean()))
    return means


def measure_r17(tables: Tables) -> Evidence:
    """Rounds against Table I, by group size; Poisson.  The table is one search a row: so it must be one of ours."""
    runs = where(tables["srtm-table1/searches"], system="srtm", arrivals="poisson")
    kind, sizes = called(runs), sorted(set(runs.group_size))
    count = {size: by_repetition(runs, "round_count", group_size=size) for size in sizes}
    rounds = (
        foreseen(f"{kind}, groups of {size}: rounds", samples(count[size]), sum(TABLE_1[size][0]), "rounds")
        for size in sizes
    )
    no_fewer = (
        at_least(f"rounds, groups of {larger} minus {smaller}", samples(count[larger] - count[smaller]), 0.0, "rounds")
        for smaller, larger in pairwise(sizes)
    )
    more = above(f"rounds, groups of {sizes[-1]} minus {sizes[0]}", samples(count[sizes[-1]] - count[sizes[0]]))
    return Evidence((*rounds, *no_fewer), (more,))


def foreseen(label: str, samples: Sequence[float], published: float, unit: str) -> Check:
    """A published single observation lies in the 95 % interval of one more of ours."""
    ours = t_interval(samples)
    half = (ours.high - ours.mean) * (ours.count + 1) ** 0.5 if ours.count > 1 else inf
    label = f"{label} printed; one of ours takes {ours.mean:.1f}, and 95 % of them as many as wanted here"
    return Check(label, (published,) * ours.count, ours.mean - half, ours.mean + half, published, unit)


def measure_r18(tables: Tables) -> Evidence:
    """Mean over a repetition's searches that placed everybody: rounds of the last iteration, brokers of the first.

    Most have to have done so: who places everybody does it in the last iteration's one round, by construction.
    """
    exact, direction = [], []
    for kind, every in by_arrivals(where(tables["srtm-table1/searches"], system="srtm")):
        placed = every.outcome == "placed"
        share, part = samples(placed.groupby(every.repetition).mean()), every[placed]
        exact.append(at_least(f"{kind}: share of searches that placed everybody", share, MOST, "of 1"))
        means = part.groupby("repetition")[["last_round_count", "first_reach"]].mean()
        last, first = samples(means.last_round_count), samples(means.first_reach)
        exact.append(at_most(f"{kind}: rounds of the last iteration", last, 1.0, "rounds"))
        exact.append(at_most(f"{kind}: brokers of the first iteration", first, 1.0, "brokers"))
        longer = part[part.iteration_count > 1]
        fewer = longer.last_round_count - (longer.round_count - longer.last_round_count) / (longer.iteration_count - 1)
        steps = samples(fewer.groupby(longer.repetition).mean())
        label = f"{kind}: rounds of the last iteration minus those of earlier ones"
        direction.append(below(label, steps, 0.0, "rounds"))
    return Evidence(tuple(exact), tuple(direction))


def measure_r26(tables: Tables) -> Evidence:
    """The share of a repetition's searches that move publishers back, and that add several brokers at once.

    Exactly: none; the sign: hardly any.
    """
    runs = where(tables["srtm-table1/searches"], system="srtm")
    exact, direction = [], []
    for kind, part in by_arrivals(runs):
        shares = {
            "move publishers back": part.moved_back_count > 0,
            "add several brokers at once": part.reach_step > 1,
        }
        for what, happens in shares.items():
            share, label = samples(happens.groupby(part.repetition).mean()), f"{kind}: share of searches that {what}"
            exact.append(at_most(label, share, 0.0, "of 1"))
            direction.append(at_most(f"{label}, hardly any", share, HARDLY, "of 1"))
    return Evidence(tuple(exact), tuple(direction))


CLAIMS = (
    Claim(
        "R17", "Table I, VI-E", "The search takes from 1 round (groups of 5) to 17 (groups of 30), more for larger "
        "groups.", ("srtm-table1",), measure_r17,
        why="The number of rounds follows from how many publishers of a burst a broker can keep, so it moves with the "
        "fitted cost of a wake-up, and a search that runs out of brokers goes on to the last one. Table I is one "
        "search a row: it is held against the spread of single searches, not against their mean.",
    ),
    Claim(
        "R18", "Table I, VI-E", "The last iteration takes one round; the first starts with one broker.",
        ("srtm-table1",), measure_r18,
        why="Of searches that place everybody, as all of the paper's did: one that runs out of brokers ends with a "
        "binary search.",
    ),
    Claim(
        "R26", "Report 6.5", "From idle brokers the iterations fill one broker after another, and publishers never "
        "move back to an earlier one.", ("srtm-table1",), measure_r26,
        why="A broker that met the SLO while others still searched is not full and may be given more: a property of "
        "the report's example, which nearly all searches share, not of the algorithm as written.",
    ),
)  # fmt: skip
TITLE = "Load distribution latency of SRTM"
EXPERIMENT = Experiment("srtm-table1", TITLE, "SRTM, Table I", points, readings.READINGS, repetitions=REPETITIONS)
NOTES = (
    "Group: its publishers; k: iteration; cells: measurement rounds, then those of all iterations, and seconds; ours "
    "as means over repetitions (0 where a search ended earlier). The paper does not say "
    "whether its table is about Poisson or periodic publishers: R17 uses Poisson. Time = rounds x "
    f"({ROUND_S} s + {OVERHEAD_S} s); the {OVERHEAD_S} s are what the published times leave beside the rounds (the "
    f"artifact's overhead of a round), not measured here. {ENVELOPE_NOTE}"
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
