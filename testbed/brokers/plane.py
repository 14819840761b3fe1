"""A broker node's way to its broker, by the control port on its own host: commands down, a report a second up."""

import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from pathlib import Path

import msgspec

from collectors import procfs
from core.errors import MachineError, SystemFault
from core.records import Envelope
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import SetBucket, TopicReport
from systems.distribution.commands import MessagesCame
from systems.parts import token_bucket
from systems.placement.messages import Drained, Fence, Open, Subscribed, Traffic, Unsubscribed, Used
from testbed.brokers.brokerd.client import BrokerClient, BrokerGone
from testbed.brokers.machine import BrokerMachine, Counted, Spent, traffic, used
from testbed.hosts.loop import Clock, Loop
from testbed.nodes.planes import ControlAt, Count, Plane, Report, ServerAt, Surroundings
from testbed.servers.zookeeper import kazoo_client

CONNECT_S = 5.0
PERIOD_NS = SECOND_NS  # SRTM V-D
LOOK_NS = 2 * MILLISECOND_NS  # ours: how often a fenced topic is looked at
DRAIN_NS = 5 * SECOND_NS  # ours: a topic whose subscribers do not take what is left is given up with it

SUBSCRIPTIONS = "/ratebed-subscriptions"  # beside what the store's node keeps, which is wiped when that begins
_BETWEEN = ":"  # topic and channel: in no name of NSQ's
ZOOKEEPER_S = 15.0


class ReportScript(msgspec.Struct, frozen=True):
    """What a run tells a plane of this family, where it tells anything: how often a broker reports."""

    report_ns: int = PERIOD_NS


def script_of(around: Surroundings) -> ReportScript:
    """Of the surroundings, or what holds without one."""
    if not around.script:
        return ReportScript()
    return msgspec.json.decode(Path(around.script).read_bytes(), type=ReportScript)


class NoPlane(Plane):
    """Of a node that is no broker's; see ``testbed.nodes.planes.Plane``."""

    def __init__(self, name: str):
        self._name = name

    def actuate(self, command: object) -> None:
        """SystemFault: there is nothing to command."""
        raise SystemFault(f"{self._name} commanded {command}", "brokers and clients have data planes")


