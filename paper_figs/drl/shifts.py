"""Points and runs of study ``moving`` that drl-shift and drl-interval have in common."""

from core.records import Json
from core.units import MILLISECOND_NS
from harness.experiment import CALIBRATED, RunSpec
from paper_figs.drl.drawing import LOOKS as SHARING_LOOKS
from paper_figs.light import Data, Frame
from paper_figs.series import with_point
from paper_figs.style import Style

SPLIT, ADAPTOR, LEASES, MIGRATION, BOTH = "split", "adaptor", "leases", "migration", "both"
WITHIN, BEYOND = 0.6, 0.9
SHIFT_AT_S, DURATION_S, SETTLED_S = 5, 75, 10
EACH_SECOND = "1s"
WAYS: dict[str, tuple[str, Json, Json]] = {  # system, its options, the study's
    SPLIT: ("tb-adaptor", {"enabled": False}, {}),
    ADAPTOR: ("tb-adaptor", {}, {}),
    LEASES: ("leases", {}, {}),
    MIGRATION: ("tb-adaptor", {"enabled": False}, {"migrates": True}),
    BOTH: ("tb-adaptor", {}, {"migrates": True}),
}
LOOKS = {
    **{way: SHARING_LOOKS[way] for way in (SPLIT, ADAPTOR, LEASES)},
    MIGRATION: Style("migration", "#009E73", "^", "--"),
    BOTH: Style("adaptor and migration", "#0072B2", "D", "-"),
}
FACTORS = {
    "enabled": "system.enabled",
    "migrates": "study.migrates",
    "share": "workload.share_after",
    "interval": "study.interval",
}
MEASURES = ("above_s", "held_share", "move_count", "closed_ms", "sent_bytes")  # without a row: 0
NO_GRID = "the scale small has no grid: docs/sharing.md says how a point is run on real brokers"


def point(way: str, share: float, interval: str = EACH_SECOND) -> RunSpec:
    """One run."""
    system, system_options, study = WAYS[way]
    topic: Json = {"publishers": 100, "rate_rps": 8.0, "shift_at": f"{SHIFT_AT_S}s", "share_after": share}
    run: Json = {"envelope": "conformant", "margin": 2.0, "duration": f"{DURATION_S}s", "interval": interval}
    return RunSpec(
        system=system,
        system_options=system_options,
        workload="shifting",
        workload_options=topic,
        topology_options={"brokers": 2},
        calibration="edge",
        slo=CALIBRATED,
        study="moving",
        study_options={**run, **study},
    )


def runs_of(data: Data) -> Frame:
    """A row a run of study ``moving``.

    ``settled_ms``: p99 latency of the last seconds; ``above_s``: seconds after the shift whose p99 is above the SLO;
    ``held_share``: messages that waited at their publisher, of all after the shift; ``move_count``, and ``closed_ms``,
    the mean time for which a move closes its publisher; ``control_bytes`` a message.
    """
    from pyspark.sql import functions as f

    from analysis.metrics import percentiles, value_ns

    counts = data.latency_histogram
    latency, closed = (counts.where(f.col("metric") == name) for name in ("end_to_end_latency", "closed_time"))
    last = latency.where(f.col("round") > DURATION_S - SETTLED_S)
    settled = percentiles(last, ["run_id"], [0.99]).selectExpr("run_id", f"p99_ns / {MILLISECOND_NS} as settled_ms")
    after = f.col("round") > SHIFT_AT_S
    slo = data.runs.selectExpr("run_id", "slo_ns", f"slo_ns / {MILLISECOND_NS} as slo_ms")
    in_time = f.sum(f.when(value_ns() <= f.col("slo_ns"), f.col("count")).otherwise(0)).alias("in_time")
    every = latency.join(slo, "run_id").groupBy("run_id", "round").agg(in_time, f.sum("count").alias("count"))
    late = after & (f.col("in_time") < 0.99 * f.col("count"))  # its p99 is above the SLO, told without sorting
    held = counts.where(after & (f.col("metric") == "held_time")).groupBy("run_id").agg(f.sum("count").alias("held"))
    many = every.groupBy("run_id").agg(
        f.sum("count").alias("message_count"),
        f.sum(f.when(after, f.col("count"))).alias("after_count"),
        f.sum(f.when(late, 1.0).otherwise(0.0)).alias("above_s"),
    )
    moves = percentiles(closed, ["run_id"], [0.5]).selectExpr(
        "run_id", "count as move_count", f"mean_ns / {MILLISECOND_NS} as closed_ms"
    )
    sent = data.table("usage").groupBy("run_id").agg(f.sum("sent_bytes").alias("sent_bytes"))
    measured = (
        settled.join(slo.drop("slo_ns"), "run_id")
        .join(moves, "run_id", "left")
        .join(many, "run_id")
        .join(held, "run_id", "left")
        .join(sent, "run_id", "left")
        .withColumn("held_share", f.col("held") / f.col("after_count"))
        .fillna(0.0, list(MEASURES))
        .withColumn("control_bytes", f.col("sent_bytes") / f.col("message_count"))
    )
    return named(with_point(data, measured.drop("held", "after_count", "message_count", "sent_bytes"), FACTORS))


def named(frame: Frame) -> Frame:
    """With the ``way`` of each row, instead of the options that make it."""
    told = zip(frame.system, frame.enabled, frame.migrates, strict=True)
    ways = [way_of(system, enabled is not False, migrates is True) for system, enabled, migrates in told]
    return frame.assign(way=ways).drop(columns=["system", "enabled", "migrates"])


def way_of(system: str, enabled: bool, migrates: bool) -> str:
    """What a system and its options are called."""
    if system != "tb-adaptor":
        return system
    return {(False, False): SPLIT, (True, False): ADAPTOR, (False, True): MIGRATION, (True, True): BOTH}[
        enabled, migrates
    ]
