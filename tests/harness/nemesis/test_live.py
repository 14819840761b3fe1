"""Real runs with real trouble: who is struck is named, the accounts sum, nothing is left."""

import pytest

from core.units import SECOND_NS
from harness.nemesis.clock import is_own_machine
from harness.nemesis.schedule import ClockStep, Freeze, FullDisk, Kill, LiveSchedule
from harness.nemesis.trial import ENDED, play
from testbed.trust.evidence import INVALID
from tests.live import needs

pytestmark = [pytest.mark.slow, needs("go")]

LOAD_NS = 3 * SECOND_NS


def struck(ground, *troubles, testbed="local", faults=()):
    trial = play(LiveSchedule(5, ground, testbed, LOAD_NS, faults, troubles))
    assert trial.problems == ()
    return trial


@pytest.mark.parametrize(
    ("ground", "process"),
    [
        ("lb", "broker-broker1"),
        ("lb", "publish-publishers2"),
        ("crdt-counter", "node-n2"),
        pytest.param("redis-gcra", "redis-n1", marks=needs("redis-gcra")),
    ],
)
def test_who_is_frozen_is_named_and_the_run_is_invalid(ground, process):
    trial = struck(ground, Freeze(SECOND_NS // 2, process, 3 * SECOND_NS // 2))
    assert trial.outcome == INVALID and any(f"{process} stood still" in reason for reason in trial.said)
    assert trial.fates is not None and sum(trial.fates.counts.values()) == trial.fates.offered > 100


def test_a_broker_that_is_killed_by_nobody_makes_the_run_invalid():
    trial = struck("lb", Kill(SECOND_NS, "broker-broker2"))
    assert trial.outcome == INVALID and "agent broker2 was lost" in trial.said
    assert trial.fates is not None and trial.fates.counts["delivered"] < trial.fates.offered


@pytest.mark.parametrize(
    ("ground", "server"),
    [
        pytest.param("redis-gcra", "redis-n1", marks=needs("redis-gcra")),
        pytest.param("pulsar", "zookeeper-store", marks=needs("java", "zookeeper", "serf")),
    ],
)
def test_a_server_that_is_killed_is_named_and_one_that_starts_again_is_none(ground, server):
    trial = struck(ground, Kill(SECOND_NS, server))
    assert trial.outcome == INVALID and any(server in reason for reason in trial.said)
    assert trial.fates is not None and trial.fates.offered > 100
    node = server.partition("-")[2]
    rows = {"kind": "crash", "at": "1s", "node": node}, {"kind": "restart", "at": "1500ms", "node": node}
    again = struck(ground, faults=rows)
    assert again.fates is not None and again.fates.offered == trial.fates.offered
    assert not any(server in reason for reason in again.said)


@needs("java", "zookeeper", "serf")
def test_a_node_that_cannot_come_up_again_costs_the_run_no_account():
    faults = {"kind": "crash", "at": "1s", "node": "broker1"}, {"kind": "restart", "at": "1500ms", "node": "broker1"}
    trial = struck("epulsar", Kill(SECOND_NS // 2, "zookeeper-store"), faults=faults)
    assert trial.outcome == INVALID and not trial.problems and trial.fates is not None
    assert {"agent zookeeper-store was lost", "agent node-broker1.1 was lost"} <= set(trial.said)


def test_a_node_that_is_killed_by_nobody_ends_the_run_in_one_line():
    trial = struck("crdt-queue", Kill(SECOND_NS, "node-n3"))
    (line,) = trial.said
    assert trial.outcome == ENDED and "n3" in line and "\n" not in line


@pytest.mark.parametrize(
    ("ground", "process", "fault"),
    [
        ("lb", "broker-broker2", {"kind": "crash", "at": "2s", "node": "broker2"}),
        ("lb", "publish-publishers1", {"kind": "crash", "at": "2s", "node": "publishers1"}),
        pytest.param("redis-gcra", "redis-n1", {"kind": "crash", "at": "2s", "node": "n1"}, marks=needs("redis-gcra")),
        pytest.param("pulsar", "broker-broker2", None, marks=needs("java", "zookeeper", "serf")),
    ],
)
def test_a_crash_that_was_told_does_not_excuse_an_end_before_it(ground, process, fault):
    trial = struck(ground, Kill(SECOND_NS // 2, process), faults=(fault,) if fault else ())
    assert trial.outcome == INVALID and trial.strikes[0].why_not == ""


@needs("root", "mininet")
@pytest.mark.parametrize("ground", ["lb", "crdt-counter", "epulsar"])
def test_delays_that_change_are_no_offence_and_the_accounts_sum(ground):
    longer = {"kind": "link-delay", "a": "*", "b": "*"}
    rows = [{**longer, "at": at, "hold": hold} for at, hold in (("500ms", "150ms"), ("1s", "10ms"), ("2s", "0ms"))]
    trial = struck(ground, testbed="mininet", faults=tuple(rows))
    assert trial.fates is not None and trial.fates.offered > 100


@needs("root", "mininet", "java", "zookeeper", "serf")
def test_a_broker_that_starts_again_waits_for_its_store_while_the_fault_between_them_ends():
    longer = {"kind": "link-delay", "a": "*", "b": "*"}
    rows = (
        {"kind": "crash", "at": "1s", "node": "broker2"},
        {**longer, "at": "1s", "hold": "150ms"},
        {"kind": "restart", "at": "1200ms", "node": "broker2"},
        {**longer, "at": "2s", "hold": "0ms"},
    )
    trial = struck("epulsar", testbed="mininet", faults=rows)
    assert trial.fates is not None and trial.fates.offered > 100


@needs("root", "mininet")
@pytest.mark.parametrize("ground", ["lb", "crdt-counter"])
def test_a_partition_that_was_told_is_no_offence_and_the_accounts_sum(ground):
    side = {"lb": "publishers2", "crdt-counter": "n2"}[ground]
    cut = (
        {"kind": "partition", "at": "500ms", "side": [side]},
        {"kind": "heal", "at": "1s", "side": [side]},
    )
    trial = struck(ground, testbed="mininet", faults=cut)
    assert trial.fates is not None and trial.fates.offered > 100


@pytest.mark.skipif(not is_own_machine(), reason="the clock of this machine is not ours to set: vagrant up testbed")
def test_a_clock_that_is_set_is_named():
    trial = struck("crdt-counter", ClockStep(SECOND_NS, SECOND_NS))
    assert trial.outcome == INVALID and any("the clock was set by" in reason for reason in trial.said)


@needs("root", "mininet")
@pytest.mark.parametrize("room_bytes", [16 << 10, 64 << 10])
def test_a_full_disk_ends_in_one_line_and_leaves_nothing_half_written(room_bytes):
    trial = struck("crdt-counter", FullDisk(room_bytes), testbed="mininet")
    assert trial.outcome == ENDED and "No space left on device" in trial.said[0]
