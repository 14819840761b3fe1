"""What the processes of a live placement run are told before it: who does what and when, and where servers are.

A file that is brought to each host, so that nodes that are restarted read the same; beside it clients and brokers
write down what they saw.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from core.clients import Joined, Moved, Role
from studies.placement.asked import PlacementRequest
from systems.placement.messages import AtSite, Wanted
from testbed.brokers.machine import BrokerMachine
from testbed.nodes.planes import ServerAt


class Deed(msgspec.Struct, frozen=True, array_like=True):
    """A client is told at an instant: to be at a site (``proxy``), or to begin or end with a topic."""

    at_ns: int
    proxy: str = ""
    topic: str = ""
    role: Role = Role.PRODUCER
    wanted: bool = True

    def report(self) -> AtSite | Wanted:
        """As the node hears it."""
        return AtSite(self.proxy) if self.proxy else Wanted(self.topic, self.role, self.wanted)


def deeds_of(asked: PlacementRequest) -> Iterator[tuple[str, Deed]]:
    """Who is told what, in order: where clients begin, and then all that happens."""
    begins = [Moved(0, client, home) for client, home in asked.load.homes.items()]
    for happening in [*begins, *asked.happenings]:
        if isinstance(happening, Moved):
            deed = Deed(happening.at_ns, asked.places[happening.site].proxy)
        else:
            deed = Deed(happening.at_ns, "", happening.topic, happening.role, isinstance(happening, Joined))
        yield happening.client, deed


class TopicAt(msgspec.Struct, frozen=True):
    """What each producer of a topic sends."""

    rate_rps: float
    size_bytes: int


class BrokerAt(msgspec.Struct, frozen=True):
    """The ports of a broker process: ``"ip:port"`` of ingress and nsqd; the control port is on its host's loopback."""

    ingress: str
    nsqd: str
    control_port: int


class Script(msgspec.Struct, frozen=True):
    """One run.  Clients and topics are numbered in the order in which they are here."""

    seed: int
    until_ns: int  # nothing is sent from then on
    token: str  # of the brokers' ports
    topics: dict[str, TopicAt]
    clients: dict[str, list[Deed]]
    brokers: dict[str, BrokerAt]
    store: str  # the node
    store_at: ServerAt  # its ZooKeeper
    session_ns: int
    serf: dict[str, ServerAt]  # agent -> its RPC
    machine: BrokerMachine  # of each broker

    def spans_ns(self, client: str, topic: str, role: Role) -> list[tuple[int, int]]:
        """When a client is on a topic; what has no end ends with the run."""
        spans: list[tuple[int, int]] = []
        for deed in self.clients[client]:
            if deed.topic == topic and deed.role is role:
                if deed.wanted:
                    spans.append((deed.at_ns, self.until_ns))
                else:
                    spans[-1] = spans[-1][0], deed.at_ns
        return spans


def write_script(path: Path, script: msgspec.Struct) -> None:
    """Write it, for the run's own user alone: there are secrets in it."""
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(script))


def read_script(path: Path) -> Script:
    """What ``write_script`` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=Script)


def client_file(folder: Path, client: str) -> Path:
    """Where a client writes down what it sent and got: an .npz."""
    return folder / f"{client}.npz"


def events_file(folder: Path, broker: str) -> Path:
    """Where a broker's node writes down what its topics do: a line of JSON each."""
    return folder / f"{broker}.events"
