"""pulsar-quota: Apache Pulsar's own distributed rate limiter (PIP-82 resource groups) beside SRTM's split and adaptor.

Three brokers of a real Pulsar share a quota of 300 msg/s.  Poisson publishers offer 0.9 of it, which a quota that all
brokers saw at once would never hold up, or 1.5; evenly, four fifths of it to the first broker, or one after the other.
Ours throughout: PIP-82 says how brokers agree, and not how well.
"""

from itertools import product

import numpy as np

from analysis.tables import collect
from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_least, at_most
from core.records import Float64
from core.units import MILLISECOND_NS, SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.series import by_repetition, doublings, frame_of, samples, with_point
from paper_figs.style import Style, series

QUOTA_RPS, BROKERS, PUBLISHERS, INTERVAL_S = 300, 3, 30, 1
SHIFT_AT_S, DURATION_S = 20, 40
GROUP, SPLIT, ADAPTOR = "resource-group", "split", "adaptor"
LOOKS = {
    GROUP: series("Pulsar's resource group", 0),
    SPLIT: series("split", 1, dashes=":"),
    ADAPTOR: series("TB Adaptor", 2, dashes="--"),
}
ONE = Style("one bucket", "#000000", "x", ":")
EVEN, HOT = round(1 / BROKERS, 6), 0.8  # of the load, the first broker's
LOADS = {"even": (EVEN, EVEN), "skewed": (HOT, HOT), "moving": (EVEN, HOT)}  # before and after the shift
WITHIN, BEYOND = 0.9, 1.5  # offered, of the quota
NEAR, FAR = 0, 40  # ms, one way, between any two brokers
STEP_S = 0.1  # in which messages are counted
OFF = 0.1  # ours: a second is right whose messages are at most so much more or less
TESTBED = "mininet"
FACTORS = {
    "sharing": "study.sharing",
    "before": "workload.share_before",
    "after": "workload.share_after",
    "rate": "workload.rate_rps",
    "delay": "topology.delay",
}


