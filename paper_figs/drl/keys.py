"""What correlation keys are worth when they are wrong, missing or noisy (``drl-keys``, ours).

SRTM's third principle takes the keys as given (IV-C).  Groups of 15 that emit together, 1,000 publishers x 10 msg/s in
batches of 10, six brokers, rounds of 60 s: Fig. 7's point at which Max-Min first fails.  What is sent is always the
same; what differs is what SRTM is told (workload ``keyed``):

* *wrong*: a share of the publishers have each other's keys; all of them: random keys;
* *missing*: a share has none, and each of these counts as a group of one;
* *noisy*: a share has the key of the group next to its own; one half: pairs of groups cannot be told apart.

Max-Min and LB look at no key, so that they are run once.  Three cases: everybody alike; publishers whose groups send at
rates by Zipf (exponent 1: the first of 67 groups sends a fifth of the topic); brokers of which two have two cores and
four have one, with capacities in proportion.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from analysis.verdicts import (
    RATIO_TOLERANCE,
    Check,
    Claim,
    Evidence,
    Interval,
    Tables,
    above,
    at_most,
    below,
    t_interval,
)
from core.records import Json
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.intervals import floored, geometric, intervals_by
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.series import by_repetition, doublings, in_ms, joined, samples, where
from paper_figs.srtm import readings
from paper_figs.srtm.p99 import SLO_MARGIN, per_run, slo_of
from paper_figs.srtm.published import BATCH, PUBLISHERS
from paper_figs.style import looks_of, series, style_of

GROUP = 15  # of Fig. 7's sizes the first at which Max-Min misses the SLO
SYSTEMS = ("lb", "max-min", "srtm")
ALIKE, PUBLISHERS_DIFFER, BROKERS_DIFFER = "all alike", "rates by Zipf", "brokers of 2 and 1 cores"
CASES: dict[str, tuple[Json, Json]] = {  # options of the workload and of the study
    ALIKE: ({}, {}),
    PUBLISHERS_DIFFER: ({"rates": "zipf", "rates_shape": 1.0}, {}),
    BROKERS_DIFFER: ({}, {"broker_cores": [2, 2, 1, 1, 1, 1]}),
}
RIGHT, WRONG, MISSING, NOISY = "right", "wrong", "missing", "noisy"
MISTAKES = {
    WRONG: series("wrong keys", 5, "o"),
    MISSING: series("missing keys", 0, "s", "--"),
    NOISY: series("noisy keys", 3, "^", "-."),
}
FACTORS = {
    "kind": "workload.arrivals",
    **{name: f"workload.{name}" for name in MISTAKES},
    "rates": "workload.rates",
    "broker_cores": "study.broker_cores",
}


# --- grid ------------------------------------------------------------------------------------------


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Cases x what SRTM is told, and LB and Max-Min once a case."""
    ends = [(WRONG, 1.0)]
    few = [(WRONG, 0.5), (WRONG, 1.0), (MISSING, 0.5), (MISSING, 1.0), (NOISY, 0.5)]
    every = [(name, share) for name in (WRONG, MISSING) for share in (0.1, 0.25, 0.5, 0.75, 1.0)]
    every += [(NOISY, share) for share in (0.1, 0.25, 0.5)]
    told = scale.pick(small=[], tiny=ends, quick=few, paper=every)
    others = scale.pick(tiny=ends, quick=ends, paper=every)  # where not everybody is alike
    grid: list[RunSpec] = []
    for kind in scale.pick(tiny=["poisson"], quick=["poisson"], paper=["poisson", "periodic"]):
        for case in CASES:
            grid += [point(system, kind, case) for system in SYSTEMS]
            grid += [point("srtm", kind, case, *mistake) for mistake in (told if case == ALIKE else others)]
    return grid if told else []


