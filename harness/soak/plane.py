"""The data plane of placements in a soak: who accepts which topic for whom.  To drain a topic takes time."""

from collections.abc import Iterable

from core.units import SECOND_NS
from systems.placement.messages import Attach, Detach, Drained, Fence, Open, Subscribed, Traffic, Unsubscribed

RATE_RPS = 50.0  # of each producer
DRAIN_NS = 2 * SECOND_NS  # what a broker has accepted is delivered so long after it was fenced


class SoakPlane:
    """See ``testbed.virtual.scheduler.DataPlane``."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._open: dict[tuple[str, str], dict[str, None]] = {}  # (broker, topic) -> consumers
        self._attached: dict[tuple[str, str], str] = {}  # (producer, topic) -> broker
        self._drains: dict[tuple[str, str], int] = {}  # (broker, topic) -> when it is drained

    def advance(self, until_ns: int) -> None:
        """Time goes on."""
        self._now_ns = until_ns

    def report(self) -> Iterable[tuple[str, object]]:
        """Rates of what is accepted, and topics that are drained by now, each once."""
        drained = [key for key, at_ns in self._drains.items() if at_ns <= self._now_ns]
        for key in drained:
            del self._drains[key]
        reports: list[tuple[str, object]] = [(broker, Drained(topic)) for broker, topic in drained]
        for (broker, topic), consumers in self._open.items():
            producers = sum(where == broker and theirs == topic for (_, theirs), where in self._attached.items())
            in_rps = producers * RATE_RPS
            reports.append((broker, Traffic(topic, in_rps, in_rps * len(consumers))))
        return reports

    def actuate(self, node: str, command: object, now_ns: int) -> None:
        """What brokers and clients command."""
        match command:
            case Open(topic):
                self._open.setdefault((node, topic), {})
            case Fence(topic):
                if self._open.pop((node, topic), None) is not None:
                    self._drains[node, topic] = now_ns + DRAIN_NS
            case Subscribed(topic, client):
                self._open.setdefault((node, topic), {})[client] = None
            case Unsubscribed(topic, client):
                self._open.get((node, topic), {}).pop(client, None)
            case Attach(topic, broker):
                self._attached[node, topic] = broker
            case Detach(topic):
                self._attached.pop((node, topic), None)

    def crash(self, node: str, now_ns: int) -> None:
        """What it accepted, and what it had not delivered, is gone."""
        for table in (self._open, self._drains):
            for key in [key for key in table if key[0] == node]:
                del table[key]
        self._attached = {key: broker for key, broker in self._attached.items() if key[0] != node}
