"""A placement run's rows: windows against a plain twin, clients, messages, each in columns of its own."""

from collections import defaultdict

import numpy as np
import pytest

from collectors.histogram import bucket_index
from collectors.schema import TABLES
from core.clients import Joined, Left, Moved, Role
from core.seeds import generator
from studies.placement.asked import Recorded
from studies.placement.tables import client_rows, latency_rows, message_rows, window_rows
from systems.placement.messages import Create, Done, Noted, Release
from testbed.virtual.topic_kernel import Fate

WINDOW_NS = 1_000


def random_fate(seed: int, count: int = 200) -> Fate:
    rng = generator(seed, "fate")
    born_ns = np.sort(rng.integers(0, 8 * WINDOW_NS, count))
    latency_ns = np.where(rng.random(count) < 0.1, -1, rng.integers(0, 100_000, count))
    consumers = rng.integers(1, 5, count)
    return Fate(born_ns, latency_ns, rng.integers(0, consumers + 1), consumers)


def rows_of(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("seed", [1, 2])
def test_windows_and_their_histograms_are_those_of_the_twin(seed):
    fates = {"a": random_fate(seed), "nobody": random_fate(seed, 0), "b": random_fate(seed + 10, 3)}
    counts, buckets = defaultdict(lambda: [0] * 5), defaultdict(int)
    for topic, fate in fates.items():
        for born_ns, latency_ns, late, consumers in zip(*(column.tolist() for column in fate), strict=True):
            at_ns = born_ns // WINDOW_NS * WINDOW_NS
            told = (1, late > 0, latency_ns < 0, consumers, late)
            counts[topic, at_ns] = [value + more for value, more in zip(counts[topic, at_ns], told, strict=True)]
            if latency_ns >= 0:
                buckets[topic, at_ns, int(bucket_index([latency_ns])[0])] += 1
    found = window_rows(fates, WINDOW_NS)
    assert set(found) | {"run_id"} == set(TABLES["topic_windows"].names)
    names = ("message_count", "late_count", "lost_count", "pair_count", "late_pair_count")
    assert {(row["topic"], row["at_ns"]): [row[name] for name in names] for row in rows_of(found)} == counts
    latencies = latency_rows(fates, WINDOW_NS)
    assert set(latencies) | {"run_id"} == set(TABLES["topic_latency"].names)
    ours = {(row["topic"], row["at_ns"], int(bucket_index([row["low_ns"]])[0])): row["count"]
            for row in rows_of(latencies)}  # fmt: skip
    assert ours == buckets and all(row["low_ns"] < row["high_ns"] for row in rows_of(latencies))


def test_without_a_topic_there_are_no_rows():
    assert all(len(column) == 0 for column in window_rows({}, WINDOW_NS).values())
    assert all(len(column) == 0 for column in latency_rows({}, WINDOW_NS).values())


def test_what_clients_did():
    happenings = [Joined(0, "c", "t", Role.CONSUMER), Moved(5, "c", 3), Left(9, "c", "t", Role.PRODUCER)]
    columns = client_rows(happenings)
    assert ["run_id", *columns] == TABLES["clients"].names
    assert [tuple(row.values()) for row in rows_of(columns)] == [
        (0, "c", "t", "consumer", "joined", None),
        (5, "c", None, None, "handover", 3),
        (9, "c", "t", "producer", "left", None),
    ]


def test_what_messages_are_about():
    columns = message_rows([
        Recorded(1, "manager1", "sent", "broker1", Release("unit", "broker2")),
        Recorded(2, "broker2", "sent", "store", Create(7, "/owner/unit", "broker2")),
        Recorded(3, "broker2", "got", "store", Done(7, True)),
        Recorded(4, "client", "got", "broker2", Noted()),
    ])  # fmt: skip
    assert ["run_id", *columns] == TABLES["control_messages"].names
    assert [tuple(row.values()) for row in rows_of(columns)] == [
        (1, "manager1", "sent", "broker1", "Release", "unit", "broker2", None),
        (2, "broker2", "sent", "store", "Create", "/owner/unit", "broker2", 7),
        (3, "broker2", "got", "store", "Done", None, None, 7),
        (4, "client", "got", "broker2", "Noted", None, None, None),
    ]
