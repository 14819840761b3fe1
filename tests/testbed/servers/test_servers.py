"""Real Serf agents and a real ZooKeeper, in namespaces or on the loopback: they join, answer, die, come back, go."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE
from msgspec import structs

from core.errors import MachineError, SpecError
from core.units import MILLISECOND_NS
from systems.limiting.drivers.redis_gcra import DRIVER
from systems.parts.vivaldi import origin
from systems.parts.wires import resp
from testbed.hosts.cleaning import remove_left
from testbed.hosts.local import LocalSite
from testbed.hosts.mininet.site import MininetSite
from testbed.hosts.site import Site
from testbed.hosts.state import start_time
from testbed.nodes.planes import ServerAt
from testbed.servers.serf import SerfCluster, SerfServer
from testbed.servers.serf_rpc import SerfRpc
from testbed.servers.server import port_on
from testbed.servers.zookeeper import ZooKeeperServer, kazoo_client
from testbed.topologies.topology import Link, Topology, mesh
from tests.live import needs
from tests.testbed.servers.given import serving
from tests.testbed.servers.kazoo_harness import counters, through

NETWORK = ("root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue")
NAMES = ["n1", "n2", "n3"]
ONE_WAY_MS = {("n1", "n2"): 10, ("n1", "n3"): 20, ("n2", "n3"): 25}


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until_s, "it did not happen in time"
        time.sleep(0.05)


def triangle() -> Topology:
    hosts = mesh("triangle", NAMES, 0).hosts
    return Topology("triangle", hosts, tuple(Link(a, b, ms * MILLISECOND_NS) for (a, b), ms in ONE_WAY_MS.items()))


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Site]:
    with MininetSite(triangle(), tmp_path / "run", tmp_path) as site:
        yield site


@pytest.fixture
def near(tmp_path: Path) -> Iterator[Site]:
    with LocalSite(mesh("near", NAMES, 0), tmp_path / "run", tmp_path) as site:
        yield site


# --- Serf ------------------------------------------------------------------------------------------------------------


@needs("serf", *NETWORK)
@pytest.mark.slow
def test_an_agent_that_is_killed_is_missed_and_comes_back_knowing_nothing(far: Site) -> None:
    with SerfCluster(far, NAMES) as cluster:
        cluster.start()
        rpc = cluster.servers["n1"].rpc
        assert rpc.alive() == NAMES and rpc.coordinate("nobody") is None
        wait_until(lambda: rpc.coordinate("n1") != origin() and rpc.coordinate("n2") is not None, 60)
        assert rpc.coordinate("n2") != rpc.coordinate("n1"), "another's is as of the last probe of it"
        pid = cluster.servers["n1"].process.pid
        cluster.servers["n1"].kill()
        assert start_time(pid) is None
        assert [name for name, _ in far.processes if name.startswith("serf")] == ["serf-n2", "serf-n3"]
        with pytest.raises(MachineError, match="serf-n1 does not run"):
            _ = cluster.servers["n1"].process.pid
        with pytest.raises(MachineError, match="nothing answers on port 7373 of n1"):
            cluster.servers["n1"].rpc.alive()
        wait_until(lambda: cluster.servers["n2"].rpc.alive() == ["n2", "n3"], 60)
        cluster.restart("n1")
        found = cluster.servers["n1"].rpc.coordinate("n1")  # at once: it learns every second
        assert found is not None and found.error > 0.9, "it begins anew: no snapshot keeps coordinates"
        wait_until(lambda: cluster.servers["n2"].rpc.alive() == NAMES, 60)
    assert [name for name, _ in far.processes if name.startswith("serf")] == []


@needs("serf")
def test_agents_on_the_loopback_take_free_ports_and_long_names_pass(near: Site) -> None:
    with SerfCluster(near, NAMES) as cluster:
        cluster.start()
        assert len({server.gossip for server in cluster.servers.values()}) == 3
        assert cluster.servers["n2"].rpc.stats()["serf"]["members"] == "3"
        assert cluster.servers["n2"].rpc.coordinate("n" * 40) is None, "text from 32 bytes on has another type byte"
        assert cluster.servers["n1"].rpc.alive() == NAMES


def test_a_free_port_is_none_that_a_connection_may_take() -> None:
    with socket.create_server(("127.0.0.1", port_on("127.0.0.1", 1))) as taken:
        ports = [port_on("127.0.0.1", 1) for _ in range(200)]
        assert len({taken.getsockname()[1], *ports}) == 201 and max(ports) < 32_768
    assert port_on("192.0.2.1", 7946) == 7946


@needs("serf")
def test_an_agent_that_does_not_start_says_so(near: Site) -> None:
    with pytest.raises(SpecError, match="profile"):
        SerfServer(near, "n1", "moon")
    server = SerfServer(near, "n1")
    server.gossip = "192.0.2.1:7946"  # nobody's address
    server.start()
    with pytest.raises(MachineError, match="serf-n1 has ended"):
        server.wait()


# --- ZooKeeper -------------------------------------------------------------------------------------------------------


@needs("zookeeper", *NETWORK)
@pytest.mark.slow
def test_what_zookeeper_acknowledged_outlives_it_and_so_do_sessions(far: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ZooKeeperServer(far, "n1")

    def connect() -> socket.socket:
        try:
            return far.connect("n1", server.at.port, 2.0)
        except MachineError as error:
            raise ConnectionRefusedError from error  # kazoo tries again

    through(monkeypatch, connect)
    with server:
        client, other = (kazoo_client(server.at, 8.0) for _ in range(2))
        client.start(), other.start()
        session = client.client_id
        client.create("/kept", b"1")
        client.create("/mine", b"2", ephemeral=True)
        other.create("/theirs", b"3", ephemeral=True)
        assert counters(server)["zk_ephemerals_count"] == "2"
        server.kill()
        with pytest.raises(MachineError, match="nothing answers on port 2181 of n1"):
            server.ask(b"ruok", b"imok")
        server.start()
        wait_until(lambda: client.connected and other.connected, 60)
        assert client.get("/kept")[0] == b"1" and client.get("/mine")[0] == b"2"
        assert client.client_id == session, "the same session"
        other.stop()
        wait_until(lambda: client.exists("/theirs") is None, 60)
        client.stop(), client.close(), other.close()
    assert not server.process.alive and [name for name, _ in far.processes if "zoo" in name] == []


def test_a_client_that_nobody_answers_tries_again_while_its_session_lives() -> None:
    session_s = 6.0
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as starting:  # as ZooKeeper before it serves: it accepts, and that is all
        client = kazoo_client(ServerAt("127.0.0.1", starting.getsockname()[1], ""), session_s)
        client.start_async()
        try:
            first, _ = starting.accept()
            starting.settimeout(session_s)
            second, _ = starting.accept()
        finally:
            client.stop(), client.close()
        first.close()
        second.close()


_CLIENT = """
import sys, time
from testbed.servers.zookeeper import kazoo_client
from testbed.nodes.planes import ServerAt
client = kazoo_client(ServerAt(sys.argv[1], int(sys.argv[2]), sys.argv[3]), 6.0)
client.start()
client.create("/e", b"", ephemeral=True)
print("there", flush=True)
time.sleep(60)
"""


@needs("zookeeper")
@pytest.mark.slow
def test_a_session_ends_some_time_after_its_client(near: Site) -> None:
    with ZooKeeperServer(near, "n2", tick_ms=300) as server:
        words = [sys.executable, "-c", _CLIENT, *map(str, (server.at.address, server.at.port, server.at.secret))]
        child = subprocess.Popen(words, stdout=subprocess.PIPE)
        try:
            assert child.stdout is not None and child.stdout.readline() == b"there\n"
            watcher = kazoo_client(server.at, 10.0)
            watcher.start()
            time.sleep(7)  # longer than a session
            assert watcher.exists("/e"), "its client keeps it alive"
        finally:
            child.kill()
            child.wait()
        assert watcher.exists("/e"), "nobody knows yet"
        wait_until(lambda: watcher.exists("/e") is None, 60)
        watcher.stop(), watcher.close()


# --- a harness that is killed ----------------------------------------------------------------------------------------

_HARNESS = """
import sys, time
from pathlib import Path
from testbed.servers.serf import SerfCluster
from testbed.servers.zookeeper import ZooKeeperServer
from testbed.hosts.local import LocalSite
from testbed.topologies.topology import mesh
site = LocalSite(mesh("near", ["n1", "n2"], 0), Path(sys.argv[1]), Path(sys.argv[2]), owns_folder=True)
cluster, server = SerfCluster(site, ["n1", "n2"]), ZooKeeperServer(site, "n1")
cluster.start(), server.start()
print(*(pid for _, pid in site.processes), flush=True)
time.sleep(60)
"""


@needs("serf", "zookeeper")
@pytest.mark.slow
def test_servers_of_a_killed_harness_end_and_clean_removes_their_data(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    harness = subprocess.Popen(
        [sys.executable, "-c", _HARNESS, str(tmp_path / "run"), str(state)], stdout=subprocess.PIPE, text=True
    )
    assert harness.stdout is not None
    pids = [int(word) for word in harness.stdout.readline().split()]
    assert len(pids) == 3 and all(start_time(pid) for pid in pids)
    assert (tmp_path / "run" / "zookeeper-n1" / "data").is_dir()
    os.kill(harness.pid, signal.SIGKILL)
    harness.wait()
    try:
        wait_until(lambda: not any(start_time(pid) for pid in pids), 60)  # the kernel ends them
    finally:
        found = remove_left(state)
    assert not found.stuck and f"folder {tmp_path / 'run'}" in found.removed
    assert not (tmp_path / "run").exists() and not list(state.iterdir())


# --- strangers -------------------------------------------------------------------------------------------------------


ATTEMPTS = (
    ("create", "/mine", b"x"),
    ("create", "/zookeeper/mine", b"x"),
    ("create", "/ratebed/mine", b"x"),
    ("get_children", "/"),
    ("get_children", "/ratebed"),
    ("get", "/ratebed/t1"),
    ("set", "/ratebed/t1", b"x"),
    ("delete", "/ratebed/t2"),
    ("set_acls", "/", OPEN_ACL_UNSAFE),
)


@needs("zookeeper")
@pytest.mark.slow
def test_zookeeper_gives_strangers_nothing_and_takes_nothing_from_them(near: Site) -> None:
    with ZooKeeperServer(near, "n1") as server:
        ours = kazoo_client(server.at, 8.0)
        ours.start()
        ours.create("/ratebed/t1", b"1", makepath=True)
        ours.create("/ratebed/t2", b"2", ephemeral=True)
        wrong = kazoo_client(structs.replace(server.at, secret="guess"), 8.0)
        for stranger in (KazooClient(f"{server.at.address}:{server.at.port}"), wrong):
            stranger.start()
            for attempt, *arguments in ATTEMPTS:
                with pytest.raises(NoAuthError):
                    getattr(stranger, attempt)(*arguments)
            stranger.stop(), stranger.close()
        assert ours.get("/ratebed/t1")[0] == b"1" and set(ours.get_children("/")) == {"ratebed", "zookeeper"}
        server.kill()
        server.start()  # what was shut stays shut
        stranger = KazooClient(f"{server.at.address}:{server.at.port}")
        stranger.start()
        with pytest.raises(NoAuthError):
            stranger.create("/mine")
        for client in (ours, stranger):
            client.stop(), client.close()


@needs("serf")
def test_serf_answers_no_stranger_and_lets_none_join(near: Site, tmp_path: Path) -> None:
    with SerfCluster(near, ["n1", "n2"]) as cluster, SerfServer(near, "n3") as stranger:
        cluster.start()
        ours = cluster.servers["n1"]
        for secret in ("", "guess"):
            with SerfRpc(ours.rpc.connect, "n1", secret) as rpc, pytest.raises(MachineError, match="refuses auth"):
                rpc.alive()
        with pytest.raises(MachineError, match="refuses join"):
            stranger.rpc.join([ours.gossip])  # it has another key
        assert ours.rpc.alive() == ["n1", "n2"] and stranger.rpc.alive() == ["n3"]
        settings = near.folder / "serf-n1" / "settings.json"
        assert stat.S_IMODE(settings.stat().st_mode) == 0o600
        secret = ours.reached_at().secret
        words = [word for _, pid in near.processes for word in Path(f"/proc/{pid}/cmdline").read_text().split("\0")]
        assert not any(secret in word for word in words)


@needs("redis-gcra")
def test_redis_answers_no_stranger(near: Site) -> None:
    with serving(near, DRIVER) as servers:
        at = servers.reached_from("n2")
        for script in (resp("SET", "k", "v"), resp("KEYS", "*"), resp("AUTH", "guess") + resp("KEYS", "*")):
            with socket.create_connection((at.address, at.port), 30) as stranger:
                stranger.sendall(script + resp("QUIT"))
                answer = stranger.makefile("rb").read()
            assert answer.startswith((b"-NOAUTH", b"-WRONGPASS")) and b"+PONG" not in answer
