"""Latency of topics over time, second by second, and its excursions above the bound (ePulsar, Figs. 8 and 9)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from core.units import MILLISECOND_NS, SECOND_NS

if TYPE_CHECKING:
    from paper_figs.kinds import Data, Frame

METRICS = (
    "message_count",
    "late_count",
    "lost_count",
    "pair_count",
    "late_pair_count",
    "latency_max_ns",
    "latency_mean_ns",
)
AFTER_HANDOVER_S = 2.0  # an excursion that a handover causes begins within so much
AFTER_MIGRATION_S = 5.0  # and ends within so much of the migration that it causes


def windows(data: "Data") -> "Frame":
    """A row a run, topic and second: run_id, topic, second, ``METRICS`` and max_ms, mean_ms."""
    from pyspark.sql import functions as f

    from analysis.spark import collect

    mine = data.samples.where(f.col("metric").isin(*METRICS)).withColumnRenamed("node", "topic")
    by_second = mine.withColumn("second", (f.col("at_ns") / SECOND_NS).cast("int"))
    key = ["run_id", "topic", "second"]
    nodes = by_second.groupBy(*key).pivot("metric", list(METRICS)).agg(f.first("value"))
    seconds = collect(nodes.where(f.col("pair_count").isNotNull()), key)  # live brokers count messages, too
    for name in ("max", "mean"):
        seconds[f"{name}_ms"] = seconds[f"latency_{name}_ns"] / MILLISECOND_NS
    return seconds.drop(columns=["latency_max_ns", "latency_mean_ns"])


def events(data: "Data", *kinds: str) -> "Frame":
    """Decisions of these kinds: run_id, kind, at_s, duration_s and the words of the note, first, second, third."""
    from pyspark.sql import functions as f

    from analysis.spark import collect

    columns = ("run_id", "at_ns", "kind", "note")
    mine = data.decisions.where(f.col("kind").isin(*kinds)).select(*columns, "duration_ns")
    changes = collect(mine, columns)
    words = changes.note.str.split(" ", expand=True).reindex(columns=range(3))
    for i, name in enumerate(("first", "second", "third")):
        changes[name] = words[i]
    changes["at_s"], changes["duration_s"] = changes.at_ns / SECOND_NS, changes.duration_ns / SECOND_NS
    return changes.drop(columns=["at_ns", "duration_ns", "note"])


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
