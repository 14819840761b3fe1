"""drl-shift: traffic shifts within and beyond a broker's capacity; tokens follow, publishers move, or both.

100 publishers x 8 msg/s, Poisson, half of them on each of two brokers of calibration ``edge`` (room for 600 msg/s each,
the pump takes 667); (r, b) the smallest for the very run, b doubled, split evenly: 440 tokens a second a broker.  After
5 s of 75 the first half's share of the traffic rises from 50 % to 60 %, 480 msg/s: within the broker's capacity, beyond
its part of the bucket; or to 90 %, 720 msg/s: beyond both.

``split`` does nothing; ``adaptor`` and ``leases`` divide the bucket anew each second; ``migration`` moves publishers
away from a broker that is offered more than 95 % of what it has room for, at most 10 a second; ``both`` is adaptor and
migration.  Ours throughout: SRTM V-D leaves migration at run time for future work.
"""

from collections.abc import Sequence

from analysis.verdicts import Check, Claim, Evidence, Interval, Tables, above, at_most, below, t_interval
from core.units import MILLISECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.drl.shifts import (
    ADAPTOR,
    BEYOND,
    BOTH,
    DURATION_S,
    EACH_SECOND,
    FACTORS,
    LEASES,
    LOOKS,
    MIGRATION,
    NO_GRID,
    SETTLED_S,
    SHIFT_AT_S,
    SPLIT,
    WAYS,
    WITHIN,
    named,
    point,
    runs_of,
)
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.intervals import floored, geometric
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.series import by_repetition, doublings, samples, whole, with_point

# --- grid ------------------------------------------------------------------------------------------


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Shifts x ways."""
    shares = scale.pick(small=(), tiny=(BEYOND,), quick=(WITHIN, BEYOND), paper=(WITHIN, 0.7, 0.8, BEYOND))
    ways = scale.pick(tiny=(ADAPTOR, BOTH), quick=tuple(WAYS))
    return [point(way, share) for share in shares for way in ways]


# --- tables ----------------------------------------------------------------------------------------


def tables(data: Data) -> FigureTables:
    """``seconds``: p99 latency of each second, over repetitions; ``runs``: a row a run."""
    return {"seconds": _seconds(data), "runs": runs_of(data)}


def _seconds(data: Data) -> Frame:
    """Geometric means and 95 % intervals of ``p99_ms``."""
    from pyspark.sql import functions as f

    from analysis.metrics import percentiles

    latency = data.latency_histogram.where("metric = 'end_to_end_latency'")
    by_second = percentiles(latency.withColumn("second", f.col("round") - 1), ["run_id", "second"], [0.99])
    in_ms = by_second.selectExpr("run_id", "second", f"p99_ns / {MILLISECOND_NS} as p99_ms")
    each = named(with_point(data, in_ms, FACTORS))
    rows = each.groupby(["share", "way", "second"]).p99_ms.apply(lambda values: geometric(list(values)))
    frame = rows.reset_index(name="interval")
    for end in ("mean", "low", "high"):
        frame[end] = [getattr(interval, end) for interval in frame.interval]
    return frame.drop(columns="interval")


# --- drawing ---------------------------------------------------------------------------------------


def draw(tables: FigureTables) -> Drawing:
    """Above: p99 of each second, a column a shift; below: time above the SLO, and what it costs."""
    seconds, runs = tables["seconds"], tables["runs"]
    shares = sorted(set(runs.share))
    titles = [f"share of broker 1: 50 % to {100 * share:.0f} %" for share in shares]
    sheet, flat = drawing.panels(2, len(shares), (), (3.5 * len(shares), 5.6), heights=[1.3, 1], share_y="row")
    for place, (share, title) in enumerate(zip(shares, titles, strict=True)):
        drawing.title(flat[place], f"({'abcd'[place]}) {title}")
        _draw_seconds(flat[place], seconds[seconds.share == share], float(runs.slo_ms.iloc[0]))
        _draw_time_above(flat[len(shares) + place], runs[runs.share == share])
    flat[0].set_ylabel("p99 latency of each second (ms)")
    # Around the means: intervals of two repetitions span a dozen decades.
    flat[0].set_ylim(seconds["mean"].min() / 3, 3 * seconds["mean"].max())
    flat[len(shares)].set_ylabel("time above the SLO (s)")
    present = [look for way, look in LOOKS.items() if (runs.way == way).any()]
    marks = [keys.key(look, marker=False) for look in present]
    keys.legend_above(sheet, [*marks, keys.rule_key("SLO, and the shift")], columns=3 if len(shares) > 1 else 2)
    return sheet


def _draw_seconds(axes: Axes, points: Frame, slo_ms: float) -> None:
    drawing.log_axis(axes, steps=(1,))
    for way, look in LOOKS.items():
        part = points[points.way == way].sort_values("second")
        if not part.empty:
            drawing.interval_curve(axes, part.second + 0.5, part["mean"], part.low, part.high, look)
    drawing.rule(axes, slo_ms)
    drawing.rule(axes, SHIFT_AT_S, "x")
    axes.set_xlabel("time (s)")


def _draw_time_above(axes: Axes, runs: Frame) -> None:
    """A bar a way; above those that moved anybody: how many, and what waited for it."""
    present = [way for way in LOOKS if (runs.way == way).any()]
    for place, way in enumerate(present):
        mine = runs[runs.way == way]
        drawing.interval_bars(axes, [place], [_seconds_interval(samples(mine.above_s))], LOOKS[way], width=0.6)
        if mine.move_count.max() > 0:
            cost = f"{whole(mine.move_count.mean())} moves\n{100 * mine.held_share.mean():.1f} % held"
            drawing.label(axes, cost, (place, float(mine.above_s.max())), points=(0, 8))
    drawing.categories(axes, [way.replace("migration", "migra-\ntion") for way in present], size=7.5)
    axes.set_ylim(0, DURATION_S - SHIFT_AT_S + 22)


def _seconds_interval(values: Sequence[float]) -> Interval:
    return floored(t_interval(values))


# --- claims: written down, with their signs, before any full run (docs/sharing.md) -------------------


def at(tables: Tables, value: str, way: str, share: float, interval: str = EACH_SECOND) -> Series:
    """One point's, by repetition; KeyError where it was not run."""
    return by_repetition(tables["drl-shift/runs"], value, way=way, share=share, interval=interval)


