"""Many topics on brokers: each as the kernel of one topic has it beside the others' load, and one bucket far away."""

from dataclasses import replace

import numpy as np
import pytest

from collectors.histogram import BUCKET_COUNT, bucket_index, bucket_values
from core.records import Block, Envelope, Int32, Schedule
from core.units import SECOND_NS
from systems.parts import token_bucket
from testbed.brokers.model import load_calibration
from testbed.virtual import released_kernel
from testbed.virtual.cluster import Placed, TopicCluster
from testbed.virtual.fleet import Fleet
from workloads import load

MODEL = load_calibration("srtm-hundredth")
END_NS = 60 * SECOND_NS
ENVELOPES = (Envelope(220.0, 30.0), Envelope(220.0, 90.0))


def topic(seed: int, group_size: int) -> Schedule:
    workload = load("poisson")
    schedule: Schedule = workload.make(
        workload.configure({"publishers": 40, "rate_rps": 5.0, "group_size": group_size}), seed
    )
    return schedule


TOPICS = (topic(1, 1), topic(2, 10))
PLACES: tuple[Int32, Int32] = (np.arange(40, dtype=np.int32) % 2, np.arange(40, dtype=np.int32) // 20)


class Part:
    """What one broker gets of a topic."""

    def __init__(self, schedule: Schedule, place: Int32, broker: int):
        self.schedule, self.here, self.population = schedule, place == broker, schedule.population

    def block(self, start_ns: int, end_ns: int) -> Block:
        block = self.schedule.block(start_ns, end_ns)
        mine = self.here[block.publisher]
        return Block(block.at_ns[mine], block.publisher[mine], block.count[mine])


def cluster_of(*shown: int, until_ns: tuple[int, int] = (END_NS, END_NS), ask_ns: int | None = None) -> TopicCluster:
    """The topics ``shown``, resident from the start; ``ask_ns``: topic 0's bucket is in a store."""
    cluster = TopicCluster(MODEL, 2, np.array([100_000_000, 200_000_000]), 10 * SECOND_NS, END_NS)
    for number in shown:
        whole, place = ENVELOPES[number], Placed(TOPICS[number], PLACES[number], until_ns[number])
        halves = token_bucket.split_bucket(whole, [1.0, 1.0])
        if number == 0 and ask_ns is not None:
            cluster.place(number, place, [whole], ask_ns)
        else:
            cluster.place(number, place, halves)
        cluster.admit(number)
    return cluster


@pytest.mark.parametrize("number", [0, 1])
def test_a_topic_is_what_the_kernel_of_one_topic_says_beside_the_others_load(number: int) -> None:
    cluster, other = cluster_of(0, 1), 1 - number
    cluster.advance(END_NS)
    fleet = Fleet(MODEL, "topic", TOPICS[number], [Part(TOPICS[other], PLACES[other], broker) for broker in (0, 1)])
    fleet.move(PLACES[number])
    for broker, part in enumerate(token_bucket.split_bucket(ENVELOPES[number], [1.0, 1.0])):
        fleet.set_bucket(broker, part, full=True)
    fleet.record(0, END_NS)
    fleet.advance(END_NS)
    ours, theirs = cluster.latency[number], fleet.state.latency.sum(axis=0)
    assert theirs.sum() > 5_000 and (ours == theirs).all()
    assert (cluster.broker_latency.sum(axis=0) == cluster.latency.sum(axis=0)).all()
    assert cluster.message_count[number].sum() == theirs.sum()


def test_others_share_the_cores() -> None:
    alone, beside = cluster_of(0), cluster_of(0, 1)
    for cluster in (alone, beside):
        cluster.advance(END_NS)
    assert alone.message_count[0].tolist() == beside.message_count[0].tolist()
    means = [(one.latency[0] @ bucket_values()) / one.latency[0].sum() for one in (alone, beside)]
    assert means[0] < 0.95 * means[1] and alone.latency[1].sum() == 0


def test_pieces_make_the_whole() -> None:
    whole, pieces = cluster_of(0, 1), cluster_of(0, 1)
    whole.advance(END_NS)
    for at_ns in range(0, END_NS + 1, 777_777_777):
        pieces.advance(at_ns)
    pieces.advance(END_NS)
    for name in ("latency", "broker_latency", "message_count", "late_count"):
        assert (getattr(whole, name) == getattr(pieces, name)).all()


def test_who_leaves_sends_no_more() -> None:
    cluster = cluster_of(0, 1, until_ns=(25 * SECOND_NS, 2 * END_NS))
    cluster.advance(END_NS)
    before = TOPICS[0].block(0, 25 * SECOND_NS).message_count
    assert cluster.message_count[0].sum() == before and list(cluster.placed) == [1]
    assert (cluster.message_count[0] > 0).tolist() == [True] * 3 + [False] * 3


@pytest.mark.parametrize("ask_ns", [0, 20_000_000])
def test_a_store_is_one_bucket_a_round_trip_away(ask_ns: int) -> None:
    cluster = cluster_of(0, ask_ns=ask_ns)
    counts = cluster.measure(0, END_NS, 0, END_NS)
    at_ns = TOPICS[0].block(0, END_NS).at_ns + MODEL.network_ns
    waits_ns = released_kernel.one_bucket(at_ns, 0, *token_bucket.units(ENVELOPES[0])) - at_ns + ask_ns
    wanted = np.bincount(bucket_index(waits_ns), minlength=BUCKET_COUNT)
    assert (counts.access_delay.sum(axis=0) == wanted).all() and (
        counts.latency.sum(axis=0) == cluster.latency[0]
    ).all()


def test_what_is_late_is_above_the_slo_of_its_own_topic() -> None:
    cluster = cluster_of(0, 1)
    cluster.slos_ns = np.array([0, 2**62])
    cluster.advance(END_NS)
    assert (cluster.late_count[0] == cluster.message_count[0]).all() and cluster.late_count[1].sum() == 0


def test_only_residents_count_and_only_until_the_end() -> None:
    cluster = cluster_of(0)
    cluster.place(1, Placed(TOPICS[1], PLACES[1], END_NS), token_bucket.split_bucket(ENVELOPES[1], [1.0, 1.0]))
    counts = cluster.measure(1, 2 * END_NS, 10 * SECOND_NS, 20 * SECOND_NS)
    assert cluster.latency[1].sum() == 0 < cluster.latency[0].sum()
    assert counts.latency.sum() == TOPICS[1].block(10 * SECOND_NS, 20 * SECOND_NS).message_count
    assert cluster.now_ns == 2 * END_NS and cluster.message_count.sum() == TOPICS[0].block(0, END_NS).message_count


def test_publishers_without_a_broker_send_nothing() -> None:
    cluster = cluster_of(1)
    half = replace(cluster.placed[1], assignment=np.where(PLACES[1] == 0, 0, -1).astype(np.int32))
    cluster.place(1, half, [ENVELOPES[1], None])
    cluster.advance(END_NS)
    assert cluster.broker_latency[0].sum() == cluster.latency[1].sum() > 0 == cluster.broker_latency[1].sum()