# --- grid ------------------------------------------------------------------------------------------


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Sharings x loads x offers; with delays, only the load that moves, but for scale paper."""
    is_tiny = scale.name == "tiny"
    loads, offers = (("moving",), (WITHIN,)) if is_tiny else (tuple(LOADS), (WITHIN, BEYOND))
    delays, far = ((NEAR,) if is_tiny else (NEAR, FAR)), (tuple(LOADS) if scale.name == "paper" else ("moving",))
    grid = product(delays, offers, loads, LOOKS)
    return [_point(*at) for at in grid if at[0] == NEAR or at[2] in far]


def _point(delay_ms: int, offer: float, load: str, sharing: str) -> RunSpec:
    before, after = LOADS[load]
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
            "interval": f"{INTERVAL_S}s",
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
        point = row.run_id, load, offer, delay_ms, row.sharing, int(row.repetition)
        measures.append((*point, *measured(offered, granted, QUOTA_RPS, shift_s), row.p50_ms, row.p99_ms))
        rates = (by_second(one) for one in (offered, granted, ideal(offered, QUOTA_RPS)))
        seconds += [(*point, at_s, *told) for at_s, told in enumerate(zip(*rates, strict=True))]
    names = ["run_id", "load", "offer", "delay_ms", "sharing", "repetition"]
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
    off what one bucket would grant by more than ``OFF``, 0 where none is.
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
    """Above: granted over time, a row an offer, a column a load; below: delay, excess, time to settle."""
    runs, seconds = tables["runs"], tables["seconds"]
    offers, loads = sorted(set(runs.offer)), [load for load in LOADS if load in set(runs.load)]
    titles = [f"{load}, {offer:g} of the quota" for offer in offers for load in loads]
    sheet = drawing.sheet(8.2, 1.9 * (len(offers) + 1) + 0.4)
    parts = sheet.subfigures(2, 1, height_ratios=[len(offers), 1.15], squeeze=False)
    grid = parts[0, 0].subplots(len(offers), len(loads), squeeze=False, sharex=True, sharey="row")
    for letter, axes, text, (offer, load) in zip("abcdef", grid.flat, titles, product(offers, loads), strict=False):
        drawing.title(axes, f"({letter}) {text}")
        _draw_seconds(axes, seconds[(seconds.offer == offer) & (seconds.load == load) & (seconds.delay_ms == NEAR)])
    for axes in grid[-1]:
        axes.set_xlabel("time (s)")
    for axes in grid[:, 0]:
        axes.set_ylabel("granted (msg/s)")
    panels = parts[1, 0].subplots(1, 3)
    letters = "abcdefghi"[len(titles) :]
    _draw_cells(panels[0], runs[runs.offer == WITHIN], "p99_ms", f"({letters[0]}) {WITHIN:g}: p99 publish delay")
    _draw_cells(panels[1], runs[runs.offer == BEYOND], "excess_s", f"({letters[1]}) {BEYOND:g}: above b + r t")
    _draw_cells(panels[2], runs[runs.offer == WITHIN], "settled_s", f"({letters[2]}) {WITHIN:g}: until right")
    drawing.log_axis(panels[0])
    panels[0].set_ylabel("ms")
    panels[1].set_ylabel("seconds of the quota")
    panels[2].set_ylabel("s from the beginning, or the shift")
    marks = [keys.key(look) for look in LOOKS.values()]
    keys.legend_above(sheet, [*marks, keys.rule_key("one bucket", reference=True)], columns=4)
    return sheet


def _draw_seconds(axes: Axes, seconds: Frame) -> None:
    """Means over repetitions, a line a sharing; all are offered the same."""
    for sharing, look in LOOKS.items():
        mine = seconds[seconds.sharing == sharing].groupby("at_s").granted_rps.mean()
        if len(mine):
            drawing.curve(axes, mine.index + 0.5, mine, look)
    right = seconds.groupby("at_s").ideal_rps.mean()
    drawing.curve(axes, right.index + 0.5, right, ONE, width=1.0)
    if (seconds.load == "moving").any():
        drawing.rule(axes, SHIFT_AT_S, "x", text="the shift")
    axes.set_ylim(bottom=0)


def _draw_cells(axes: Axes, runs: Frame, value: str, title: str) -> None:
    """Points with their intervals, a place a load and delay."""
    drawing.title(axes, title)
    cells = [(load, at) for at in sorted(set(runs.delay_ms)) for load in LOADS if len(_cell(runs, load, at))]
    if not cells:
        drawing.sentence(axes, "not run")
        return
    names = [f"{load}\n{at:g} ms" for load, at in cells]
    frame = runs.assign(cell=[f"{load}\n{at:g} ms" for load, at in zip(runs.load, runs.delay_ms, strict=True)])
    drawing.mean_points(axes, frame, "cell", value, "sharing", LOOKS, names)
    drawing.categories(axes, names)
    if value != "p99_ms":
        axes.set_ylim(bottom=0)


def _cell(runs: Frame, load: str, delay_ms: float) -> Frame:
    return runs[(runs.load == load) & (runs.delay_ms == delay_ms)]


# --- claims: written down, with their signs, before any run of the figure (docs/pulsar.md) -----------


def _runs(tables: Tables, value: str, sharing: str, load: str, offer: float = WITHIN, delay_ms: float = NEAR) -> Series:
    """One point's, by repetition; KeyError where it was not run."""
    runs = tables["pulsar-quota/runs"]
    return by_repetition(runs, value, sharing=sharing, load=load, offer=offer, delay_ms=delay_ms)


def measure_q1(tables: Tables) -> Evidence:
    """Doublings of split's p99 over the group's."""
    checks = []
    for load in ("skewed", "moving"):
        gain = doublings(*(_runs(tables, "p99_ms", sharing, load) for sharing in (SPLIT, GROUP)))
        checks.append(above(f"{load}: p99 of split over resource group's, doublings", samples(gain), 0.0))
    return Evidence(tuple(checks))


def measure_q2(tables: Tables) -> Evidence:
    """A load that comes at once: a group grants each broker all of it until they have heard of each other."""
    checks: list[Check] = []
    for load in ("even", "skewed"):
        excess = {name: samples(_runs(tables, "excess_s", name, load, BEYOND)) for name in LOOKS}
        checks.append(above(f"{load}: resource group above b + r t", excess[GROUP], 0.5, "s"))
        for sharing in (SPLIT, ADAPTOR):
            checks.append(at_most(f"{load}: {sharing} above b + r t", excess[sharing], 0.1, "s"))
    return Evidence(tuple(checks))


