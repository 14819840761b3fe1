"""All nodes of one deployment of the placement family, by the roles of their names."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from core.clients import Role
from core.errors import SpecError
from core.units import SECOND_NS
from systems.api import Node, Rehearsal, StandIn, System, Transport
from systems.placement.agent import AgentNode
from systems.placement.broker import BrokerNode
from systems.placement.cast import STORE, cast_of
from systems.placement.client import ClientNode
from systems.placement.invariants import INVARIANTS
from systems.placement.manager import ManagerNode
from systems.placement.messages import MESSAGES, AtSite, Drained, Traffic, Used, Wanted
from systems.placement.monitoring import Strategy
from systems.placement.options import Options
from systems.placement.store import StoreNode

REHEARSAL = Rehearsal(
    names=(
        "manager1",
        "broker1",
        "store",
        "manager2",
        "broker2",
        "broker1-agent",
        "broker2-agent",
        "proxy1",
        "one",
        "two",
    ),
    reports=(
        *((0, client, AtSite("proxy1")) for client in ("one", "two")),
        (1, "one", Wanted("topic", Role.PRODUCER)),
        *((1, client, Wanted("topic", Role.CONSUMER)) for client in ("one", "two")),
        *(
            (n * SECOND_NS, broker, Traffic("topic", 100.0, 200.0))
            for n in range(1, 6)
            for broker in ("broker1", "broker2")
        ),
        (5 * SECOND_NS, "broker1", Used(0.9, 0.1, 0.2)),
        (8 * SECOND_NS, "two", Wanted("topic", Role.CONSUMER, wanted=False)),
    ),
)
Config = TypeVar("Config", bound=Options)


def cluster(names: Sequence[str], options: Options, seed: int, strategy: Strategy) -> dict[str, Node]:
    """A node of each name.  SpecError where a role is missing."""
    cast = cast_of(names)
    for role, wanted in (("manager", cast.managers), ("broker", cast.brokers), (STORE, cast.stores)):
        if not wanted:
            raise SpecError(f"no {role} among the nodes", "use a topology of sites, such as city-mec")
    store = cast.stores[0]
    write_ns, session_ns = options.span("store_write"), options.span("session")
    return {
        **{name: StoreNode(name, write_ns, session_ns) for name in cast.stores},
        **{
            name: ManagerNode(name, store, cast.brokers, strategy, options, turn)
            for turn, name in enumerate(cast.managers)
        },
        **{name: BrokerNode(name, store, strategy, options, seed) for name in cast.brokers},
        **{name: AgentNode(name, cast.agents, options.span("probe"), seed) for name in cast.agents},
        **{name: ClientNode(name, cast.managers, options, seed) for name in cast.clients},
    }


def system(
    key: str, summary: str, config: type[Config], strategy: Callable[[Sequence[str], Config], Strategy]
) -> System:
    """A system of the family; ``config``: its options; ``strategy``: of the brokers and the options."""

    def nodes(names: list[str], options: Config, seed: int) -> dict[str, Node]:
        return cluster(names, options, seed, strategy(cast_of(names).brokers, options))

    return System(
        key,
        summary,
        config=config,
        nodes=nodes,
        messages=MESSAGES,
        transport=Transport.STREAM,
        inputs=(AtSite, Wanted, Traffic, Used, Drained),
        rehearsal=REHEARSAL,
        invariants=INVARIANTS,
        plane="studies.placement.planes:placement_plane",
        stand_in=StandIn("studies.placement.servers:stand_in", ("zookeeper", "serf")),
    )
