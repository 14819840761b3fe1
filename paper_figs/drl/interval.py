"""drl-interval: the penalty of a split bucket against the control interval, in steady traffic and after a shift.

Steady: ``drl-frontier``'s topic of independent publishers on LB's four brokers, at a round trip of 1 ms, so that its
runs at 100 ms and 1 s are the same; rounds of 5 s bear no interval of 10 s.  Shifts: ``drl-shift``'s, of which those at
1 s are the same.  Ours throughout: V-D says "each second", and not why.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product

import numpy as np

from analysis.verdicts import (
    LATENCY_TOLERANCE,
    Claim,
    Evidence,
    Interval,
    Tables,
    above,
    at_least,
    below,
    t_interval,
)
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.drl import shifts, steady
from paper_figs.drl.drawing import LOOKS
from paper_figs.drl.shifts import ADAPTOR, BEYOND, BOTH, WITHIN
from paper_figs.drl.steady import ALONE, COUNTER, DIVIDING, IDEAL, LB, NEAR, SPLIT, TALKING, logs
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.intervals import floored, geometric, intervals_by
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.series import by_repetition, samples

FASTEST, FAST, EACH_SECOND, SLOW = "10ms", "100ms", "1s", "10s"
SHIFTS = ((ADAPTOR, WITHIN), (BOTH, BEYOND))
SHIFT_LOOKS = {
    (ADAPTOR, WITHIN): shifts.LOOKS[ADAPTOR]._replace(label="TB Adaptor; (c) a shift within"),
    (BOTH, BEYOND): shifts.LOOKS[BOTH]._replace(label="(c) with migration, a shift beyond"),
}


# --- grid ------------------------------------------------------------------------------------------


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Ways of sharing x intervals, in steady traffic and after shifts."""
    often = scale.pick(small=(), tiny=(FAST, EACH_SECOND), quick=(FASTEST, FAST, EACH_SECOND), paper=_of_paper()[:-1])
    shifted = scale.pick(small=(), tiny=(EACH_SECOND,), quick=(FAST, EACH_SECOND, SLOW), paper=_of_paper())
    slow = scale.pick(tiny=("leases",), quick=("leases",), paper=())  # to simulate, at the shortest interval
    told = [(SPLIT, ""), (IDEAL, "")] if often else []
    told += [(name, every) for name, every in product(TALKING, often) if every != FASTEST or name not in slow]
    grid = [steady.point(LB, name, ALONE, NEAR if every else "", every) for name, every in told]
    return grid + [shifts.point(*way, every) for way, every in product(SHIFTS, shifted)]


def _of_paper() -> Sequence[str]:
    return FASTEST, "30ms", FAST, "300ms", EACH_SECOND, SLOW


# --- tables ----------------------------------------------------------------------------------------


def tables(data: Data) -> FigureTables:
    """``steady``: ``drl-frontier``'s rows; ``shifts``: ``drl-shift``'s, with ``interval_ms`` for ``interval``."""
    moved = shifts.runs_of(data)
    interval_ms = [steady.ms_of(text) for text in moved.interval]
    return {"steady": steady.runs_of(data), "shifts": moved.drop(columns="interval").assign(interval_ms=interval_ms)}


# --- drawing ---------------------------------------------------------------------------------------


def draw(tables: FigureTables) -> Drawing:
    """Over the interval: penalty, bytes and debt in steady traffic; time above the SLO after shifts."""
    runs, moved = tables["steady"], tables["shifts"]
    titles = ("steady: penalty", "steady: bytes of control", "after a shift")
    sheet, flat = drawing.panels(1, 3, titles, (9.0, 3.4))
    for axes, mine in zip(flat, (runs, runs, moved), strict=True):
        drawing.log_axis(axes, "x", steps=(1,))
        shown = mine.interval_ms[mine.interval_ms > 0]
        axes.set_xlim(shown.min() / 1.3, shown.max() * 1.3)  # there may be but one: no axis opens by itself around it
        axes.set_xlabel("control interval (ms)")
    drawing.log_axis(flat[0], linear_below=10.0, linear_share=0.6)
    _draw_steady(flat[0], runs, "delay_ms", lambda values: floored(t_interval(values)))
    drawing.rule(flat[0], t_interval(samples(runs[runs.sharing == SPLIT].delay_ms)).mean, reference=True)
    flat[0].set_ylim(bottom=0)
    flat[0].set_ylabel("p99 access delay (ms)")
    drawing.log_axis(flat[1], steps=(1,))
    _draw_steady(flat[1], runs, "control_bytes", geometric)
    flat[1].set_ylabel("bytes a message")
    for way, look in SHIFT_LOOKS.items():
        mine = moved[(moved.way == way[0]) & (moved.share == way[1])]
        if not mine.empty:
            at, intervals = intervals_by(mine, "interval_ms", "above_s", lambda values: floored(t_interval(values)))
            drawing.interval_points(flat[2], at, intervals, look, joined=True)
    flat[2].set_ylim(bottom=0)
    flat[2].set_ylabel("time above the SLO (s)")
    beside = [keys.key(look) for look in SHIFT_LOOKS.values()]
    shared = [keys.key(LOOKS[name]) for name in TALKING if name != ADAPTOR and (runs.sharing == name).any()]
    keys.legend_above(sheet, [beside[0], *shared, beside[1], keys.rule_key("split", reference=True)], columns=3)
    return sheet


