"""The audit: accounts that were falsified, disturbances that nobody names and things that are left are all told."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from core.units import SECOND_NS
from harness.nemesis.audit import counted, is_named, told_wrong, unbelieved, unnamed
from harness.nemesis.disk import judge
from harness.nemesis.disturber import Strike, Traces
from harness.nemesis.fates import Fates
from harness.nemesis.grounds import GROUNDS
from harness.nemesis.remains import remains
from harness.nemesis.schedule import Freeze, Kill
from harness.run import resolve
from testbed.trust.evidence import DEGRADED, INVALID

TOPIC = Fates(10, {"not_sent": 1, "unacknowledged": 2, "undelivered": 0, "delivered": 6, "duplicated": 1})
NUMBERS = {
    "offered_count": 10,
    "scale_ns": 1,
    **{f"{name}_count": float(count) for name, count in TOPIC.counts.items()},
}
LOAD_NS = (0, 4 * SECOND_NS)


@pytest.fixture
def topic(tmp_path):
    received = pa.array([None] * 3 + [1] * 7, pa.int64())
    parquet.write_table(pa.table({"received_at_ns": received}), tmp_path / "messages.parquet")
    return tmp_path


def test_a_true_account_passes(topic):
    assert told_wrong("distribution", topic, NUMBERS, TOPIC) == []


@pytest.mark.parametrize("name", [*TOPIC.counts, "offered"])
def test_one_message_too_many_anywhere_is_told(topic, name):
    planted = {**NUMBERS, f"{name}_count": NUMBERS[f"{name}_count"] + 1}
    (problem,) = told_wrong("distribution", topic, planted, TOPIC)
    assert problem.startswith(f"{name}: the run says")


def test_a_lost_message_that_is_shown_as_another_fate_is_told(topic):
    planted = {**NUMBERS, "unacknowledged_count": 1.0, "delivered_count": 7.0}
    assert len(told_wrong("distribution", topic, planted, TOPIC)) == 2


def test_a_row_that_is_missing_or_that_came_too_often_is_told(topic):
    parquet.write_table(pa.table({"received_at_ns": pa.array([1] * 9, pa.int64())}), topic / "messages.parquet")
    told = told_wrong("distribution", topic, NUMBERS, TOPIC)
    assert [problem.partition(":")[0] for problem in told] == ["rows of messages", "rows received"]


def test_a_lost_request_that_is_shown_as_decided_is_told(tmp_path):
    fates = Fates(4, {"not_sent": 1, "no_verdict": 1, "verdict_lost": 1, "admit": 1, "reject": 0})
    for decisions, wrong in ((["admit", "admit", "lost", "lost"], 0), (["admit", "admit", "reject", "lost"], 2)):
        parquet.write_table(pa.table({"decision": decisions}), tmp_path / "requests.parquet")
        assert len(told_wrong("limiting", tmp_path, {}, fates)) == wrong


def test_placements_are_compared_by_what_both_know(tmp_path):
    fates = Fates(4, {"not_sent": 1, "unacknowledged": 1, "acknowledged": 1, "had": 1})
    told = {"offered_count": 4, "not_sent_count": 1, "unacknowledged_count": 1, "undelivered_count": 1}
    assert told_wrong("placement", tmp_path, {**told, "delivered_count": 1}, fates) == []
    assert told_wrong("placement", tmp_path, {**told, "delivered_count": 2}, fates)


def test_producers_that_know_of_too_few_messages_are_told(tmp_path):
    point = resolve(GROUNDS["pulsar"].make("local", 1, 3 * SECOND_NS, ()))
    clients = tmp_path / "clients"
    clients.mkdir()
    (clients / "script.json").write_text(json.dumps({"clients": {"producer-1-1": [], "producer-2-1": []}}))
    np.savez(clients / "producer-1-1.npz", **{"sent:topic-1": np.ones((150, 6), np.int64)})
    for count, is_told in ((150, False), (120, True)):
        np.savez(clients / "producer-2-1.npz", **{"sent:topic-2": np.ones((count, 6), np.int64)})
        assert bool(counted(point, tmp_path, 0).problems()) is is_told


def freeze(begin_ns, end_ns, process="node-n1"):
    return Strike(Freeze(begin_ns, process, 0), 1, begin_ns, end_ns)


@pytest.mark.parametrize(
    ("strike", "matters"),
    [
        (freeze(SECOND_NS, 2 * SECOND_NS), True),
        (freeze(-SECOND_NS, SECOND_NS // 2), True),
        (freeze(-2 * SECOND_NS, -SECOND_NS), False),
        (freeze(3 * SECOND_NS, None), True),
        (freeze(SECOND_NS, SECOND_NS + 5_000_000), False),
        (Strike(Freeze(0, "node-n1", 9), why_not="it was not there"), False),
        (Strike(Kill(SECOND_NS, "node-n1"), 1, SECOND_NS), True),
        (Strike(Kill(SECOND_NS, "node-n1"), 1, 5 * SECOND_NS), False),
    ],
)
def test_who_stood_still_or_died_during_the_load_must_be_named(strike, matters):
    assert bool(unnamed([strike], ["node-n11 stood still for 2.0 s"], LOAD_NS, 1_000_000)) is matters
    assert unnamed([strike], ["node-n1 stood still for 2.0 s"], LOAD_NS, 1_000_000) == []


def test_a_process_is_named_by_itself_and_ours_by_whose_it_is():
    assert is_named("broker-broker1", ["agent broker1 was lost"]) and is_named(
        "node-n1", ["the process of node n1 has"]
    )
    assert not is_named("broker-broker1", ["agent broker10 was lost"])
    assert not is_named("redis-n1", ["node n1 was late"]), "a server is not its node"


def test_a_kill_makes_a_run_invalid():
    killed = [Strike(Kill(SECOND_NS, "broker-broker1"), 1, SECOND_NS)]
    assert unbelieved(killed, DEGRADED, LOAD_NS) and not unbelieved(killed, INVALID, LOAD_NS)


def test_what_is_left_is_seen(tmp_path):
    there = Traces("ab12" * 8, "rzzzz", tmp_path, None, tmp_path / "none")
    mark = {**os.environ, "RATEBED_RUN": there.token}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=mark, stdin=subprocess.PIPE) as process:
        while not any(f"process {process.pid} " in what for what in remains(there)):
            assert process.poll() is None
        assert str(tmp_path) in remains(there)
        assert process.stdin is not None
        process.stdin.close()


def test_a_full_disk_is_judged_by_its_last_line(tmp_path):
    line = "ratebed: runs: No space left on device; free some\n"
    assert judge(1, f"waiting\n{line}the others are kept\n", tmp_path).problems == ()
    assert judge(1, f"Traceback (most recent call last):\n{line}", tmp_path).problems
    assert judge(1, "ratebed: Py4JJavaError: …; a fault of Ratebed's: …\n", tmp_path).problems
    assert judge(1, "it failed\n", tmp_path).problems and judge(0, "done\n", tmp_path).problems
    (tmp_path / "runs" / ("a" * 16)).mkdir(parents=True)
    assert any("half-written" in problem for problem in judge(1, "ratebed: no space\n", tmp_path).problems)
