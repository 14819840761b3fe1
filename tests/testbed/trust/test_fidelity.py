"""Judging live runs: what is seen decides, each rule alone."""

from dataclasses import replace

import numpy as np
import pytest

from testbed.trust.accounts import DeliveryAccount, account
from testbed.trust.answers import AnswerAccount
from testbed.trust.fidelity import Observation, Spread, Standstill, judge, spread_of

MS = 1_000_000
PUNCTUAL = Spread(50_000, 400_000, 9 * MS, 10_000)
GOOD = Observation(
    scale_ns=2 * MS, lateness=PUNCTUAL, delay_lateness=PUNCTUAL, busy_share=0.05, steal_share=0.02,
    queue_drop_count=0, packet_count=50_000, clock_step_ns=2_000, merged_read_share=0.01,
    account=account(*[np.arange(100)] * 4),
)  # fmt: skip


def lost(**counts: int) -> DeliveryAccount:
    """An account of 1,000 messages, all delivered but these."""
    names = DeliveryAccount.__dataclass_fields__
    rest = 1_000 - sum(counts.get(name, 0) for name in list(names)[:3]) - counts.get("duplicated_count", 0)
    return DeliveryAccount(**{**dict.fromkeys(names, 0), "offered_count": 1_000, "delivered_count": rest, **counts})


def test_a_run_without_a_blemish_is_valid_and_keeps_its_numbers():
    found = judge(GOOD)
    assert (found.validity, found.reasons) == ("valid", ())
    assert found.numbers["lateness_p99_ns"] == 400_000 and found.numbers["lateness_max_ns"] == 9 * MS
    assert found.numbers["delivered_count"] == 100 and found.numbers["scale_ns"] == 2 * MS


@pytest.mark.parametrize(
    ("changes", "validity", "word"),
    [
        ({"lateness": None}, "invalid", "nothing is known"),
        ({"lateness": Spread(3 * MS, 9 * MS, 9 * MS, 10)}, "invalid", "half of the load was sent 3.000 ms late"),
        ({"lateness": Spread(MS, MS, MS, 10)}, "degraded", "half of the load"),
        ({"lateness": Spread(0, 5 * MS, 5 * MS, 10)}, "degraded", "1 % of the load was sent 5.000 ms late"),
        ({"lateness": Spread(0, 50 * MS, 50 * MS, 10_000)}, "invalid", "1 % of the load"),
        ({"lateness": Spread(0, 50 * MS, 50 * MS, 59)}, "degraded", "1 % of the load"),
        ({"delay_lateness": Spread(0, 5 * MS, 5 * MS, 10)}, "degraded", "1 % of the packets"),
        ({"delay_lateness": Spread(3 * MS, 5 * MS, 5 * MS, 10)}, "invalid", "half of the packets"),
        ({"busy_share": 0.5}, "degraded", "all cores were busy 50.0% of the time"),
        ({"busy_share": 0.95}, "degraded", "all cores"),
        ({"steal_share": 0.2}, "degraded", "other guests"),
        ({"queue_drop_count": 3}, "degraded", "queues dropped 3 packets"),
        ({"queue_drop_count": 300}, "invalid", "queues dropped 300 packets, 0.6% of all"),
        ({"queue_drop_count": 3, "packet_count": None}, "invalid", "queues dropped 3"),
        ({"handover_lateness_ns": 300 * MS}, "degraded", "a client's host was moved 300.000 ms late"),
        ({"handover_lateness_ns": 5000 * MS}, "invalid", "a client's host"),
        ({"clock_step_ns": -MS}, "degraded", "the clock was set by 1.000 ms"),
        ({"clock_step_ns": 5 * MS}, "invalid", "the clock"),
        ({"merged_read_share": 0.9}, "degraded", "several commands"),
        ({"refused_message_count": 3}, "degraded", "refused 3 messages for want of room"),
        ({"dropped_rows_count": 2}, "degraded", "no room for 2 records"),
        ({"lost_agents": ("publisher3",)}, "invalid", "publisher3 was lost"),
        ({"standstills": (Standstill("broker-b1", 3_040 * MS, False),)}, "invalid", "broker-b1 stood still for 3.0 s"),
        ({"standstills": (Standstill("redis-n1", 100 * MS, False),)}, "invalid", "redis-n1 stood still for 100 ms"),
        ({"standstills": (Standstill("node-n1", 3_000 * MS, True),)}, "degraded", "node-n1 stood still for 3.0 s"),
        ({"account": lost(not_sent_count=5)}, "degraded", "0.5% of the load was not sent"),
        ({"account": lost(not_sent_count=50)}, "invalid", "5.0% of the load was not sent"),
        ({"account": lost(unacknowledged_count=1)}, "degraded", "1 messages, 0.1% of all, were neither"),
        ({"account": lost(unacknowledged_count=50)}, "invalid", "50 messages, 5.0% of all, were neither"),
        ({"account": lost(undelivered_count=1)}, "invalid", "acknowledged and not delivered"),
        ({"account": lost(duplicated_count=2)}, "degraded", "2 messages came twice"),
        ({"answers": AnswerAccount(100, 5, 50, 50)}, "degraded", "5.0% of the decisions outside of faults"),
        ({"answers": AnswerAccount(100, 6, 0, 0)}, "invalid", "6.0% of the decisions outside of faults"),
        ({"answers": AnswerAccount(990, 0, 0, 0, 10)}, "degraded", "nobody decided 1.0% of the requests"),
        ({"answers": AnswerAccount(980, 0, 0, 0, 20)}, "invalid", "nobody decided 2.0% of the requests"),
        ({"account": lost(foreign_count=2)}, "invalid", "2 records"),
        ({"account": lost(delivered_count=990)}, "invalid", "10 records"),
    ],
)
def test_each_blemish_alone(changes, validity, word):
    found = judge(replace(GOOD, **changes))
    assert found.validity == validity and word in found.reasons[0], found
    assert len(found.reasons) == 1 or "half" in word, "one blemish, one reason"


