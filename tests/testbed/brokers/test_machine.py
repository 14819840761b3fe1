"""What brokers use of their machines: reckoned by hand, and of a real broker."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.units import SECOND_NS
from systems.placement.messages import Open, Traffic, Used
from testbed.brokers.machine import BrokerMachine, Counted, Spent, shares, traffic, used
from testbed.brokers.plane import TopicPlane
from testbed.hosts.loop import Clock
from testbed.nodes.planes import ControlAt
from tests.live import needs
from tests.testbed.brokers.running import TOKEN, Client, broker

MACHINE = BrokerMachine(cores=2.0, memory_bytes=1_000.0, network_bytes=100.0)


def test_shares_are_of_what_the_machine_has() -> None:
    before = Spent(1 * SECOND_NS, 300.0, 1_000.0, 5_000.0)
    now = Spent(4 * SECOND_NS, 400.0, 1_050.0, 5_120.0)
    assert used(MACHINE, before, now, 2 * SECOND_NS) == Used(0.75, 0.4, 0.6)  # 3 of 4 core seconds; 60 B/s sent


def test_a_broker_that_began_anew_has_used_nothing() -> None:
    assert used(MACHINE, Spent(9e9, 1.0, 9e9, 9e9), Spent(0.0, 2_000.0, 0.0, 0.0), SECOND_NS) == Used(0.0, 1.0, 0.0)


@pytest.mark.parametrize("span_s", [0.8, 1.0, 2.2])  # a look that is late, or comes after one that was left out
def test_rates_are_of_the_time_between_two_looks(span_s: float) -> None:
    before = Counted(7 * SECOND_NS, 500, 900)
    now = Counted(round((7 + span_s) * SECOND_NS), 500 + round(1000 * span_s), 900 + round(3000 * span_s))
    found = traffic("t", before, now)
    assert (found.topic, found.in_rps, found.out_rps) == ("t", pytest.approx(1000.0), pytest.approx(3000.0))
    assert traffic("t", now, before._replace(at_ns=now.at_ns + 1)) == Traffic("t", 0.0, 0.0)  # it began anew


@given(st.lists(st.floats(-1e12, 1e12), min_size=3, max_size=3))
def test_shares_are_shares(values: list[float]) -> None:
    found = shares(*values)
    assert all(0.0 <= share <= 1.0 for share in (found.processor, found.memory, found.network))


class OneByOne:
    """A loop that only remembers what it shall call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def call_at(self, at_ns: int, action: Any, *arguments: object) -> None:
        self.calls.append((action, *arguments))


class Nobody:
    """Subscriptions of a topic that has none."""

    def channels(self, topic: str) -> list[str]:
        return []


@needs("go")
@pytest.mark.slow
def test_a_real_broker_reports_what_it_uses(tmp_path: Path) -> None:
    with broker(tmp_path / "its") as its:
        port = int(its.addresses["control"].rpartition(":")[2])
        loop, told = OneByOne(), []
        machine = BrokerMachine(cores=1e-3, memory_bytes=64.0 * 2**30)
        control = ControlAt(port, TOKEN)
        plane = TopicPlane(loop, "broker1", control, told.append, Nobody(), tmp_path / "events", machine)  # type: ignore[arg-type]
        plane.go(Clock(time.time_ns()))
        plane.actuate(Open("topic"))
        publisher = Client(its.connect("ingress"), publisher=1)
        for wanted in (0, 1, 2):
            publisher.publish("topic", *(os.urandom(1_000) for _ in range(2_000)))
            plane._tell()
            seen = [report for report in told if isinstance(report, Used)]
            assert len(seen) == wanted  # the first look has nothing to compare with
        assert all(report.processor > 0.0 and 0.0 < report.memory < 0.1 for report in seen)
        publisher.close()
