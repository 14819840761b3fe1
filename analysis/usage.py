"""What limiters cost: memory, bandwidth and convergence, from ``usage``; Spark frames in, Spark frames out.

A row's state_bytes and allocated_bytes say what a living node held at that instant; sent_bytes and
sent_count, what it sent since the row before (null where it sent nothing).
Sums are integer, or taken in order of time.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from core.units import SECOND_NS

HELD = ("state_bytes", "allocated_bytes")  # memory, as modelled (digest A18) and as measured
SENT = "sent_bytes"


def usage_over_time(usage: DataFrame, step_ns: int = SECOND_NS) -> DataFrame:
    """A node's mean memory and bandwidth over time: run_id, t_ns, state_bytes, allocated_bytes, sent_bytes.

    The step at t covers (t - step_ns, t]; steps go from the first (from 0, where something was
    sampled then) to the one of the run's last sample.  Memory: the last sample of each node in the
    step, averaged over the nodes that have one, so crashed nodes are left out; null where none has,
    as with steps shorter than the period of samples.  sent_bytes: sent in the step, over the number
    of nodes that the run has samples of.
    """
    step = F.expr(f"(at_ns + {step_ns - 1}) div {step_ns}").alias("step")
    sampled = usage.where(F.coalesce(*HELD, SENT).isNotNull() & (F.col("node") != ""))
    grouped = sampled.groupBy("run_id", "node", step)
    by_node = grouped.agg(
        *(F.max_by(name, F.when(F.col(name).isNotNull(), F.col("at_ns"))).alias(name) for name in HELD),
        F.sum(SENT).alias(SENT),
    )
    node_counts = sampled.groupBy("run_id").agg(F.count_distinct("node").alias("nodes"))
    stepped = by_node.groupBy("run_id", "step").agg(
        *(F.try_divide(F.sum(name), F.count(name)).alias(name) for name in HELD), F.sum(SENT).alias(SENT)
    )
    return (
        _every_step(stepped)
        .join(F.broadcast(node_counts), "run_id")
        .select("run_id", (F.col("step") * step_ns).alias("t_ns"), *HELD, (F.col(SENT) / F.col("nodes")).alias(SENT))
    )


def _every_step(stepped: DataFrame) -> DataFrame:
    """Steps without samples added: nothing was sent, and what was held is not known."""
    order = Window.partitionBy("run_id").orderBy("step")
    before = F.lag("step").over(order)
    first = F.when(before.isNull(), F.least(F.col("step"), F.lit(1).cast("long"))).otherwise(before + 1)
    covered = stepped.withColumn("at", F.sequence(first, "step")).select(
        "run_id", "step", *HELD, SENT, F.explode("at").alias("at")
    )
    sampled = F.col("at") == F.col("step")
    held = [F.when(sampled, F.col(name)).alias(name) for name in HELD]
    sent = F.when(sampled, F.coalesce(F.col(SENT), F.lit(0))).otherwise(F.lit(0)).alias(SENT)
    return covered.select("run_id", F.col("at").alias("step"), *held, sent)


def usage_area(curves: DataFrame) -> DataFrame:
    """Areas under the ``curves`` of ``usage_over_time`` by seconds, and their peaks; one row a run.

    run_id, state_byte_seconds, allocated_byte_seconds (memory over time), sent_bytes (what a node
    sent in all), state_peak_bytes, allocated_peak_bytes, sent_peak_bytes (in one second), end_ns
    (the last second that counts).  A second without a sample of memory adds nothing; null where there is none.

    The curves of a run end with the run, when it has converged, as the thesis' do (4.3.1): a system
    that converges early has the smaller area.
    """
    areas = {"state_bytes": "state_byte_seconds", "allocated_bytes": "allocated_byte_seconds", SENT: "sent_bytes"}
    peaks = {"state_bytes": "state_peak_bytes", "allocated_bytes": "allocated_peak_bytes", SENT: "sent_peak_bytes"}
    return curves.groupBy("run_id").agg(
        *(_sum_in_time(name).alias(area) for name, area in areas.items()),
        *(F.max(name).alias(peak) for name, peak in peaks.items()),
        F.max("t_ns").alias("end_ns"),
    )


def _sum_in_time(name: str) -> Column:
    """The sum of doubles in the order of t_ns; null where all are null."""
    known = F.when(F.col(name).isNotNull(), F.struct("t_ns", name))
    in_order = F.sort_array(F.collect_list(known))
    total = F.aggregate(in_order, F.lit(0.0), lambda so_far, row: so_far + row[name])
    return F.when(F.size(in_order) > 0, total)


def convergence(samples: DataFrame, usage: DataFrame, runs: DataFrame) -> DataFrame:
    """When the systems came to rest: one row for each of ``runs``.

    run_id, load_end_ns (the last request), converged_at_ns (nothing queued or under way; null where
    that had not happened by the cap, or the system cannot say), convergence_ns (after the load's
    end, at least 0; null likewise), last_sent_at_ns (the end of the last second in which any node
    sent anything; null where none ever did).
    """
    value = F.col("value").cast("long")
    named = {"load_end_ns": "load_end_ns", "convergence_ns": "converged_at_ns"}
    of_run = samples.where(F.col("metric").isin(*named) & (F.col("node") == "")).groupBy("run_id")
    marks = of_run.agg(*(F.max(F.when(F.col("metric") == name, value)).alias(mark) for name, mark in named.items()))
    sent = usage.where(F.col("sent_count") > 0).groupBy("run_id").agg(F.max("at_ns").alias("last_sent_at_ns"))
    after = F.col("converged_at_ns") - F.col("load_end_ns")
    span = F.when(after.isNotNull(), F.greatest(after, F.lit(0).cast("long")))
    return (
        runs.select("run_id")
        .join(marks, "run_id", "left")
        .join(sent, "run_id", "left")
        .select("run_id", "load_end_ns", "converged_at_ns", span.alias("convergence_ns"), "last_sent_at_ns")
    )
