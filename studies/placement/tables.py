"""What a placement run showed, as rows of its tables.  Pure: from the journal's lists to columns."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from msgspec.structs import asdict

from collectors.histogram import BUCKET_COUNT, bucket_bounds, bucket_index
from core.clients import Happening, Joined, Moved
from core.records import Columns, Int64
from core.units import duration_ns
from studies.placement.asked import PlacementJournal, Recorded, Spell, TopicsRequest
from studies.tables import columns, fault_rows, histogram_of, sample_rows
from systems.placement.messages import Create
from testbed.trust.accounts import Fate


def placement_tables(asked: TopicsRequest, shown: PlacementJournal, latency_ns: Int64) -> dict[str, Columns]:
    """Those of every placement; ``latency_ns``: of the messages that the histogram is of."""
    window_ns = duration_ns(asked.rule.window)
    return {
        "samples": sample_rows(shown.samples),
        "latency_histogram": histogram_of("end_to_end_latency", latency_ns),
        "topic_windows": window_rows(shown.fates, window_ns),
        "topic_latency": latency_rows(shown.fates, window_ns),
        "ownership": columns(Spell._fields, shown.spells),
        "clients": client_rows(asked.happenings),
        "faults": fault_rows(shown.faults),
    }


def window_rows(fates: Mapping[str, Fate], window_ns: int) -> Columns:
    """Columns of ``topic_windows``: counts of each topic by window of the messages' births."""

    def windows(fate: Fate) -> list[Int64]:
        window = fate.born_ns // window_ns
        starts = np.flatnonzero(np.diff(window, prepend=-1))
        counted = np.ones(len(window)), fate.late_count > 0, fate.latency_ns < 0, fate.consumer_count, fate.late_count
        return [window[starts] * window_ns, *(np.add.reduceat(each.astype(np.int64), starts) for each in counted)]

    names = ("at_ns", "message_count", "late_count", "lost_count", "pair_count", "late_pair_count")
    return _by_topic(names, fates, windows)


def latency_rows(fates: Mapping[str, Fate], window_ns: int) -> Columns:
    """Columns of ``topic_latency``: histograms of each topic by window of the messages' births, without lost ones."""
    low_ns, high_ns = bucket_bounds()

    def buckets(fate: Fate) -> list[Int64]:
        arrived = fate.latency_ns >= 0
        place = fate.born_ns[arrived] // window_ns * BUCKET_COUNT + bucket_index(fate.latency_ns[arrived])
        places, count = np.unique(place, return_counts=True)
        bucket = places % BUCKET_COUNT
        return [places // BUCKET_COUNT * window_ns, low_ns[bucket], high_ns[bucket], count]

    return _by_topic(("at_ns", "low_ns", "high_ns", "count"), fates, buckets)


def _by_topic(names: tuple[str, ...], fates: Mapping[str, Fate], rows: Callable[[Fate], list[Int64]]) -> Columns:
    parts = [rows(fate) for fate in fates.values()]
    topics = [topic for topic, part in zip(fates, parts, strict=True) for _ in part[0]]
    joined = (np.concatenate([np.zeros(0, np.int64), *(part[i] for part in parts)]) for i in range(len(names)))
    return {"topic": topics, **dict(zip(names, joined, strict=True))}


def client_rows(happenings: Iterable[Happening]) -> Columns:
    """Columns of ``clients``: what they did, in the order in which it was told."""
    rows: list[tuple[object, ...]] = []
    for happening in happenings:
        if isinstance(happening, Moved):
            rows.append((happening.at_ns, happening.client, None, None, "handover", happening.site))
        else:
            kind = "joined" if isinstance(happening, Joined) else "left"
            rows.append((happening.at_ns, happening.client, happening.topic, happening.role.value, kind, None))
    return columns(("at_ns", "client", "topic", "role", "kind", "site"), rows)


def message_rows(messages: Iterable[Recorded]) -> Columns:
    """Columns of ``control_messages``: of each message what it is about, whom it names, and its ticket."""
    rows = []
    for at_ns, node, way, peer, message in messages:
        fields = asdict(message)
        subject = _first(fields, "topic", "unit", "path", "prefix")
        broker = message.value if isinstance(message, Create) else _first(fields, "next_broker", "broker")
        rows.append((at_ns, node, way, peer, type(message).__name__, subject, broker, fields.get("ticket")))
    return columns(("at_ns", "node", "way", "peer", "kind", "subject", "broker", "ticket"), rows)


def _first(fields: Mapping[str, object], *names: str) -> object:
    return next((fields[name] for name in names if name in fields), None)