class BrokerPlane(Plane):
    """What all planes of brokers share; each kind carries its commands out, and says what is reported.

    A broker that was killed neither reports nor obeys any more; its node goes on, as in virtual time.
    """

    period_ns = PERIOD_NS

    def __init__(self, loop: Loop, name: str, control: ControlAt, report: Report):
        self._loop, self._name, self._report = loop, name, report
        connection = socket.create_connection(("127.0.0.1", control.port), CONNECT_S)
        self._client: BrokerClient | None = BrokerClient(connection, control.token)  # None: the broker has gone
        self._clock: Clock

    def go(self, clock: Clock) -> None:
        """Time 0 is known, or past: reports begin a period after it, or at the next full one."""
        self._clock = clock
        periods = max(0, clock.now_ns()) // self.period_ns
        self._loop.call_at(clock.zero_ns + periods * self.period_ns, self._tell, False)

    def actuate(self, command: object) -> None:
        """Carry a command out; SystemFault for one that these brokers do not know."""
        if self._client is not None:
            with self._or_gone(self._client) as client:
                self._obey(client, command)

    def _obey(self, client: BrokerClient, command: object) -> None:
        raise NotImplementedError

    def _look_back(self, client: BrokerClient) -> Iterator[object]:
        raise NotImplementedError

    def _tell(self, is_wanted: bool = True) -> None:
        """Of what came before the run nobody wants to hear."""
        if self._client is None:
            return
        next_ns = (self._clock.now_ns() // self.period_ns + 1) * self.period_ns  # one that is missed is not made up for
        self._loop.call_at(self._clock.zero_ns + next_ns, self._tell)
        with self._or_gone(self._client) as client:
            for measurement in self._look_back(client):
                if is_wanted:
                    self._report(measurement)

    @contextmanager
    def _or_gone(self, client: BrokerClient) -> Iterator[BrokerClient]:
        try:
            yield client
        except BrokerGone as error:
            print(f"{self._name}: {error}", file=sys.stderr, flush=True)
            client.close()
            self._client = None


class BucketPlane(BrokerPlane):
    """Of a broker that shares a topic's token bucket with others (TB Adaptor)."""

    def __init__(
        self, loop: Loop, name: str, control: ControlAt, report: Report, topic: str, period_ns: int = PERIOD_NS
    ):
        super().__init__(loop, name, control, report)
        self._topic, self.period_ns = topic, period_ns

    def _obey(self, client: BrokerClient, command: object) -> None:
        if not isinstance(command, SetBucket) or command.topic != self._topic:
            raise SystemFault(f"{self._name} commanded {command}", f"brokers set the bucket of {self._topic!r}")
        client.set_bucket(command.topic, Envelope(command.rate_rps, command.burst_count))

    def _look_back(self, client: BrokerClient) -> Iterator[object]:
        yield topic_report(self._topic, client.report()[self._topic])


class GrantPlane(BucketPlane):
    """The same, for limiters: they hear how many messages have come (``systems.limiting.granted``)."""

    def _look_back(self, client: BrokerClient) -> Iterator[object]:
        yield MessagesCame(self._topic, client.report()[self._topic]["message_count"])


def bucket_plane(loop: Loop, around: Surroundings, report: Report, count_sent: Count) -> BucketPlane | NoPlane:
    """See ``testbed.nodes.planes``."""
    return _of_buckets(BucketPlane, loop, around, report)


def grant_plane(loop: Loop, around: Surroundings, report: Report, count_sent: Count) -> BucketPlane | NoPlane:
    """See ``testbed.nodes.planes``."""
    return _of_buckets(GrantPlane, loop, around, report)


def _of_buckets(kind: type[BucketPlane], loop: Loop, around: Surroundings, report: Report) -> BucketPlane | NoPlane:
    control = around.brokers.get(around.node)
    if control is None:
        return NoPlane(around.node)
    return kind(loop, around.node, control, report, around.topic, script_of(around).report_ns)


class Subscriptions:
    """Who is subscribed to which topic: kept in the run's ZooKeeper, so that a subscription outlives a topic's move.

    As Pulsar keeps its subscriptions in its metadata store.  Every broker holds a copy that ZooKeeper keeps up to date,
    so that opening a topic waits for nobody; what was written a round trip ago may not have come yet.

    ``at``: the ZooKeeper server.  MachineError where it is not there.
    """

    def __init__(self, at: ServerAt, session_s: float):
        self._names: list[str] = []
        self._client = kazoo_client(at, session_s)
        try:
            self._client.start(timeout=ZOOKEEPER_S)
            self._client.ensure_path(SUBSCRIPTIONS)
            self._client.ChildrenWatch(SUBSCRIPTIONS, self._changed)
        except Exception as error:
            self._client.stop()
            what = f"no ZooKeeper at {at.address}:{at.port}: {error or type(error).__name__}"
            raise MachineError(what, "see its log") from None

    def channels(self, topic: str) -> list[str]:
        """Of a topic, as far as known here."""
        pairs = (name.split(_BETWEEN) for name in self._names)
        return sorted(channel for name, channel in pairs if name == topic)

    def add(self, topic: str, channel: str) -> None:
        """Have a subscription kept, without waiting."""
        self._client.create_async(_path(topic, channel), b"")  # it may be there, and just about to be removed

    def remove(self, topic: str, channel: str) -> None:
        """End it, without waiting."""
        self._client.delete_async(_path(topic, channel))

    def _changed(self, names: list[str]) -> None:
        """In a thread of kazoo's."""
        self._names = names


def _path(topic: str, channel: str) -> str:
    return f"{SUBSCRIPTIONS}/{topic}{_BETWEEN}{channel}"


class TopicPlane(BrokerPlane):
    """Of a broker whose topics come and go: they are opened, fenced and drained.

    ``events`` gets a line of JSON for each thing that happens: instant, kind, topic.  Kinds: ``open``, ``fence``,
    ``drained``, and ``left``: messages that were not delivered in time, a number more.
    """

    def __init__(
        self,
        loop: Loop,
        name: str,
        control: ControlAt,
        report: Report,
        kept: Subscriptions,
        events: Path,
        machine: BrokerMachine,
    ):
        super().__init__(loop, name, control, report)
        self._kept, self._machine = kept, machine
        self._spent: tuple[int, Spent] | None = None  # at the last report: monotonic instant, counters
        self._open: set[str] = set()
        self._fenced_ns: dict[str, int] = {}  # topic -> monotonic instant
        self._is_look_planned = False
        self._counts: dict[str, Counted] = {}  # by topic, at the last report
        self._events = os.open(events, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _obey(self, client: BrokerClient, command: object) -> None:
        match command:
            case Open(topic):
                client.open(topic, self._kept.channels(topic))
                self._open.add(topic)
                self._counts[topic] = _counted(client.queues().get(topic, {}))  # not yet drained: it has counts still
                self._note("open", topic)
            case Fence(topic):
                client.fence(topic)
                self._open.discard(topic)
                self._fenced_ns[topic] = time.monotonic_ns()
                self._note("fence", topic)
                self._plan_look(time.monotonic_ns())
            case Subscribed(topic, consumer):
                client.open(topic, [consumer])
                self._kept.add(topic, consumer)
            case Unsubscribed(topic, consumer):
                self._kept.remove(topic, consumer)
                client.leave(topic, [consumer])
            case _:
                raise SystemFault(f"{self._name} commanded {command}", "see systems.placement.messages")

    def _plan_look(self, at_ns: int) -> None:
        """One at a time, at all topics: the node waits for the broker's answer."""
        if not self._is_look_planned:
            self._is_look_planned = True
            self._loop.call_at(at_ns, self._look)

    def _look(self) -> None:
        self._is_look_planned = False
        if self._client is None or not self._fenced_ns:
            return
        with self._or_gone(self._client) as client:
            queues = client.queues()
            for topic, since_ns in list(self._fenced_ns.items()):
                queue = queues.get(topic)
                late = time.monotonic_ns() - since_ns > DRAIN_NS
                if queue is None or queue["drained"] or late or topic in self._open:
                    del self._fenced_ns[topic]
                    if queue is not None and late and not queue["drained"]:
                        self._note("left", topic, queue["unfinished_count"])
                    self._note("drained", topic)
                    self._report(Drained(topic))
        if self._fenced_ns:
            self._plan_look(time.monotonic_ns() + LOOK_NS)

    def _look_back(self, client: BrokerClient) -> Iterator[Traffic | Used]:
        at_ns, now = time.monotonic_ns(), _spent(client)
        if self._spent is not None and at_ns > self._spent[0]:
            yield used(self._machine, self._spent[1], now, at_ns - self._spent[0])
        self._spent = at_ns, now
        for topic, queue in client.queues().items():
            if topic in self._open:
                before, self._counts[topic] = self._counts[topic], _counted(queue)
                yield traffic(topic, before, self._counts[topic])

    def _note(self, kind: str, topic: str, *more: int) -> None:
        line = json.dumps([self._clock.now_ns(), kind, topic, *more])
        os.write(self._events, line.encode() + b"\n")


def _counted(queue: Mapping[str, int]) -> Counted:
    return Counted(time.monotonic_ns(), queue.get("message_count", 0), queue.get("copy_count", 0))


def _spent(client: BrokerClient) -> Spent:
    """Of the broker, and of the host's interfaces, which are ours, too."""
    process, network = client.stats(), procfs.network_counters(os.getpid())
    directions = (network.get(f"interface_{way}_bytes", 0.0) for way in ("received", "sent"))
    return Spent(process["cpu_ns"], process["rss_bytes"], *directions)


def topic_report(topic: str, seen: Mapping[str, int]) -> TopicReport:
    """What a broker's report says, in messages."""
    span_s = seen["span_ns"] / SECOND_NS
    return TopicReport(
        topic,
        rate_rps=seen["message_count"] / span_s if span_s else 0.0,
        backlog_count=-seen["lowest_level"] / token_bucket.TOKEN,
        waiting_count=float(ceil(-seen["lowest_balance"] / token_bucket.TOKEN)),
    )
