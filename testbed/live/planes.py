"""What a node's commands (``Actuate``) reach on a live testbed, and what reports back to it.

Registry: ``PLANES``, system -> "module:CLASS".  A plane is made with the loop of the node's host, the
services of the run (name -> what ``Service`` told of itself) and what takes its reports.
"""

from typing import Any, Protocol

PLANES = {
    "redis-gcra": "testbed.live.redis_plane:RedisPlane",
}


class Plane(Protocol):
    """A node's way to what it commands."""

    def ready(self) -> bool:
        """Whether commands can be carried out now."""
        ...

    def actuate(self, command: Any) -> None:
        """Carry a command out, or begin to."""
        ...