def over_slo(tables: Tables, way: str, share: float) -> Series:
    """Doublings of the settled p99 latency over the SLO, by repetition."""
    return doublings(at(tables, "settled_ms", way, share), at(tables, "slo_ms", way, share))


def measure_f8(tables: Tables) -> Evidence:
    """Within a broker's capacity: who divides anew against split, settled."""
    split = at(tables, "settled_ms", SPLIT, WITHIN)
    return Evidence(
        tuple(
            below(
                f"log2 settled p99, {way} over split",
                samples(doublings(at(tables, "settled_ms", way, WITHIN), split)),
                0.0,
                "doublings",
            )
            for way in (ADAPTOR, LEASES)
        )
    )


def measure_f9(tables: Tables) -> Evidence:
    """Beyond it: who divides anew against the SLO."""
    return Evidence(
        tuple(
            above(f"log2 settled p99 over the SLO, {way}", samples(over_slo(tables, way, BEYOND)), 0.0, "doublings")
            for way in (ADAPTOR, LEASES)
        )
    )


def measure_f10(tables: Tables) -> Evidence:
    """Beyond it: who moves publishers against the SLO, and against the adaptor."""
    checks: list[Check] = []
    for way in (MIGRATION, BOTH):
        label = f"log2 settled p99 over the SLO, {way}"
        checks.append(below(label, samples(over_slo(tables, way, BEYOND)), 0.0, "doublings"))
        less = at(tables, "above_s", way, BEYOND) - at(tables, "above_s", ADAPTOR, BEYOND)
        checks.append(below(f"time above the SLO, {way} minus adaptor", samples(less), 0.0, "s"))
    return Evidence(tuple(checks))


def measure_f11(tables: Tables) -> Evidence:
    """Beyond it: adaptor and migration against migration alone."""
    less = at(tables, "above_s", BOTH, BEYOND) - at(tables, "above_s", MIGRATION, BEYOND)
    return Evidence((below("time above the SLO, both minus migration", samples(less), 0.0, "s"),))


def measure_f12(tables: Tables) -> Evidence:
    """What moving costs."""
    held, moves = (samples(at(tables, name, BOTH, BEYOND)) for name in ("held_share", "move_count"))
    idle = samples(at(tables, "move_count", MIGRATION, WITHIN))
    return Evidence(
        (
            at_most("to 90 %: share of messages that waited at their publisher", held, 0.05),
            at_most("to 90 %: moves of 100 publishers", moves, 50.0, "moves"),
            at_most("to 60 %: migration's moves", idle, 0.0, "moves"),
            above("to 90 %: anybody moves", moves, 0.0, "moves"),
        )
    )


HERE, OURS = ("drl-shift",), "ours, by SRTM V-D"
DEBT = (
    "Without tokens that follow, what waited before the moves is paid back at a tenth of the traffic; how much that is "
    "hangs on chance."
)
CLAIMS = (
    Claim(
        "F8",
        OURS,
        "After a shift within a broker's capacity tokens are enough: TB Adaptor and leases end below a split bucket.",
        HERE,
        measure_f8,
    ),
    Claim(
        "F9",
        OURS,
        "After a shift beyond a broker's capacity they are not: neither TB Adaptor nor leases come back to the SLO.",
        HERE,
        measure_f9,
    ),
    Claim(
        "F10",
        OURS,
        "Publishers that move clear it: migration, with and without TB Adaptor, comes back to the SLO.",
        HERE,
        measure_f10,
        why=DEBT,
    ),
    Claim(
        "F11",
        OURS,
        "Tokens should follow publishers: TB Adaptor and migration together clear it sooner than migration alone.",
        HERE,
        measure_f11,
        why=DEBT,
    ),
    Claim(
        "F12",
        OURS,
        "What it costs: at most 5 % of the messages wait at their publisher, at most half of the "
        "publishers move, and nobody where no broker is overloaded.",
        HERE,
        measure_f12,
    ),
)
NOTES = (
    f"Study moving, calibration edge, {DURATION_S} s with the shift after {SHIFT_AT_S} s; settled: the last "
    f"{SETTLED_S} s. Above: geometric means of each second's p99 with 95 % intervals, by intended instants. Below: "
    "seconds after the shift whose p99 is above the SLO, means with 95 % intervals; moves, and the share of the "
    "messages that waited at their publisher while it moved. At most 10 publishers move a second; "
    "where no broker is overloaded migration is split."
)
TITLE = "Traffic shifts: tokens follow, publishers move, or both"
EXPERIMENT = Experiment("drl-shift", TITLE, "ours; SRTM V-D", points, skip_reason=lambda options: NO_GRID)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
