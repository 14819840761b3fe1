"""Servers of others, unmodified.  Registry: ``SERVERS``, name -> "module:SERVER", imported on use.

A system says which it needs (``systems.api.System``), by these names or by naming an object of its own.
"""

from typing import TYPE_CHECKING

from core.errors import SpecError
from core.registry import hint, lookup
from systems.api import System
from systems.loader import declared

if TYPE_CHECKING:
    from testbed.servers.server import Server

SERVERS = {
    "redis": "testbed.servers.redis:SERVER",
    "serf": "testbed.servers.serf:SERVER",
    "zookeeper": "testbed.servers.zookeeper:SERVER",
}


def load_server(name: str) -> "Server":
    """The server of that name; SpecError for an unknown one."""
    server: Server = lookup("server", SERVERS, name)
    return server


def servers_of(system: System) -> "list[Server]":
    """The servers that the nodes of a system ask; SpecError, with the fix, for one that nobody has."""
    return [_declared_server(system, name) for name in system.servers]


def check_servers(system: System, testbed: str, *, is_real: bool, commands: bool = False) -> None:
    """SpecError where ``system`` cannot run on a testbed, for want of its servers or of what carries its commands.

    ``is_real``: the testbed has hosts; virtual time has models only, and of these servers none.  ``commands``: what
    is asked of the system needs its commands carried out, and its stand-ins if it has any.
    """
    if not is_real:
        if system.servers:
            names = ", ".join(name.partition(":")[2] or name for name in system.servers)
            fix = "use a testbed with hosts, as --testbed local or mininet"
            raise SpecError(f"system {system.key} asks a real server ({names}), and testbed {testbed} has none", fix)
        return
    stand_in = system.stand_in
    for name in (*system.servers, *(stand_in.servers if stand_in is not None else ())):
        _declared_server(system, name)
    for name in (system.plane, stand_in.make if stand_in is not None else ""):
        if name and not callable(declared(system, name)):
            raise SpecError(f"system {system.key}: {name!r} cannot be called", "name a class or a function")
    if (commands or system.servers) and not system.plane:
        raise SpecError(
            f"nobody on testbed {testbed} carries out the commands of system {system.key}",
            'declare what does: System(…, plane="module:OBJECT"), see testbed/nodes/planes.py',
        )


def _declared_server(system: System, name: str) -> "Server":
    from testbed.servers.server import Server

    if ":" not in name and name not in SERVERS:
        fix = hint(name, SERVERS) + "; or name one of your own, as module:SERVER or :SERVER of the system's file"
        raise SpecError(f"system {system.key} asks a server {name!r}, which nobody has", fix)
    server = declared(system, name) if ":" in name else load_server(name)
    if not isinstance(server, Server):
        raise SpecError(f"system {system.key}: {name!r} is a {type(server).__name__}", "name a testbed.servers.Server")
    return server
