"""Topics on real brokers, over loopback: rounds, migration, faults, controllers, and what they account for."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from core.errors import MachineError, SpecError
from core.records import Json
from core.units import SECOND_NS
from harness.run import carried_out, check_all, execute, resolve
from studies import load_study
from studies.distribution.asked import Deployed, DeploymentConfig, poisson_topic
from studies.distribution.live import LiveDeployment
from systems.api import UNASSIGNED
from systems.parts.token_bucket import units
from testbed import load_testbed
from testbed.faults import Crash, Fault, Restart
from testbed.hosts.local import LocalSite
from testbed.topologies.topology import srtm_lan
from testbed.virtual.released_kernel import one_bucket
from tests.harness.common import small
from tests.live import needs
from tests.studies.distribution.idle import IDLE, IdleBrokers
from tests.studies.distribution.up import up

pytestmark = [needs("go"), pytest.mark.slow]

ROUND_NS = SECOND_NS
PUBLISHERS = 30


def spec(testbed="local", brokers=2, **options):
    """A small Poisson topic: 300 msg/s."""
    workload = {"publishers": PUBLISHERS, "batch": 5, "group_size": 5}
    return small(
        testbed=testbed,
        workload_options=workload,
        topology_options={"brokers": brokers},
        calibration="small",
        slo="calibrated",
        round=f"{ROUND_NS // SECOND_NS}s",
        study_options={"profile": "5s", **options},
    )


def deployed(testbed="local", brokers=2, **options):
    point = resolve(spec(testbed, brokers))
    config = DeploymentConfig(profile="5s", **options)
    return up(point, config)


def spread(brokers):
    return (np.arange(PUBLISHERS) % brokers).astype(np.int32)


def values(deployment, metric):
    return [row[3] for row in deployment.evidence().samples if row[2] == metric]


def test_rounds_carry_the_messages_of_the_virtual_run_and_publishers_migrate_between_them():
    live, virtual = deployed(), deployed("virtual")
    try:
        assert live.brokers == virtual.brokers and live.envelope_for(0, ROUND_NS) == virtual.envelope_for(0, ROUND_NS)
        alone, both = np.zeros(PUBLISHERS, np.int32), spread(2)
        some = np.where(np.arange(PUBLISHERS) < 20, both, UNASSIGNED).astype(np.int32)
        for assignment in (alone, both, some):
            found, model = (its.next_round(assignment, ROUND_NS) for its in (live, virtual))
            assert (found.start_ns, found.envelope, found.sub_buckets) == (
                model.start_ns,
                model.envelope,
                model.sub_buckets,
            )
            assert [its.count for its in found.measured.brokers] == [its.count for its in model.measured.brokers]
            assert all(its.p99_ns > 0 for its in found.measured.brokers if its.count)
            assert found.access_delay.sum() == found.latency.sum() == model.latency.sum()
        offered = live.messages()
        assert set(offered["publisher"].tolist()) <= set(range(20))
        stamps = [offered[name] for name in ("intended_at_ns", "sent_at_ns", "arrived_at_ns", "received_at_ns")]
        assert all((late >= early).all() for early, late in zip(stamps[::2], stamps[1::2], strict=True))
        assert (offered["released_at_ns"] >= offered["arrived_at_ns"]).all()
        evidence = live.evidence()
        assert live.findings.migration_count == 15 == sum(values(live, "migration_told_count"))
        assert evidence.fidelity.numbers["undelivered_count"] == evidence.fidelity.numbers["duplicated_count"] == 0
        assert evidence.fidelity.numbers["delivered_count"] == evidence.fidelity.numbers["offered_count"] > 500
        assert any(name.startswith("broker-") for name in evidence.logs)
    finally:
        live.close()
    assert not live.site.folder.exists(), "nothing is left behind"


def test_conformant_messages_have_no_access_delay_and_others_wait_as_the_model_says():
    """The model is asked about the instants at which messages came: on a busy machine they come in other bursts."""
    rule = {"brokers": 1, "envelope": "poisson-model"}  # a bucket of 26, which one group of publishers all but empties
    live = deployed(**rule)
    try:
        found = live.fresh_round(np.zeros(PUBLISHERS, np.int32), 3 * ROUND_NS)
        came_ns, meant_ns = (live.messages()[name] for name in ("arrived_at_ns", "intended_at_ns"))
        order = np.argsort(came_ns, kind="stable")
        waits = one_bucket(came_ns[order], came_ns.min() - SECOND_NS, *units(found.sub_buckets[0])) > came_ns[order]
        counted = meant_ns[order] >= np.sort(meant_ns)[-found.access_delay.sum()]  # not those of the warm-up
        free, waiting = (int(part.sum()) for part in (~waits & counted, waits & counted))
        assert waiting > 50 and abs(int(found.access_delay[0, 0]) - free) <= waiting / 4
    finally:
        live.close()


def test_the_load_of_other_topics_is_real_and_accounted_for():
    live = deployed(initial_loads_rps=(100.0, 0.0), initial_batch=10)
    try:
        assert [broker.load_rps for broker in live.brokers] == [100.0, 0.0]
        live.next_round(spread(2), ROUND_NS)
        topic = live.schedule.block(0, ROUND_NS).message_count
        assert values(live, "offered_count")[0] == topic + live.others[0].block(0, ROUND_NS).message_count > topic
        assert values(live, "delivered_count") == values(live, "offered_count")
    finally:
        live.close()


@pytest.mark.parametrize("victim", ["broker2", "publishers1"])
def test_a_process_that_is_killed_in_the_judged_round_leaves_accounts_that_sum(victim):
    live = deployed(faults=({"kind": "crash", "at": "200ms", "node": victim},))
    try:
        found = live.fresh_round(spread(2), 3 * ROUND_NS)  # a busy machine kills late, and this must be in its midst
        account = live.findings.account
        assert account is not None and account.accounted_count == account.offered_count
        assert 0 < account.delivered_count < account.offered_count
        numbers = live.evidence().fidelity
        assert numbers.numbers["unexplained_count"] == 0
        assert live.findings.lost_agents == []
        if victim == "broker2":
            assert found.measured.brokers[0].count > found.measured.brokers[1].count
            assert found.measured.p99_ns == 2**62, "what never came is beyond any latency"
    finally:
        live.close()


class IdleDeployment(LiveDeployment):
    """Without processes: nothing is sent, and all is at rest when the load ends."""

    crews = IDLE


@pytest.mark.parametrize("before_end_ns", [ROUND_NS, 1])
def test_a_fault_of_the_last_instant_happens_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_end_ns: int
) -> None:
    monkeypatch.setattr("studies.distribution.live.Brokers", IdleBrokers)
    monkeypatch.setattr("studies.distribution.live.LEAD_NS", 0)
    topology, span_ns = srtm_lan(brokers=2), ROUND_NS
    crash = {"kind": "crash", "at": f"{span_ns - before_end_ns}ns", "node": "broker2"}
    schedule, rule = poisson_topic(PUBLISHERS, 10.0, 1, 7), DeploymentConfig(faults=(crash,))
    asked = Deployed(topology, schedule, rule, "small", 1, SECOND_NS, span_ns)
    with LocalSite(topology, tmp_path, tmp_path) as site, closing(IdleDeployment(site, asked)) as its:
        its.play(0, span_ns, its.faults)
        reasons = its.evidence().fidelity.reasons
        assert its.findings.faulty and its.findings.broker_killed
        assert not any("was not sent" in reason for reason in reasons)


class BackAndGone(IdleDeployment):
    """A broker that is restarted ends by itself."""

    def _apply(self, fault: Fault) -> None:
        if not isinstance(fault, Restart):
            super()._apply(fault)


@pytest.mark.parametrize(("kinds", "lost"), [("c", []), ("cr", ["broker2"]), ("crc", [])])
def test_a_broker_that_ends_after_its_restart_is_lost_and_one_that_a_fault_keeps_down_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: str, lost: list[str]
) -> None:
    monkeypatch.setattr("studies.distribution.live.Brokers", IdleBrokers)
    monkeypatch.setattr("studies.distribution.live.LEAD_NS", 0)
    topology, schedule = srtm_lan(brokers=2), poisson_topic(PUBLISHERS, 10.0, 1, 7)
    faults = [{"c": Crash, "r": Restart}[kind](number, "broker2") for number, kind in enumerate(kinds)]
    asked = Deployed(topology, schedule, DeploymentConfig(), "small", 1, SECOND_NS, ROUND_NS)
    with LocalSite(topology, tmp_path, tmp_path) as site, closing(BackAndGone(site, asked)) as its:
        its.play(0, ROUND_NS // 10, faults)
        reasons = its.evidence().fidelity.reasons
        assert its.findings.lost_agents == lost and its.findings.broker_killed
        assert any("broker2 was lost" in reason for reason in reasons) == bool(lost)


def test_a_broker_that_dies_in_a_search_ends_it():
    live = deployed()
    try:
        live.next_round(spread(2), ROUND_NS)
        live.brokers_up.kill("broker1")
        with pytest.raises(MachineError, match="broker1"):
            live.next_round(spread(2), ROUND_NS)
        assert "broker1" in live.evidence().fidelity.reasons[0]
        assert live.evidence().fidelity.validity == "invalid"
    finally:
        live.close()


def moved_to_first(broker, rate_rps, total_rps):
    """Whether two brokers had all of the bucket at first, and the first of them much more of all of it some time later.

    Not at last: of a broker that stands still in the last window nothing is known.
    """
    first, second = ([rps for which, rps in zip(broker, rate_rps, strict=True) if which == i] for i in (0, 1))
    whole = [pair for pair in zip(first, second, strict=False) if sum(pair) == pytest.approx(total_rps)]
    return whole[:1] == [(first[0], second[0])] and any(one > 1.2 * other for one, other in whole)


def test_the_adaptor_moves_the_buckets_of_real_brokers():
    point = resolve(
        small(
            system="tb-adaptor",
            workload="shifting",
            workload_options={"publishers": PUBLISHERS, "shift_at": "1s", "share_after": 0.9},
            topology_options={"brokers": 2},
            testbed="local",
            calibration="small",
            slo="calibrated",
            study="control",
            study_options={"duration": "6s", "window": "1s", "profile": "5s"},
        )
    )
    journal = carried_out(point)
    decisions = journal.tables["decisions"]
    assert moved_to_first(decisions["broker"], decisions["bucket_rate_rps"], journal.bucket_rate_rps)
    rounds = set(journal.tables["latency_histogram"]["round"].tolist())
    assert rounds == {1, 2, 3, 4, 5, 6}
    assert {"message_rate_rps", "backlog_count"} <= set(journal.tables["samples"]["metric"])


def test_a_search_runs_whole_and_is_written_with_its_evidence(tmp_path):
    execute(spec("local", 2, envelope="conformant", margin=1.02), "id", tmp_path / "id")
    runs = parquet.read_table(tmp_path / "id/runs.parquet").to_pylist()[0]
    assert runs["testbed"] == "local" and runs["validity"] in ("valid", "degraded", "invalid")
    assert runs["outcome"] in ("placed", "out-of-brokers") and runs["slo_ns"] > 0
    messages = parquet.read_table(tmp_path / "id/messages.parquet").to_pandas()
    assert messages.message.is_unique and messages.received_at_ns.notna().all()
    assert (tmp_path / "id/logs").is_dir()


def test_what_only_a_model_can_do_is_refused():
    for options in ({"non_conformant": "drop"}, {"release_quantum": True}, {"mcap_batch": 1}):
        with pytest.raises(SpecError, match=next(iter(options))):
            deployed(**options)
    with pytest.raises(SpecError, match="gc"):
        deployed("virtual", gc="off")
    with pytest.raises(SpecError, match="distributor"):
        deployed(faults=({"kind": "crash", "at": "1s", "node": "distributor"},))
    with pytest.raises(SpecError, match="study throttling does not run on testbed local"):
        load_study("throttling").body(load_testbed("local"))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"kind": "partition", "at": "1s", "side": ["brokers1"]}, "local has no links to change"),
        ({"kind": "link-loss", "at": "1s", "a": "*", "b": "*", "loss_probability": 0.1}, "local has no links"),
        ({"kind": "server-crash", "at": "1s", "node": "broker1"}, "cannot happen to a topic"),
    ],
)
def test_faults_that_cannot_happen_are_refused_before_anything_starts(fault: Json, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        check_all([spec(faults=[fault])])
    check_all([spec(faults=[{"kind": "crash", "at": "1s", "node": "broker1"}])])
