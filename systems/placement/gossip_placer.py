"""gossip-placer: every broker places the topics that it owns itself; there is no load manager and no store (ours).

ePulsar's last section wants less dependence on both.  Here brokers gossip where they are and how loaded (``Reports``),
know where their own topics' clients are, as always, and each applies ePulsar's Algorithm 1 to its own topics; what
others have is one load that stays.  Steps 2 to 5 of a migration are ePulsar's; the old owner's votes go to the new.

Who owns a topic is voted by the brokers, with leases (``parts.majority_lease``): one owner at a time in any partition
or crash.  The price: where no majority of brokers is in reach nobody owns anything, not even topics whose clients are
beside their broker, and after a start brokers wait for a lease.  A dead broker's topics are free when its lease ends;
each goes to the broker near the client that asks for it first.  Clients ask any broker, which knows for whom it voted.
All brokers vote, and each tells all others that it lives: for tens of brokers, not for thousands.
"""

from dataclasses import replace

from systems.api import Effect, Event, Node, Start, System, Transport, UnexpectedEvent
from systems.parts.consistent_hash import name_hash, range_of
from systems.placement.agent import AgentNode
from systems.placement.cast import cast_of
from systems.placement.client import ClientNode
from systems.placement.cluster import REHEARSAL
from systems.placement.epulsar import EPulsar, policy_of
from systems.placement.gossip_broker import Config, PlacerNode
from systems.placement.gossip_invariants import INVARIANTS
from systems.placement.gossip_messages import MESSAGES
from systems.placement.messages import AtSite, Drained, Traffic, Used, Wanted


class Bystander:
    """A load manager or a store of the topology: nobody needs it."""

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        if isinstance(event, Start):
            return []
        raise UnexpectedEvent(self.node_id, event)


def _nodes(names: list[str], options: Config, seed: int) -> dict[str, Node]:
    """Clients ask brokers where topics are, each another one first."""
    cast = cast_of(names)
    brokers = cast.brokers
    strategy = EPulsar(brokers, options, policy_of(options))
    turns = {name: range_of(name_hash(name), len(brokers)) for name in cast.clients}
    asked = {name: (*brokers[turn:], *brokers[:turn]) for name, turn in turns.items()}
    return {
        **{name: Bystander(name) for name in (*cast.stores, *cast.managers)},
        **{name: PlacerNode(name, brokers, strategy, options, seed) for name in brokers},
        **{name: AgentNode(name, cast.agents, options.span("probe"), seed) for name in cast.agents},
        **{name: ClientNode(name, asked[name], options, seed) for name in cast.clients},
    }


SYSTEM = System(
    "gossip-placer",
    "topics near their clients, each placed by the broker that owns it; no load manager, no store",
    config=Config,
    nodes=_nodes,
    messages=MESSAGES,
    transport=Transport.STREAM,
    inputs=(AtSite, Wanted, Traffic, Used, Drained),
    rehearsal=replace(REHEARSAL, names=(*REHEARSAL.names, "broker3", "broker3-agent")),
    invariants=INVARIANTS,
)
