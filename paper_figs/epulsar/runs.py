"""What the figures of the placement family have in common: points of the study ``placement``, samples by run."""

from collections.abc import Sequence

from core.records import Options
from harness.experiment import RunSpec
from paper_figs.light import Data, SparkFrame


def placed(
    system: str,
    workload: tuple[str, Options],
    topology: tuple[str, Options],
    study: Options,
    **system_options: object,
) -> RunSpec:
    """A point: who places the topics of which clients, where, for how long."""
    return RunSpec(
        system=system,
        system_options=system_options,
        workload=workload[0],
        workload_options=dict(workload[1]),
        topology=topology[0],
        topology_options=dict(topology[1]),
        calibration="bucket-only",
        study="placement",
        study_options=dict(study),
    )


def of_metrics(data: Data, metrics: Sequence[str]) -> SparkFrame:
    """Of each run and metric, a row each: run_id, metric, count, p50, p95, largest and total of its samples."""
    from pyspark.sql import functions as f

    mine = data.samples.where(f.col("metric").isin(*metrics))
    return mine.groupBy("run_id", "metric").agg(
        f.count("value").alias("count"),
        f.expr("percentile(value, 0.5)").alias("p50"),
        f.expr("percentile(value, 0.95)").alias("p95"),
        f.max("value").alias("largest"),
        f.sum("value").alias("total"),
    )
