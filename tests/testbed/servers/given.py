"""What tests of real servers share: those that a driver wants, started, and a word with a Redis."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from systems.limiting.deployed import Driver
from systems.parts.wires import RespReader, resp
from testbed.hosts.site import Site
from testbed.nodes.planes import ServerAt
from testbed.servers.driven import Driven
from testbed.servers.server import Placing, ServerGroup

SECRET = "ofthisrun"


def deployed_on(site: Site, driver: Driver, **options: Any) -> ServerGroup:
    """Beside the nodes of a site, not started yet."""
    names, config = site.topology.node_names(), driver.config(**options)
    return Driven(driver).deploy(site, Placing(names, config.server or names[0], SECRET, config))


@contextmanager
def serving(site: Site, driver: Driver, **options: Any) -> Iterator[ServerGroup]:
    """Beside the nodes of a site, up and ready."""
    servers = deployed_on(site, driver, **options)
    try:
        servers.start(site.topology.node_names())
        servers.wait()
        yield servers
    finally:
        servers.stop()


@contextmanager
def talking(at: ServerAt) -> Iterator[Callable[..., Any]]:
    """Calls a Redis, a command at a time."""
    reader = RespReader()
    with socket.create_connection((at.address, at.port), timeout=10) as sock:

        def call(*words: str | bytes | int) -> Any:
            sock.sendall(resp(*words))
            while not (answers := reader.take(sock.recv(1 << 16))):
                pass
            (answer,) = answers
            return answer

        yield call
