"""The servers that a system declares, found by their names; refused, with the fix, where nobody has one."""

from core.errors import SpecError
from core.registry import hint, known, lookup
from systems.api import System
from systems.limiting.deployed import Driver
from systems.loader import declared
from testbed.servers import SERVERS
from testbed.servers.driven import Driven
from testbed.servers.server import Server


def load_server(name: str) -> Server:
    """The server of that name, or ``"path.py:SERVER"``; SpecError for an unknown one, and for what is none."""
    thing = lookup("server", SERVERS, name)
    server = _served(thing)
    if server is None:
        raise SpecError(f"{name!r} is a {type(thing).__name__}", "it must be a testbed.servers.server.Server")
    return server


def servers_of(system: System) -> list[Server]:
    """The servers that the nodes of a system ask; SpecError, with the fix, for one that nobody has."""
    return [_declared_server(system, name) for name in system.servers]


def server_versions(system: System) -> dict[str, str]:
    """Program -> version, of the servers that the nodes of a system ask, as this machine has them."""
    return {program: version for server in servers_of(system) for program, version in server.versions.items()}


def check_servers(system: System, testbed: str, *, commands: bool = False) -> None:
    """SpecError where ``system`` cannot run on hosts, for want of its servers or of what carries its commands.

    ``commands``: what is asked of the system needs its commands carried out, and its stand-ins if it has any.
    """
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


def _declared_server(system: System, name: str) -> Server:
    if ":" not in name and name not in (names := known("server", SERVERS)):
        fix = hint(name, names) + "; or name one of your own, as module:SERVER or :SERVER of the system's file"
        raise SpecError(f"system {system.key} asks a server {name!r}, which nobody has", fix)
    if ":" not in name:
        return load_server(name)
    thing = declared(system, name)
    server = _served(thing)
    if server is None:
        raise SpecError(f"system {system.key}: {name!r} is a {type(thing).__name__}", "name a testbed.servers.Server")
    return server


def _served(thing: object) -> Server | None:
    """A server as it is, or what a driver of one says."""
    if isinstance(thing, Driver):
        return Driven(thing)
    return thing if isinstance(thing, Server) else None
