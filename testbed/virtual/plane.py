"""Joins the virtual brokers to the event loop: a ``Fleet`` as the loop's ``DataPlane``."""

from collections.abc import Iterable, Sequence
from typing import Any

from core.errors import SystemFault
from core.records import Envelope
from systems.api import SetBucket
from testbed.virtual.fleet import Fleet


class FleetPlane:
    """``names[i]`` is the node that controls broker i of ``fleet``."""

    def __init__(self, fleet: Fleet, names: Sequence[str]):
        assert len(names) == fleet.broker_count
        self.fleet, self.names = fleet, list(names)

    def advance(self, until_ns: int) -> None:
        """Carry all traffic up to ``until_ns``."""
        self.fleet.advance(until_ns)

    def report(self) -> Iterable[tuple[str, Any]]:
        """(node, TopicReport) of each broker."""
        return list(zip(self.names, self.fleet.report(), strict=True))

    def actuate(self, node: str, command: Any, now_ns: int) -> None:
        """Set a broker's sub-bucket, keeping its tokens."""
        assert now_ns == self.fleet.now_ns, "the loop advances the fleet before it delivers an event"
        if not isinstance(command, SetBucket) or command.topic != self.fleet.topic or node not in self.names:
            raise SystemFault(f"{node} commanded {command}", f"brokers set the bucket of {self.fleet.topic!r}")
        self.fleet.set_bucket(self.names.index(node), Envelope(command.rate_rps, command.burst_count))

    def crash(self, node: str, now_ns: int) -> None:
        """A broker outlives its control node, and keeps its bucket."""
