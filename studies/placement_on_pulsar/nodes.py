"""The placement family's nodes where a real Pulsar owns the topics: what is left of a broker's node, and of a client's.

The load manager is the family's own, unchanged, and so are the strategies.  A broker's node still reports to the store,
and hears the load manager's ``Release``; Pulsar fences, hands over and closes (steps 2, 3, 4 and 6 of ePulsar's Fig. 2)
when its REST is told to unload, and the answer to that is ``Released``.  Clients are Pulsar's own, in processes of
theirs; a node beside each of these says where they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from core.clients import Role
from core.seeds import generator
from core.units import SECOND_NS
from systems.api import (
    Actuate,
    Delivery,
    Effect,
    Event,
    Message,
    Node,
    Report,
    Send,
    SetTimer,
    Start,
    Timer,
    UnexpectedEvent,
)
from systems.parts.vivaldi import Coordinate
from systems.placement.broker import BrokerNode, UnitState, _Unit
from systems.placement.messages import AtSite, ClientLocation, Expired, Here, Noted, Release, Released, WhereAmI
from systems.placement.monitoring import Rates, Strategy
from systems.placement.options import Options


class ServedTopic(NamedTuple):
    """A topic at its broker, as Pulsar tells: its rates, the names of its clients (``HOST.NUMBER``)."""

    rates: Rates
    producers: Sequence[str]
    consumers: Sequence[str]


@dataclass(frozen=True)
class Served:
    """To a broker's node, of its broker: all topics that are loaded there."""

    topics: Mapping[str, ServedTopic]


@dataclass(frozen=True)
class Unload:
    """To the broker: give the unit up, to the broker of the node ``target``, or "" to whom Pulsar finds."""

    unit: str
    target: str


@dataclass(frozen=True)
class Unloaded:
    """To a broker's node: REST has answered, whatever it said."""

    unit: str


class PulsarBrokerNode(BrokerNode):
    """Beside one broker of Pulsar's: a broker's node without ownership.  ``hint`` off: Pulsar's plain unload."""

    def __init__(self, node_id: str, store: str, strategy: Strategy, options: Options, seed: int):
        super().__init__(node_id, store, strategy, options, seed)
        self._places: dict[str, Coordinate] = {}  # by the clients' node
        self._managers: dict[str, str] = {}  # of units that are on their way: who asked

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Report(Served(topics)):
                self._take(topics)
                return []
            case Report(Unloaded(unit)):
                manager = self._managers.pop(unit, "")
                return [Send(manager, Released(unit))] if manager else []
        return super().handle(event, now_ns)

    def _heard(self, source: str, message: Message) -> list[Effect]:
        match message:
            case Release(unit, next_broker):
                self._managers[unit] = source
                return [Actuate(Unload(unit, next_broker if self.hint else ""))]
            case ClientLocation(coordinate):
                self._places[source] = coordinate
                self._clients |= {client: coordinate for client in self._clients if _host_of(client) == source}
                return [Send(source, Noted())]
            case Expired():
                return self._open_session()
        return super()._heard(source, message)

    def _take(self, topics: Mapping[str, ServedTopic]) -> None:
        """What is reported is what Pulsar says now; of clients only where their place is known."""
        self._units, self._rates, self._clients = {}, {}, {}
        for topic, served in topics.items():
            unit = self._units.setdefault(self.strategy.unit_of(topic), _Unit(UnitState.OWNED))
            unit.topics[topic] = {
                Role.PRODUCER: dict.fromkeys(served.producers),
                Role.CONSUMER: dict.fromkeys(served.consumers),
            }
            self._rates[topic] = served.rates
            for client in (*served.producers, *served.consumers):
                if (host := _host_of(client)) in self._places:
                    self._clients[client] = self._places[host]


def _host_of(client: str) -> str:
    return client.rpartition(".")[0]


class WhereaboutsNode:
    """Clients that are at one place: asks its site's proxy now and then where that is; tells every broker (ePulsar, 4).

    When it moves it waits until it asks anyway, as a ``ClientNode`` does.
    """

    def __init__(self, node_id: str, brokers: Sequence[str], options: Options, seed: int):
        self.node_id, self.brokers, self.locate_ns = node_id, brokers, options.span("locate")
        self._rng = generator(seed, "client", node_id)
        access_ns = options.span("access", "0") if options.add_access else 0
        self._access_rtt_s = 2 * access_ns / SECOND_NS
        self._proxy = ""

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Start(None):
                return [SetTimer("locate", now_ns + int(self._rng.integers(1, self.locate_ns, endpoint=True)))]
            case Timer("locate", due_at_ns):
                return [*self._ask(), SetTimer("locate", due_at_ns + self.locate_ns)]
            case Report(AtSite(proxy)):
                first, self._proxy = not self._proxy, proxy
                return self._ask() if first else []
            case Delivery(_, Here(coordinate)):
                here = replace(coordinate, height=coordinate.height + self._access_rtt_s)
                return [Send(broker, ClientLocation(here)) for broker in self.brokers]
            case Delivery(_, Noted()):
                return []
        raise UnexpectedEvent(self.node_id, event)

    def _ask(self) -> list[Effect]:
        return [Send(self._proxy, WhereAmI())] if self._proxy else []


def nodes_on_pulsar(
    nodes: Mapping[str, Node], brokers: Sequence[str], clients: Sequence[str], options: Options, seed: int
) -> dict[str, Node]:
    """The nodes of a deployment of the family, with those of ``brokers`` and ``clients`` replaced."""
    others: dict[str, Node] = {name: WhereaboutsNode(name, brokers, options, seed) for name in clients}
    for name in brokers:
        node = nodes[name]
        assert isinstance(node, BrokerNode)
        others[name] = PulsarBrokerNode(name, node.store, node.strategy, options, seed)
    return {**nodes, **others}
