"""Latency of topics over time, second by second, and its excursions above the bound (ePulsar, Figs. 8 and 9)."""

from collections.abc import Iterable
from typing import NamedTuple

from analysis.spark import collect
from core.units import MILLISECOND_NS, SECOND_NS
from paper_figs.light import Data, Frame

AFTER_HANDOVER_S = 2.0  # an excursion that a handover causes begins within so much
AFTER_MIGRATION_S = 5.0  # and ends within so much of the migration that it causes


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
    spells = data.table("ownership").select(
        "run_id", "topic", "broker", at_s.alias("at_s"), duration_s.alias("duration_s")
    )
    return collect(spells, ["run_id", "at_s", "topic", "broker"])


def clients(data: Data, *kinds: str) -> Frame:
    """What clients did, of these kinds: run_id, at_s, kind, client, topic, role, site."""
    from pyspark.sql import functions as f

    at_s = (f.col("at_ns") / SECOND_NS).alias("at_s")
    mine = data.table("clients").where(f.col("kind").isin(*kinds))
    order = ["run_id", "at_s", "kind", "client", "topic", "role"]
    return collect(mine.select("run_id", at_s, "kind", "client", "topic", "role", "site"), order)


class Excursion(NamedTuple):
    """Seconds in a row in which messages of a topic were late: from the first, up to the one after the last."""

    start_s: float
    end_s: float


def excursions(late: Iterable[tuple[int, float]], until_s: int) -> list[Excursion]:
    """Of ``late``, seconds and counts of late messages in order; what lasts to the end of the run is left out."""
    spells: list[Excursion] = []
    start, last = None, -1
    for second, count in late:
        if count > 0:
            if start is not None and second > last + 1:
                spells.append(Excursion(start, last + 1))
                start = None
            start, last = (second if start is None else start), second
        elif start is not None:
            spells.append(Excursion(start, last + 1))
            start = None
    if start is not None and last + 1 < until_s:
        spells.append(Excursion(start, last + 1))
    return spells


def starts_at(excursion: Excursion, changes_s: Iterable[float]) -> bool:
    """Whether one of ``changes_s`` came just before it began, or in its first second."""
    return any(excursion.start_s - AFTER_HANDOVER_S <= at_s < excursion.start_s + 1 for at_s in changes_s)


def ends_after(excursion: Excursion, migrations_s: Iterable[float], handovers_s: Iterable[float]) -> bool:
    """Whether a migration, or a handover that undoes the first, came in it or just before its end."""
    changes = [*migrations_s, *(at_s for at_s in handovers_s if at_s > excursion.start_s + 1)]
    return any(excursion.end_s - AFTER_MIGRATION_S <= at_s <= excursion.end_s for at_s in changes)
