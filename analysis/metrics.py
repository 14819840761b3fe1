"""Metrics: Spark frames in, Spark frames out.  Each says its columns; single-process twins are in the tests.

Percentiles come from ``latency_histogram`` alone, by the definition of ``collectors.histogram``: a
bucket stands for the value in its middle, and the q-quantile is the value of the smallest bucket
whose cumulative count is at least q times the total.  Sums are integer, or taken in a fixed order,
so that the same runs give the same bits whatever Spark's partitions do.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

AXES = ("system", "variant", "workload", "topology", "testbed", "calibration", "repetition", "outcome", "slo_ns")
FINAL_ROUND = 0  # the fresh round after the final assignment
_TABULATED = 200  # degrees of freedom in the table of t quantiles
_LOW_BITS = 20  # count * value itself could overflow


# --- latencies -----------------------------------------------------------------------------------


def final_round(histogram: DataFrame) -> DataFrame:
    """Only the fresh round after the final assignment, which no algorithm fitted itself to."""
    return histogram.where(F.col("round") == FINAL_ROUND)


def judged_rounds(histogram: DataFrame) -> DataFrame:
    """A metric's fresh round after the search; where rounds are windows of time, and there is none, all of them."""
    is_fresh = F.col("round") == FINAL_ROUND
    has_fresh = F.max(is_fresh).over(Window.partitionBy("run_id", "metric"))
    return histogram.withColumn("has_fresh", has_fresh).where(is_fresh | ~F.col("has_fresh")).drop("has_fresh")


def percentiles(histogram: DataFrame, by: Sequence[str], quantiles: Sequence[float] = (0.5, 0.95, 0.99)) -> DataFrame:
    """Quantiles of each group: ``by`` + p50_ns, p95_ns, p99_ns, count, mean_ns.

    Rows of all metrics, rounds and brokers of a group are pooled: filter first, or name them in ``by``.
    A quantile of 0.999 is called p99_9_ns.  Rows of one value stay apart: pooling them first is one exchange more.
    """
    group = Window.partitionBy(*by).orderBy("value_ns")  # one order for both, so Spark sorts and scans once
    up_to_here = group.rowsBetween(Window.unboundedPreceding, 0)
    whole = group.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    counted = histogram.select(*by, value_ns().alias("value_ns"), "count")
    ranked = counted.withColumns({"cumulative": F.sum("count").over(up_to_here), "total": F.sum("count").over(whole)})
    columns = [
        F.min(F.when(F.col("cumulative") >= q * F.col("total"), F.col("value_ns"))).alias(quantile_name(q))
        for q in quantiles
    ]
    return ranked.groupBy(*by).agg(*columns, F.sum("count").alias("count"), mean_ns().alias("mean_ns"))


def quantile_name(q: float) -> str:
    """The column of a quantile: 0.99 is ``p99_ns``, 0.999 ``p99_9_ns``."""
    return f"p{f'{100 * q:.6g}'.replace('.', '_')}_ns"


def exceed_probability(histogram: DataFrame, by: Sequence[str]) -> DataFrame:
    """The share of values above 0, of access delay that of waiting for a token: ``by`` + exceed_probability, count."""
    above = F.sum(F.when(value_ns() > 0, F.col("count")).otherwise(0))
    return histogram.groupBy(*by).agg(
        (above / F.sum("count")).alias("exceed_probability"), F.sum("count").alias("count")
    )


def value_ns() -> Column:
    """``collectors.histogram.bucket_values`` of a row."""
    return F.expr("low_ns + (high_ns - low_ns - 1) div 2")


def mean_ns() -> Column:
    """The weighted mean of value_ns, exact until the last step: integer sums of a high and a low part."""
    high = F.sum(F.expr(f"count * shiftright(value_ns, {_LOW_BITS})"))
    low = F.sum(F.expr(f"count * (value_ns & {(1 << _LOW_BITS) - 1})"))
    return (high.cast("double") * (1 << _LOW_BITS) + low) / F.sum("count")


# --- searches and assignments --------------------------------------------------------------------


def search_rounds(decisions: DataFrame) -> DataFrame:
    """Rounds of a search, by iteration (SRTM Table I).

    Columns: run_id, iteration, round_count, broker_count (brokers with publishers of the topic),
    search_ns; and of the whole search total_round_count, total_search_ns.
    """
    rounds = _trial_rounds(decisions)
    run = Window.partitionBy("run_id")
    iterations = rounds.groupBy("run_id", "iteration").agg(
        F.count("*").alias("round_count"),
        F.max("broker_count").alias("broker_count"),
        F.sum("duration_ns").alias("search_ns"),
    )
    return iterations.withColumn("total_round_count", F.sum("round_count").over(run)).withColumn(
        "total_search_ns", F.sum("search_ns").over(run)
    )


def brokers_used(decisions: DataFrame) -> DataFrame:
    """Brokers that carry the topic in the final assignment: run_id, broker_count."""
    used = F.count(F.when(F.col("publisher_count") > 0, 1))
    return _final(decisions).groupBy("run_id").agg(used.cast("int").alias("broker_count"))


