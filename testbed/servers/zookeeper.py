"""A real ZooKeeper server on a host of a live site: one server (no quorum), its data in the run's folder.

Debian's ZooKeeper 3.8 as a plain process of Java.  What it has acknowledged is on the disk, so data and sessions
outlive its process: clients whose session has not run out find everything when it is started again.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import MachineError, SpecError
from testbed.hosts.capabilities import Capability, find_capability
from testbed.hosts.site import Site
from testbed.nodes.planes import ServerAt
from testbed.servers.server import RunningServer, Server, ServerProcess, listening_address, port_on, program_of

if TYPE_CHECKING:
    from kazoo.client import KazooClient

JAR = Path("/usr/share/java/zookeeper.jar")  # of Debian's libzookeeper-java; its manifest names the others
CLIENT_PORT = 2181  # ZooKeeper's own
TICK_MS = 500  # ours: a session lives for 2 to 20 ticks without its client (the usual tick, 2 s, makes that 4 to 40 s)
HEAP_MB = 64, 256  # at the start, and at most
LOG_FILE_KB = 1024  # made at once for a transaction log; 64 MB by default
START_S = 30.0  # half a second on an idle machine
ASK_S = 2.0
COMMANDS = "ruok, srvr, mntr, cons, dump, wchs"  # four-letter words that it answers
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZooKeeperServer(RunningServer):
    """One server on the host of ``node``."""

    def __init__(self, site: Site, node: str, tick_ms: int = TICK_MS):
        if tick_ms < 1:
            raise SpecError(f"ZooKeeper's tick of {tick_ms} ms", "give at least 1")
        self._site, self._tick_ms = site, tick_ms
        self.host, address = site.topology.host_of(node), site.address(node)
        self._listens_at, self.port = listening_address(address), port_on(address, CLIENT_PORT)
        self.at = address, self.port  # for nodes, on its own host or another
        self.folder = site.folder / f"zookeeper-{node}"
        self.process = ServerProcess(site, self.host, f"zookeeper-{node}", self._command)

    def start(self, timeout_s: float = START_S) -> None:
        """Start it, after ``kill`` or ``stop`` with the data that it had; returns when it serves."""
        self._configure()
        self.process.start()
        try:
            self.wait(timeout_s)
        except MachineError:
            self.process.stop()
            raise

    def wait(self, timeout_s: float = START_S) -> None:
        """Until it serves."""
        self.process.wait_for(lambda: self.ask("ruok") == "imok" and "Mode" in self.ask("srvr"), timeout_s)

    def reached_at(self) -> ServerAt:
        """See ``RunningServer``."""
        return ServerAt(*self.at)

    def ask(self, word: str) -> str:
        """The answer to a four-letter word; MachineError where nobody answers."""
        try:
            with self._site.connect(self.host, self.port, ASK_S) as connection:
                connection.sendall(word.encode())
                answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except OSError as error:
            what = f"{self.process.name} does not answer to {word}: {error}"
            raise MachineError(what, self.process.see_log) from None
        return answer.decode(errors="replace")

    def _configure(self) -> None:
        """Its configuration file, in the run's folder on its host."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            settings = {
                "tickTime": self._tick_ms,
                "dataDir": Path(self._site.place(self.host, self.folder / "data" / "version-2")).parent,
                "clientPort": self.port,
                "clientPortAddress": self._listens_at,
                "maxClientCnxns": 0,
                "admin.enableServer": "false",
                "4lw.commands.whitelist": COMMANDS,
            }
            text = "".join(f"{name}={value}\n" for name, value in settings.items())
            (self.folder / "zoo.cfg").write_text(text)
            self._configuration = self._site.put(self.host, self.folder / "zoo.cfg")
        except OSError as error:
            raise MachineError(f"{self.folder}: {error.strerror}", "choose another folder with --out") from None

    def _command(self) -> list[str]:
        program_of("zookeeper")
        least_mb, most_mb = HEAP_MB
        options = [f"-Xms{least_mb}m", f"-Xmx{most_mb}m", f"-Dzookeeper.preAllocSize={LOG_FILE_KB}"]
        return [program_of("java"), *options, "-cp", str(JAR), MAIN, self._configuration]


def kazoo_client(at: tuple[str, int], session_s: float) -> "KazooClient":
    """A client of its own threads, not started yet: one session.

    It connects anew by itself, as soon as it can, for as long as its session may live; commands do not wait for that.
    """
    from kazoo.client import KazooClient
    from kazoo.retry import KazooRetry

    host, port = at
    # Lost connections are what runs are about, and not for the terminal.  Not ``getLogger``: where Mininet has been
    # imported, that makes loggers of Mininet's own class, which print.
    quiet = logging.Logger("zookeeper")
    quiet.addHandler(logging.NullHandler())
    again = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.5)
    return KazooClient(f"{host}:{port}", timeout=session_s, connection_retry=again, logger=quiet)


def _jar() -> str | None:
    return str(JAR) if JAR.is_file() and find_capability("java") else None


class ZooKeeper(Server):
    """ZooKeeper without a quorum; nodes are clients of kazoo's (``kazoo_client``)."""

    name = "zookeeper"
    capability = Capability("ZooKeeper", _jar, "apt-get install libzookeeper-java", "java")  # Debian's jars, and a Java

    def beside(self, site: Site, node: str, secret: str) -> ZooKeeperServer:
        """See ``Server``."""
        return ZooKeeperServer(site, node)


SERVER = ZooKeeper()
