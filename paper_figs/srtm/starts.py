"""Searches that start from a model of bursts, beside Table I's (``srtm-starts``, ours).

SRTM's first iteration takes as many brokers as the topic's *rate* wants, one, and learns by binary searches that bursts
are too large for it: "for bursty topics, initial assignments systematically over-estimate the number of publishers a
broker can accommodate" (report 6.5).  The report's conclusion asks for a model of workloads of a known kind.  Here the
first iteration takes the smallest number of brokers, evenly loaded, on which M/D/1 with batches (Eq. (1), VI-B) sees at
most 1 % of the messages late (``systems.parts.burst_model``); what follows is IV-B's fitting, unchanged.

* *by rate*: Table I's searches, its very runs;
* *model, mcap alone*: a broker takes a publisher's batch in batch / mcap, and nothing else takes time: what SRTM knows
  of brokers already;
* *model, benchmarked*: with the time of a batch within a burst, and the latency beside it, as the modelled broker has
  them: what a benchmark without error would find.

Both are told how many messages a publisher sends at once.  Everything else is Table I's: 1,000 publishers x 10 msg/s in
batches of 10, groups of 5 to 30, six idle brokers, rounds of 60 s, each search judged on a fresh one.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from analysis.verdicts import Check, Claim, Evidence, Tables, at_most, below
from core.records import Json
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.intervals import interval_table, intervals_by, intervals_of
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.series import samples, where
from paper_figs.srtm import readings
from paper_figs.srtm.grids import group_searches
from paper_figs.srtm.p99 import ENVELOPE_NOTE, by_arrivals, per_run
from paper_figs.srtm.published import TABLE_1
from paper_figs.style import series
from testbed.brokers.model import BrokerModel, load_calibration

BY_RATE, MCAP, COSTS = "by rate", "model, mcap alone", "model, benchmarked"
LOOKS = {
    BY_RATE: series("by rate: Table I's searches", 2, "D"),
    MCAP: series(MCAP, 1, "^", "-."),
    COSTS: series(COSTS, 0, "o", "--"),
}
HALF = 0.5  # of Table I's rounds
NO_WORSE = np.log2(1.05)  # doublings of the p99
REPETITIONS = {"quick": 10, "paper": 20}  # a p99 of Poisson groups scatters; Table I's first ones
SIZE = "group size (publishers)"


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Table I's points, each with three starts; at small the smaller groups alone: others take over 20 min."""
    searches = group_searches(scale, ["srtm"], options)
    if scale.physics == "small":
        smallest = min(int(spec.workload_options["group_size"]) for spec in searches)
        searches = [spec for spec in searches if spec.workload_options["group_size"] == smallest]
    return [
        msgspec.structs.replace(spec, system_options=its)
        for spec in searches
        for its in starts(load_calibration(spec.calibration), int(spec.workload_options["batch"])).values()
    ]


def starts(model: BrokerModel, batch: int) -> dict[str, Json]:
    """The system's options of each start, for brokers with these costs."""
    work_ns = model.wakeup_ns + batch * (model.message_ns + model.pump_takes_core * model.pump_ns)
    drain = work_ns / model.cores * model.mcap_rps / (batch * SECOND_NS)
    # There and back, what a core does for one alone beyond its turn in a burst, and the pump for the batch's last.
    base_ns = 2 * model.network_ns + work_ns * (1 - 1 / model.cores) + batch * model.pump_ns
    told: Json = {"start": "model", "batch": batch}
    benchmarked = {"drain": round(drain, 3), "base": f"{round(base_ns / 1_000)}us"}
    return {BY_RATE: {}, MCAP: told, COSTS: {**told, **benchmarked}}


# --- tables ----------------------------------------------------------------------------------------


def tables(data: Data) -> FigureTables:
    """``runs``: a row a run.  ``paired``: of each model and point, intervals of the differences from ``BY_RATE``."""
    factors = {name: f"system.{name}" for name in ("start", "drain")}
    return tables_of(per_run(data, {"group_size": "workload.group_size", **factors}))