def point(system: str, kind: str, case: str, mistake: str = RIGHT, share: float = 0.0) -> RunSpec:
    """A topic whose keys are right, or of which ``share`` are not."""
    workload, study = CASES[case]
    topic: Json = {"publishers": PUBLISHERS, "batch": BATCH, "group_size": GROUP, "arrivals": kind, **workload}
    if mistake != RIGHT:
        topic[mistake] = share
    rule = {**readings.study("poisson", BATCH, {}), **study}
    return RunSpec(system=system, workload="keyed", workload_options=topic, study_options=rule)


# --- tables ----------------------------------------------------------------------------------------


def tables(data: Data) -> FigureTables:
    """``runs``: a row a run, with ``access_ms``, the p99 of access delay."""
    waited = in_ms(data.latency_histogram.where("metric = 'access_delay'"), {0.99: "access_ms"}, "run_id")
    return {"runs": named(joined(per_run(data, FACTORS), waited))}


def named(runs: Frame) -> Frame:
    """Runs with their options as they were given: columns ``case``, ``mistake``, ``share``, ``meets`` instead."""
    runs = runs.assign(arrivals=runs.pop("kind"))
    shares = runs[list(MISTAKES)].astype(float).fillna(0.0)
    mistaken = shares.max(axis=1) > 0
    runs["mistake"] = shares.idxmax(axis=1).where(mistaken, RIGHT)
    runs["share"] = shares.max(axis=1)
    runs["case"] = np.select(
        [runs.rates.notna(), runs.broker_cores.notna()], [PUBLISHERS_DIFFER, BROKERS_DIFFER], ALIKE
    )
    runs["meets"] = (runs.p99_ms <= SLO_MARGIN * runs.slo_ms).astype(float)
    return runs.drop(columns=[*MISTAKES, "rates", "broker_cores"])


# --- drawing ---------------------------------------------------------------------------------------


ROWS = {  # a column of the runs, and its name
    "p99_ms": "p99 latency (ms)",
    "access_ms": "p99 access delay (ms)",
    "round_count": "rounds",
    "broker_count": "brokers",
}


def draw(tables: FigureTables) -> Drawing:
    """A column a case (and kind of arrivals), a row a measure, over the share of mistaken keys."""
    runs = tables["runs"]
    cases = [
        (case, kind)
        for kind in ("poisson", "periodic")
        for case in CASES
        if ((runs.arrivals == kind) & (runs.case == case)).any()
    ]
    inches = (0.5 + 2.5 * len(cases), 6.6)
    sheet, flat = drawing.panels(len(ROWS), len(cases), (), inches, None, (3, 2, 1.5, 1.5), True, "row")
    for place, (case, kind) in enumerate(cases):
        part = runs[(runs.arrivals == kind) & (runs.case == case)]
        column = flat[place :: len(cases)]
        drawing.title(column[0], f"({'abcdef'[place]}) {kind.replace('poisson', 'Poisson')}, {case}")
        for axes, value in zip(column, ROWS, strict=True):
            _draw_measure(axes, part, value)
        drawing.rule(column[0], slo_of(part))
        column[-1].set_xlabel("share of the keys")
    for axes, name in zip(flat[:: len(cases)], ROWS.values(), strict=True):
        axes.set_ylabel(name)
    beside = [keys.key(look, marker=False) for look in looks_of(SYSTEMS[:2]).values()]
    keys.legend_above(sheet, [*map(keys.key, MISTAKES.values()), *beside, keys.rule_key("SLO")])
    return sheet


