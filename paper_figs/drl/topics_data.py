"""What the runs of study ``topics`` show, for drl-topics: a row a topic, a run, a window above the SLO."""

from analysis.tables import collect
from core.units import SECOND_NS
from paper_figs.light import Column, Data, Frame
from paper_figs.series import joined, with_point

LATE_SHARE = 0.01  # of a topic's messages above its SLO: its p99 is
FACTORS = {"gap": "study.gap", "sharing": "study.sharing", "life_kind": "study.life_kind"}
WINDOW_S = 10
NAMED = ["run_id", "system", *FACTORS, "repetition"]


def stays_of(data: Data, early_s: int) -> Frame:
    """A row a topic that came: ``number`` (in the order of arrival, from 0), ``arrived_s``; ``is_refused``.

    Where it was admitted ``start_s``, ``end_s``, ``broker_count``, and counts of its messages and windows, late ones
    and those of the first ``early_s`` seconds.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    came, left = (
        data.table("clients")
        .where(f.col("kind") == kind)
        .select("run_id", "topic", (f.col("at_ns") / SECOND_NS).alias(at))
        for kind, at in (("joined", "arrived_s"), ("left", "left_s"))
    )
    owned = (
        data.table("ownership")
        .groupBy("run_id", "topic")
        .agg(f.min("start_ns").alias("start_ns"), f.max("end_ns").alias("end_ns"), f.count("*").alias("broker_count"))
    )
    windows = data.table("topic_windows").join(owned.select("run_id", "topic", "start_ns"), ["run_id", "topic"])
    early = f.col("at_ns") < f.col("start_ns") + early_s * SECOND_NS
    counts = windows.groupBy("run_id", "topic").agg(
        f.sum("message_count").alias("message_count"),
        f.sum("late_count").alias("late_count"),
        f.count("*").alias("window_count"),
        f.sum(_is_late().cast("int")).alias("late_window_count"),
        f.sum(f.when(early, f.col("message_count"))).alias("early_count"),
        f.sum(f.when(early, f.col("late_count"))).alias("early_late_count"),
    )
    spans = [(f.col(f"{end}_ns") / SECOND_NS).alias(f"{end}_s") for end in ("start", "end")]
    each = (
        came.join(left, ["run_id", "topic"], "left")
        .join(owned.select("run_id", "topic", "start_ns", *spans, "broker_count"), ["run_id", "topic"], "left")
        .join(counts, ["run_id", "topic"], "left")
        .withColumn("is_refused", f.col("left_s").isNotNull() & f.col("start_ns").isNull())
        .withColumn("number", f.row_number().over(Window.partitionBy("run_id").orderBy("arrived_s")) - 1)
    )
    stays = with_point(data, each.drop("start_ns", "left_s"), FACTORS)
    return stays.sort_values([*NAMED[1:], "number"], ignore_index=True)


def _is_late() -> Column:
    from pyspark.sql import functions as f

    return f.col("late_count") > LATE_SHARE * f.col("message_count")


def runs_of(data: Data, stays: Frame) -> Frame:
    """A row a run: shares of topics that missed, were spoilt, ever had a late window, or were refused, and of windows
    that were late; means of brokers, rounds and waits.
    """
    from pyspark.sql import functions as f

    admitted = stays[stays.message_count.notna()]
    missed = (admitted.late_count > LATE_SHARE * admitted.message_count).astype(float)
    kept = admitted.early_late_count <= LATE_SHARE * admitted.early_count
    wait_s, ever = admitted.start_s - admitted.arrived_s, (admitted.late_window_count > 0).astype(float)
    told = admitted.assign(missed=missed, spoilt=missed.where(kept), ever=ever, wait=wait_s)
    by_run = told.groupby(NAMED, sort=True)
    sums = by_run[["late_window_count", "window_count"]].sum()
    runs = by_run.agg(
        missed_share=("missed", "mean"),
        spoilt_share=("spoilt", "mean"),
        broker_count=("broker_count", "mean"),
        wait_s=("wait", "mean"),
        ever_share=("ever", "mean"),
        topic_count=("topic", "count"),
    )
    runs = runs.assign(
        late_share=sums.late_window_count / sums.window_count,
        refused_share=stays.groupby(NAMED).is_refused.mean(),
    ).reset_index()
    trials = data.decisions.where(f.col("kind") == "trial").groupBy("run_id")
    runs = joined(runs, trials.agg(f.countDistinct("at_ns").alias("trial_count")))
    return runs.assign(round_count=runs.trial_count.fillna(0) / runs.topic_count).drop(columns="trial_count")


def windows_of(data: Data, stays: Frame) -> Frame:
    """The windows above the SLO of these topics: ``number``, ``from_s``, ``until_s``."""
    from pyspark.sql import functions as f

    late = data.table("topic_windows").where(_is_late() & f.col("run_id").isin(list(set(stays.run_id))))
    windows = collect(
        late.select("run_id", "topic", (f.col("at_ns") / SECOND_NS).alias("at_s")), ["run_id", "topic", "at_s"]
    )
    rows = windows.merge(stays, on=["run_id", "topic"])
    rows = rows.assign(from_s=rows[["at_s", "start_s"]].max(axis=1), until_s=(rows.at_s + WINDOW_S))
    rows["until_s"] = rows[["until_s", "end_s"]].min(axis=1)
    return rows[["run_id", "system", "sharing", "number", "from_s", "until_s"]]
