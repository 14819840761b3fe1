"""Deployments: windows, envelopes, the limiter's options."""

import numpy as np
import pyarrow.parquet as parquet
import pytest

from collectors.histogram import quantile
from core.errors import SpecError, SystemFault
from core.units import NEVER_NS, SECOND_NS
from harness.run import check_all, execute, resolve
from studies.distribution.asked import DeploymentConfig, Replayed
from studies.distribution.deployment import Deployment
from studies.distribution.study import deployed as deployed_topic
from studies.distribution.virtual import deployment_of
from systems.parts import md1
from tests.harness.common import small

ROUND_NS = 6 * SECOND_NS


def deployed(publishers=300, batch=10, group_size=1, **options) -> Deployment:
    """A Poisson topic on six brokers."""
    workload = {"publishers": publishers, "batch": batch, "group_size": group_size}
    point = resolve(small(workload_options=workload))
    return deployment_of(deployed_topic(point, DeploymentConfig(**options)))


def everybody_on(deployment: Deployment, brokers: int) -> np.ndarray:
    return (np.arange(deployment.schedule.population.count) % brokers).astype(np.int32)


def test_conformant_traffic_has_no_access_delay_at_p99_on_one_broker():
    deployment = deployed(envelope="conformant")
    one = everybody_on(deployment, 1)
    for found in (deployment.next_round(one, ROUND_NS), deployment.fresh_round(one, ROUND_NS)):
        delayed = 1 - found.access_delay[0, 0] / found.access_delay[0].sum()
        assert delayed <= 0.01
    envelopes = [deployment.next_round(one, ROUND_NS).envelope.burst_count for _ in range(3)]
    assert len(set(envelopes)) > 1, "each window has an envelope of its own"


def test_the_profiled_envelope_is_that_of_the_trace_before():
    deployment = deployed(profile="20s")
    rounds = [deployment.next_round(everybody_on(deployment, 1), ROUND_NS) for _ in range(2)]
    assert rounds[0].envelope == rounds[1].envelope == deployment.envelope_for(10**12, ROUND_NS)
    assert [found.start_ns for found in rounds] == [0, ROUND_NS]


def test_a_margin_enlarges_the_bucket():
    plain, wide = (deployed(margin=margin).envelope_for(0, ROUND_NS) for margin in (1.0, 1.5))
    assert wide.burst_count == np.ceil(1.5 * plain.burst_count) and wide.rate_rps == plain.rate_rps


def test_the_model_s_bucket_is_near_that_of_a_long_profile():
    """Report, footnote 8: for Poisson topics b can come from Eq. (1)'s model."""
    model = deployed(batch=1, envelope="poisson-model").envelope_for(0, ROUND_NS)
    trace = deployed(batch=1, profile="600s").envelope_for(0, ROUND_NS)
    assert model.burst_count == md1.smallest_burst(1 / 1.1) == pytest.approx(trace.burst_count, rel=0.12)
    assert deployed(envelope="poisson-model", model_batch=10).envelope_for(0, 1).burst_count == 10 * model.burst_count
    rounded = deployed(envelope="poisson-model", model_batch=15, margin=1.1).envelope_for(0, 1)
    assert rounded.burst_count == 429, "390 times 1.1 is a little more in floats"


def test_sub_buckets_follow_the_load_and_set_the_unassigned_share_aside():
    deployment = deployed(envelope="conformant")
    assignment = everybody_on(deployment, 3)
    assignment[assignment == 2] = -1
    found = deployment.next_round(assignment, ROUND_NS)
    parts = [part for part in found.sub_buckets if part is not None]
    assert len(parts) == 2
    for part in parts:
        assert part.rate_rps == pytest.approx(found.envelope.rate_rps / 3)
        assert part.burst_count == pytest.approx(found.envelope.burst_count / 3, rel=1e-6)


def test_all_systems_are_judged_on_the_same_messages():
    first, second = deployed(envelope="conformant"), deployed(envelope="conformant")
    for _ in range(4):
        second.next_round(everybody_on(second, 6), ROUND_NS)
    results = [d.fresh_round(everybody_on(d, 2), ROUND_NS) for d in (first, second)]
    assert (results[0].latency == results[1].latency).all()


def test_a_bucket_that_cannot_be_split_is_infinitely_bad_and_reported(tmp_path):
    deployment = deployed(publishers=7, batch=1, profile="20ms")
    found = deployment.next_round(everybody_on(deployment, 6), ROUND_NS)
    assert found.measured.p99_ns == NEVER_NS and "infeasible split" in found.note
    options = {"publishers": 7, "batch": 1}
    spec = small(system="lb", workload_options=options, study_options={"profile": "20ms"})
    execute(spec, "infeasible", tmp_path / "infeasible")
    (row,) = parquet.read_table(tmp_path / "infeasible" / "runs.parquet").to_pylist()
    notes = parquet.read_table(tmp_path / "infeasible" / "decisions.parquet")["note"].to_pylist()
    assert row["outcome"] == "infeasible" and all("infeasible split" in note for note in notes)


def test_a_search_that_does_not_end_is_its_systems_fault():
    deployment = deployed(envelope="conformant")
    with pytest.raises(SystemFault, match="too long"):
        deployment.next_round(everybody_on(deployment, 1), 101 * ROUND_NS)


