"""A real ZooKeeper server on a host of a live site: one server (no quorum), its data in the run's folder.

Debian's ZooKeeper 3.8 as a plain process of Java.  What it has acknowledged is on the disk, so data and sessions
outlive its process: clients whose session has not run out find everything when it is started again.
"""

import logging
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from core.errors import SpecError
from testbed.hosts.capabilities import Capability, find_capability
from testbed.hosts.site import Site
from testbed.nodes.planes import ServerAt
from testbed.servers.program import RunningProgram, ServerProgram, Spot
from testbed.servers.server import ASK_S, SingleServer, listening_address, program_of
from testbed.servers.zookeeper_access import access, credentials, shut

if TYPE_CHECKING:
    from kazoo.client import KazooClient

JAR = Path("/usr/share/java/zookeeper.jar")  # of Debian's libzookeeper-java; its manifest names the others
CLIENT_PORT = 2181  # ZooKeeper's own
TICK_MS = 500  # ours: a session lives for 2 to 20 ticks without its client (the usual tick, 2 s, makes that 4 to 40 s)
HEAP_MB = 64, 256  # at the start, and at most
LOG_FILE_KB = 1024  # made at once for a transaction log; 64 MB by default
START_S = 30.0  # half a second on an idle machine
# Who comes while ZooKeeper starts may never be answered.  kazoo waits for that as long as a session lives, divided by
# how many servers it knows: one that it knows several times is tried again before the session is lost.
TRIES_COUNT = 3
COMMANDS = "ruok, srvr, mntr, cons, dump, wchs"  # four-letter words that it answers
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def _words(spot: Spot) -> list[str]:
    heap = [f"-Xms{HEAP_MB[0]}m", f"-Xmx{HEAP_MB[1]}m"]
    return [*heap, f"-Dzookeeper.preAllocSize={LOG_FILE_KB}", "-cp", str(JAR), MAIN, spot.settings]


def _settings(spot: Spot, tick_ms: int) -> str:
    settings = {
        "tickTime": tick_ms,
        "dataDir": f"{spot.folder}/data",
        "clientPort": spot.port,
        "clientPortAddress": listening_address(spot.address),
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": COMMANDS,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


_PROGRAM = ServerProgram(
    "zookeeper",
    "java",
    "apt-get install libzookeeper-java",
    CLIENT_PORT,
    words=_words,
    question=lambda spot: b"srvr",
    expected=b"Mode",
)


class ZooKeeperServer(RunningProgram):
    """One server on the host of ``node``; started again after ``kill`` or ``stop``, it has the data that it had.

    ``secret``: without it clients can do nothing there; one of its own where none is given.
    """

    def __init__(self, site: Site, node: str, secret: str = "", tick_ms: int = TICK_MS):
        if tick_ms < 1:
            raise SpecError(f"ZooKeeper's tick of {tick_ms} ms", "give at least 1")
        program = replace(_PROGRAM, settings=lambda spot: _settings(spot, tick_ms))
        super().__init__(program, site, node, secret or token_hex(16))

    @property
    def at(self) -> ServerAt:
        """Where it is, for nodes on its own host or another."""
        return self.reached_at()

    def start(self) -> None:
        """Start it; returns when it serves, and only us."""
        super().start()
        self.wait(START_S)
        with self._site.connect(self._host, self.at.port, ASK_S) as connection:
            connection.settimeout(START_S)
            shut(connection, self.at.secret)

    def _command(self) -> list[str]:
        program_of("zookeeper")
        return [program_of("java"), *super()._command()[1:]]


def kazoo_client(at: ServerAt, session_s: float) -> "KazooClient":
    """A client of its own threads, not started yet: one session.

    It connects anew by itself, as soon as it can, for as long as its session may live; commands do not wait for that.
    """
    from kazoo.client import KazooClient
    from kazoo.retry import KazooRetry

    # Lost connections are what runs are about, and not for the terminal.  Not ``getLogger``: where Mininet has been
    # imported, that makes loggers of Mininet's own class, which print.
    quiet = logging.Logger("zookeeper")
    quiet.addHandler(logging.NullHandler())
    again = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.5)
    return KazooClient(
        ",".join([f"{at.address}:{at.port}"] * TRIES_COUNT),
        timeout=session_s,
        connection_retry=again,
        logger=quiet,
        auth_data=credentials(at.secret),
        default_acl=access(at.secret),
    )


class ZooKeeper(SingleServer):
    """ZooKeeper without a quorum; nodes are clients of kazoo's (``kazoo_client``)."""

    name = "zookeeper"
    capability = Capability(  # Debian's jars, and a Java
        "ZooKeeper", lambda: find_capability("java") and JAR.is_file() and str(JAR), _PROGRAM.fix, "java"
    )

    def beside(self, site: Site, node: str, secret: str) -> ZooKeeperServer:
        """See ``Server``."""
        return ZooKeeperServer(site, node, secret)


SERVER = ZooKeeper()