def time_in_violation(decisions: DataFrame, runs: DataFrame) -> DataFrame:
    """How long publishers suffered while the search ran (report, 4.2): run_id, violation_ns, search_ns.

    Rounds whose p99 over all that had a broker, as the search saw it, was above the SLO, and rounds that left
    publishers without one: these send to nobody, and no p99 tells.  The final assignment has everybody.  A search
    without rounds has zeros.
    """
    slo = runs.select("run_id", "slo_ns")
    is_late, is_partial = F.col("topic_p99_ns") > F.col("slo_ns"), F.col("placed_count") < F.col("publisher_count")
    violated = F.when(is_late | is_partial, F.col("duration_ns")).otherwise(0)
    decided = _final(decisions).groupBy("run_id").agg(F.sum("publisher_count").alias("publisher_count"))
    searched = (
        _trial_rounds(decisions)
        .join(slo, "run_id")
        .join(decided, "run_id")
        .groupBy("run_id")
        .agg(F.sum(violated).alias("violation_ns"), F.sum("duration_ns").alias("search_ns"))
    )
    return decided.select("run_id").join(searched, "run_id", "left").fillna(0, ["violation_ns", "search_ns"])


def residual_capacity(decisions: DataFrame) -> DataFrame:
    """Capacity that the final assignment leaves whole: run_id, residual_rps, untouched_count.

    The report's section 2 calls a distribution better if it leaves "a greater residual capacity for
    equal performance".  Over all brokers the spare rate, the sum of mcap - load, is the same however
    the topic is spread.  What differs is how much of it the next topic can have without sharing a
    broker with this one, so only brokers that carry none of the topic's publishers count, each with
    max(mcap - load, 0), where load is that of the other topics.
    """
    spare_rps = F.greatest(F.col("mcap_rps") - F.col("load_rps"), F.lit(0.0))
    untouched = F.col("publisher_count") == 0
    spares = F.sort_array(F.collect_list(F.when(untouched, spare_rps)))
    return (
        _final(decisions)
        .groupBy("run_id")
        .agg(spares.alias("spares"))
        .select("run_id", _total("spares").alias("residual_rps"), F.size("spares").alias("untouched_count"))
    )


def _final(decisions: DataFrame) -> DataFrame:
    return decisions.where(F.col("kind") == "final")


def _trial_rounds(decisions: DataFrame) -> DataFrame:
    """One row a search round; ``decisions`` has one a round and broker."""
    trials = decisions.where(F.col("kind") == "trial")
    return trials.groupBy("run_id", "iteration", "round").agg(
        F.max("duration_ns").alias("duration_ns"),
        F.max("seen_topic_p99_ns").alias("topic_p99_ns"),
        F.sum("publisher_count").alias("placed_count"),
        F.count(F.when(F.col("publisher_count") > 0, 1)).cast("int").alias("broker_count"),
    )


# --- factors and repetitions ---------------------------------------------------------------------


def with_factors(frame: DataFrame, runs: DataFrame, factors: Mapping[str, tuple[str, str]] | None = None) -> DataFrame:
    """Add a run's axes (``AXES``) and chosen factors to a frame with run_id.

    ``factors``: new column -> (factor, SQL type), ``{"publishers": ("workload.publishers", "int")}``;
    null where a run has no such option.
    """
    columns = [F.col(name) for name in AXES if name not in frame.columns]
    columns += [F.col("factors")[key].cast(kind).alias(name) for name, (key, kind) in (factors or {}).items()]
    return frame.join(runs.select("run_id", *columns), "run_id")


def over_repetitions(frame: DataFrame, by: Sequence[str], value: str) -> DataFrame:
    """Mean, standard deviation and 95 % t-interval of ``value``: ``by`` + mean, std, count, low, high.

    The same as ``analysis.verdicts.t_interval``: identical values give a point, a single one an
    infinite interval and no std.  Nulls and NaNs are left out; a group of nothing else has no row.
    """
    values = frame.select(*by, F.col(value).cast("double").alias("value"))
    values = values.where(F.col("value").isNotNull() & ~F.isnan("value"))
    grouped = values.groupBy(*by).agg(F.sort_array(F.collect_list("value")).alias("values"))
    equal = F.array_min("values") == F.array_max("values")
    mean = F.when(equal, F.element_at("values", 1)).otherwise(_total("values") / F.size("values"))
    counted = grouped.withColumn("count", F.size("values")).withColumn("mean", mean)
    squares = _total(F.transform("values", lambda x: (x - F.col("mean")) * (x - F.col("mean"))))
    std = F.when(equal, 0.0).otherwise(F.sqrt(squares / F.greatest(F.col("count") - 1, F.lit(1))))
    measured = counted.withColumn("std", F.when(F.col("count") > 1, std))
    quantile = F.element_at(F.expr(_t_quantiles()), F.least(F.col("count") - 1, F.lit(_TABULATED)))
    half = F.when(F.col("count") == 1, F.lit(float("inf"))).otherwise(quantile * F.col("std") / F.sqrt("count"))
    low, high = (F.col("mean") - F.col("half")).alias("low"), (F.col("mean") + F.col("half")).alias("high")
    return measured.withColumn("half", half).select(*by, "mean", "std", "count", low, high)