def test_a_limiter_that_drops_delays_nobody():
    """Report, 1.1: non-conformant messages are dropped instead."""
    late, less = deployed(profile="2s"), deployed(profile="2s", non_conformant="drop")
    delayed, dropped = (d.next_round(everybody_on(d, 6), ROUND_NS) for d in (late, less))
    assert delayed.dropped_count.sum() == 0 < dropped.dropped_count.sum()
    assert dropped.access_delay[:, 1:].sum() == 0 < delayed.access_delay[:, 1:].sum()
    assert dropped.latency.sum() + dropped.dropped_count.sum() == delayed.latency.sum()
    assert dropped.measured.p99_ns == NEVER_NS, "a limiter that drops more than 1 % does not meet a p99"


def test_a_release_quantum_makes_waiting_messages_wait_longer():
    alone, together = deployed(profile="10s"), deployed(profile="10s", release_quantum=True)
    one, many = (d.next_round(everybody_on(d, 6), ROUND_NS) for d in (alone, together))
    assert many.envelope == one.envelope and many.measured.p99_ns > one.measured.p99_ns
    assert min(part.burst_count for part in many.sub_buckets) >= 10  # never below the quantum (artifact)


@pytest.mark.parametrize(
    "options",
    [{"margin": 0.5}, {"profile": "0s"}, {"non_conformant": "ignore"}, {"mcap_batch": -1}, {"model_batch": 0}],
)
def test_impossible_options_are_named(options):
    with pytest.raises(SpecError, match=next(iter(options)).split("_")[0]):
        DeploymentConfig(**options)


def test_a_replayed_minute_conforms_in_every_round_and_has_one_bucket():
    deployment = deployed(envelope="replayed")
    one = everybody_on(deployment, 1)
    rounds = [deployment.next_round(one, ROUND_NS), deployment.next_round(one, ROUND_NS)]
    rounds.append(deployment.fresh_round(one, ROUND_NS))
    assert len({shown.envelope.burst_count for shown in rounds}) == 1
    assert all((shown.latency == rounds[0].latency).all() for shown in rounds)
    assert (rounds[0].access_delay[0, 0] / rounds[0].access_delay[0].sum()) >= 0.99


def test_generators_that_start_over_send_the_first_period_again():
    plain = deployed().schedule
    again = Replayed(plain, ROUND_NS)
    first, third = plain.block(0, ROUND_NS), again.block(2 * ROUND_NS, 3 * ROUND_NS)
    assert (third.at_ns - 2 * ROUND_NS == first.at_ns).all() and (third.publisher == first.publisher).all()
    seam = again.block(ROUND_NS - SECOND_NS, 2 * ROUND_NS + SECOND_NS)  # over two ends
    parts = [plain.block(ROUND_NS - SECOND_NS, ROUND_NS), first, plain.block(0, SECOND_NS)]
    offsets = (0, ROUND_NS, 2 * ROUND_NS)
    expected = np.concatenate([part.at_ns + offset for part, offset in zip(parts, offsets, strict=True)])
    assert (seam.at_ns == expected).all() and seam.message_count == sum(part.message_count for part in parts)


def test_a_capacity_is_the_calibrations_a_benchmarks_or_given():
    assert {broker.mcap_rps for broker in deployed().brokers} == {110_000}
    assert {broker.mcap_rps for broker in deployed(mcap_rps=85_000).brokers} == {85_000}
    with pytest.raises(SpecError, match="give one of them"):
        deployed(mcap_rps=85_000, mcap_batch=10)
    with pytest.raises(SpecError, match="at least 0"):
        deployed(mcap_rps=-1)


LOADS = (20_000.0, 30_000.0, 0.0, 0.0, 0.0, 0.0)


def test_topics_that_were_there_before_are_counted_with_this_topic_and_without_it():
    deployment = deployed(publishers=2_000, initial_loads_rps=LOADS)
    first = everybody_on(deployment, 1)
    assert not deployment.next_round(first, ROUND_NS).more, "a search is not told"
    more = deployment.fresh_round(first, ROUND_NS).more
    before, after = more["resident_latency_before"], more["resident_latency"]
    assert (before.sum(axis=1) == after.sum(axis=1)).all() and before[2:].sum() == 0
    assert (before[1] == after[1]).all(), "nobody came to broker 2"
    assert quantile(before[0], 0.99) < quantile(after[0], 0.99)


def test_on_idle_brokers_there_is_nobody_to_count():
    deployment = deployed()
    assert not deployment.fresh_round(everybody_on(deployment, 1), ROUND_NS).more


def test_brokers_may_have_cores_of_their_own_and_capacities_in_proportion():
    """A burst of 20 publishers' batches, 134 us of work each: one core is done after 2.7 ms, two after half of that."""
    cores = (2, 1, 1, 4, 1, 2)
    mixed = deployed(group_size=20, envelope="conformant", broker_cores=cores)
    assert [broker.mcap_rps for broker in mixed.brokers] == [55_000 * n for n in cores]
    everybody = np.zeros(300, np.int32)
    p99_ns = [mixed.fresh_round(everybody + broker, ROUND_NS).measured.p99_ns for broker in range(6)]
    alike = deployed(group_size=20, envelope="conformant").fresh_round(everybody, ROUND_NS).measured.p99_ns
    assert p99_ns[0] == p99_ns[5] == alike, "two are what the calibration gives all"
    assert p99_ns[1] == p99_ns[2] == p99_ns[4] > 2_500_000 > alike > p99_ns[3]


def test_cores_are_given_for_each_broker_or_for_none():
    with pytest.raises(SpecError, match="broker_cores has 2 of 6"):
        check_all([small(study_options={"broker_cores": [1, 2]})])
