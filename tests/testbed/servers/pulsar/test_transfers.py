"""Topics moved while real clients use them: all land, and nothing acknowledged is lost, even where a broker dies."""

import numpy as np
import pytest

from testbed.servers.pulsar.admin import Topic
from testbed.servers.pulsar.cluster import PulsarCluster
from testbed.servers.pulsar.transfers import AROUND_NS, SeenByClients, Transfer, longest_gap_ns
from testbed.servers.pulsar.trial import Transferred, TransferTrial
from testbed.trust.accounts import ABSENT
from tests.live import needs
from tests.pulsar_cluster import CLIENTS, NETWORK

MS = 1_000_000
A, B = Topic("t", "a", "x"), Topic("t", "b", "x", persistent=False)


def columns(*rows: tuple[int, ...], names: str) -> dict[str, np.ndarray]:
    table = np.array(rows, np.int64).reshape(-1, len(names.split()))
    return {name: table[:, number] for number, name in enumerate(names.split())}


def seen(sent: list[tuple[int, int, int]], got: list[tuple[int, int, int]]) -> SeenByClients:
    """``sent``: topic, message, acknowledged at, ms; ``got``: topic, message, received at, ms."""
    named = "topic message acknowledged_at_ns", "topic message received_at_ns"
    times = [
        [(*row[:2], row[2] * MS if row[2] != ABSENT else ABSENT) for row in sent],
        [(*row[:2], row[2] * MS) for row in got],
    ]
    return SeenByClients([A, B], *(columns(*rows, names=names) for rows, names in zip(times, named, strict=True)))


def test_what_was_acknowledged_and_never_came_is_lost_and_what_came_twice_is_a_duplicate() -> None:
    shown = seen(
        [(0, 0, 1), (0, 1, 2), (0, 2, ABSENT), (1, 0, 1), (1, 1, 2)],
        [(0, 0, 2), (0, 1, 3), (0, 0, 4), (1, 0, 2)],
    )
    told = Transferred([], shown).told()
    assert told["persistent"] == {"sent": 3, "lost": 0, "unacknowledged": 1, "duplicates": 1, "gap_ms": {}}
    assert told["non-persistent"] == {"sent": 2, "lost": 1, "unacknowledged": 0, "duplicates": 0, "gap_ms": {}}
    assert told["out_of_order"] == 0 and told["landed"] == told["asked"] == 0
    assert seen([(0, 0, 1), (0, 1, 1)], [(0, 1, 2), (0, 0, 3)]).out_of_order() == 1


def test_a_gap_is_the_longest_time_without_a_delivery_around_a_move() -> None:
    shown = seen([], [(0, 0, 990), (1, 0, 1050), (0, 1, 1000), (0, 2, 1130), (0, 3, 1140), (0, 4, 9000)])
    moved = Transfer(A, "s", "t", 1005 * MS, 1080 * MS, "t")
    assert shown.gap_ns(moved) == 7860 * MS, "the next delivery ends a gap, however late it is"
    assert shown.gap_ns(moved._replace(topic=B)) == 30 * MS + AROUND_NS, "nothing came after 1050"
    assert longest_gap_ns(np.array([5, 8]), 10, 30) == 22 and longest_gap_ns(np.array([], np.int64), 10, 30) == 20
    assert moved.landed and not moved._replace(owner="s").landed and not moved._replace(target="", owner="").landed


@needs("pulsar", *NETWORK)
@pytest.mark.long
@pytest.mark.slow
def test_transfers_land_and_a_broker_that_dies_loses_nothing_that_was_acknowledged(cluster: PulsarCluster) -> None:
    trial, count = TransferTrial(cluster, CLIENTS, 8), 32
    moved = trial.carry_out(count, 8, rate_rps=20, pause_s=0.5, kill=True)
    before = moved.transfers[: count // 2]
    assert all(one.landed and not one.problem and one.source != one.target for one in before)
    told, dead = moved.told(), cluster.node_of(moved.victim)
    assert [node for node, process in cluster.processes if not process.alive] == [dead]
    assert {cluster.admin.owner_of(topic) for topic in trial.topics} <= {*cluster.brokers} - {moved.victim}
    assert told["persistent"]["sent"] > 400 and told["non-persistent"]["sent"] > 400
    assert told["persistent"]["lost"] == told["persistent"]["unacknowledged"] == 0
    cluster.start([dead])
    cluster.wait()
    assert cluster.admin.alive() == sorted(cluster.brokers)
