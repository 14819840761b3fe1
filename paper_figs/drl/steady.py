"""Points and runs of study ``sharing`` that drl-frontier and drl-interval have in common."""

import numpy as np

from core.records import Json
from core.units import MILLISECOND_NS, duration_ns
from harness.experiment import CALIBRATED, RunSpec
from paper_figs.light import Data, Frame, Series
from paper_figs.series import in_ms, with_point

LB, SRTM = "lb", "srtm"
SPLIT, IDEAL, CENTRAL, COUNTER = "split", "ideal", "central", "counter"
DIVIDING = ("adaptor", "leases", "throttler")
TALKING = (*DIVIDING, COUNTER)  # every interval
ALONE, GROUPS = 1, 10
NEAR, MIDDLE, FAR = "1ms", "20ms", "100ms"  # round trips
QUICKLY, EACH_SECOND = "100ms", "1s"  # intervals
ROUND = "5s"
JUDGED = 4 / 6  # of a round: studies.distribution.windows.SETTLE
FLOOR_MS = 0.01  # logarithms of waits take less for this
FACTORS = {
    "sharing": "study.sharing",
    "group_size": "workload.group_size",
    "rtt_ms": "study.rtt",
    "interval_ms": "study.interval",
}
CELL = ["group_size", "rtt_ms", "interval_ms"]


def point(placement: str, sharing: str, group_size: int, rtt: str, interval: str) -> RunSpec:
    """One run; a round trip or interval that does not matter is left out."""
    given = {"rtt": rtt, "interval": interval}
    study: Json = {"envelope": "conformant", "sharing": sharing, **{name: text for name, text in given.items() if text}}
    return RunSpec(
        system=placement,
        workload="poisson",
        workload_options={"publishers": 100, "group_size": group_size},
        topology_options={"brokers": 4},
        calibration="edge",
        slo=CALIBRATED,
        round=ROUND,
        study="sharing",
        study_options=study,
    )


def runs_of(data: Data) -> Frame:
    """A row a run: p99 of latency and access delay, largest debt, bytes of control a message, brokers."""
    from pyspark.sql import functions as f

    from analysis import metrics

    final = metrics.final_round(data.latency_histogram)
    latency, delay, debt = (
        final.where(f.col("metric") == metric) for metric in ("end_to_end_latency", "access_delay", "token_debt")
    )
    owed = debt.groupBy("run_id").agg((f.max("low_ns") / MILLISECOND_NS).alias("debt_ms"))
    sent = data.table("usage").groupBy("run_id").agg(f.sum("sent_bytes").alias("sent_bytes"))
    counted = latency.groupBy("run_id").agg(f.sum("count").alias("message_count"))
    measured = (
        in_ms(latency, {0.99: "p99_ms"}, "run_id")
        .join(in_ms(delay, {0.99: "delay_ms"}, "run_id"), "run_id")
        .join(counted, "run_id")
        .join(metrics.brokers_used(data.decisions), "run_id")
        .join(data.runs.selectExpr("run_id", f"slo_ns / {MILLISECOND_NS} as slo_ms"), "run_id")
        .join(owed, "run_id", "left")
        .join(sent, "run_id", "left")
        .fillna(0.0, ["debt_ms", "sent_bytes"])
    )
    return told(with_point(data, measured, FACTORS))


def told(runs: Frame) -> Frame:
    """The same, of the runs with their options as they were given; what does not matter to a sharing is NaN."""
    runs = runs.assign(
        control_bytes=runs.sent_bytes * JUDGED / runs.message_count,
        **{name: list(map(ms_of, runs[name])) for name in ("rtt_ms", "interval_ms")},
    ).drop(columns=["sent_bytes", "message_count"])
    return runs.sort_values(["system", "sharing", *CELL, "repetition"], ignore_index=True)


def ms_of(text: object) -> float:
    """A span in ms; NaN where none was given."""
    return duration_ns(text) / MILLISECOND_NS if isinstance(text, str) else float("nan")


def logs(values: Series) -> Series:
    """Doublings, of what is at least ``FLOOR_MS``."""
    doublings: Series = np.log2(values.clip(lower=FLOOR_MS))
    return doublings
