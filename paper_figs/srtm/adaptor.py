"""TB Adaptor (V-D): access delay and sub-buckets while traffic shifts between two brokers, with and without it.

1,000 Poisson publishers x 10 msg/s, half of them on each of two brokers, r and b split evenly.  After 30 s the first
half's share of the traffic rises from 50 %, the topic as a whole stays what it was: (a) to 54 %, just within the
sub-bucket's rate (r is 1.1 x the traffic: 98 % of its tokens are used); (b) to 80 %, beyond it: a backlog without end.
"""

from itertools import product

from analysis.tables import collect
from analysis.verdicts import RATIO_TOLERANCE, Claim, Evidence, Tables, above, at_most
from core.records import Json
from core.units import MILLISECOND_NS, SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.intervals import band_by
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import by_repetition, samples, where, with_point
from paper_figs.srtm.grids import CONFORMANT, FEWER, at, split
from paper_figs.srtm.published import PUBLISHERS
from paper_figs.style import series, style_of

SHARES = (0.54, 0.8)
SHIFT_AT_S, SETTLED_FROM_S, DURATION_S, WINDOW_S = 30, 90, 120, 5
FACTORS = {"enabled": "system.enabled", "share": "workload.share_after"}
POINT = ["share", "enabled", "middle_s"]
LOOKS = {True: style_of("tb-adaptor")._replace(label="with TB Adaptor"), False: style_of("off")}  # by ``enabled``
BROKERS = ("broker1", "broker2")
TRAFFIC = {broker: series(f"traffic, broker {broker[-1]}", n) for n, broker in enumerate(BROKERS)}
TOKENS = {broker: series(f"tokens, broker {broker[-1]}", n, dashes="--") for n, broker in enumerate(BROKERS)}
WITHOUT = style_of("off")._replace(label="tokens of either, without")


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Two shifts, each with and without the adaptor; both cases are offered the very same messages."""
    control = {**CONFORMANT, "duration": f"{DURATION_S}s", "window": f"{WINDOW_S}s"}
    run: Json = {"system": "tb-adaptor", "study": "control", "study_options": control}
    specs = []
    for share, enabled in product(SHARES, LOOKS):
        workload = {"publishers": PUBLISHERS, "shift_at": f"{SHIFT_AT_S}s", "share_after": share}
        specs.append(split(len(BROKERS), workload, "shifting", system_options={"enabled": enabled}, **run))
    return at(scale, specs, FEWER)


def tables(data: Data) -> FigureTables:
    """``p99``: access delay by window, over repetitions; ``phases``: by run; ``rates``: sub-buckets and traffic."""
    from pyspark.sql import functions as f

    from analysis.metrics import over_repetitions, percentiles, with_factors

    delay = data.latency_histogram.where(f.col("metric") == "access_delay")
    start_s = (f.col("round") - 1) * WINDOW_S
    phase = f.when(start_s < SHIFT_AT_S, "before").when(start_s < SETTLED_FROM_S, "after").otherwise("settled")
    by_phase = percentiles(delay.withColumn("phase", phase), ["run_id", "phase"], [0.99])
    by_window = percentiles(delay.withColumn("middle_s", start_s + WINDOW_S / 2), ["run_id", "middle_s"], [0.99])
    typed = {"enabled": (FACTORS["enabled"], "boolean"), "share": (FACTORS["share"], "double")}
    in_ms = f.col("p99_ns") / MILLISECOND_NS
    windows = with_factors(by_window.withColumn("p99_ms", in_ms), data.runs, typed)
    return {
        "p99": collect(over_repetitions(windows, POINT, "p99_ms"), POINT),
        "phases": with_point(data, by_phase.withColumn("p99_ms", in_ms), FACTORS),
        "rates": _rates(data),
    }


def _rates(data: Data) -> Frame:
    """A row a run, broker and second: traffic, token rate, token rate of the topic."""
    from pyspark.sql import functions as f

    kept = data.samples.where(f.col("metric").isin("message_rate_rps", "bucket_rate_rps"))
    seconds = kept.withColumn("at_s", f.round(f.col("at_ns") / SECOND_NS)).withColumnRenamed("node", "broker")
    rates = seconds.groupBy("run_id", "broker", "at_s").pivot("metric", ["message_rate_rps", "bucket_rate_rps"])
    topic = data.runs.select("run_id", f.col("bucket_rate_rps").alias("topic_rate_rps"))
    return with_point(data, rates.agg(f.avg("value")).join(topic, "run_id"), FACTORS)


def draw(tables: FigureTables) -> Drawing:
    """Above: p99 access delay over time; below: rates of traffic and sub-buckets.  A column a shift."""
    titles = [f"share of broker 1: 50 % to {100 * share:.0f} %" for share in SHARES]
    sheet, axes = drawing.panels(2, len(SHARES), titles, share_x=True, share_y="row")
    for share, delay, rates in zip(SHARES, axes, axes[len(SHARES) :], strict=False):
        _draw_delay(delay, tables["p99"][tables["p99"].share == share])
        _draw_rates(rates, tables["rates"][tables["rates"].share == share])
        rates.set_xlabel("time (s)")
    axes[0].set_ylabel("p99 access delay (ms)")
    axes[len(SHARES)].set_ylabel("rate (1,000 msg/s)")
    axes[len(SHARES)].set_ylim(bottom=0)
    lines = [*LOOKS.values(), *TRAFFIC.values(), *TOKENS.values(), WITHOUT]
    marks = [keys.key(look, marker=False) for look in lines]
    keys.legend_above(sheet, [*marks, keys.rule_key("the shift")], columns=4)
    return sheet


def _draw_delay(axes: Axes, points: Frame) -> None:
    drawing.log_axis(axes, steps=(1,))
    for enabled, look in LOOKS.items():
        part = points[points.enabled == enabled].sort_values("middle_s")
        low = part.low.clip(lower=part["mean"] / 5)  # a log axis has no room for 0
        drawing.interval_curve(axes, part.middle_s, part["mean"], low, part.high, look)
    drawing.rule(axes, SHIFT_AT_S, "x")


def _draw_rates(axes: Axes, points: Frame) -> None:
    """Traffic and token rate of each broker under the adaptor; without it the token rates stay at r/2."""
    for broker in BROKERS:
        part = points[(points.broker == broker) & points.enabled]
        part = part.assign(traffic=part.message_rate_rps / 1e3, tokens=part.bucket_rate_rps / 1e3)
        drawing.interval_curve(axes, *band_by(part, "at_s", "traffic"), TRAFFIC[broker], width=0.6)
        drawing.interval_curve(axes, *band_by(part, "at_s", "tokens"), TOKENS[broker], width=1.4)
    half = float(points.topic_rate_rps.mean()) / len(BROKERS) / 1e3
    drawing.curve(axes, [points.at_s.min(), points.at_s.max()], [half, half], WITHOUT)
    drawing.rule(axes, SHIFT_AT_S, "x")


def measure_r20(tables: Tables) -> Evidence:
    """p99 access delay of the last 30 s against the 30 s before the shift, with and without.

    "Removes the added penalty": what is left of it is at most 15 % (the tolerance of ratios).  That is
    judged where the sub-bucket's rate still suffices; beyond it the delay without the adaptor has no
    end, a part of it says how long the run was, and only the sign counts.
    """
    phases = where(tables["srtm-adaptor/phases"], system="tb-adaptor")
    exact, direction = [], []
    for share in sorted(set(phases.share)):
        before, settled, without = (
            by_repetition(phases, "p99_ms", share=share, enabled=enabled, phase=phase)
            for enabled, phase in ((True, "before"), (True, "settled"), (False, "settled"))
        )
        label = f"share {share:.0%}"
        if share == min(SHARES):
            left = samples((settled - before) / (without - before))
            exact.append(at_most(f"{label}: part of the added p99 that is left", left, RATIO_TOLERANCE))
        direction.append(above(f"{label}: p99 without, after minus before", samples(without - before), 0.0, "ms"))
        direction.append(above(f"{label}: p99 without minus with", samples(without - settled), 0.0, "ms"))
    return Evidence(tuple(exact), tuple(direction))


R20 = "After traffic has shifted between publishers of different brokers, the TB Adaptor removes the added DRL penalty."
WHY_R20 = (
    "Sub-buckets of unequal rate have a penalty of their own: the slower one takes longer to make a token (Eq. 1), and"
    " rates and backlogs of a 10 s window are estimates."
)
CLAIMS = (Claim("R20", "V-D", R20, ("srtm-adaptor",), measure_r20, why=WHY_R20),)
EXPERIMENT = Experiment("srtm-adaptor", "Traffic that shifts, with and without TB Adaptor", "SRTM, V-D", points)
NOTES = (
    "The paper has no such figure: setting and drawing are ours. Means over repetitions, bands: 95 % intervals; above, "
    f"p99 over windows of {WINDOW_S} s. Both cases are offered the same messages; the adaptor works on "
    "10 s of history, once a second. Model: how long a message waits is reckoned when it comes, by its sub-bucket as "
    "it is then; on brokers those who wait go by what the sub-bucket becomes."
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
