"""The compiled kernels against their plain twins."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.histogram import bucket_index
from core.records import Block, Envelope, Population
from systems.parts.token_bucket import TOKEN
from testbed.brokers.model import load_calibration
from testbed.virtual.fleet import Fleet
from tests.testbed.virtual.broker_twin import BrokerTwin

MODEL = load_calibration("srtm-paper")


class Recorded:
    """A schedule made of given emissions (instant, publisher, count)."""

    def __init__(self, rows, publishers: int):
        rows = sorted(rows)
        self.at_ns = np.array([row[0] for row in rows], np.int64)
        self.publisher = np.array([row[1] for row in rows], np.int32)
        self.count = np.array([row[2] for row in rows], np.int32)
        self.population = Population(np.full(publishers, 10.0), np.arange(publishers, dtype=np.int32))

    def block(self, start_ns: int, end_ns: int) -> Block:
        a, b = np.searchsorted(self.at_ns, [start_ns, end_ns])
        return Block(self.at_ns[a:b], self.publisher[a:b], self.count[a:b])


emissions = st.lists(
    st.tuples(st.integers(0, 700_000_000), st.integers(0, 3), st.integers(1, 12)), min_size=1, max_size=150
)


@settings(max_examples=60, deadline=None)
@given(emissions, emissions, st.booleans(), st.floats(1, 40), st.floats(50, 30_000), st.integers(0, 4), st.booleans())
def test_kernel_equals_twin_message_by_message(topic_rows, other_rows, read_time, burst, rate_rps, quantum, drop):
    model = replace(MODEL, read_time_stamps=read_time)
    schedule, other = Recorded(topic_rows, 4), Recorded(other_rows, 4)
    fleet = Fleet(model, "topic", schedule, [other, None], journal_rows=4_000, drop=drop)
    fleet.move(np.array([0, 0, 1, -1], np.int32))
    fleet.state.quantum[:] = max(1, quantum * TOKEN)
    buckets = [Envelope(rate_rps, burst), Envelope(rate_rps / 2, max(1.0, burst / 2))]
    twins = [BrokerTwin(model, bucket, quantum=max(1, quantum * TOKEN), drop=drop) for bucket in buckets]
    for broker, bucket in enumerate(buckets):
        fleet.set_bucket(broker, bucket, full=True)
    fleet.record(0, 600_000_000)
    fleet.advance(1_000_000_000)
    assert fleet.now_ns == 1_000_000_000

    expected, others = [], sorted(other_rows)
    latencies: list[tuple[int, int]] = []
    for at_ns, publisher, count in sorted(topic_rows):
        if publisher == 3:
            continue
        broker = 0 if publisher < 2 else 1
        while broker == 0 and others and others[0][0] <= at_ns:
            twins[0].other(others[0][0], others.pop(0)[2])
        before = twins[broker].dropped_count
        for message in twins[broker].emission(at_ns, count):
            expected.append(
                (broker, publisher, at_ns, message.stamped_at_ns, message.released_at_ns, message.received_at_ns)
            )
            if at_ns < 600_000_000:
                latencies.append((broker, message.received_at_ns - at_ns))
        if at_ns >= 600_000_000:
            twins[broker].dropped_count = before  # only recorded messages are counted
    assert fleet.state.dropped_count.tolist() == [twin.dropped_count for twin in twins]
    found = fleet.messages()
    columns = ("broker", "publisher", "intended_at_ns", "arrived_at_ns", "released_at_ns", "received_at_ns")
    assert list(zip(*(found[name].tolist() for name in columns), strict=True)) == expected
    for broker in (0, 1):
        own = np.array([latency for b, latency in latencies if b == broker], np.int64)
        counts = np.bincount(bucket_index(own), minlength=fleet.state.latency.shape[1])
        assert (fleet.state.latency[broker] == counts).all()


@settings(max_examples=40, deadline=None)
@given(emissions, emissions)
def test_the_other_topics_latency_is_counted_where_it_is_asked_for(topic_rows, other_rows):
    schedule, others = Recorded(topic_rows, 4), [Recorded(other_rows, 4), Recorded(other_rows[:3], 4)]
    fleets = []
    for residents in (True, False):
        fleets.append(Fleet(MODEL, "topic", schedule, others))
        fleets[-1].restart(0, residents)
        fleets[-1].move(np.zeros(4, np.int32))
        fleets[-1].set_bucket(0, Envelope(1_000.0, 10.0), full=True)
        fleets[-1].record(0, 600_000_000)
        fleets[-1].advance(500_000_000)
        fleets[-1].advance(1_000_000_000)
    watched, plain = (fleet.state for fleet in fleets)
    assert (watched.latency == plain.latency).all() and plain.resident_latency.size == 0
    twin, latencies = BrokerTwin(MODEL, Envelope(1_000.0, 10.0)), []
    rows = [(at_ns, 0, count) for at_ns, _, count in sorted(other_rows)]
    rows += [(at_ns, 1, count) for at_ns, _, count in sorted(topic_rows)]
    rows.sort(key=lambda row: row[:2])  # at one instant the others come first
    for at_ns, own, count in rows:
        if own:
            twin.emission(at_ns, count)
        else:
            latencies += [got - at_ns for got in twin.other(at_ns, count) if at_ns < 600_000_000]
    counts = np.bincount(bucket_index(np.array(latencies, np.int64)), minlength=watched.latency.shape[1])
    assert (watched.resident_latency[0] == counts).all()
    assert watched.resident_latency[1].sum() == sum(count for at_ns, _, count in other_rows[:3] if at_ns < 600_000_000)


def test_advancing_in_pieces_changes_nothing():
    rng = np.random.default_rng(3)
    rows = [
        (int(at), int(p), 3)
        for at, p in zip(rng.integers(0, 2_000_000_000, 4_000), rng.integers(0, 4, 4_000), strict=True)
    ]
    results = []
    for cuts in ((), (1, 333_333_333, 333_333_334, 1_999_999_999)):
        fleet = Fleet(MODEL, "topic", Recorded(rows, 4), [Recorded(rows[::3], 4), None], journal_rows=20_000)
        fleet.move(np.array([0, 1, 0, 1], np.int32))
        for broker in (0, 1):
            fleet.set_bucket(broker, Envelope(3_500.0, 20.0), full=True)
        for cut in (*cuts, 2_500_000_000):
            fleet.advance(cut)
        results.append(fleet.messages()["received_at_ns"])
    assert (results[0] == results[1]).all()


def test_a_new_bucket_keeps_the_tokens_and_cuts_them():
    fleet = Fleet(MODEL, "topic", Recorded([(0, 0, 1)], 4), [None])
    fleet.set_bucket(0, Envelope(10.0, 8.0), full=True)
    fleet.set_bucket(0, Envelope(20.0, 4.0))
    assert fleet.state.level[0] == fleet.state.capacity[0] == 4 * 10**12
    fleet.set_bucket(0, Envelope(20.0, 8.0))
    assert fleet.state.level[0] == 4 * 10**12


def test_reports_count_messages_and_unfinished_work():
    fleet = Fleet(MODEL, "topic", Recorded([(0, 0, 10), (500_000_000, 1, 2)], 4), [None, None])
    fleet.move(np.array([0, 0, 1, 1], np.int32))
    fleet.set_bucket(0, Envelope(1_000.0, 4.0), full=True)
    fleet.advance(1_000_000_000)
    first, second = fleet.report()
    assert (first.rate_rps, second.rate_rps) == (12.0, 0.0)
    assert first.backlog_count == pytest.approx(10.0) and first.waiting_count == 6.0
    assert fleet.report()[0].backlog_count == 0.0
