"""The study of topics that come and go: each is searched a place beside those that are there."""

from collections.abc import Iterator, Sequence

import numpy as np

from collectors.histogram import bucket_bounds
from core.records import Columns, Int64
from core.units import SECOND_NS, duration_ns
from studies.api import Journal, Point, Study, expected_s
from studies.distribution.study import deployed, fits
from studies.distribution.study import journal as distribution_journal
from studies.spec import RunSpec
from studies.tables import columns, histogram_rows
from studies.topics.asked import Churned, Churning, Config, Stay, coming
from systems.loader import load_system
from workloads.api import Offer

SECONDS_PER_MESSAGE, SECONDS_PER_ROUND = 150e-9, 0.005
RATE_RPS = 10.0  # of a publisher, unless the workload says otherwise


def asked(point: Point, config: Config) -> Churning:
    """What is asked of the testbed."""
    told = deployed(point, config, duration_ns(config.duration))
    topics = tuple(coming(point, config, told.slo_ns))
    duration, window = duration_ns(config.duration), duration_ns(config.window)
    search = {"system": point.system, "config": point.system_config}
    return Churning(**vars(told), **search, topics=topics, duration_ns=duration, window_ns=window)


def journal(point: Point, asked: Churning, shown: Churned) -> Journal:
    """The tables of a run: who came and left, who had whom, searches, and what residents' messages took."""
    searches = [
        distribution_journal(point, asked.search_for(stay.topic), stay.search).tables["decisions"]
        for stay in shown.stays
        if stay.search is not None
    ]
    tables: dict[str, Columns] = {
        "clients": columns(("at_ns", "client", "topic", "role", "kind", "site"), _comings(asked, shown.stays)),
        "ownership": columns(("topic", "broker", "start_ns", "end_ns"), _owned(asked, shown.stays)),
        "decisions": {name: [row for rows in searches for row in rows[name]] for name in (searches or [{}])[0]},
        "topic_windows": _windows(asked, shown),
        "topic_latency": _latency(shown),
        "latency_histogram": histogram_rows({"end_to_end_latency": shown.broker_latency}),
    }
    return Journal(tables)


def _comings(asked: Churning, stays: Sequence[Stay]) -> Iterator[tuple[object, ...]]:
    """Rows of ``clients``: a topic's publishers come, and leave or are refused; both within the run."""
    for topic in asked.topics:
        yield topic.arrives_ns, topic.name, topic.name, "producer", "joined", None
    for stay in stays:
        if stay.left_ns < asked.duration_ns:
            yield stay.left_ns, stay.topic.name, stay.topic.name, "producer", "left", None


def _owned(asked: Churning, stays: Sequence[Stay]) -> Iterator[tuple[object, ...]]:
    """Rows of ``ownership``: which brokers had a topic that was admitted, and from when until when."""
    for stay in stays:
        if stay.admitted_ns is not None and stay.assignment is not None and stay.admitted_ns < asked.duration_ns:
            for broker in np.unique(stay.assignment):
                yield stay.topic.name, asked.names[broker], stay.admitted_ns, min(stay.left_ns, asked.duration_ns)


def _windows(asked: Churning, shown: Churned) -> Columns:
    """Columns of ``topic_windows``: every message has one consumer, and comes."""
    topic, window = np.nonzero(shown.message_count)
    count, late = shown.message_count[topic, window], shown.late_count[topic, window]
    return {
        "at_ns": window * asked.window_ns, "topic": [asked.topics[number].name for number in topic.tolist()],
        "message_count": count, "late_count": late, "lost_count": np.zeros_like(count),
        "pair_count": count, "late_pair_count": late,
    }  # fmt: skip


def _latency(shown: Churned) -> Columns:
    """Columns of ``topic_latency``: of a topic's whole residence."""
    low_ns, high_ns = bucket_bounds()
    topic, bucket = np.nonzero(shown.latency)
    admitted_ns: Int64 = np.array([stay.admitted_ns or 0 for stay in shown.stays], np.int64)
    names = [stay.topic.name for stay in shown.stays]
    return {
        "at_ns": admitted_ns[topic], "topic": [names[number] for number in topic.tolist()],
        "low_ns": low_ns[bucket], "high_ns": high_ns[bucket], "count": shown.latency[topic, bucket],
    }  # fmt: skip


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Messages of the topics that are there on average, and the rounds of searches."""
    assert not real_time, "it has no live body"
    told = Config(**spec.study_options)
    seconds, life_s = expected_s(spec, Config, "duration"), duration_ns(told.life) / SECOND_NS
    topics = seconds * SECOND_NS / duration_ns(told.gap)
    rate_rps = sum(told.publishers) / len(told.publishers) * float(spec.workload_options.get("rate_rps", RATE_RPS))
    rounds = topics * load_system(spec.system).round_count
    return topics * min(life_s, seconds) * rate_rps * SECONDS_PER_MESSAGE + rounds * SECONDS_PER_ROUND


STUDY = Study(
    "topics",
    "topics that come, are searched a place beside others, stay, and leave",
    Config,
    asked,
    journal,
    expected_seconds,
    fits,
    Offer.MESSAGES,
    virtual="studies.topics.virtual",
)
