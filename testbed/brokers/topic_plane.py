"""A broker node's way to its broker: topics are opened, fenced and drained; rates are reported."""

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.errors import SystemFault
from core.units import MILLISECOND_NS, SECOND_NS
from studies.placement.script import Script
from systems.placement.messages import Drained, Fence, Open, Subscribed, Traffic, Unsubscribed
from testbed.brokers.brokerd.client import BrokerClient, BrokerGone
from testbed.brokers.subscriptions import Subscriptions
from testbed.hosts.loop import Clock, Loop
from testbed.nodes.planes import Plane

CONNECT_S = 5.0
LOOK_NS = 2 * MILLISECOND_NS  # ours: how often a fenced topic is looked at
DRAIN_NS = 5 * SECOND_NS  # ours: a topic whose subscribers do not take what is left is given up with it
REPORT_NS = SECOND_NS


class TopicBrokerPlane(Plane):
    """See ``testbed.nodes.planes.Plane``.  It writes a line of JSON for each thing that happens: instant, kind, topic.

    Kinds: ``open``, ``fence``, ``drained``, and ``left``: messages that were not delivered in time, a number more.
    """

    def __init__(self, loop: Loop, script: Script, name: str, report: Callable[[Any], None]):
        self._loop, self._name, self._report = loop, name, report
        at = socket.create_connection(("127.0.0.1", script.brokers[name].control_port), CONNECT_S)
        self._client: BrokerClient | None = BrokerClient(at, script.token)  # None: the broker has gone
        self._subscriptions = Subscriptions(script.store_at, script.session_ns / SECOND_NS)
        self._open: set[str] = set()
        self._fenced_ns: dict[str, int] = {}  # topic -> monotonic instant
        self._counts: dict[str, tuple[int, int]] = {}  # topic -> messages taken and passed on, at the last report
        path = Path(script.folder) / f"{name}.events"
        self._events = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._clock: Clock

    def ready(self) -> bool:
        """Connected in the making."""
        return True

    def go(self, clock: Clock) -> None:
        """Time 0 is known: reports begin."""
        self._clock = clock
        seconds = max(0, clock.now_ns()) // REPORT_NS + 1
        self._loop.call_at(clock.zero_ns + seconds * REPORT_NS, self._tell, seconds)

    def actuate(self, command: Any) -> None:
        """Carry a command out; SystemFault for one that brokers do not know."""
        if self._client is None:
            return
        with self._or_gone(self._client) as client:
            match command:
                case Open(topic):
                    client.open(topic, self._subscriptions.channels(topic))
                    self._open.add(topic)
                    self._counts.pop(topic, None)
                    self._note("open", topic)
                case Fence(topic):
                    client.fence(topic)
                    self._open.discard(topic)
                    self._fenced_ns[topic] = time.monotonic_ns()
                    self._note("fence", topic)
                    self._loop.call_at(time.monotonic_ns(), self._look)
                case Subscribed(topic, consumer):
                    client.open(topic, [consumer])
                    self._subscriptions.add(topic, consumer)
                case Unsubscribed(topic, consumer):
                    self._subscriptions.remove(topic, consumer)
                    client.leave(topic, [consumer])
                case _:
                    raise SystemFault(f"{self._name} commanded {command}", "see systems.placement.messages")

    def _look(self) -> None:
        """Report the fenced topics that are delivered."""
        if self._client is None or not self._fenced_ns:
            return
        with self._or_gone(self._client) as client:
            found = client.queues()
            for topic, since_ns in list(self._fenced_ns.items()):
                its = found.get(topic)
                late = time.monotonic_ns() - since_ns > DRAIN_NS
                if its is None or its["drained"] or late or topic in self._open:
                    del self._fenced_ns[topic]
                    if its is not None and late and not its["drained"]:
                        self._note("left", topic, its["depth"] + its["in_flight_count"])
                    self._note("drained", topic)
                    self._report(Drained(topic))
        if self._fenced_ns:
            self._loop.call_at(time.monotonic_ns() + LOOK_NS, self._look)

    def _tell(self, seconds: int) -> None:
        """The rates of the last second."""
        if self._client is None:
            return
        self._loop.call_at(self._clock.zero_ns + (seconds + 1) * REPORT_NS, self._tell, seconds + 1)
        with self._or_gone(self._client) as client:
            for topic, its in client.queues().items():
                if topic in self._open:
                    taken, copies = self._counts.get(topic, (0, 0))
                    self._counts[topic] = its["message_count"], its["copy_count"]
                    second = REPORT_NS / SECOND_NS
                    rates = (its["message_count"] - taken) / second, (its["copy_count"] - copies) / second
                    self._report(Traffic(topic, *(max(0.0, rate) for rate in rates)))

    def _note(self, kind: str, topic: str, *more: int) -> None:
        line = json.dumps([self._clock.now_ns(), kind, topic, *more])
        os.write(self._events, line.encode() + b"\n")

    @contextmanager
    def _or_gone(self, client: BrokerClient) -> Iterator[BrokerClient]:
        """A broker that was killed does nothing any more; its node is about to go, too."""
        try:
            yield client
        except BrokerGone as error:
            print(f"{self._name}: {error}", file=sys.stderr, flush=True)
            client.close()
            self._client = None
