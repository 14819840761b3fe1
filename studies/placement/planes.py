"""The data planes of the placement family on real brokers: of a broker's node, of a client's, and of others none."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from core.clients import Role, instants
from core.errors import SystemFault
from core.records import Int64
from core.seeds import generator
from core.units import SECOND_NS
from studies.placement.script import Deed, Script, client_file, events_file, read_script
from systems.placement.messages import Attach, Detach, Follow, Unfollow
from testbed.brokers.clients import Consumer, Producer, Spares
from testbed.brokers.plane import NoPlane, Subscriptions, TopicPlane
from testbed.hosts.loop import Clock, Loop
from testbed.nodes.planes import ControlAt, Count, Plane, Report, Surroundings
from testbed.trust.accounts import Got, Sent


def placement_plane(loop: Loop, around: Surroundings, report: Report, count_sent: Count) -> Plane:
    """See ``testbed.nodes.planes``."""
    path, name = Path(around.script), around.node
    script, folder = read_script(path), path.parent
    if name in script.brokers:
        kept = Subscriptions(script.store_at, script.session_ns / SECOND_NS)
        control = ControlAt(script.brokers[name].control_port, script.token)
        return TopicPlane(loop, name, control, report, kept, events_file(folder, name), script.machine)
    if name in script.clients:
        return ClientPlane(loop, script, name, report, folder)
    return NoPlane(name)


class ClientPlane(Plane):
    """A client's producers and consumers, and what the client is told and when.  See ``testbed.nodes.planes``."""

    def __init__(self, loop: Loop, script: Script, name: str, report: Report, folder: Path):
        self._loop, self._script, self._name, self._report, self._folder = loop, script, name, report, folder
        self._deeds = script.clients[name]
        number = list(script.clients).index(name)
        brokers = script.brokers
        by_role = {role: _topics(self._deeds, role) for role in Role}
        out = [at.ingress for at in brokers.values()] if by_role[Role.PRODUCER] else []
        back = [at.nsqd for at in brokers.values()] if by_role[Role.CONSUMER] else []
        self._outward = Spares(loop, out, script.token, client_id=f"p{number}", heartbeat_interval=-1)
        self._inward = Spares(loop, back, script.token, client_id=name, feature_negotiation=True, output_buffer_size=-1)
        self._producers = {
            topic: Producer(
                loop, topic, number, script.topics[topic].size_bytes, lambda to: self._outward.take(brokers[to].ingress)
            )
            for topic in by_role[Role.PRODUCER]
        }
        self._consumers = {
            topic: Consumer(loop, topic, name, lambda at: self._inward.take(brokers[at].nsqd))
            for topic in by_role[Role.CONSUMER]
        }

    def ready(self) -> bool:
        """Whether every broker can be reached."""
        return self._outward.ready() and self._inward.ready()

    def actuate(self, command: object) -> None:
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
            spans_ns = self._script.spans_ns(self._name, topic, Role.PRODUCER)
            born = [instants(start_ns, end_ns, rate_rps, phase) for start_ns, end_ns in spans_ns]
            producer.go(clock, np.concatenate([np.empty(0, np.int64), *born]).tolist())
        for consumer in self._consumers.values():
            consumer.go(clock)

    def finish(self) -> None:
        """Write down what was sent and received: int64 arrays, a row a message."""
        tables: dict[str, Int64] = {}
        for topic, producer in self._producers.items():
            tables[f"sent:{topic}"] = np.array(producer.rows, np.int64).reshape(-1, len(Sent._fields))
        for topic, consumer in self._consumers.items():
            tables[f"got:{topic}"] = np.array(consumer.rows, np.int64).reshape(-1, len(Got._fields))
            tables[f"subscribed:{topic}"] = np.array(consumer.subscribed_ns, np.int64)
        np.savez(client_file(self._folder, self._name), **tables)  # type: ignore[arg-type]


def _topics(deeds: Sequence[Deed], role: Role) -> list[str]:
    return list(dict.fromkeys(deed.topic for deed in deeds if deed.topic and deed.role is role))
