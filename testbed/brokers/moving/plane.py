"""A broker node's way to its broker where publishers move: their ids and another broker down, what each sent up.

Who sent how much is in the rows that the broker keeps of its messages, which it is asked for with every report.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from core.errors import SystemFault
from core.records import Envelope
from core.units import SECOND_NS
from systems.api import SetBucket, TopicReport
from systems.distribution.commands import MoveAway, PublisherReport
from testbed.brokers.brokerd.client import BrokerClient, read_rows
from testbed.brokers.plane import BrokerPlane, NoPlane, ReportScript, topic_report
from testbed.hosts.loop import Loop
from testbed.nodes.planes import ControlAt, Count, Report, Surroundings


class MoveScript(ReportScript, frozen=True, kw_only=True):
    """And where publishers reach each broker."""

    ingress: dict[str, str]  # broker -> "ip:port"


class MovePlane(BrokerPlane):
    """Sets the topic's sub-bucket, and sends its publishers elsewhere; ``seen``: a file for the broker's rows."""

    def __init__(
        self, loop: Loop, name: str, control: ControlAt, report: Report, topic: str, script: MoveScript, seen: Path
    ):
        self.period_ns = script.report_ns
        super().__init__(loop, name, control, report)
        self._topic, self._ingress, self._seen = topic, script.ingress, seen
        self._reported_count, self._reported_ns = 0, time.monotonic_ns()

    def _obey(self, client: BrokerClient, command: object) -> None:
        match command:
            case SetBucket(topic, rate_rps, burst_count) if topic == self._topic:
                client.set_bucket(topic, Envelope(rate_rps, burst_count))
            case MoveAway(topic, publishers, broker) if topic == self._topic and broker in self._ingress:
                client.move(topic, publishers, self._ingress[broker])
            case _:
                raise SystemFault(f"{self._name} commanded {command}", f"brokers of {self._topic!r} set and move")

    def _look_back(self, client: BrokerClient) -> Iterator[TopicReport | PublisherReport]:
        yield topic_report(self._topic, client.report()[self._topic])
        row_count, _ = client.write_rows(str(self._seen), self._topic)
        now_ns = time.monotonic_ns()
        span_s = max(1, now_ns - self._reported_ns) / SECOND_NS
        publishers = read_rows(self._seen, row_count)["publisher"][self._reported_count :]
        self._reported_count, self._reported_ns = row_count, now_ns
        who, count = np.unique(publishers, return_counts=True)
        yield PublisherReport(self._topic, dict(zip(who.tolist(), (count / span_s).tolist(), strict=True)))


def move_plane(loop: Loop, around: Surroundings, report: Report, count_sent: Count) -> MovePlane | NoPlane:
    """See ``testbed.nodes.planes``."""
    control = around.brokers.get(around.node)
    if control is None:
        return NoPlane(around.node)
    path = Path(around.script)
    script = msgspec.json.decode(path.read_bytes(), type=MoveScript)
    seen = path.with_name(f"{around.node}.seen")
    return MovePlane(loop, around.node, control, report, around.topic, script, seen)
