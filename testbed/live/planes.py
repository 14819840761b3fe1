"""What a node's commands (``Actuate``) reach on a live testbed, and what reports back to it.

Registries: ``PLANES``, system -> "module:CLASS"; ``SERVICES``, ``System.service`` -> the module of the agent
that runs the server.  A plane is made with the loop of the node's host, the services of the run (name ->
plain values), what takes its reports, and what counts the bytes that it sends.
"""

from typing import Any, Protocol

PLANES = {
    "tb-adaptor": "testbed.live.broker_plane:BrokerPlane",
    "redis-gcra": "testbed.live.redis_plane:RedisPlane",
}
SERVICES = {
    "redis": "testbed.live.redis_host",
}


class Plane(Protocol):
    """A node's way to what it commands."""

    def ready(self) -> bool:
        """Whether commands can be carried out now."""
        ...

    def actuate(self, command: Any) -> None:
        """Carry a command out, or begin to."""
        ...
