"""Servers of others, unmodified.  Registry: ``SERVERS``, name -> "module:SERVER", imported on use.

A system says which it needs (``systems.api.System``), by these names or by naming an object of its own.
"""

SERVERS = {
    "redis": "testbed.servers.redis:SERVER",
    "serf": "testbed.servers.serf:SERVER",
    "zookeeper": "testbed.servers.zookeeper:SERVER",
}
