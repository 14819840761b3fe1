"""A map of where concentration, max-min shares and correlation-awareness pay (``srtm-sweep``, ours).

The papers compare four placements along single axes.  This is the space between the axes: arrivals and batch x size and
spread of correlation groups x brokers x what these carry already, for each of LB, Conc, Max-Min and SRTM, with seeds
that are the same for all four, so that every difference is paired.  At scale paper 1,000 points x 4 systems x 25 seeds,
100,000 runs; tiny and quick are samples of that grid, and share its runs.

Short rounds.  4,000 publishers x 10 msg/s, one topic, in rounds of 3 s; a minute of 1,000 publishers (VI-D) would take
five times the work.  What a round shows does not suffer much:

* a round holds 40,000 msg/s x 2 s (its middle 4/6) = 80,000 messages, so that a p99 rests on 800 of them; groups of 30
  have 133 events a second, four times as many as VI-D's, hence as many in 2 s as VI-D's in 8 s;
* publishers of batches of 10 send once a second: the judged 2 s are two whole periods;
* 40,000 msg/s are what one idle broker takes with room (Fig. 6: "4,000 publishers fit broker 1"), so that it is bursts,
  other topics and the shared token bucket that decide how many brokers are right, as in the papers;
* b is the smallest for the very window that is offered (conformant, see ``grids``), enlarged by the margin of record,
  for periodic publishers, too: 70 s recorded before would be 23 times the work of a round.

What a short round does worse: of rare large bursts it has none or one, so that single p99s scatter.  25 seeds are for
that, and no cell is coloured whose difference may be chance.

What a broker carries already: nothing; half of its capacity; so much that the topic needs two; Fig. 6's stairs; or one
broker is idle among busy ones.  Poisson, batch 10.  The scale small has no grid: its topics of 1,000 msg/s would have
20 messages in the worst 1 % of such a round.
"""

from collections.abc import Callable, Iterator
from itertools import product
from math import inf

import numpy as np

from analysis.verdicts import RATIO_TOLERANCE, Check, Claim, Evidence, Tables, above, at_least, below
from core.records import Json
from core.units import MILLISECOND_NS, duration_ns
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.light import Data, Frame
from paper_figs.series import in_ms, samples, with_point
from paper_figs.srtm import grids, published, readings, sweep_map
from paper_figs.srtm.p99 import SLO_MARGIN
from paper_figs.srtm.sweep_map import POINT, doublings_of

SYSTEMS = ("lb", "conc", "max-min", "srtm")  # each takes in one principle more
TOPIC_PUBLISHERS, ROUND = 4_000, "3s"
LOADS = tuple((kind, batch) for kind in grids.ARRIVALS for batch in (1, 10))  # arrivals, batch
GROUPS = ((1, "0ms"), *product((5, 15, 30), ("0ms", "2ms", "8ms")))  # size, spread
BROKERS = (2, 3, 4, 6, 8)
SEEDS = 25  # at scale paper
STAIRS = published.INITIAL_LOADS_RPS
OTHERS: dict[str, Callable[[int], list[float]]] = {  # what n brokers carry already (msg/s)
    "idle": lambda n: [],
    "half": lambda n: [55_000.0] * n,  # of mcap
    "tight": lambda n: [80_000.0] * n,  # 30,000 left on each: by estimate the topic takes two
    "stairs": lambda n: [STAIRS[0], *map(float, np.linspace(STAIRS[1], STAIRS[-1], n - 1).round())],  # n = 6: Fig. 6
    "one free": lambda n: [0.0, *[80_000.0] * (n - 1)],
}
EVEN = ["idle", "half", "tight"]
FACTORS = {
    "batch": "workload.batch",
    "group_size": "workload.group_size",
    "spread_ms": "workload.spread",
    "brokers": "topology.brokers",
    "others": "study.initial_loads_rps",
}


