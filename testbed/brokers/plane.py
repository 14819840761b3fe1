"""A node's broker: its control port on the same host, asked for a report every second, told of new buckets."""

import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from typing import Any

from core.errors import SystemFault
from core.records import Envelope
from core.units import SECOND_NS
from systems.api import SetBucket, TopicReport
from systems.parts import token_bucket
from testbed.brokers.brokerd.client import BrokerClient, BrokerGone
from testbed.hosts.loop import Loop, real_offset_ns
from testbed.nodes.planes import Plane, Surroundings

PERIOD_NS = SECOND_NS  # SRTM V-D
_CONNECT_S = 5.0


class BrokerPlane(Plane):
    """See ``testbed.nodes.planes.Plane``.  A node that is no broker's has a plane that does nothing."""

    def __init__(
        self,
        loop: Loop,
        around: Surroundings,
        report: Callable[[TopicReport], None],
        count_sent: Callable[[bytes], None],
    ):
        self._loop, self._report = loop, report
        self._name, self._topic = around.node, around.topic
        self._client: BrokerClient | None = None  # None, too, when the broker has gone
        self._is_broker = self._name in around.brokers
        if self._is_broker:
            at = around.brokers[self._name]
            connection = socket.create_connection(("127.0.0.1", at.port), _CONNECT_S)
            self._client = BrokerClient(connection, at.token)
            self._client.report()  # from now on, for this reader
            begin_ns = around.begin_ns - real_offset_ns()
            loop.call_at(begin_ns, self._begin, begin_ns)

    def ready(self) -> bool:
        """Connected in the making."""
        return True

    def actuate(self, command: Any) -> None:
        """Set the broker's sub-bucket, keeping its tokens; SystemFault for anything else."""
        if not self._is_broker or not isinstance(command, SetBucket) or command.topic != self._topic:
            raise SystemFault(f"{self._name} commanded {command}", f"brokers set the bucket of {self._topic!r}")
        if self._client is not None:
            with self._or_gone(self._client):
                self._client.set_bucket(command.topic, Envelope(command.rate_rps, command.burst_count))

    def _begin(self, at_ns: int) -> None:
        """What came before the load is nobody's business."""
        if self._client is None:
            return
        with self._or_gone(self._client):
            self._client.report()
        self._loop.call_at(at_ns + PERIOD_NS, self._tell, at_ns + PERIOD_NS)

    def _tell(self, at_ns: int) -> None:
        if self._client is None:
            return
        late_ns = time.monotonic_ns() - at_ns
        self._loop.call_at(at_ns + (1 + late_ns // PERIOD_NS) * PERIOD_NS, self._tell, at_ns + PERIOD_NS)
        with self._or_gone(self._client):
            seen = self._client.report()[self._topic]
            self._report(topic_report(self._topic, seen))

    @contextmanager
    def _or_gone(self, client: BrokerClient) -> Iterator[None]:
        """A broker that was killed neither reports nor obeys any more; its node goes on, as in virtual time."""
        try:
            yield
        except BrokerGone as error:
            print(f"{self._name}: {error}", file=sys.stderr, flush=True)
            client.close()
            self._client = None


def topic_report(topic: str, seen: Mapping[str, int]) -> TopicReport:
    """What a broker's report says, in messages."""
    span_s = seen["span_ns"] / SECOND_NS
    return TopicReport(
        topic,
        rate_rps=seen["message_count"] / span_s if span_s else 0.0,
        backlog_count=-seen["lowest_level"] / token_bucket.TOKEN,
        waiting_count=float(ceil(-seen["lowest_balance"] / token_bucket.TOKEN)),
    )
