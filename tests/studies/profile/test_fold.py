"""A history of two loads, of two consumers each, written by hand, and what it comes to."""

import numpy as np

from core.records import Int64
from studies.profile.fold import FanOut, folded
from testbed.trust.accounts import ABSENT, DeliveryAccount

SPAN_NS = (100, 200)


def ns(*values: int) -> Int64:
    return np.array(values, np.int64)


def account(**counts: int) -> DeliveryAccount:
    return DeliveryAccount(**{**dict.fromkeys(DeliveryAccount.__dataclass_fields__, 0), **counts})


def test_a_history_comes_to_its_rows() -> None:
    # 0 is due before the span and comes in it; 3 is acknowledged after it; 4 is never sent.
    sent = {"sent_ns": ns(93, 101, 120, 160, ABSENT), "acknowledged_ns": ns(99, 110, ABSENT, 205, ABSENT)}
    everything = ns(0, 1, 2, 3), ns(104, 115, 140, 199)
    some = ns(1, 1, 9), ns(130, 131, 132)  # one twice, and one that nobody sent
    first = FanOut(10, ns(90, 100, 120, 150, 199), ns(0, 1, 2, 3, 4), **sent, deliveries=[everything, some])
    second = FanOut(1000, ns(150), ns(0), ns(150), ns(170), [(ns(0), ns(210)), (ns(), ns())])
    found = folded([first, second], SPAN_NS, "broker1", {"broker1": 50.0, "clients": 70.0})
    assert found.latency_ns.tolist() == [15, 20, 49, 30, 31, 60]
    assert found.samples == [
        (200, "broker1", "span_in_count", 2.0),  # one of each load
        (200, "broker1", "span_in_bytes", 1010.0),
        (200, "broker1", "span_out_count", 6.0),  # what nobody sent is no copy; what came after the span is not in it
        (200, "broker1", "span_out_bytes", 60.0),
        (200, "broker1", "span_offered_count", 10.0),
        (200, "broker1", "span_lost_count", 5.0),  # 4; 2, 3, 4; 0 of the second load
        (200, "broker1", "span_ns", 100.0),
        (200, "broker1", "span_cpu_ns", 50.0),
        (200, "clients", "span_cpu_ns", 70.0),
    ]
    assert [late_ns.tolist() for late_ns in found.late_ns] == [[3, 1, 0, 10], [0]]
    assert found.accounts == [
        account(not_sent_count=1, delivered_count=4, offered_count=5, delivered_unacknowledged_count=1),
        account(
            not_sent_count=1, unacknowledged_count=1, undelivered_count=2, duplicated_count=1, offered_count=5,
            surplus_count=1, foreign_count=1,
        ),
        account(delivered_count=1, offered_count=1),
        account(undelivered_count=1, offered_count=1),
    ]  # fmt: skip


def test_without_loads_there_are_no_copies() -> None:
    found = folded([], SPAN_NS, "broker1", {})
    assert found.latency_ns.tolist() == [] and found.accounts == found.late_ns == []
    assert {metric: value for _, _, metric, value in found.samples if value} == {"span_ns": 100.0}
