"""Brokers whose pumps take time of the cores: the kernel against its twin, and what no broker can do."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.histogram import bucket_index, quantile
from core.errors import SpecError
from core.records import Envelope
from harness.run import check_point, resolve
from testbed.brokers.model import load_calibration
from testbed.virtual.capacity import benchmarked_capacity_rps
from testbed.virtual.fleet import Fleet
from tests.harness.common import small
from tests.testbed.virtual.shared_twin import SharedTwin
from tests.testbed.virtual.test_broker_kernel import Recorded, emissions

FREE = load_calibration("srtm-paper")
MODEL = replace(FREE, pump_takes_core=True)
UNLIMITED = Envelope(400_000.0, 1_000_000.0)
# Instants close together, so that jobs meet: a broker's costs are tens of microseconds.
crowded = st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(0, 3), st.integers(1, 12)), min_size=1, max_size=80)


def carried(model, topic_rows, other_rows, bucket, cuts=()) -> Fleet:
    """Everybody on one broker, with another topic beside."""
    fleet = Fleet(model, "topic", Recorded(topic_rows, 4), [Recorded(other_rows, 4)], journal_rows=4_000)
    fleet.restart(0, residents=True)
    fleet.move(np.zeros(4, np.int32))
    fleet.set_bucket(0, bucket, full=True)
    fleet.record(0, 600_000_000)
    for cut in (*cuts, 1_000_000_000):
        fleet.advance(cut)
    fleet.finish()
    return fleet


def twin_of(model, topic_rows, other_rows, bucket) -> SharedTwin:
    own, other = ([(at_ns, count) for at_ns, _, count in sorted(rows)] for rows in (topic_rows, other_rows))
    twin = SharedTwin(model, bucket, own, other)
    twin.run()
    return twin


def counted(values: list[int], buckets: int) -> np.ndarray:
    return np.bincount(bucket_index(np.array(values, np.int64)), minlength=buckets)


rows_of = st.one_of(emissions, crowded)


@settings(max_examples=50, deadline=None)
@given(rows_of, rows_of, st.booleans(), st.floats(1, 40), st.floats(50, 300_000), st.integers(1, 3))
def test_kernel_equals_twin_message_by_message(topic_rows, other_rows, read_time, burst, rate_rps, cores):
    model = replace(MODEL, read_time_stamps=read_time, cores=cores)
    bucket = Envelope(rate_rps, burst)
    fleet, twin = (make(model, topic_rows, other_rows, bucket) for make in (carried, twin_of))
    shown = fleet.messages()
    columns = ("intended_at_ns", "released_at_ns", "received_at_ns")
    assert list(zip(*(shown[name].tolist() for name in columns), strict=True)) == twin.received
    buckets = fleet.state.latency.shape[1]
    latencies = [got - sent for sent, _, got in twin.received if sent < 600_000_000]
    assert (fleet.state.latency[0] == counted(latencies, buckets)).all()
    residents = [got - sent for sent, got in twin.residents if sent < 600_000_000]
    assert (fleet.state.resident_latency[0] == counted(residents, buckets)).all()


@settings(max_examples=50, deadline=None)
@given(rows_of, rows_of, st.floats(1, 40), st.floats(50, 300_000), st.integers(1, 3))
def test_a_broker_is_never_busier_than_its_cores(topic_rows, other_rows, burst, rate_rps, cores):
    model = replace(MODEL, cores=cores)
    bucket = Envelope(rate_rps, burst)
    fleet, twin = (make(model, topic_rows, other_rows, bucket) for make in (carried, twin_of))
    changes = sorted([(begun, 1) for begun, end in twin.spans if end > begun] + [(end, -1) for _, end in twin.spans])
    assert np.cumsum([change for _, change in sorted(changes)]).max() <= cores
    first_ns = min(row[0] for row in (*topic_rows, *other_rows)) + model.network_ns
    end_ns = int(fleet.state.free_at_ns.max())
    rows = (*topic_rows, *other_rows)
    work_ns = sum(model.wakeup_ns + count * (model.message_ns + model.pump_ns) for _, _, count in rows)
    assert fleet.state.busy_ns[0] == work_ns  # nothing is done twice, or for nothing
    assert work_ns <= cores * (end_ns - first_ns)
    assert end_ns == max(end for _, end in twin.spans)


def test_a_free_pump_does_more_than_two_cores_can():
    """60,000 single messages a second are 2.43 s of work in each second: too much for two cores."""
    rows = [(at_ns, 0, 1) for at_ns in range(0, 1_000_000_000, 1_000_000_000 // 60_000)][:57_000]
    work_ns = len(rows) * (FREE.wakeup_ns + FREE.message_ns + FREE.pump_ns)
    free, shared = carried(FREE, rows, [(0, 0, 1)], UNLIMITED), carried(MODEL, rows, [(0, 0, 1)], UNLIMITED)
    assert free.state.pump_free_at_ns.max() < work_ns / FREE.cores <= shared.state.free_at_ns.max()
    assert quantile(shared.state.latency[0], 0.99) > 5 * quantile(free.state.latency[0], 0.99)


@settings(max_examples=25, deadline=None)
@given(rows_of, rows_of, st.lists(st.integers(1, 999_999_999), max_size=4))
def test_advancing_in_pieces_changes_nothing(topic_rows, other_rows, cuts):
    bucket = Envelope(20_000.0, 5.0)
    whole, pieces = (carried(MODEL, topic_rows, other_rows, bucket, some) for some in ((), sorted(cuts)))
    assert (whole.messages()["received_at_ns"] == pieces.messages()["received_at_ns"]).all()
    assert (whole.state.resident_latency == pieces.state.resident_latency).all()


def test_a_lonely_message_takes_what_it_takes_with_a_free_pump():
    rows = [(n * 10_000_000, 0, 1) for n in range(50)]
    free, shared = carried(FREE, rows, rows[:1], UNLIMITED), carried(MODEL, rows, rows[:1], UNLIMITED)
    assert (free.messages()["received_at_ns"] == shared.messages()["received_at_ns"])[1:].all()


def test_the_capacity_of_a_broker_falls_where_its_pump_takes_cores():
    for batch in (1, 10):
        free, shared = (benchmarked_capacity_rps(model, 1_000_000, batch, seed=1) for model in (FREE, MODEL))
        assert free / 2 < shared < free
        per_message_ns = MODEL.wakeup_ns / batch + MODEL.message_ns + MODEL.pump_ns
        assert shared < MODEL.cores * 1e9 / per_message_ns


def test_a_controller_has_no_such_brokers(tmp_path):
    file = tmp_path / "shared.toml"
    file.write_text("""[broker]
network_ns = 1
wakeup_ns = 1
message_ns = 1
pump_ns = 1
cores = 2
mcap_rps = 1
read_time_stamps = false
pump_takes_core = true
[origin]
fitted_on = []
provenance = ""
""")
    spec = small(system="tb-adaptor", study="control", calibration=str(file), study_options={"duration": "10s"})
    with pytest.raises(SpecError, match="a pump on the cores"):
        check_point(resolve(spec))
