"""A coordinate agent as a node: Serf's probes and answers, on brokers, load managers and gateways (ePulsar, 3.2, 4).

Every agent probes one other a period, in turn over a shuffled list of all (memberlist's order), and moves its
coordinate with each answer.  Membership is taken as known: Serf's gossip about it is not modelled.
"""

from collections.abc import Sequence

from core.seeds import generator
from core.units import SECOND_NS
from systems.api import Delivery, Effect, Event, Send, SetTimer, Start, Timer, UnexpectedEvent
from systems.parts.vivaldi import Vivaldi
from systems.placement.messages import Ack, Here, Ping, WhereAmI


class AgentNode:
    """One agent.  ``vivaldi`` is where it is: at the origin, until a testbed puts a warmed-up one there."""

    def __init__(self, node_id: str, peers: Sequence[str], probe_ns: int, seed: int):
        self.node_id, self.probe_ns = node_id, probe_ns
        self.vivaldi = Vivaldi(generator(seed, "vivaldi", node_id))
        self._peers = [peer for peer in peers if peer != node_id]
        self._rng = generator(seed, "agent", node_id)
        self._turn: list[str] = []
        self._number, self._asked = 0, ("", 0, 0)  # of the last probe: peer, number, instant

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Start(None):
                return [SetTimer("probe", now_ns + int(self._rng.integers(1, self.probe_ns, endpoint=True)))]
            case Timer("probe", due_at_ns):
                return [*self._probe(now_ns), SetTimer("probe", due_at_ns + self.probe_ns)]
            case Delivery(source, Ping(number)):
                return [Send(source, Ack(number, self.vivaldi.coordinate))]
            case Delivery(source, Ack(number, coordinate)):
                peer, asked, sent_at_ns = self._asked
                if (source, number) == (peer, asked):  # a late answer is none
                    self.vivaldi.update(source, coordinate, (now_ns - sent_at_ns) / SECOND_NS)
                    self._asked = ("", 0, 0)
                return []
            case Delivery(source, WhereAmI()):
                return [Send(source, Here(self.vivaldi.coordinate))]
        raise UnexpectedEvent(self.node_id, event)

    def _probe(self, now_ns: int) -> list[Effect]:
        if not self._peers:
            return []
        if not self._turn:
            self._turn = [self._peers[i] for i in self._rng.permutation(len(self._peers))]
        self._number += 1
        peer = self._turn.pop()
        self._asked = peer, self._number, now_ns
        return [Send(peer, Ping(self._number))]
