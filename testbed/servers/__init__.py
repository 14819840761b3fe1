"""Servers of others, unmodified.  Registry: ``SERVERS``, name -> "module:SERVER", imported on use.

``BUILT``: programs that no package brings and that a checkout builds, name -> where each is once that is done.

Those of deployed limiters are what their drivers say (``systems.limiting.deployed``), under the limiter's name.

A system says which it needs (``systems.api.System``), by these names or by naming an object of its own.
"""

from core.errors import SpecError
from systems.api import System

SERVERS = {
    "bucket4j": "systems.limiting.drivers.bucket4j:DRIVER",
    "haproxy": "systems.limiting.drivers.haproxy:DRIVER",
    "nginx": "systems.limiting.drivers.nginx:DRIVER",
    "pulsar": "testbed.servers.pulsar.cluster:SERVER",
    "ratelimit": "systems.limiting.drivers.ratelimit:DRIVER",
    "ratelimit-sentinel": "systems.limiting.drivers.ratelimit_sentinel:DRIVER",
    "redis-gcra": "systems.limiting.drivers.redis_gcra:DRIVER",
    "serf": "testbed.servers.serf:SERVER",
    "zookeeper": "testbed.servers.zookeeper:SERVER",
}

BUILT = {
    "bucket4j-member": "testbed.servers.bucket4j.build:BINARY",
    "ratelimit": "testbed.servers.ratelimit.build:BINARY",
}


def refuse_servers(system: System, testbed: str) -> None:
    """SpecError where ``system`` asks real servers: a testbed without hosts has models only, and of these none."""
    if system.servers:
        names = ", ".join(
            system.key if name == ":DRIVER" else name.partition(":")[2] or name for name in system.servers
        )
        fix = "use a testbed with hosts, as --testbed local or mininet"
        raise SpecError(f"system {system.key} asks a real server ({names}), and testbed {testbed} has none", fix)