def _draw_measure(axes: Axes, runs: Frame, value: str) -> None:
    """SRTM over the share of each mistake, and those that look at no key as lines across."""
    if value == "p99_ms":
        drawing.log_axis(axes)
    elif value == "access_ms":
        drawing.log_axis(axes, linear_below=0.1, linear_share=0.5)
    for system in SYSTEMS[:2]:
        low, high = runs.share.min(), runs.share.max()
        _, (interval,) = intervals_by(runs[runs.system == system], "share", value, _mean(value))
        mean, least, most = ([of] * 2 for of in (interval.mean, interval.low, interval.high))
        drawing.interval_curve(axes, [low, high], mean, least, most, style_of(system))
    told = runs[runs.system == "srtm"]
    looks = {mistake: look for mistake, look in MISTAKES.items() if (told.mistake == mistake).any()}
    for (mistake, look), shift in zip(looks.items(), drawing.beside(len(looks), 0.05), strict=True):
        at, intervals = intervals_by(told[told.mistake.isin([RIGHT, mistake])], "share", value, _mean(value))
        drawing.interval_points(axes, [share + shift for share in at], intervals, look, joined=len(at) > 2)
    if told.share.nunique() == 2:  # nothing between them is known
        axes.set_xlim(-0.4, 1.4)
    if value != "p99_ms":
        axes.set_ylim(bottom=0)


def _mean(value: str) -> Callable[[Sequence[float]], Interval]:
    """A p99 of latencies has a long tail; an access delay may be 0."""
    return geometric if value == "p99_ms" else lambda samples: floored(t_interval(samples))


# --- claims: written before any run of the grid ---------------------------------------------------


SAME = float(np.log2(1 + RATIO_TOLERANCE))  # doublings: a ratio within the tolerance of ratios
HALF, ALL = 0.5, 1.0


def by_kind(tables: Tables, case: str = ALIKE) -> Iterator[tuple[str, Frame]]:
    """Kinds of arrivals that were run of a case, and their rows; KeyError where there are none."""
    runs = where(tables["drl-keys/runs"], case=case)
    for kind, part in runs.groupby("arrivals"):
        yield f"{str(kind).replace('poisson', 'Poisson')}, {case}", part


def of(part: Frame, mistake: str, share: float, value: str = "p99_ms") -> Series:
    """``value`` of SRTM that is told so, by repetition."""
    return by_repetition(part, value, system="srtm", mistake=mistake, share=share)


def right(part: Frame, value: str = "p99_ms") -> Series:
    """``value`` of SRTM with right keys, by repetition."""
    return of(part, RIGHT, 0.0, value)


def blind(part: Frame, value: str = "p99_ms") -> Series:
    """``value`` of Max-Min, by repetition."""
    return by_repetition(part, value, system="max-min")


def measure_k1(tables: Tables) -> Evidence:
    """Random keys: p99 against Max-Min's, and rounds, in every case."""
    exact = []
    for case in CASES:
        for label, part in by_kind(tables, case):
            ratio = samples(doublings(of(part, WRONG, ALL), blind(part)))
            exact.append(at_most(f"{label}: log2 p99, SRTM with random keys over Max-Min", ratio, SAME, "doublings"))
            more = samples(of(part, WRONG, ALL, "round_count") - blind(part, "round_count"))
            exact.append(above(f"{label}: rounds, SRTM with random keys minus Max-Min", more, 0.0, "rounds"))
    return Evidence(tuple(exact))


def measure_k2(tables: Tables) -> Evidence:
    """Wrong keys: p99 of half of them over none and of all over none; access delay, of all minus none."""
    exact, direction = [], []
    for label, part in by_kind(tables):
        none = right(part)
        for share, name in ((HALF, "half"), (ALL, "all")):
            ratio = samples(doublings(of(part, WRONG, share), none))
            exact.append(above(f"{label}: log2 p99, {name} of the keys wrong over none", ratio, 0.0, "doublings"))
        waited = samples(of(part, WRONG, ALL, "access_ms") - right(part, "access_ms"))
        exact.append(above(f"{label}: p99 access delay, all of the keys wrong minus none", waited, 0.0, "ms"))
        direction += exact[-2:]
    return Evidence(tuple(exact), tuple(direction))


def measure_k3(tables: Tables) -> Evidence:
    """Half of the keys missing over half of them wrong."""
    return Evidence(tuple(_half_over_wrong(tables, MISSING)))


