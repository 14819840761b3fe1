"""pulsar-quota: Apache Pulsar's own distributed rate limiter (PIP-82 resource groups) beside SRTM's split and adaptor.

Three brokers of a real Pulsar share a quota of 300 msg/s.  Poisson publishers offer 0.9 of it, which a quota that all
brokers saw at once would never hold up, or 1.5; evenly, four fifths of it to the first broker, or evenly until a shift.
A limiter of Pulsar's is made anew, and full, whenever it is set: who shares each second and who does each five differ
in that, too.  Ours throughout: PIP-82 says how brokers agree, and not how well.
"""

from dataclasses import replace
from itertools import product

import numpy as np

from analysis.tables import collect
from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_least, at_most
from core.records import Float64
from core.units import MILLISECOND_NS, SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.intervals import band_by
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.series import by_repetition, doublings, frame_of, samples, with_point
from paper_figs.style import Style

QUOTA_RPS, BROKERS, PUBLISHERS = 300, 3, 30
SHIFT_AT_S, DURATION_S = 20, 60
NEVER_S = DURATION_S - SHIFT_AT_S  # of who is not right by the end
GROUP, GROUP_1S, SPLIT, ADAPTOR, ADAPTOR_1S = "group", "group-1s", "split", "adaptor", "adaptor-1s"
SELDOM_S, OFTEN_S = 5, 1  # between two words of whoever shares; Pulsar comes with 60 s
WAYS = {  # sharing, interval
    GROUP: ("resource-group", SELDOM_S),
    GROUP_1S: ("resource-group", OFTEN_S),
    SPLIT: ("split", SELDOM_S),
    ADAPTOR: ("adaptor", SELDOM_S),
    ADAPTOR_1S: ("adaptor", OFTEN_S),
}
LOOKS = {
    GROUP: Style("resource group, each 5 s", "#0072B2", "o", "-"),
    GROUP_1S: Style("resource group, each second", "#56B4E9", "o", "--", is_open=True),
    SPLIT: Style("split", "#999999", "s", ":"),
    ADAPTOR: Style("TB Adaptor, each 5 s", "#D55E00", "v", "-"),
    ADAPTOR_1S: Style("TB Adaptor, each second", "#E69F00", "v", "--", is_open=True),
}
ONE = Style("one bucket", "#000000", "x", ":")
EVEN, HOT = round(1 / BROKERS, 6), 0.8  # of the load, the first broker's
LOADS = {"even": (EVEN, EVEN), "skewed": (HOT, HOT), "moving": (EVEN, HOT)}  # before and after the shift
WITHIN, BEYOND = 0.9, 1.5  # offered, of the quota
NEAR, FAR = 0, 40  # ms, one way, between any two brokers
STEP_S = 0.1  # in which messages are counted
APART_S = 2**0.5  # what a difference of two times, each of whole seconds, is rounded to
OFF = 0.1  # ours: a second is right whose messages are at most so much more or less
TESTBED = "mininet"
FACTORS = {
    "sharing": "study.sharing",
    "interval": "study.interval",
    "before": "workload.share_before",
    "after": "workload.share_after",
    "rate": "workload.rate_rps",
    "delay": "topology.delay",
}
FEW = ((NEAR, WITHIN, "moving"), (NEAR, BEYOND, "even"))
SOME = (*FEW, (NEAR, WITHIN, "skewed"), (NEAR, BEYOND, "skewed"), (FAR, WITHIN, "moving"), (FAR, BEYOND, "even"))