def tables_of(runs: Frame) -> FigureTables:
    """The same, of the runs with their options as they were given."""
    modelled, benchmarked = runs.pop("start").notna(), runs.pop("drain").notna()
    runs["start"] = np.select([benchmarked, modelled], [COSTS, MCAP], BY_RATE)
    return {"runs": runs, "paired": paired(runs)}


def paired(runs: Frame) -> Frame:
    """``measure``: rounds and brokers minus those of ``BY_RATE``, and log2 of the ratio of p99s, by seed."""
    rows = []
    for kind, part in runs.groupby("arrivals"):
        for start in (MCAP, COSTS):
            for measure, change in changes(part, start).items():
                rows += [((kind, start, size, measure), samples(change[size])) for size in change]
    return interval_table(["arrivals", "start", "group_size", "measure"], rows)


def changes(part: Frame, start: str) -> dict[str, Frame]:
    """What a start changes, a row a repetition, a column a group size; KeyError without runs of it."""
    wide = part.assign(log2_p99=np.log2(part.p99_ms)).pivot(
        index="repetition", columns=["start", "group_size"], values=["round_count", "broker_count", "log2_p99"]
    )
    return {measure: wide[measure][start] - wide[measure][BY_RATE] for measure in wide.columns.levels[0]}


# --- drawing ---------------------------------------------------------------------------------------


def draw(tables: FigureTables) -> Drawing:
    """Rounds, brokers, and the paired ratio of p99s, over the group size; a column a kind of arrivals."""
    cases = by_arrivals(tables["runs"])
    sheet, flat = drawing.panels(3, len(cases), (), (3.7 * len(cases), 5.6), None, (3, 2, 2), True, "row")
    for place, (title, runs) in enumerate(cases):
        rounds, brokers, ratio = flat[place :: len(cases)]
        drawing.title(rounds, f"({'abcd'[place]}) {title}")
        _draw_means(rounds, runs, "round_count")
        drawing.published(rounds, list(TABLE_1), [sum(row) for row, _ in TABLE_1.values()])
        _draw_means(brokers, runs, "broker_count")
        _draw_ratio(ratio, tables["paired"], str(runs.arrivals.iloc[0]))
        ratio.set_xlabel(SIZE)
        rounds.set_xticks(sorted(set(runs.group_size)))
    for axes, label in zip(flat[:: len(cases)], ("rounds of a search", "brokers", "doublings of the p99"), strict=True):
        axes.set_ylabel(label)
    keys.legend_above(
        sheet, [*map(keys.key, LOOKS.values()), keys.published_key("Table I"), keys.rule_key("p99 5 % worse")]
    )
    return sheet


def _spread() -> Iterator[tuple[str, float]]:
    return zip(LOOKS, drawing.beside(len(LOOKS), 1.8), strict=True)


def _draw_means(axes: Axes, runs: Frame, value: str) -> None:
    for start, shift in _spread():
        at, intervals = intervals_by(runs[runs.start == start], "group_size", value)
        drawing.interval_points(axes, [size + shift for size in at], intervals, LOOKS[start], joined=True)
    axes.set_ylim(bottom=0)


def _draw_ratio(axes: Axes, table: Frame, kind: str) -> None:
    drawing.rule(axes, 0.0, reference=True)
    drawing.rule(axes, NO_WORSE)
    part = table[(table.arrivals == kind) & (table.measure == "log2_p99")]
    for start, shift in _spread():
        rows = part[part.start == start].sort_values("group_size")
        drawing.interval_points(axes, rows.group_size + shift, intervals_of(rows), LOOKS[start], joined=True)


# --- claims: written before any search had started from a model -----------------------------------


def by_kind(tables: Tables, start: str) -> Iterator[tuple[str, Frame, dict[str, Series]]]:
    """Kinds of arrivals, their runs of ``start``, and what it changes: the mean over sizes, one a repetition."""
    for kind, part in by_arrivals(tables["srtm-starts/runs"]):
        means = {measure: change.mean(axis=1, skipna=False) for measure, change in changes(part, start).items()}
        yield kind, where(part, start=start), means


