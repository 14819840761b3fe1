"""What a placement run showed, as rows of its tables.  Pure: from the journal's lists to columns."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from collectors.histogram import BUCKET_COUNT, bucket_bounds, bucket_index
from core.clients import Happening, Joined, Moved
from core.records import Int64
from studies.distribution.study import histogram_rows
from studies.placement.asked import PlacementJournal, Recorded, Spell
from studies.tables import Columns, columns, fault_rows
from systems.placement.messages import Create

if TYPE_CHECKING:
    from testbed.trust.accounts import Fate

_SAMPLE = ("at_ns", "node", "metric", "value")


def tables_of(journal: PlacementJournal, window_ns: int) -> dict[str, dict[str, Any]]:
    """All tables of a run; ``window_ns``: length of the windows of topics."""
    return {
        "samples": columns(_SAMPLE, journal.samples),
        "latency_histogram": latencies(journal.fates.values()),
        "topic_windows": window_rows(journal.fates, window_ns),
        "topic_latency": latency_rows(journal.fates, window_ns),
        "ownership": columns(Spell._fields, journal.spells),
        "clients": client_rows(journal.happenings),
        "faults": fault_rows(journal.faults),
        "control_messages": message_rows(journal.messages),
    }


def latencies(fates: "Iterable[Fate]") -> dict[str, Any]:
    """Columns of ``latency_histogram``: of all messages that all their consumers got."""
    latency_ns = np.concatenate([np.zeros(0, np.int64), *(fate.latency_ns for fate in fates)])
    counts = np.bincount(bucket_index(latency_ns[latency_ns >= 0]), minlength=BUCKET_COUNT)
    return histogram_rows(0, {"end_to_end_latency": counts[np.newaxis]})


def window_rows(fates: "Mapping[str, Fate]", window_ns: int) -> dict[str, Any]:
    """Columns of ``topic_windows``: counts of each topic by window of the messages' births."""
    names = ("at_ns", "message_count", "late_count", "lost_count", "pair_count", "late_pair_count")
    parts: list[list[Int64]] = []
    topics: list[str] = []
    for topic, fate in fates.items():
        window = fate.born_ns // window_ns
        starts = np.flatnonzero(np.diff(window, prepend=-1))
        if not len(starts):
            continue
        counted = (
            np.ones(len(window), np.int64), fate.late_count > 0, fate.latency_ns < 0, fate.consumer_count,
            fate.late_count,
        )  # fmt: skip
        sums = [np.add.reduceat(values.astype(np.int64), starts) for values in counted]
        parts.append([window[starts] * window_ns, *sums])
        topics += [topic] * len(starts)
    return {"topic": topics, **_joined(names, parts)}


def latency_rows(fates: "Mapping[str, Fate]", window_ns: int) -> dict[str, Any]:
    """Columns of ``topic_latency``: histograms of each topic by window of the messages' births, without lost ones."""
    low_ns, high_ns = bucket_bounds()
    parts: list[list[Int64]] = []
    topics: list[str] = []
    for topic, fate in fates.items():
        arrived = fate.latency_ns >= 0
        place = fate.born_ns[arrived] // window_ns * BUCKET_COUNT + bucket_index(fate.latency_ns[arrived])
        places, count = np.unique(place, return_counts=True)
        bucket = places % BUCKET_COUNT
        parts.append([places // BUCKET_COUNT * window_ns, low_ns[bucket], high_ns[bucket], count])
        topics += [topic] * len(places)
    return {"topic": topics, **_joined(("at_ns", "low_ns", "high_ns", "count"), parts)}


def _joined(names: tuple[str, ...], parts: list[list[Int64]]) -> dict[str, Int64]:
    return {name: np.concatenate([np.zeros(0, np.int64), *(part[i] for part in parts)]) for i, name in enumerate(names)}


def client_rows(happenings: Iterable[Happening]) -> Columns:
    """Columns of ``clients``: what they did, in the order in which it was told."""
    rows: list[tuple[Any, ...]] = []
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
        fields = vars(message)
        subject = _first(fields, "topic", "unit", "path", "prefix")
        broker = message.value if isinstance(message, Create) else _first(fields, "next_broker", "broker")
        rows.append((at_ns, node, way, peer, type(message).__name__, subject, broker, fields.get("ticket")))
    return columns(("at_ns", "node", "way", "peer", "kind", "subject", "broker", "ticket"), rows)


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if name in fields), None)