# --- grid ------------------------------------------------------------------------------------------


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Ways of sharing x loads, offers and delays: all of these at scale paper, else those that differ most."""
    everything = tuple(product((NEAR, FAR), (WITHIN, BEYOND), LOADS))
    cells = {"tiny": FEW, "paper": everything}.get(scale.name, SOME)
    return [_point(*cell, way) for cell, way in product(cells, WAYS)]


def _point(delay_ms: int, offer: float, load: str, way: str) -> RunSpec:
    (before, after), (sharing, interval_s) = LOADS[load], WAYS[way]
    return RunSpec(
        system="tb-adaptor",
        workload="shifting",
        workload_options={
            "publishers": PUBLISHERS,
            "rate_rps": offer * QUOTA_RPS / PUBLISHERS,
            "shift_at": f"{SHIFT_AT_S}s",
            "share_before": before,
            "share_after": after,
        },
        topology="full-mesh",
        topology_options={"nodes": BROKERS, "delay": f"{delay_ms}ms"},
        testbed=TESTBED,
        study="quota",
        study_options={
            "sharing": sharing,
            "quota_rps": QUOTA_RPS,
            "interval": f"{interval_s}s",
            "duration": f"{DURATION_S}s",
        },
    )


# --- tables ----------------------------------------------------------------------------------------


def tables(data: Data) -> FigureTables:
    """``runs``: what each run comes to, see ``measured``; ``seconds``: msg/s offered, granted, and ideally granted."""
    from pyspark.sql import functions as f

    delay = (f.col("acknowledged_at_ns") - f.col("intended_at_ns")) / MILLISECOND_NS
    spans = {"p50_ms": 0.5, "p99_ms": 0.99}
    percentiles = [f.percentile(delay, share).alias(name) for name, share in spans.items()]
    runs = with_point(data, data.messages.groupBy("run_id").agg(*percentiles), FACTORS, ("validity", "repetition"))
    steps = {name: _counts(data, f"{name}_at_ns") for name in ("intended", "acknowledged")}
    measures, seconds = [], []
    for row in runs.itertuples():
        offered, granted = (steps[name][row.run_id] for name in ("intended", "acknowledged"))
        offer, delay_ms = round(row.rate * PUBLISHERS / QUOTA_RPS, 6), float(str(row.delay).removesuffix("ms"))
        load = next(name for name, shares in LOADS.items() if shares == (row.before, row.after))
        shift_s = SHIFT_AT_S if load == "moving" else 0
        way = next(name for name, told in WAYS.items() if told == (row.sharing, int(str(row.interval)[:-1])))
        point = row.run_id, load, offer, delay_ms, way, int(row.repetition)
        measures.append((*point, *measured(offered, granted, QUOTA_RPS, shift_s), row.p50_ms, row.p99_ms))
        rates = (by_second(one) for one in (offered, granted, ideal(offered, QUOTA_RPS)))
        seconds += [(*point, at_s, *told) for at_s, told in enumerate(zip(*rates, strict=True))]
    names = ["run_id", "load", "offer", "delay_ms", "way", "repetition"]
    return {
        "runs": frame_of(measures, [*names, "granted_share", "excess_s", "settled_s", *spans]),
        "seconds": frame_of(seconds, [*names, "at_s", "offered_rps", "granted_rps", "ideal_rps"]),
    }


def _counts(data: Data, instant: str) -> dict[str, Float64]:
    """Of each run: messages in each step of the run's length."""
    from pyspark.sql import functions as f

    step_count = round(DURATION_S / STEP_S)
    step = f.floor(f.col(instant) / (STEP_S * SECOND_NS)).alias("step")
    counted = collect(data.messages.groupBy("run_id", step).agg(f.count("*").alias("count")), ["run_id", "step"])
    counts = {}
    for run_id, mine in counted[counted.step.between(0, step_count - 1)].groupby("run_id"):
        counts[str(run_id)] = np.zeros(step_count)
        counts[str(run_id)][mine.step.astype(int)] = mine["count"]
    return counts


def by_second(counts: Float64) -> list[float]:
    """Of steps."""
    return [float(count) for count in counts.reshape(-1, round(1 / STEP_S)).sum(axis=1)]


def ideal(offered: Float64, quota_rps: float) -> Float64:
    """What one bucket of the quota would grant in each step, of a second's tokens, as Pulsar's; full at first."""
    granted, waiting, tokens = np.zeros(len(offered)), 0.0, float(quota_rps)
    for step, count in enumerate(offered):
        waiting += count
        granted[step] = min(waiting, tokens)
        waiting, tokens = waiting - granted[step], tokens - granted[step]
        tokens = min(quota_rps, tokens + quota_rps * STEP_S)
    return granted


def measured(offered: Float64, granted: Float64, quota_rps: float, shift_s: float) -> tuple[float, float, float]:
    """Of the messages in each step: granted_share, excess_s, settled_s.

    granted_share: of what one bucket would have granted in all; excess_s: the most that was granted above b + r t in
    any t, in seconds of the quota, b being a second's; settled_s: from the shift to the end of the last second that is
    off what one bucket would grant by more than ``OFF``, 0 where none is; ``NEVER_S`` where the run's last second is.
    """
    right = ideal(offered, quota_rps)
    rise = np.concatenate([[0.0], np.cumsum(granted - quota_rps * STEP_S)])
    most = float((rise - np.minimum.accumulate(rise)).max())
    got, wanted = np.array(by_second(granted)), np.array(by_second(right))
    off = np.flatnonzero(np.abs(got - wanted) > OFF * wanted)
    last_s = float(off[-1] + 1) if len(off) else 0.0
    return float(granted.sum() / max(1.0, right.sum())), max(0.0, most / quota_rps - 1), max(0.0, last_s - shift_s)


# --- drawing ---------------------------------------------------------------------------------------