def measure_m10(tables: Tables) -> Evidence:
    """Mean rounds against half of Table I's, the printed ones and ours of the same seeds; the p99 by seed."""
    exact, direction = [], []
    for kind, runs, change in by_kind(tables, COSTS):
        counts = runs.pivot(index="repetition", columns="group_size", values="round_count")
        rounds = counts.mean(axis=1, skipna=False)
        sizes = sorted(set(runs.group_size))
        printed = HALF * float(np.mean([sum(TABLE_1[size][0]) for size in sizes]))
        exact.append(at_most(f"{kind}: mean rounds, against half of those printed", samples(rounds), printed, "rounds"))
        over = samples(rounds - HALF * (rounds - change["round_count"]))
        exact.append(at_most(f"{kind}: mean rounds minus half of those by rate", over, 0.0, "rounds"))
        fewer = samples(change["round_count"])
        direction.append(below(f"{kind}: mean rounds minus those by rate", fewer, 0.0, "rounds"))
        exact.append(_no_worse(kind, change))
    return Evidence(tuple(exact), tuple(direction))


def measure_m11(tables: Tables) -> Evidence:
    """The same of mcap alone: fewer rounds, and a p99 that is no worse."""
    exact = []
    for kind, _, change in by_kind(tables, MCAP):
        exact.append(below(f"{kind}: mean rounds minus those by rate", samples(change["round_count"]), 0.0, "rounds"))
        exact.append(_no_worse(kind, change))
    return Evidence(tuple(exact), tuple(exact[::2]))


def measure_m12(tables: Tables) -> Evidence:
    """Brokers of the start with benchmarked costs minus those by rate."""
    changes_by_kind = ((kind, samples(change["broker_count"])) for kind, _, change in by_kind(tables, COSTS))
    return Evidence(
        tuple(at_most(f"{kind}: brokers minus those by rate", c, 0.0, "brokers") for kind, c in changes_by_kind)
    )


def _no_worse(kind: str, change: dict[str, Series]) -> Check:
    return at_most(f"{kind}: log2 p99 over that by rate", samples(change["log2_p99"]), NO_WORSE, "doublings")


HERE = ("srtm-starts",)
CLAIMS = (
    Claim(
        "M10", "ours, after the report's conclusion", "A search that starts from a model of bursts with a broker's "
        "benchmarked costs takes at most half of Table I's mean rounds, at a p99 that is no more than 5 % worse.", HERE,
        measure_m10,
    ),
    Claim(
        "M11", "ours, after the report's conclusion", "Without a benchmark, from mcap alone, such a start saves "
        "rounds, too, at a p99 that is no more than 5 % worse.", HERE, measure_m11,
    ),
    Claim(
        "M12", "ours, by IV-B", "The start with benchmarked costs takes no more brokers: filling one broker after "
        "another leaves the last one a residue.", HERE, measure_m12,
        why="Bursts of periodic groups meet less than the model's Poisson ones, so that it wants a broker more than "
        "they do at some sizes; it saves one where Poisson groups are large.",
    ),
)  # fmt: skip
TITLE = "Searches that start from a model of bursts"
EXPERIMENT = Experiment(
    "srtm-starts", TITLE, "ours; SRTM, Table I", points,
    (readings.ENVELOPE, readings.MARGIN, *readings.BROKER), repetitions=REPETITIONS,
)  # fmt: skip
NOTES = (
    "Means and 95 % intervals; differences and ratios (doublings: log2) are paired by seed, each search judged on a "
    "fresh minute. By rate: the very searches of Table I. Models: the first iteration takes the fewest brokers on "
    "which M/D/1 with batches sees at most 1 % of the messages late; both know the batch. The benchmarked costs are "
    f"the broker model's own: what a benchmark without error would find. {ENVELOPE_NOTE}"
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
