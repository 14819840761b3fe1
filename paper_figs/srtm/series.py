"""What Figs. 5 to 9 have in common: one p99 a run, and its summary over the repetitions."""

from collections.abc import Mapping

import numpy as np

from core.units import MILLISECOND_NS, SECOND_NS
from paper_figs.light import Data, Frame
from paper_figs.series import in_ms, with_point
from paper_figs.srtm import published
from paper_figs.srtm.grids import CONFORMANT

SLO_MARGIN = 1.05  # "meets the SLO": the interval of the mean p99 is not above 1.05 x SLO

ENVELOPE_NOTE = (
    "The bucket's size b is the smallest for the very minute that is offered (ours): a b from a recorded trace is off "
    "by tens of percent for traffic this bursty, and the waiting that this causes would hide what distribution adds. "
    f"A margin of {CONFORMANT['margin'] - 1:.0%} is added (footnote 1): on a knife's edge any split is punished."
)


def per_run(data: Data, factors: Mapping[str, str]) -> Frame:
    """One row a run, judged on its fresh round.

    Columns: arrivals, system, repetition, outcome, the ``factors`` (column -> factor's name), p99_ms,
    broker_count, round_count and violation_s (of the search), residual_rps, slo_ms.
    """
    from analysis import metrics

    latency = data.latency_histogram.where("metric = 'end_to_end_latency'")
    rounds = metrics.search_rounds(data.decisions).selectExpr("run_id", "total_round_count as round_count").distinct()
    runs = (
        in_ms(latency, {0.99: "p99_ms"}, "run_id")
        .join(metrics.brokers_used(data.decisions), "run_id")
        .join(metrics.time_in_violation(data.decisions, data.runs), "run_id")
        .selectExpr("*", f"violation_ns / {SECOND_NS} as violation_s")
        .join(metrics.residual_capacity(data.decisions), "run_id")
        .join(rounds, "run_id", "left")
        .join(data.runs.selectExpr("run_id", f"slo_ns / {MILLISECOND_NS} as slo_ms"), "run_id")
        .fillna(0, ["round_count"])
    )
    return with_point(data, runs.drop("violation_ns", "search_ns", "untouched_count"), factors)


def slopes(wide: Frame) -> list[float]:
    """Least-squares slope of each row (a repetition) over its columns' names; none for fewer than two columns."""
    wide = wide.dropna()
    if wide.empty or wide.shape[1] < 2:
        return []
    return [float(slope) for slope in np.polyfit(wide.columns.to_numpy(float), wide.to_numpy(float).T, 1)[0]]


def slo_of(runs: Frame) -> float:
    """The SLO of a figure's runs in ms: the paper's but for the scale small."""
    return float(runs["slo_ms"].iloc[0]) if "slo_ms" in runs and len(runs) else published.SLO_MS


def summary(runs: Frame, by: list[str], value: str = "p99_ms") -> Frame:
    """Over the repetitions of each point: mean and std of ``value``, their ``count``, means of what is drawn beside.

    Those are broker_count, residual_rps, violation_s, round_count and slo_ms.
    """
    groups = runs.groupby(by, sort=False)
    columns = ("broker_count", "residual_rps", "violation_s", "round_count", "slo_ms")
    beside = {name: (name, "mean") for name in columns if name in runs}
    means = groups.agg(mean=(value, "mean"), std=(value, "std"), count=(value, "count"), **beside)
    return means.fillna({"std": 0.0}).reset_index()