def draw(tables: FigureTables) -> Drawing:
    """Above: granted over time, a panel an offer and load; below: delay, what is granted in all, time to settle."""
    runs, seconds = tables["runs"], tables["seconds"]
    near = seconds[seconds.delay_ms == NEAR]
    there = set(zip(near.offer, near.load, strict=True))
    shown = [cell for cell in product((WITHIN, BEYOND), LOADS) if cell in there]
    rows = -(-len(shown) // 2)
    sheet = drawing.sheet(8.2, 1.9 * (rows + 1) + 0.5)
    parts = sheet.subfigures(2, 1, height_ratios=[rows, 1.15], squeeze=False)
    titles = [f"{load}, {offer:g} of the quota" for offer, load in shown]
    titles += [f"{WITHIN:g}: p99 publish delay", f"{BEYOND:g}: granted in all", f"{WITHIN:g}: until right"]
    panels = [*parts[0, 0].subplots(rows, 2, squeeze=False, sharex=True, sharey="row").flat]
    lower = [*parts[1, 0].subplots(1, 3)]
    for letter, axes, text in zip("abcdefghi", [*panels[: len(shown)], *lower], titles, strict=False):
        drawing.title(axes, f"({letter}) {text}")
    for axes, (offer, load) in zip(panels, shown, strict=False):
        _draw_seconds(axes, near[(near.offer == offer) & (near.load == load)])
        axes.set(xlabel="time (s)", ylabel="granted (msg/s)")
        axes.label_outer()
    for axes in panels:  # of a row: what is drawn last may be the highest
        axes.set_ylim(bottom=0)
    within, beyond = (runs[runs.offer == offer] for offer in (WITHIN, BEYOND))
    drawing.log_axis(lower[0], steps=(1,))  # milliseconds to tens of seconds
    for axes, mine, value in zip(
        lower, (within, beyond, within), ("p99_ms", "granted_share", "settled_s"), strict=True
    ):
        _draw_cells(axes, mine, value)
    drawing.rule(lower[1], 1.0, reference=True)
    for axes, text in zip(lower, ("ms", "one bucket: 1", "s from start or shift"), strict=True):
        axes.set_ylabel(text)
    marks = [keys.key(look) for look in LOOKS.values()]
    keys.legend_above(sheet, [*marks, keys.rule_key("one bucket", reference=True)], columns=3)
    return sheet


def _draw_seconds(axes: Axes, seconds: Frame) -> None:
    """Means with bands, a line a way of sharing; all are offered the same."""
    for way, look in LOOKS.items():
        mine = seconds[seconds.way == way]
        if len(mine):
            drawing.interval_curve(
                axes, *band_by(mine.assign(middle_s=mine.at_s + 0.5), "middle_s", "granted_rps"), look
            )
    right = seconds.groupby("at_s").ideal_rps.mean()
    drawing.curve(axes, right.index + 0.5, right, ONE, width=1.0)
    if (seconds.load == "moving").any():
        drawing.rule(axes, SHIFT_AT_S, "x", text="the shift")


def _draw_cells(axes: Axes, runs: Frame, value: str) -> None:
    """Points with their intervals, a place a load and delay."""
    there = set(zip(runs.delay_ms, runs.load, strict=True))
    names = {cell: f"{cell[1]}\n{cell[0]:g} ms" for cell in product(sorted(set(runs.delay_ms)), LOADS) if cell in there}
    cells = [names[cell] for cell in zip(runs.delay_ms, runs.load, strict=True)]
    drawing.mean_points(axes, runs.assign(cell=cells), "cell", value, "way", LOOKS, list(names.values()))
    drawing.categories(axes, list(names.values()))
    if value != "p99_ms":
        top = 1.1 * max(1.0, runs[value].max())
        axes.set_ylim(-0.03 * top, top)


# --- claims: written down when ten runs of other seeds had shown that a limiter is full whenever it is set ---


def _runs(tables: Tables, value: str, way: str, load: str, offer: float = WITHIN, delay_ms: float = NEAR) -> Series:
    """One point's, by repetition; KeyError where it was not run."""
    return by_repetition(tables[f"{KEY}/runs"], value, way=way, load=load, offer=offer, delay_ms=delay_ms)


def measure_q1(tables: Tables) -> Evidence:
    """Doublings of split's p99 over the group's."""
    checks = []
    for load in ("skewed", "moving"):
        gain = doublings(_runs(tables, "p99_ms", SPLIT, load), _runs(tables, "p99_ms", GROUP, load))
        checks.append(above(f"{load}: p99 of split over resource group's, doublings", samples(gain), 0.0))
    return Evidence(tuple(checks))


def measure_q2(tables: Tables) -> Evidence:
    """Every T seconds a second's tokens more: 1 + 1 / T of the quota.

    Not where that is all that is offered, as each second: who limits nothing at all grants as much.
    """
    checks: list[Check] = []
    for way in (GROUP, SPLIT, ADAPTOR):
        share = samples(_runs(tables, "granted_share", way, "even", BEYOND))
        right = 1.0 if way == SPLIT else 1 + 1 / WAYS[way][1]
        checks.append(at_least(f"{way}: granted of what one bucket would, expected {right:g}", share, right - 0.1))
        checks.append(at_most(f"{way}: the same, at most", share, right + 0.1))
    return Evidence(tuple(checks))


def measure_q3(tables: Tables) -> Evidence:
    """Seconds from the shift until all is right, at intervals of 5 s: TB Adaptor goes by a window of ten.

    Where one of them never is, the difference is at least what there is of it; KeyError where neither is.
    """
    adaptor, group = (_settled(tables, way) for way in (ADAPTOR, GROUP))
    if (np.minimum(adaptor, group) >= NEVER_S).any():
        raise KeyError("a run in which one of both is right by its end")
    later = above("TB Adaptor minus resource group", samples(adaptor - group), 0.0, "s")
    return Evidence((replace(later, resolution=APART_S),))


def measure_q4(tables: Tables) -> Evidence:
    """An interval is long beside 40 ms: what moves settles as soon, within one; KeyError where somebody never does."""
    checks = []
    for way in (GROUP, ADAPTOR):
        far, near = (_settled(tables, way, delay_ms) for delay_ms in (FAR, NEAR))
        if (np.maximum(far, near) >= NEVER_S).any():
            raise KeyError(f"a run in which {way} is right by its end")
        label = f"{way}: settled at {FAR} minus {NEAR} ms"
        checks.append(at_most(f"{label}, at most", samples(far - near), SELDOM_S, "s"))
        checks.append(at_least(f"{label}, at least", samples(far - near), -SELDOM_S, "s"))
    return Evidence(tuple(replace(check, resolution=APART_S) for check in checks))


def _settled(tables: Tables, way: str, delay_ms: float = NEAR) -> Series:
    """Seconds after the shift, by repetition; KeyError where nothing was off, as of who limits nothing."""
    seconds = _runs(tables, "settled_s", way, "moving", delay_ms=delay_ms)
    if (seconds <= 0).any():
        raise KeyError(f"a run in which the shift puts {way} off")
    return seconds


Q1 = "Within the quota, publishers of an uneven load wait less under a resource group than under even, fixed parts."
Q2 = "Beyond the quota, who sets limits every T seconds grants 1 + 1 / T of it: a limiter is full whenever it is set."
Q3 = "A resource group follows a shift sooner than TB Adaptor does, at the same interval."
Q4 = "A delay of 40 ms between brokers changes neither's time to follow a shift by more than an interval."
KEY = "pulsar-quota"
LIVE_CLAIM: Options = {"needs": TESTBED, "testbed": TESTBED, "minimum_repetitions": 2}
CLAIMS = (
    Claim("Q1", "PIP-82", Q1, (KEY,), measure_q1, **LIVE_CLAIM),
    Claim("Q2", "Pulsar 4.0.8", Q2, (KEY,), measure_q2, **LIVE_CLAIM),
    Claim("Q3", "PIP-82; V-D", Q3, (KEY,), measure_q3, **LIVE_CLAIM),
    Claim("Q4", "PIP-82; V-D", Q4, (KEY,), measure_q4, **LIVE_CLAIM),
)
NOTES = (
    "Three brokers of Apache Pulsar 4.0.8, a topic and a publishing client each; store, bookie and TB Adaptor are "
    "beside the first. A resource group: each broker tells the others every interval (60 s as Pulsar comes) "
    "what it took, and limits itself to its share of that, times the quota. Split and TB Adaptor set the same limiter "
    "of Pulsar's, by REST; of what waits at a publisher Pulsar knows nothing, so that the adaptor goes by rates alone, "
    "in a window of 10 s. A limiter of Pulsar's holds a second's tokens: b. When a run is over nothing is limited any "
    "more, so that publish delays of what was still waiting are shorter than they would have been. Means with 95 % "
    "intervals over repetitions; see docs/pulsar.md."
)
TITLE = "A quota over the brokers of a real Pulsar: its resource groups, split, TB Adaptor"
EXPERIMENT = Experiment(
    KEY, TITLE, "ours: PIP-82 beside SRTM V-D", points, repetitions={"tiny": 1, "small": 2, "quick": 3, "paper": 5}
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