def measure_k4(tables: Tables) -> Evidence:
    """Pairs of groups that cannot be told apart over half of the keys wrong."""
    return Evidence(tuple(_half_over_wrong(tables, NOISY)))


def _half_over_wrong(tables: Tables, mistake: str) -> Iterator[Check]:
    for label, part in by_kind(tables):
        ratio = samples(doublings(of(part, mistake, HALF), of(part, WRONG, HALF)))
        yield below(f"{label}: log2 p99, half of the keys {mistake} over half wrong", ratio, 0.0, "doublings")


def measure_k5(tables: Tables) -> Evidence:
    """No keys over random ones."""
    exact = []
    for label, part in by_kind(tables):
        ratio = tuple(samples(doublings(of(part, MISSING, ALL), of(part, WRONG, ALL))))
        exact.append(Check(f"{label}: log2 p99, no keys over random ones", ratio, -SAME, SAME, unit="doublings"))
    return Evidence(tuple(exact))


def measure_k6(tables: Tables) -> Evidence:
    """Right keys: SRTM over Max-Min, in every case."""
    exact = []
    for case in CASES:
        for label, part in by_kind(tables, case):
            ratio = samples(doublings(right(part), blind(part)))
            exact.append(below(f"{label}: log2 p99, SRTM with right keys over Max-Min", ratio, 0.0, "doublings"))
    return Evidence(tuple(exact))


HERE = ("drl-keys",)
SCATTER = (
    "By Zipf a few groups make most of the traffic: now and then Max-Min's random shares of one leave many waiting."
)
CLAIMS = (
    Claim(
        "K1",
        "ours, by IV-B and IV-C",
        "With random keys SRTM's p99 is no worse (15 %) than Max-Min's, which looks at "
        "no key; what it pays for them is rounds.",
        HERE,
        measure_k1,
        why=SCATTER,
    ),
    Claim(
        "K2",
        "ours, by IV-C",
        "SRTM's p99 and its access delay rise with the share of wrong keys.",
        HERE,
        measure_k2,
        why="Where no number of brokers meets the SLO the search answers with the best it measured: everybody on one "
        "broker, as before any split. There nobody waits for tokens, and bursts are worked through whole: wrong keys "
        "cost latency, but no access delay.",
    ),
    Claim(
        "K3",
        "ours",
        "A missing key costs less than a wrong one: a publisher without a key is spread at random, and "
        "does not disturb another group's shares.",
        HERE,
        measure_k3,
        why="Half of either is too much: nearly all searches run out of brokers and end on one.",
    ),
    Claim(
        "K4",
        "ours",
        "To take two groups for one costs less than as many wrong keys.",
        HERE,
        measure_k4,
        why="More of these searches end on several brokers, where a fresh minute can wait for tokens; more of those "
        "with wrong keys on one.",
    ),
    Claim("K5", "ours", "Without any key SRTM does as with random ones (15 %).", HERE, measure_k5),
    Claim(
        "K6",
        "ours, by Fig. 7",
        "With right keys SRTM's p99 is below Max-Min's, also where publishers' rates or brokers' capacities differ.",
        HERE,
        measure_k6,
        why=SCATTER,
    ),
)
NOTES = (
    "SRTM (marks) over the share of its keys that are not right, Max-Min and LB (lines across, with bands), which look "
    "at no key; means with 95 % intervals over repetitions, of the p99 geometric ones, each judged on a fresh minute. "
    "b is the smallest for the offered minute, and 2 % more. Noisy: at one half pairs of groups cannot be told apart."
)
NO_GRID = "the scale small has no grid: its topics of 1,000 msg/s have groups too small to fail"
TITLE = "What correlation keys are worth when they are wrong, missing or noisy"
EXPERIMENT = Experiment("drl-keys", TITLE, "ours; systems of SRTM IV", points, skip_reason=lambda options: NO_GRID)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