def _total(values: Column | str) -> Column:
    """The sum of an array of doubles, in its order."""
    return F.aggregate(values, F.lit(0.0), lambda total, x: total + x)


@cache
def _t_quantiles() -> str:
    """The 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom, as an SQL array.

    Beyond the table its last entry is used: 0.6 % from the normal quantile.
    """
    from scipy.special import stdtrit

    quantiles = (float(stdtrit(freedom, 0.975)) for freedom in range(1, _TABULATED + 1))
    return "array(" + ", ".join(f"{quantile!r}D" for quantile in quantiles) + ")"


# --- single messages -----------------------------------------------------------------------------


def running_sum_of_delay(messages: DataFrame, step_ns: int, by: Sequence[str]) -> DataFrame:
    """S(t) of SRTM's Proposition 1: ``by`` + t_ns, delay_sum_ns, waiting_count.

    S(t) is the integral up to t of the number of messages that wait for tokens,
    sum over messages of clip(t - arrived, 0, released - arrived), exact at every t.  The grid is that
    of multiples of ``step_ns`` from before the first arrival to after the last release of all groups,
    so that groups can be compared at equal t.  A message without release waits on.  Instants are at least 0.
    """
    change = F.explode(
        F.array(
            F.struct(F.col("arrived_at_ns").alias("at_ns"), F.lit(1).cast("long").alias("sign")),
            F.struct(F.col("released_at_ns").alias("at_ns"), F.lit(-1).cast("long").alias("sign")),
        )
    )
    changes = messages.select(*by, change.alias("change")).select(*by, "change.at_ns", "change.sign")
    changes = changes.where(F.col("at_ns").isNotNull())
    # clip(t - a, 0, r - a) = max(t - a, 0) - max(t - r, 0): each change counts from the next grid point on.
    step = F.expr(f"(at_ns + {step_ns - 1}) div {step_ns}")
    stepped = changes.groupBy(*by, step.alias("step")).agg(
        F.sum("sign").alias("sign"), F.sum(F.col("sign") * F.col("at_ns")).alias("weighted_ns")
    )
    so_far = Window.partitionBy(*by).orderBy("step").rowsBetween(Window.unboundedPreceding, 0)
    waiting = F.coalesce(F.sum("sign").over(so_far), F.lit(0))
    weighted_ns = F.coalesce(F.sum("weighted_ns").over(so_far), F.lit(0))
    t_ns = F.col("step") * step_ns
    grid = _grid(messages, step_ns, by).join(stepped, [*by, "step"], "left")
    summed = grid.withColumn("waiting_count", waiting).withColumn("weighted_ns", weighted_ns)
    delay = (t_ns * F.col("waiting_count") - F.col("weighted_ns")).alias("delay_sum_ns")
    return summed.select(*by, t_ns.alias("t_ns"), delay, "waiting_count")


def _grid(messages: DataFrame, step_ns: int, by: Sequence[str]) -> DataFrame:
    """Every group crossed with every step between the first arrival and the last change of all groups."""
    groups = messages.groupBy(*by).agg(
        F.min("arrived_at_ns").alias("first"), F.max(F.greatest("arrived_at_ns", "released_at_ns")).alias("last")
    )
    first, last = F.expr(f"min(first) div {step_ns}"), F.expr(f"max(last) div {step_ns} + 1")
    steps = groups.agg(F.sequence(first, last).alias("steps")).select(F.explode("steps").alias("step"))
    return groups.select(*by).crossJoin(F.broadcast(steps))


def released_in_window(messages: DataFrame, windows_ns: Sequence[int], by: Sequence[str]) -> DataFrame:
    """The most messages released in any closed interval of each length: ``by`` + window_ns, released_count.

    For the output of a token bucket it is at most b + r D (report, appendix A.1).  The maximum is
    taken by an interval that begins with a release.  Two searches in a sorted array: a hundred times
    faster in NumPy, group by group, than as windows of Spark's, which sort once more for every length.
    """
    import numpy as np
    import pyarrow as pa

    def most(group: pa.Table) -> pa.Table:
        at_ns = np.sort(group["released_at_ns"].to_numpy())
        before = np.searchsorted(at_ns, at_ns, "left")
        counts = [int((np.searchsorted(at_ns, at_ns + span, "right") - before).max()) for span in windows_ns]
        keys = {name: [group[name][0].as_py()] * len(counts) for name in by}
        return pa.table({**keys, "window_ns": list(windows_ns), "released_count": counts}).cast(schema)

    released = messages.where(F.col("released_at_ns").isNotNull()).select(*by, "released_at_ns")
    empty = released.select(
        *by, F.lit(0).cast("long").alias("window_ns"), F.lit(0).cast("long").alias("released_count")
    )
    schema = empty.limit(0).toArrow().schema
    return released.groupBy(*by).applyInArrow(most, empty.schema)
