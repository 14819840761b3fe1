"""A node's process by itself: strangers on its ports, commands, its end."""

import random
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest

from core.errors import MachineError, SpecError, SystemFault
from core.records import Request
from studies.limiting.users import RequestHost, write_requests
from systems.api import Decide, Start, Timer, Verdict
from systems.loader import load_system
from testbed.faults import Restart
from testbed.hosts.agent import AgentGone
from testbed.hosts.local import LocalSite
from testbed.hosts.loop import Clock
from testbed.nodes.fleet import NodeFleet
from testbed.nodes.frames import (
    Hello,
    VerdictRow,
    read_request,
    read_verdict,
    request_frame,
    verdict_frame,
)
from testbed.nodes.host import NodeHost
from testbed.topologies.topology import mesh
from tests.testbed.brokers.with_clients import until

pytestmark = pytest.mark.live  # its machine to itself: strangers are waited for in real time

TOPOLOGY = mesh("two", ["n1", "n2"], 0)
EXAMPLE = str(Path(__file__).parents[3] / "docs" / "examples" / "my_limiter.py")


@pytest.fixture(params=["crdt-counter", EXAMPLE], ids=["streams", "datagrams"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NodeFleet]:
    """Two nodes that have begun."""
    system = load_system(request.param)
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        found = NodeFleet(site, system, system.config(), 1)
        found.start()
        found.connect()
        found.go(time.time_ns(), {})
        yield found
        found.stop()


def framed(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def greeting(fleet: NodeFleet, node: str = "") -> bytes:
    return framed(msgspec.json.encode(Hello(fleet.token, node)))


def called(fleet: NodeFleet, node: str, *parts: bytes) -> socket.socket:
    sock = socket.create_connection(fleet.address_of(node), timeout=60)
    for part in parts:
        sock.sendall(part)
    return sock


def ask(fleet: NodeFleet, node: str, request: Request) -> VerdictRow:
    with called(fleet, node, greeting(fleet), framed(request_frame(request))) as sock:
        data = b""
        while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
            part = sock.recv(1 << 16)
            assert part, "the node hung up"
            data += part
        return read_verdict(data[4:])


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def garbage_count(fleet: NodeFleet, node: str = "n2") -> int:
    count: int = fleet.statuses()[node]["garbage_count"]
    return count


@pytest.mark.slow
def test_strangers_and_garbage_are_counted_and_harm_nobody(fleet: NodeFleet) -> None:
    address, rng = fleet.address_of("n2"), random.Random(1)
    refused = [
        b"\xff" * 64,  # a frame of 4 GB
        framed(b"GET / HTTP/1.1\r\n\r\n"),
        framed(msgspec.json.encode(Hello("not the token", "n1"))),
        greeting(fleet, "n9"),
        greeting(fleet, "n2"),  # nobody calls itself
        framed(b""),
    ]
    for content in refused:
        with called(fleet, "n2", content) as sock:
            assert is_closed(sock)
    assert garbage_count(fleet) >= len(refused)
    half_open = [called(fleet, "n2"), called(fleet, "n2", b"\x00\x00"), called(fleet, "n2", greeting(fleet)[:9])]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(200):
            sock.sendto(rng.randbytes(rng.randrange(1, 1400)), address)
    with called(fleet, "n2", greeting(fleet), framed(b"no request")):  # a user who talks nonsense stays
        assert ask(fleet, "n2", Request(1, "user λ", 0)).verdict is Verdict.ADMIT
        until(lambda: garbage_count(fleet) > len(refused), "the nonsense")
    for sock in half_open:
        assert is_closed(sock)  # after 3 s without a word
        sock.close()
    fleet.check()


@pytest.mark.slow
def test_a_false_peer_is_thrown_out_and_the_true_one_calls_again(tmp_path: Path) -> None:
    system = load_system("crdt-counter")
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        fleet = NodeFleet(site, system, system.config(), 1)
        fleet.start()
        fleet.connect()
        fleet.go(time.time_ns(), {})
        before = garbage_count(fleet)
        for content in (b"\xff\xff", b"", b"\x01\xc1"):
            # At once: the true one, if it calls in between, is taken for the newer.
            with called(fleet, "n2", greeting(fleet, "n1") + framed(content)):
                until(lambda before=before: garbage_count(fleet) > before, "its being thrown out")
                before += 1
                assert garbage_count(fleet) == before
        until_s, number = time.monotonic() + 60, 0
        while not fleet.statuses()["n2"]["received_from"].get("n1") and time.monotonic() < until_s:
            number += 1  # what was sent into the broken connection is lost
            assert ask(fleet, "n1", Request(number, "u", 0)).verdict is Verdict.ADMIT
            time.sleep(0.1)
        assert fleet.statuses()["n2"]["received_from"]["n1"] >= 1
        fleet.stop()


def test_bad_commands_are_answered(tmp_path: Path) -> None:
    system = load_system("static-split")
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        fleet = NodeFleet(site, system, system.config(), 1)
        fleet.start()
        agent = site.agents["node-n1"]
        with pytest.raises(MachineError, match="no command 'fly'"):
            agent.ask("fly")
        with pytest.raises(SpecError, match="unknown system 'statik-split'"):
            agent.ask("configure", system="statik-split", options={}, names=["n1"], name="n1", seed=1, records="x")
        with pytest.raises(SpecError, match="has no option"):
            agent.ask(
                "configure", system="static-split", options={"x": 1}, names=["n1"], name="n1", seed=1, records="x"
            )
        agent.process.kill()
        agent.process.wait()
        with pytest.raises(MachineError, match="node n1 has ended"):
            fleet.check()
        fleet.stop()


def is_listening(fleet: NodeFleet, node: str) -> bool:
    with suppress(OSError):
        called(fleet, node).close()
        return True
    return False


def test_a_restart_that_nobody_waits_for_is_asked_for_later(tmp_path: Path) -> None:
    system = load_system("static-split")
    back, refused, early = (Restart(at_ns, "n1") for at_ns in range(3))
    with LocalSite(TOPOLOGY, tmp_path, tmp_path) as site:
        fleet = NodeFleet(site, system, system.config(), 1)
        fleet.start([back, refused, early])
        fleet.connect()
        fleet.go(epoch_ns := time.time_ns(), {})
        fleet.crash("n1")
        fleet.restart(back, waits=False)
        assert fleet.coming == {"n1": "node-n1.1"}
        until(partial(is_listening, fleet, "n1"), "n1 is there")
        ask(fleet, "n1", Request(1, "u", 0))
        fleet.crash("n1")  # what it has answered is there still
        assert 0 < fleet.begun_ns("n1") <= time.time_ns() - epoch_ns and not fleet.coming
        with socket.create_server(fleet.address_of("n1")):
            fleet.restart(refused, waits=False)
            with pytest.raises(MachineError, match=r"node-n1.2, listen: port"):
                fleet.begun_ns("n1")
        assert list(fleet.statuses("finish")) == ["n2"], "it is down, and the others go on"
        killed = site.agents["node-n1.3"].process
        killed.send_signal(signal.SIGSTOP)  # it answers nothing before it is killed
        fleet.restart(early, waits=False)
        killed.kill()
        fleet.crash("n1")
        with pytest.raises(AgentGone, match=r"node-n1\.3"):
            fleet.begun_ns("n1")
        fleet.stop()


def test_a_node_that_is_not_connected_does_not_begin(tmp_path: Path) -> None:
    host = NodeHost("127.0.0.1")
    host.configure("static-split", {}, ["n1"], "n1", 1, str(tmp_path / "records"))
    with pytest.raises(MachineError, match="n1 is not connected"):
        host.go(time.time_ns())


def test_a_message_that_is_a_datagram_goes_as_one_beside_streams(tmp_path: Path) -> None:
    with ExitStack() as opened:
        peer = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        datagrams = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        for sock in (peer, datagrams):
            sock.settimeout(60)
        datagrams.bind(peer.getsockname())
        host = NodeHost("127.0.0.1")
        host.configure("crdt-counter", {}, ["n1", "n2"], "n1", 1, str(tmp_path / "records"))
        own = ["127.0.0.1", host.listen()["port"]]
        host.connect("token", {"n1": own, "n2": list(peer.getsockname())}, {})
        host.send("n1", "n2", b"a table", by_datagram=False)
        host.send("n1", "n2", b"a probe", by_datagram=True)
        assert datagrams.recv(99) == b"a probe"
        datagrams.setblocking(False)
        with pytest.raises(BlockingIOError):
            datagrams.recv(99)
        assert host.status()["unsent_bytes"] > 0  # the other one waits for its connection


def test_what_the_kernel_refuses_is_lost_once(tmp_path: Path) -> None:
    """It was not sent, so that nobody misses it at the other end."""
    host = NodeHost("127.0.0.1")
    host.configure(EXAMPLE, {}, ["n1", "n2", "n3"], "n1", 1, str(tmp_path / "records"))
    own = ["127.0.0.1", host.listen()["port"]]
    nowhere = ["255.255.255.255", 9]  # a broadcast, which a socket has to ask for
    host.connect("token", {"n1": own, "n2": nowhere, "n3": own}, {})
    for target in ("n2", "n3"):
        host.send("n1", target, b"a count", by_datagram=False)
    assert host.status()["sent_to"] == {"n3": 1} and host._ways[-1].lost_count == 1


def test_a_node_that_rests_sends_nothing_and_counts_what_comes(tmp_path: Path) -> None:
    host = NodeHost("127.0.0.1")
    host.configure(EXAMPLE, {}, ["n1", "n2"], "n1", 1, str(tmp_path / "records"))
    own = ["127.0.0.1", host.listen()["port"]]
    host.connect("token", {"n1": own, "n2": own}, {})
    host.go(time.time_ns())
    host._start(Start(None))
    (Asked,) = host._system.messages
    content = host._group.codec.encode(Asked({}))
    for rests in (False, True):
        if rests:
            assert host.rest()["sent_to"] == {"n2": 1}
        host._receive("n2", content)
        host.occur(host._member, Timer("count", host.now_ns))
    assert host.status()["sent_to"] == {"n2": 1} and host.status()["received_from"] == {"n2": 2}


def test_frames_carry_any_user() -> None:
    for user in ("", "λ\n\0", "\udcff\ud800", "x" * 70_000):
        request = Request(2**40, user, 5, 2**31 - 1)
        assert read_request(request_frame(request)) == request
    for verdict in Verdict:
        for unanswered in (False, True):
            frame = verdict_frame(Decide(-7, verdict, unanswered), 2**60)
            assert read_verdict(frame) == (-7, 2**60, verdict, unanswered)
    for content in (b"", b"x" * 19, struct.pack(">qqi", 1, 1, 0), struct.pack(">qqi", 1, 1, 1) + b"\xff"):
        with pytest.raises(SystemFault, match="no request"):
            read_request(content)


def test_a_clock_counts_from_the_epoch() -> None:
    epoch_ns = time.time_ns() - 10**9
    clock = Clock(epoch_ns)
    now_ns, after_ns = clock.now_ns(), time.time_ns() - epoch_ns
    # To the millisecond, as two clocks of the machine are compared, and however long it stands still in between.
    assert 10**9 - 10**6 < now_ns < after_ns + 10**6
    assert clock.now_ns() <= clock.now_ns()


def test_users_need_a_node_at_the_start(tmp_path: Path) -> None:
    write_requests(tmp_path / "requests", [])
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # taken, but nobody listens
        with pytest.raises(ConnectionError, match="nobody listens"):
            RequestHost().configure("token", {"n1": ["127.0.0.1", sock.getsockname()[1], str(tmp_path / "requests")]})
