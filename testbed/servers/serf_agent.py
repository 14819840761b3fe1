"""A coordinate agent as a node with I/O: the questions of ``systems.placement.agent``, answered by a real Serf agent.

Serf itself probes and gossips, past the nodes of the run: a node only asks it where it is, and passes that on.
"""

import socket
from functools import partial

from core.errors import MachineError
from systems.api import Delivery, Effect, Event, Sample, Send, Start, UnexpectedEvent
from systems.placement.messages import Here, WhereAmI
from testbed.nodes.planes import ServerAt
from testbed.servers.serf_rpc import SerfRpc

ANSWER_S = 0.2  # ours: an agent that lives answers within a millisecond, and the node's other work must wait for it


class SerfAgent:
    """``at``: where the agent's RPC is; its name in the cluster is the node's.

    Who asks an agent that does not answer hears nothing, as of one that is down; a sample says so.
    """

    def __init__(self, node_id: str, at: ServerAt):
        connect = partial(socket.create_connection, (at.address, at.port))
        self.node_id, self.rpc = node_id, SerfRpc(connect, node_id, at.secret, ANSWER_S)

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Start(None):
                return []
            case Delivery(source, WhereAmI()):
                try:
                    coordinate = self.rpc.coordinate(self.node_id)
                except MachineError:
                    coordinate = None
                return [Sample("unanswered_count", 1.0)] if coordinate is None else [Send(source, Here(coordinate))]
        raise UnexpectedEvent(self.node_id, event)

    def close(self) -> None:
        """Hang up."""
        self.rpc.close()
