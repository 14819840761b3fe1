"""Latency of topics over time, second by second, and its excursions above the bound (ePulsar, Figs. 8 and 9)."""

from collections.abc import Iterable
from itertools import groupby
from math import inf
from typing import NamedTuple

from analysis.tables import collect
from core.units import MILLISECOND_NS, SECOND_NS
from paper_figs.light import Data, Frame

AFTER_HANDOVER_S = 2.0  # an excursion that a handover causes begins within so much
AFTER_MIGRATION_S = 5.0  # and ends within so much of the migration that it causes
UNFINISHED_S = 10.0  # ours: what began so shortly before the end of the run may yet have ended as it should


def windows(data: Data) -> Frame:
    """A row a run, topic and second: run_id, topic, second, ``analysis.placement.COUNTS``, mean_ms, max_ms."""
    from pyspark.sql import functions as f

    from analysis.placement import COUNTS, topic_windows

    every = topic_windows(data.table("topic_windows"), data.table("topic_latency"))
    key = ["run_id", "topic", "second"]
    spans = [(f.col(f"{name}_ns") / MILLISECOND_NS).alias(f"{name}_ms") for name in ("max", "mean")]
    second = (f.col("at_ns") / SECOND_NS).cast("int").alias("second")
    return collect(every.select("run_id", "topic", second, *COUNTS, *spans), key)


def owned(data: Data) -> Frame:
    """Spans of ownership, by start: run_id, topic, broker, at_s, duration_s."""
    from pyspark.sql import functions as f

    at_s, duration_s = f.col("start_ns") / SECOND_NS, (f.col("end_ns") - f.col("start_ns")) / SECOND_NS
    spans = at_s.alias("at_s"), duration_s.alias("duration_s")
    return collect(
        data.table("ownership").select("run_id", "topic", "broker", *spans), ["run_id", "at_s", "topic", "broker"]
    )


def clients(data: Data, *kinds: str) -> Frame:
    """What clients did, of these kinds: run_id, at_s, kind, client, topic, role, site."""
    from pyspark.sql import functions as f

    at_s = (f.col("at_ns") / SECOND_NS).alias("at_s")
    mine = data.table("clients").where(f.col("kind").isin(*kinds))
    order = ["run_id", "at_s", "kind", "client", "topic", "role"]
    return collect(mine.select("run_id", at_s, "kind", "client", "topic", "role", "site"), order)


class Excursion(NamedTuple):
    """Seconds in a row in which messages of a topic were late: from the first, up to the one after the last.

    The end is infinite where that is the end of the run.
    """

    start_s: float
    end_s: float


def excursions(late: Iterable[tuple[int, float]], until_s: int) -> list[Excursion]:
    """Of ``late``, seconds and counts of late messages in order; without what the run's end cuts short."""
    seconds = [second for second, count in late if count > 0]
    spells = [list(spell) for _, spell in groupby(enumerate(seconds), lambda each: each[1] - each[0])]
    every = [Excursion(spell[0][1], spell[-1][1] + 1) for spell in spells]
    ended = [one if one.end_s < until_s else one._replace(end_s=inf) for one in every]
    return [one for one in ended if one.end_s < inf or until_s - one.start_s > UNFINISHED_S]


def in_bound(seconds: Frame) -> dict[str, float]:
    """Of rows of ``windows``, the shares of seconds without a late message (``in_bound``), and of messages."""
    late_share = float(seconds.late_count.sum() / seconds.message_count.sum())
    return {"in_bound": float((seconds.late_count == 0).mean()), "messages_in_bound": 1.0 - late_share}


def starts_at(excursion: Excursion, changes_s: Iterable[float]) -> bool:
    """Whether one of ``changes_s`` came just before it began, or in its first second."""
    return any(excursion.start_s - AFTER_HANDOVER_S <= at_s < excursion.start_s + 1 for at_s in changes_s)


def ends_after(excursion: Excursion, migrations_s: Iterable[float], handovers_s: Iterable[float]) -> bool:
    """Whether a migration, or a handover that undoes the first, came in it, and not long before its end."""
    changes = [*migrations_s, *(at_s for at_s in handovers_s if at_s > excursion.start_s + 1)]
    since_s = max(excursion.start_s, excursion.end_s - AFTER_MIGRATION_S)
    return any(since_s <= at_s <= excursion.end_s for at_s in changes)
