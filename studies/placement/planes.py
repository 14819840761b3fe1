"""The data planes of the placement family on real brokers: of a broker's node, of a client's, and of others none."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.clients import Role
from core.errors import SystemFault
from core.seeds import generator
from studies.placement.script import Deed, Script, read_script
from systems.placement.messages import Attach, Detach, Follow, Unfollow
from testbed.brokers.consumer import COLUMNS as GOT
from testbed.brokers.consumer import Consumer
from testbed.brokers.producer import COLUMNS as SENT
from testbed.brokers.producer import Producer
from testbed.brokers.topic_plane import TopicBrokerPlane
from testbed.brokers.wires import Spares
from testbed.hosts.loop import Clock, Loop
from testbed.nodes.planes import Plane, Surroundings
from testbed.virtual.topic_kernel import instants
from testbed.virtual.topic_plane import Span


def placement_plane(
    loop: Loop,
    around: Surroundings,
    report: Callable[[Any], None],
    count_sent: Callable[[bytes], None],
) -> Plane:
    """See ``testbed.nodes.planes``."""
    script, name = read_script(Path(around.script)), around.node
    if name in script.brokers:
        return TopicBrokerPlane(loop, script, name, report)
    if name in script.clients:
        return ClientPlane(loop, script, name, report)
    return NoPlane(name)


class NoPlane(Plane):
    """Of managers, agents and the store."""

    def __init__(self, name: str):
        self._name = name

    def ready(self) -> bool:
        """Yes."""
        return True

    def actuate(self, command: Any) -> None:
        """SystemFault: there is nothing to command."""
        raise SystemFault(f"{self._name} commanded {command}", "brokers and clients have data planes")


class ClientPlane(Plane):
    """A client's producers and consumers, and what the client is told and when.  See ``testbed.nodes.planes``."""

    def __init__(self, loop: Loop, script: Script, name: str, report: Callable[[Any], None]):
        self._loop, self._script, self._name, self._report = loop, script, name, report
        self._deeds = script.clients[name]
        number = list(script.clients).index(name)
        brokers = script.brokers
        of_role = {role: _topics(self._deeds, role) for role in Role}
        out = [at.ingress for at in brokers.values()] if of_role[Role.PRODUCER] else []
        back = [at.nsqd for at in brokers.values()] if of_role[Role.CONSUMER] else []
        self._outward = Spares(loop, out, client_id=f"p{number}", heartbeat_interval=-1)
        self._inward = Spares(loop, back, client_id=name, feature_negotiation=True, output_buffer_size=-1)
        self._producers = {
            topic: Producer(
                loop, topic, number, script.topics[topic].size_bytes, lambda to: self._outward.take(brokers[to].ingress)
            )
            for topic in of_role[Role.PRODUCER]
        }
        self._consumers = {
            topic: Consumer(loop, topic, name, lambda at: self._inward.take(brokers[at].nsqd))
            for topic in of_role[Role.CONSUMER]
        }

    def ready(self) -> bool:
        """Whether every broker can be reached."""
        return self._outward.ready() and self._inward.ready()

    def actuate(self, command: Any) -> None:
        """Producers and consumers go where the node says."""
        match command:
            case Attach(topic, broker):
                self._producers[topic].attach(broker)
            case Detach(topic):
                self._producers[topic].detach()
            case Follow(topic, broker):
                self._consumers[topic].follow(broker)
            case Unfollow(topic):
                self._consumers[topic].unfollow()
            case _:
                raise SystemFault(f"{self._name} commanded {command}", "see systems.placement.messages")

    def go(self, clock: Clock) -> None:
        """Everything happens at its instant of the run."""
        for deed in self._deeds:
            self._loop.call_at(clock.zero_ns + deed.at_ns, self._report, deed.report())
        for topic, producer in self._producers.items():
            rate_rps = self._script.topics[topic].rate_rps
            phase = generator(self._script.seed, "messages", topic, self._name).random()
            spans = spans_of(self._deeds, topic, Role.PRODUCER, self._script.until_ns)
            born = [instants(span, rate_rps, phase, self._script.until_ns) for span in spans]
            producer.go(clock, np.concatenate([np.empty(0, np.int64), *born]).tolist())
        for consumer in self._consumers.values():
            consumer.go(clock)

    def finish(self) -> None:
        """Write down what was sent and received: int64 arrays, a row a message."""
        tables: dict[str, Any] = {}
        for topic, producer in self._producers.items():
            tables[f"sent:{topic}"] = np.array(producer.rows, np.int64).reshape(-1, len(SENT))
        for topic, consumer in self._consumers.items():
            tables[f"got:{topic}"] = np.array(consumer.rows, np.int64).reshape(-1, len(GOT))
            tables[f"subscribed:{topic}"] = np.array(consumer.subscribed_ns, np.int64)
        np.savez(Path(self._script.folder) / f"{self._name}.npz", **tables)


def _topics(deeds: Sequence[Deed], role: Role) -> list[str]:
    return list(dict.fromkeys(deed.topic for deed in deeds if deed.topic and deed.role is role))


def spans_of(deeds: Sequence[Deed], topic: str, role: Role, until_ns: int) -> list[Span]:
    """When a client is on a topic; what has no end ends at ``until_ns``."""
    found: list[Span] = []
    for deed in deeds:
        if deed.topic == topic and deed.role is role:
            if deed.wanted:
                found.append(Span(deed.at_ns, until_ns))
            else:
                found[-1].end_ns = deed.at_ns
    return found