# --- grid ------------------------------------------------------------------------------------------


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Loads x groups x brokers and what they carry x systems."""
    rows = [(others, brokers) for others in OTHERS for brokers in BROKERS]
    batched = [load for load in LOADS if load[1] == published.BATCH]
    few, fewer = [(1, "0ms"), (15, "0ms"), (15, "8ms"), (30, "0ms")], [(1, "0ms"), (15, "0ms"), (30, "0ms")]
    cases = scale.pick(
        small=[],
        tiny=product(batched[:1], fewer, [("idle", 4), ("stairs", 6)]),
        quick=product(batched, few, [("idle", 4), ("idle", 8), ("stairs", 6)]),
        paper=product(LOADS, GROUPS, rows),
    )
    return [point(system, *load, *group, *row) for load, group, row in cases for system in SYSTEMS]


def point(system: str, arrivals: str, batch: int, group_size: int, spread: str, others: str, brokers: int) -> RunSpec:
    """One point of the map, for one system."""
    workload: Json = {"publishers": TOPIC_PUBLISHERS, "batch": batch, "group_size": group_size}
    if spread != "0ms":
        workload["spread"] = spread
    rule: Json = {"envelope": readings.RULES[readings.CONFORMANT], "margin": readings.MARGIN.of({})}
    if loads_rps := OTHERS[others](brokers):
        rule["initial_loads_rps"] = loads_rps
    axes: Json = {"system": system, "workload": arrivals, "workload_options": workload, "study_options": rule}
    return RunSpec(**axes, topology_options={"brokers": brokers}, round=ROUND)


# --- tables ----------------------------------------------------------------------------------------


def tables(data: Data) -> FigureTables:
    """``runs``: a row a run; ``map``, ``simplest``: a row a cell, see ``sweep_map``.

    A p99 is infinite where the envelope could not be split, as in ``p99.per_run``.
    """
    from analysis import metrics

    latency = data.latency_histogram.where("metric = 'end_to_end_latency'")
    measured = (
        in_ms(latency, {0.99: "p99_ms"}, "run_id")
        .join(metrics.brokers_used(data.decisions), "run_id", "right")
        .join(data.runs.selectExpr("run_id", f"slo_ns / {MILLISECOND_NS} as slo_ms"), "run_id")
        .fillna({"p99_ms": inf})
    )
    return tables_of(with_point(data, measured, FACTORS))


def tables_of(runs: Frame) -> FigureTables:
    """The same, of the runs with their options as they were given."""
    runs = runs.assign(
        spread_ms=[duration_ns(spread) / MILLISECOND_NS for spread in runs.spread_ms.fillna("0ms")],
        others=list(map(called, runs.others, runs.brokers)),
        meets=(runs.p99_ms <= SLO_MARGIN * runs.slo_ms).astype(float),
    )
    runs = runs.sort_values([*POINT, "system", "repetition"], ignore_index=True)
    return {"runs": runs, "map": sweep_map.differences(runs), "simplest": sweep_map.simplest(runs, SYSTEMS)}


def called(loads_rps: object, brokers: int) -> str:
    """The name of what so many brokers carry already; of a run without such loads nothing is given."""
    given = loads_rps if isinstance(loads_rps, list) else []
    return next(name for name, loads in OTHERS.items() if loads(brokers) == given)


# --- claims: set when 15 points had been tried with two seeds -------------------------------------------------


SAME = np.log2(1 + RATIO_TOLERANCE)  # doublings: a ratio within the tolerance of ratios


def by_load(ratios: Frame) -> Iterator[tuple[str, Frame]]:
    """The kinds of load that were run, and their rows of a frame by point."""
    for (arrivals, batch), part in ratios.groupby(level=["arrivals", "batch"], sort=True):
        yield f"{str(arrivals).replace('poisson', 'Poisson')}, batch {batch}", part


def part_of(ratios: Frame, wanted: str) -> Frame:
    """The points of which ``wanted`` is true; KeyError where there are none, so that a claim is undecided."""
    part = ratios.query(wanted)
    if part.empty:
        raise KeyError(wanted)
    return part


def means(ratios: Frame) -> list[float]:
    """The mean over points, one a repetition, of those that have all points."""
    return samples(ratios.mean(axis=0, skipna=False))


def same(label: str, ratios: Frame) -> Check:
    """The mean is no difference worth the name."""
    return Check(label, tuple(means(ratios)), -SAME, SAME, unit="doublings")


def measure_m1(tables: Tables) -> Evidence:
    """Independent publishers, 4 brokers or more that have room: LB over Conc."""
    ratios = doublings_of(tables["srtm-sweep/runs"], "lb", "conc")
    part = part_of(ratios, "group_size == 1 and brokers >= 4 and others != 'tight'")
    loads = [(f"{load}: log2 p99, LB over Conc", means(rows)) for load, rows in by_load(part)]
    exact = [at_least(label, values, 1.0, "doublings") for label, values in loads]
    return Evidence(tuple(exact), tuple(above(label, values, 0.0, "doublings") for label, values in loads))


def measure_m2(tables: Tables) -> Evidence:
    """Synchronised groups: Max-Min over Conc, where brokers have uneven and where they have even room."""
    ratios = part_of(doublings_of(tables["srtm-sweep/runs"], "max-min", "conc"), "group_size > 1 and spread_ms == 0")
    uneven, even = part_of(ratios, f"others not in {EVEN}"), part_of(ratios, f"others in {EVEN}")
    lower = below("uneven room: log2 p99, Max-Min over Conc", means(uneven), 0.0, "doublings")
    return Evidence((lower, same("even room: log2 p99, Max-Min over Conc", even)), (lower,))


def measure_m3(tables: Tables) -> Evidence:
    """SRTM over Max-Min, batch 10 on 4 brokers or more: synchronised groups, and independent publishers."""
    ratios = doublings_of(tables["srtm-sweep/runs"], "srtm", "max-min")
    groups = part_of(ratios, f"{BURSTS} and spread_ms == 0 and brokers >= 4")
    alone = part_of(ratios, "group_size == 1 and brokers >= 4")
    lower = [
        below(f"{load}, groups: log2 p99, SRTM over Max-Min", means(rows), 0.0, "doublings")
        for load, rows in by_load(groups)
    ]
    return Evidence((*lower, same("independent publishers: log2 p99, SRTM over Max-Min", alone)), tuple(lower))


def measure_m4(tables: Tables) -> Evidence:
    """The same ratio of groups at no spread minus at the largest, point by point."""
    ratios = doublings_of(tables["srtm-sweep/runs"], "srtm", "max-min")
    groups = part_of(ratios, f"{BURSTS} and brokers >= 4").dropna(axis=1, how="all")
    largest = groups.index.get_level_values("spread_ms").max()
    if largest == 0:
        raise KeyError("spread")
    at = {spread: groups.xs(spread, level="spread_ms") for spread in (0.0, largest)}
    checks = []
    for load, rows in by_load((at[0.0] - at[largest]).dropna(how="all")):
        label = f"{load}, groups: log2 p99, SRTM over Max-Min, at 0 minus at {largest:g} ms"
        checks.append(below(label, means(rows), 0.0, "doublings"))
    return Evidence(tuple(checks))


def measure_m5(tables: Tables) -> Evidence:
    """Brokers, SRTM minus Max-Min, where groups are synchronised and there are 6 or more."""
    counts = [by_point(tables, system, "broker_count") for system in ("srtm", "max-min")]
    more = part_of(counts[0] - counts[1], f"{BURSTS} and spread_ms == 0 and brokers >= 6")
    loads = by_load(more)
    return Evidence(tuple(above(f"{load}: brokers, SRTM minus Max-Min", means(rows)) for load, rows in loads))


def measure_m6(tables: Tables) -> Evidence:
    """The share of all points at which the SLO is met, SRTM minus each of the others."""
    shares = {system: by_point(tables, system, "meets") for system in SYSTEMS}
    differences = {other: means(shares["srtm"] - shares[other]) for other in SYSTEMS[:-1]}
    return Evidence(tuple(above(f"share of the map, SRTM minus {name}", d) for name, d in differences.items()))


def measure_m7(tables: Tables) -> Evidence:
    """Independent publishers, idle brokers: log2 p99 on the most minus on the fewest (of 4 or more), LB and Conc."""
    exact: list[Check] = []
    for system in ("lb", "conc"):
        logs = np.log2(part_of(by_point(tables, system, "p99_ms"), "group_size == 1 and others == 'idle'"))
        counts = sorted(n for n in set(logs.index.get_level_values("brokers")) if n >= 4)
        if len(counts) < 2:
            raise KeyError("brokers")
        change = logs.xs(counts[-1], level="brokers") - logs.xs(counts[0], level="brokers")
        label = f"log2 p99 on {counts[-1]} minus on {counts[0]} brokers, {system}"
        exact.append(above(label, means(change), 0.0, "doublings") if system == "lb" else same(label, change))
    return Evidence(tuple(exact), tuple(exact[:1]))


def by_point(tables: Tables, system: str, value: str) -> Frame:
    """``value`` of a system: a row a point, a column a repetition; KeyError without a run of it."""
    return sweep_map.by_system(tables["srtm-sweep/runs"], value, (system,))[system].unstack("repetition")


BURSTS = f"batch == {published.BATCH} and group_size >= 15"  # more than a broker takes within the SLO (VI-D)
HERE = ("srtm-sweep",)
CLAIMS = (
    Claim(
        "M1", "ours, by Proposition 1 and Eq. (1)", "Concentration pays wherever publishers are independent and some "
        "broker has room: spread over all of 4 brokers or more, the topic has at least twice the p99.", HERE,
        measure_m1,
    ),
    Claim(
        "M2", "ours, by VI-C", "Max-min shares lower the p99 of synchronised groups where brokers have uneven room, "
        "and change nothing (15 %) where it is even.", HERE, measure_m2,
    ),
    Claim(
        "M3", "ours, by IV-C", "Correlation-awareness lowers the p99 of synchronised groups of 15 and more in batches "
        "of 10, and changes nothing (15 %) for independent publishers.", HERE, measure_m3,
    ),
    Claim(
        "M4", "ours, by VI-D", "What correlation-awareness gains falls as a group's instants spread out.", HERE,
        measure_m4,
    ),
    Claim("M5", "ours, by Fig. 7", "Correlation-awareness is paid for with brokers.", HERE, measure_m5),
    Claim("M6", "ours", "SRTM meets the SLO on more of the map than each of the others.", HERE, measure_m6),
    Claim(
        "M7", "ours, by Eq. (1)", "Brokers that nobody needs cost LB alone: with more of them its p99 rises, and "
        "Conc's stays (15 %).", HERE, measure_m7,
    ),
)  # fmt: skip
NOTES = (
    "Rounds of 3 s, each judged on a fresh one; b conformant, also of periodic publishers. (a) to (c): mean over "
    "seeds of the paired log2 ratio of p99s; grey where it may be chance (two-sided paired t-test, false discovery "
    "rate of 5 % over the cells of a panel), white where every seed has the same p99. (d): the first of LB, Conc, "
    f"Max-Min, SRTM whose p99 is at most {SLO_MARGIN:g} x SLO in more than half of the seeds. Numbers in cells, where "
    "there is room: the mean; in (d) the brokers that it takes."
)
NO_GRID = "the scale small has no grid: a round of 3 s of its topics holds too few messages"
TITLE = "Where concentration, max-min shares and correlation-awareness pay"
EXPERIMENT = Experiment(
    "srtm-sweep", TITLE, "ours; systems of SRTM IV", points, skip_reason=lambda options: NO_GRID,
    repetitions={"paper": SEEDS},
)  # fmt: skip
FIGURE = Figure(EXPERIMENT, tables, sweep_map.draw, CLAIMS, NOTES)
