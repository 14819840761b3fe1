"""The peer of the benchmark computes what we compute."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import pipeline
from benchmarks.simpy_peer import SimpyBroker
from core.records import Block, Envelope
from core.units import SECOND_NS
from testbed.brokers.model import load_calibration
from tests.testbed.virtual.broker_twin import BrokerTwin
from workloads import load

MODEL = load_calibration("srtm-paper")
SPAN_NS = SECOND_NS // 20


@pytest.mark.parametrize("case", pipeline.SPLITS, ids=lambda case: case.name)
def test_kernel_and_peer_agree_on_every_benchmarked_load(case):
    pipeline.check_same_answer(case, SPAN_NS)


def test_another_model_is_not_the_same_answer(monkeypatch):
    slower = replace(MODEL, pump_ns=2 * MODEL.pump_ns)
    monkeypatch.setattr(pipeline, "SimpyBroker", lambda _, bucket: SimpyBroker(slower, bucket))
    with pytest.raises(AssertionError, match="p99"):
        pipeline.check_same_answer(pipeline.SPLITS[4], SPAN_NS)


def test_what_it_takes_to_make_the_load_is_on_nobodys_clock(monkeypatch):
    case, made = pipeline.SPLITS[0], []
    monkeypatch.setattr(pipeline, "perf_counter", lambda: time.perf_counter() + 1e6 * len(made))
    monkeypatch.setattr(pipeline, "SIMPY_SPAN_NS", SPAN_NS)

    def slow(name):
        made.append(name)
        return load(name)

    monkeypatch.setattr(pipeline, "load", slow)
    assert pipeline.simpy_rate(case) > 1 and pipeline.rate_of(case, SPAN_NS) > 1 and made


# Few instants, uneven batches: many arrive at once, and a short batch is read before a long one ahead of it.
emissions = st.lists(st.tuples(st.integers(0, 40).map(lambda n: n * 25_000), st.integers(1, 12)), min_size=1)


@settings(max_examples=80, deadline=None)
@given(emissions, st.floats(1, 40), st.floats(500, 200_000))
def test_peer_equals_twin_message_by_message(rows, burst, rate_rps):
    rows = sorted(rows)
    bucket = Envelope(rate_rps, burst)
    at_ns, count = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    block = Block(at_ns, np.zeros(len(rows), np.int32), count.astype(np.int32))
    twin = BrokerTwin(MODEL, bucket)
    expected = [message.received_at_ns - at for at, n in rows for message in twin.emission(at, n)]
    assert SimpyBroker(MODEL, bucket).run(block) == expected