def measure_q3(tables: Tables) -> Evidence:
    """Seconds from the shift until all is right: TB Adaptor's window of ten is slower than a law of one interval."""
    late = _runs(tables, "settled_s", ADAPTOR, "moving") - _runs(tables, "settled_s", GROUP, "moving")
    return Evidence((above("TB Adaptor minus resource group", samples(late), 0.0, "s"),))


def measure_q4(tables: Tables) -> Evidence:
    """An interval is long beside 40 ms: what moves settles as soon, within two intervals either way."""
    checks = []
    for sharing in (GROUP, ADAPTOR):
        far, near = (_runs(tables, "settled_s", sharing, "moving", delay_ms=delay_ms) for delay_ms in (FAR, NEAR))
        for check, bound in ((at_most, 2.0), (at_least, -2.0)):
            label = f"{sharing}: settled at {FAR} minus {NEAR} ms, {check.__name__.replace('_', ' ')} {bound:g} s"
            checks.append(check(label, samples(far - near), bound * INTERVAL_S, "s"))
    return Evidence(tuple(checks))


def measure_q5(tables: Tables) -> Evidence:
    """Beyond the quota all grant what one bucket would, within a tenth, once the load has shifted for good."""
    checks = []
    for sharing, load in product((GROUP, ADAPTOR), ("even", "skewed")):
        share = samples(_runs(tables, "granted_share", sharing, load, BEYOND))
        checks.append(at_least(f"{load}: {sharing}, granted of what one bucket would", share, 0.9))
        checks.append(at_most(f"{load}: {sharing}, granted of what one bucket would, at most", share, 1.1))
    return Evidence(tuple(checks))


Q1 = "Within the quota, publishers of an uneven load wait less under a resource group than under even, fixed parts."
Q2 = "Of a load beyond the quota that comes at once a resource group grants more than b + r t, fixed parts do not."
Q3 = "A resource group follows a shift sooner than TB Adaptor does, at the same interval."
Q4 = "A delay of 40 ms between brokers changes neither's time to follow a shift by more than two intervals."
Q5 = "Beyond the quota, resource group and TB Adaptor grant what one bucket would, within a tenth."
LIVE_CLAIM: Options = {"needs": TESTBED, "testbed": TESTBED, "minimum_repetitions": 2}
KEY = "pulsar-quota"
CLAIMS = (
    Claim("Q1", "PIP-82", Q1, (KEY,), measure_q1, **LIVE_CLAIM),
    Claim("Q2", "PIP-82, initial quota", Q2, (KEY,), measure_q2, **LIVE_CLAIM),
    Claim("Q3", "PIP-82; V-D", Q3, (KEY,), measure_q3, **LIVE_CLAIM),
    Claim("Q4", "PIP-82; V-D", Q4, (KEY,), measure_q4, **LIVE_CLAIM),
    Claim("Q5", "PIP-82; V-D", Q5, (KEY,), measure_q5, **LIVE_CLAIM),
)
NOTES = (
    "Three brokers of Apache Pulsar 4.0.8, a topic and a publishing client each; store, bookie and TB Adaptor are "
    "beside the first. A resource group: each broker tells the others every interval (1 s here, 60 s as Pulsar comes) "
    "what it took, and limits itself to its share of that, times the quota. Split and TB Adaptor set the same limiter "
    "of Pulsar's, by REST; of what waits at a publisher Pulsar knows nothing, so that the adaptor goes by rates alone, "
    "in a window of 10 s. A limiter of Pulsar's holds a second's tokens: b. When a run is over nothing is limited any "
    "more, so that publish delays of what was still waiting are shorter than they would have been. Means, points with "
    "95 % intervals over repetitions; see docs/pulsar.md."
)
TITLE = "A quota over the brokers of a real Pulsar: its resource groups, split, TB Adaptor"
EXPERIMENT = Experiment(
    KEY, TITLE, "ours: PIP-82 beside SRTM V-D", points, repetitions={"tiny": 1, "small": 2, "quick": 3, "paper": 5}
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