def test_a_stop_shorter_than_the_scale_of_the_result_is_only_kept():
    found = judge(replace(GOOD, standstills=(Standstill("broker-b1", 2 * MS, False),)))
    assert (found.validity, found.numbers["standstill_max_ns"]) == ("valid", 2 * MS)


def test_what_a_fault_was_asked_to_do_is_no_blemish():
    """A cut path delays and loses; only a killed broker may lose what it acknowledged."""
    cut = replace(GOOD, account=lost(not_sent_count=500, duplicated_count=3, unacknowledged_count=9), faulty=True)
    assert judge(cut).validity == "valid"
    gone = lost(undelivered_count=4, unacknowledged_count=100)
    assert judge(replace(GOOD, account=gone, faulty=True)).validity == "invalid"
    assert judge(replace(GOOD, account=gone, faulty=True, broker_killed=True)).validity == "valid"


def test_what_nobody_decided_in_a_fault_is_the_fault_s() -> None:
    found = judge(replace(GOOD, answers=AnswerAccount(100, 0, 0, 0, 0, 50)))
    assert found.validity == "valid" and found.numbers["lost_in_faults_count"] == 50


def test_a_busy_machine_makes_a_run_invalid_only_where_something_was_late():
    late = Spread(0, 5 * MS, 5 * MS, 10)
    for name in ("lateness", "delay_lateness"):
        found = judge(replace(GOOD, busy_share=0.95, **{name: late}))
        assert found.validity == "invalid" and "all cores" in found.reasons[0] and len(found.reasons) == 2


def test_the_scale_of_the_run_decides():
    late = replace(GOOD, lateness=Spread(0, 5 * MS, 5 * MS, 10_000))
    assert judge(replace(late, scale_ns=10 * MS)).validity == "valid"
    assert judge(replace(late, scale_ns=100_000)).validity == "invalid"


def test_reasons_to_doubt_come_after_reasons_to_discard():
    found = judge(replace(GOOD, busy_share=0.5, lost_agents=("node1",)))
    assert found.validity == "invalid" and [reason.split()[0] for reason in found.reasons] == ["agent", "all"]


def test_counted_spans_have_the_quantiles_of_as_many():
    spans, counts = [5, 7, 90], [300, 690, 10]
    assert spread_of(spans, counts) == spread_of(np.repeat(spans, counts)) == Spread(7, 7, 90, 1000)


def test_quantiles_are_values_that_occurred():
    assert spread_of(np.arange(1, 201)) == Spread(100, 198, 200, 200)
    assert spread_of([]) is None


def test_decisions_without_an_answer_in_faults_are_shown_and_not_judged():
    fidelity = judge(replace(GOOD, answers=AnswerAccount(100, 1, 40, 40)))
    assert (fidelity.validity, fidelity.reasons) == ("valid", ())
    assert fidelity.numbers["unanswered_share"] == 0.01
    assert fidelity.numbers["unanswered_in_faults_count"] == fidelity.numbers["decided_in_faults_count"] == 40
    nothing_else = judge(replace(GOOD, answers=AnswerAccount(0, 0, 40, 40)))
    assert nothing_else.validity == "valid" and "unanswered_share" not in nothing_else.numbers
