"""What two runs of one point are compared by: single numbers of a run, by Spark, from whatever tables it has."""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analysis.metrics import brokers_used, judged_rounds, percentiles, search_rounds
from analysis.tables import Data


class Aggregate(NamedTuple):
    """A number of a run: an SQL aggregate over the rows of a table, one for each value of ``by`` where that is said."""

    measure: str
    table: str
    sql: str
    by: str = ""


AGGREGATES = (
    Aggregate("admitted share", "requests", "avg(if(decision = 'admit', 1, 0))"),
    Aggregate("lost share", "requests", "avg(if(decision = 'lost', 1, 0))"),
    Aggregate("mean", "samples", "avg(value)", by="metric"),
    Aggregate("state, bytes, at most", "usage", "max(state_bytes)"),
    Aggregate("sent messages", "usage", "sum(sent_count)"),
    Aggregate("sent bytes", "usage", "sum(sent_bytes)"),
    Aggregate("undelivered messages", "deliveries", "sum(undelivered_count)"),
    Aggregate("duplicated messages", "deliveries", "sum(duplicated_count)"),
    Aggregate("gaps at consumers", "deliveries", "sum(gap_count)"),
    Aggregate("limit a cycle", "cycles", "avg(limit)"),
    Aggregate("admitted a cycle", "cycles", "avg(admitted)"),
    Aggregate("nodal measure", "cycles", "avg(nodal_measure)"),
    Aggregate("late pairs' share", "topic_windows", "try_divide(sum(late_pair_count), sum(pair_count))"),
    Aggregate("lost messages", "topic_windows", "sum(lost_count)"),
    Aggregate("spans of ownership", "ownership", "count(*)"),
    Aggregate("control messages", "control_messages", "count(*)"),
    Aggregate("true worst delay (ns)", "policies", "avg(true_worst_ns)", by="policy"),
    Aggregate("true violation ratio", "policies", "avg(true_violation_ratio)", by="policy"),
    Aggregate("error of coordinates (ns)", "coordinates", "avg(abs(estimated_rtt_ns - true_rtt_ns))"),
    Aggregate("shift of coordinates (ns)", "agents", "avg(shift_ns)"),
    Aggregate("offered copies lost", "spans", "sum(span_lost_count)"),
    Aggregate("processor time of spans (ns)", "spans", "sum(span_cpu_ns)"),
)
# Tables by which runs are compared.
READ = {"latency_histogram", "topic_latency", "decisions", *(aggregate.table for aggregate in AGGREGATES)}


def measures(data: Data) -> DataFrame:
    """Every measure of every run: run_id, measure, value; nulls are left out."""
    counted = data.table("topic_latency").withColumn("metric", F.lit("topic_latency"))
    every = judged_rounds(data.latency_histogram).unionByName(counted, allowMissingColumns=True)
    latencies = percentiles(every, ["run_id", "metric"])
    frames = [
        _long(latencies, F.concat_ws(" ", "metric", F.lit(f"{name} (ms)")), F.col(f"{name}_ns") / 1e6)
        for name in ("p50", "p99", "mean")
    ]
    frames.append(_long(brokers_used(data.decisions), F.lit("brokers in use"), "broker_count"))
    rounds = search_rounds(data.decisions).groupBy("run_id").agg(F.max("total_round_count").alias("rounds"))
    frames.append(_long(rounds, F.lit("search rounds"), "rounds"))
    for aggregate in AGGREGATES:
        by = [aggregate.by] if aggregate.by else []
        frame = data.table(aggregate.table).groupBy("run_id", *by).agg(F.expr(aggregate.sql).alias("value"))
        frames.append(_long(frame, F.concat_ws(" ", *by, F.lit(aggregate.measure)), "value"))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole.where(F.col("value").isNotNull() & ~F.isnan("value"))


def _long(frame: DataFrame, measure: Column, value: Column | str) -> DataFrame:
    values = F.col(value) if isinstance(value, str) else value
    return frame.select("run_id", measure.alias("measure"), values.cast("double").alias("value"))