def _draw_steady(axes: Axes, runs: Frame, value: str, measure: Callable[[Sequence[float]], Interval]) -> None:
    for name in TALKING:
        mine = runs[runs.sharing == name]
        if not mine.empty:
            at, intervals = intervals_by(mine, "interval_ms", value, measure)
            drawing.interval_points(axes, at, intervals, LOOKS[name], joined=True)


# --- claims: written down, with their signs, before any full run (docs/sharing.md) -------------------


def steady_of(tables: Tables, value: str, sharing: str, every: str = "") -> Series:
    """One point's in steady traffic, by repetition; KeyError where it was not run."""
    given = {"interval_ms": steady.ms_of(every)} if every else {}
    return by_repetition(tables["drl-interval/steady"], value, sharing=sharing, group_size=ALONE, **given)


def measure_f13(tables: Tables) -> Evidence:
    """Who divides, against split, at each interval that was run; there is a penalty, and it does divide."""
    runs = tables["drl-interval/steady"]
    split, ideal = (logs(steady_of(tables, "delay_ms", name)) for name in (SPLIT, IDEAL))
    checks, every = [above("log2 p99 access delay, split over ideal", samples(split - ideal))], []
    for name in DIVIDING:
        for every_ms in sorted(set(runs[runs.sharing == name].interval_ms)):
            mine = by_repetition(runs, "delay_ms", sharing=name, group_size=ALONE, interval_ms=every_ms)
            label = f"log2 p99 access delay, {name} each {every_ms:g} ms over split"
            checks.append(
                at_least(label, samples(logs(mine) - split), -float(np.log2(1 + LATENCY_TOLERANCE)), "doublings")
            )
            every.append(by_repetition(runs, "control_bytes", sharing=name, group_size=ALONE, interval_ms=every_ms))
    checks.append(above("bytes of control a message, of who says least", samples(reduce(np.minimum, every))))
    return Evidence(tuple(checks))


def measure_f14(tables: Tables) -> Evidence:
    """Gossip much faster than b / r, and much slower."""
    split = steady_of(tables, "delay_ms", SPLIT)
    fast, slow = (samples(steady_of(tables, "delay_ms", COUNTER, every) - split) for every in (FASTEST, EACH_SECOND))
    return Evidence(
        (
            below("p99 access delay, counter each 10 ms minus split", fast, 0.0, "ms"),
            above("p99 access delay, counter each second minus split", slow, 0.0, "ms"),
        )
    )


def measure_f15(tables: Tables) -> Evidence:
    """What the counter owes."""
    more = steady_of(tables, "debt_ms", COUNTER, EACH_SECOND) - steady_of(tables, "debt_ms", COUNTER, FASTEST)
    return Evidence((above("counter's largest debt, each second minus each 10 ms", samples(more), 0.0, "ms"),))


def measure_f16(tables: Tables) -> Evidence:
    """After a shift: ten times a second against every ten seconds."""
    checks = []
    for way, share in SHIFTS:
        fast, slow = (
            by_repetition(
                tables["drl-interval/shifts"], "above_s", way=way, share=share, interval_ms=steady.ms_of(every)
            )
            for every in (FAST, SLOW)
        )
        label = f"shift to {100 * share:.0f} %: time above the SLO, {way} each 100 ms minus each 10 s"
        checks.append(below(label, samples(fast - slow), 0.0, "s"))
    return Evidence(tuple(checks))


HERE = ("drl-interval",)
CLAIMS = (
    Claim(
        "F13",
        "ours, by SRTM V-D",
        "However often a bucket is divided anew, steady traffic does not thank for it: "
        "TB Adaptor, leases and throttlers leave the penalty at every interval.",
        HERE,
        measure_f13,
        why="A burst lasts b / r, 20 to 30 ms: whoever passes parts on every 10 ms has them there in time.",
    ),
    Claim(
        "F14",
        "ours, by the thesis, 3.1",
        "Gossip has to be faster than b / r: every 10 ms the counter's access "
        "delay is below a split bucket's, each second above.",
        HERE,
        measure_f14,
    ),
    Claim(
        "F15",
        "ours, by the thesis, 3.1",
        "Credit grows with the interval: each second the counter owes the bucket more than every 10 ms.",
        HERE,
        measure_f15,
    ),
    Claim(
        "F16",
        "ours, by SRTM V-D",
        "A shift is what speed is for: whoever speaks ten times a second is back at the "
        "SLO sooner than who speaks every ten seconds.",
        HERE,
        measure_f16,
    ),
)
NOTES = (
    "Steady: independent publishers on LB's four brokers, as in drl-frontier; bytes of all messages of control in the "
    "judged round. After a shift: as in drl-shift, seconds whose p99 is above the SLO. Means with 95 % intervals over "
    "repetitions, of bytes geometric ones; (a) is linear below 10 ms. TB Adaptor's window is ten intervals, and leases "
    "last ten."
)
TITLE = "How often to speak: the penalty against the control interval"
EXPERIMENT = Experiment("drl-interval", TITLE, "ours; SRTM V-D", points, skip_reason=lambda options: shifts.NO_GRID)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
