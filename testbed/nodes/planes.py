"""What a node's commands (``Actuate``) reach on a live testbed, and what reports back to it.

Registries: ``PLANES``, system -> "module:CLASS"; ``SERVICES``, ``System.service`` -> the module of the agent
that runs the server; ``STAND_INS``, system -> "module:function" that may put a node with a real server behind it in
the place of one that models the server: ``function(name, node, services) -> node``.  A plane is made with the loop of
the node's host, the services of the run (name -> plain values), what takes its reports, and what counts the bytes that
it sends.
"""

from typing import Any, Protocol

from testbed.hosts.loop import Clock

PLANES = {
    "tb-adaptor": "testbed.brokers.plane:bucket_plane",
    "redis-gcra": "testbed.servers.redis_plane:RedisPlane",
    "pulsar": "studies.placement.planes:placement_plane",
    "all-pairs": "studies.placement.planes:placement_plane",
    "epulsar": "studies.placement.planes:placement_plane",
}
SERVICES = {
    "redis": "testbed.servers.redis_host",
}
STAND_INS = {
    "pulsar": "studies.placement.servers:stand_in",
    "all-pairs": "studies.placement.servers:stand_in",
    "epulsar": "studies.placement.servers:stand_in",
}


class Plane(Protocol):
    """A node's way to what it commands."""

    def ready(self) -> bool:
        """Whether commands can be carried out now."""
        ...

    def actuate(self, command: Any) -> None:
        """Carry a command out, or begin to."""
        ...

    def go(self, clock: Clock) -> None:
        """The run's time 0 is agreed; planes that need not know inherit this."""
        return None

    def finish(self) -> None:
        """The run ends; the same."""
        return None
