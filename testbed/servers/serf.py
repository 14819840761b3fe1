"""Real Serf agents on the hosts of a live site: one a node, joined to a cluster, asked for coordinates by RPC.

Debian's serf 0.9.4.  An agent gossips over UDP and TCP at its host's address and probes one member each second
(profile ``lan``; every five seconds with ``wan``): each probe that is answered moves its coordinate.
"""

import json
import time
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from secrets import token_hex
from typing import Self

from core.errors import MachineError, SpecError
from core.units import SECOND_NS, duration_text
from testbed.hosts.capabilities import Capability, tool
from testbed.hosts.site import Site
from testbed.nodes.planes import ServerAt
from testbed.servers.serf_rpc import SerfRpc
from testbed.servers.server import RunningServer, ServerProcess, SingleServer, listening_address, port_on, program_of

GOSSIP_PORT, RPC_PORT = 7946, 7373  # Serf's own
PROBE_EVERY_S = {"lan": 1.0, "wan": 5.0, "local": 1.0}  # memberlist's profiles (config.go)
START_S = 20.0  # many start at once, on few cores
JOIN_S = 60.0
_LOOK_AGAIN_S = 0.3
SEEDS = 2  # ours: whom the others call to join; with one alone, nobody could join while it is down


def profile_of(interval_ns: int) -> str:
    """The profile of Serf that probes so often; SpecError where none does."""
    for profile, every_s in PROBE_EVERY_S.items():
        if round(every_s * SECOND_NS) == interval_ns:
            return profile
    known = " or ".join(f"{every_s:g} s ({profile})" for profile, every_s in PROBE_EVERY_S.items())
    raise SpecError(f"Serf agents do not probe every {duration_text(interval_ns)}", f"let them probe every {known}")


class SerfServer(RunningServer):
    """The agent of one node: a process on the node's host, and a way to ask it.

    ``secret``: what its RPC wants, and the key of the cluster's gossip; one of its own where none is given.
    """

    def __init__(self, site: Site, node: str, profile: str = "lan", secret: str = ""):
        if profile not in PROBE_EVERY_S:
            raise SpecError(f"no Serf profile {profile!r}", f"use one of {', '.join(PROBE_EVERY_S)}")
        self.node, self._profile = node, profile
        host, address = site.topology.host_of(node), site.address(node)
        # Several agents may share a host, and several hosts a machine.
        number = [name for name in site.topology.node_names() if site.address(name) == address].index(node)
        self.gossip = f"{address}:{port_on(address, GOSSIP_PORT + number)}"
        self._rpc_address, self._rpc_port = listening_address(address), port_on(address, RPC_PORT + number)
        self._at = ServerAt(address, self._rpc_port, secret or token_hex(16))
        self._site, self._host, self._seeds = site, host, tuple[str, ...]()
        self._file = site.folder / f"serf-{node}" / "settings.json"
        self.process = ServerProcess(site, host, f"serf-{node}", self._command)
        self.rpc = SerfRpc(partial(site.connect, host, self._rpc_port), node, self._at.secret)

    def start(self, seeds: Sequence[str] = ()) -> None:
        """Start it; it joins whoever of ``seeds`` (gossip addresses) is there, and tries again until one is."""
        self._seeds = tuple(seed for seed in seeds if seed != self.gossip)
        self.process.start()

    def wait(self, timeout_s: float = START_S) -> None:
        """Until it answers by RPC."""
        self.process.wait_for(lambda: bool(self.rpc.stats()), timeout_s)

    def reached_at(self) -> ServerAt:
        """See ``RunningServer``: its RPC."""
        return self._at

    def kill(self) -> None:
        """A crash: the others find out by their probes."""
        self.rpc.close()
        self.process.kill()

    def stop(self) -> None:
        """End it."""
        self.rpc.close()
        self.process.stop()

    def _settings(self) -> str:
        """A file for its user alone, and what the host calls it: secrets are on no command line."""
        key = sha256(self._at.secret.encode()).digest()
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.touch(mode=0o600)
        self._file.write_text(json.dumps({"rpc_auth": self._at.secret, "encrypt_key": b64encode(key).decode()}))
        return self._site.put(self._host, self._file)

    def _command(self) -> list[str]:
        joins = [f"-retry-join={seed}" for seed in self._seeds]
        return [
            program_of("serf"), "agent", f"-node={self.node}", f"-bind={self.gossip}",
            f"-rpc-addr={self._rpc_address}:{self._rpc_port}", f"-profile={self._profile}", "-log-level=warn",
            "-retry-interval=1s", f"-config-file={self._settings()}", *joins,
        ]  # fmt: skip


class SerfCluster:
    """One agent a node, joined.  The first ``SEEDS`` nodes are those that the others call.  A context manager."""

    def __init__(self, site: Site, nodes: Sequence[str], profile: str = "lan"):
        if not nodes:
            raise SpecError("a Serf cluster of no nodes", "name one")
        secret = token_hex(16)
        self.servers = {node: SerfServer(site, node, profile, secret) for node in nodes}
        self._seeds = [server.gossip for server in list(self.servers.values())[:SEEDS]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all, and wait until each knows of all others; MachineError names those that do not."""
        for server in self.servers.values():
            server.start(self._seeds)
        for server in self.servers.values():
            server.wait()
        until_s = time.monotonic() + JOIN_S
        for node, server in self.servers.items():
            while missing := set(self.servers) - set(server.rpc.alive()):
                if time.monotonic() > until_s:
                    what = f"the Serf agent {node} has not met {', '.join(sorted(missing))}"
                    raise MachineError(what, server.process.see_log)
                time.sleep(_LOOK_AGAIN_S)
                with suppress(MachineError):  # gossip may get lost, and all is exchanged only every 30 s by itself
                    server.rpc.join(self._seeds)

    def restart(self, node: str) -> None:
        """Start the agent of a node that was killed: it joins again, and knows nothing."""
        self.servers[node].start(self._seeds)
        self.servers[node].wait()

    def stop(self) -> None:
        """End all, at once."""
        for server in self.servers.values():
            server.rpc.close()
            server.process.terminate()
        for server in self.servers.values():
            server.stop()


class Serf(SingleServer):
    """An agent by itself; a study that wants a cluster makes a ``SerfCluster``."""

    name, programs = "serf", ("serf",)
    capability = Capability("Serf", lambda: tool("serf"), "apt-get install serf")

    def beside(self, site: Site, node: str, secret: str) -> SerfServer:
        """See ``Server``."""
        return SerfServer(site, node, secret=secret)


SERVER = Serf()
