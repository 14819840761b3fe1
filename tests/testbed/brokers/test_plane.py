"""A broker's node and its broker: how often it is asked."""

import socket
import time
from pathlib import Path

import pytest

from core.units import MILLISECOND_NS
from systems.placement.messages import Fence
from testbed.brokers import plane
from testbed.brokers.machine import BrokerMachine
from testbed.hosts.loop import Clock, Loop
from testbed.nodes.planes import ControlAt

FENCED = [f"t{number}" for number in range(16)]


class NeverDrained:
    """A broker whose topics keep what they have."""

    asked_count = 0

    def fence(self, topic: str) -> None:
        pass

    def queues(self) -> dict[str, dict[str, int]]:
        self.asked_count += 1
        return {topic: {"drained": 0, "unfinished_count": 1} for topic in FENCED}


def test_however_many_topics_are_fenced_the_broker_is_asked_every_two_milliseconds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broker, loop = NeverDrained(), Loop()
    monkeypatch.setattr(plane, "BrokerClient", lambda connection, token: broker)
    with socket.create_server(("127.0.0.1", 0)) as control:
        at, machine = ControlAt(control.getsockname()[1], "token"), BrokerMachine(1.0, 1.0)
        topics = plane.TopicPlane(loop, "broker1", at, print, None, tmp_path / "events", machine)  # type: ignore[arg-type]
    topics.go(Clock(time.time_ns() + 60_000 * MILLISECOND_NS))
    begin_ns = time.monotonic_ns()
    for topic in FENCED:
        topics.actuate(Fence(topic))
    loop.call_at(begin_ns + 200 * MILLISECOND_NS, loop.stop)
    loop.run()
    assert 1 <= broker.asked_count <= (time.monotonic_ns() - begin_ns) // plane.LOOK_NS + 1
