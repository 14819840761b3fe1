"""Garbage on any port, and clients that are slow or vanish, never stop the broker."""

import contextlib
import json
import socket
import struct
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.brokers import nsq
from tests.live import needs
from tests.testbed.brokers.running import TOKEN, Client, broker, number_of, numbered, subscriber
from tests.testbed.brokers.with_clients import until

pytestmark = [needs("go"), pytest.mark.slow]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with broker(tmp_path_factory.mktemp("broker")) as its:
        client = its.client()
        client.acquire("sound")
        client.close()
        yield its
        assert its.process.poll() is None
        counted = its.client().stats()
        assert counted["panic_count"] == 0


@pytest.fixture
def still_works(running):
    """After the test a message goes through, and the broker obeys."""
    yield
    client = running.client()
    reader, publisher = subscriber(running, "sound"), Client(running.connect("ingress"), 1)
    publisher.publish("sound", numbered(42))
    assert [number_of(message) for message in reader.receive(1)] == [42]
    assert client.report()["sound"]["message_count"] > 0
    for each in (client, reader, publisher):
        each.close()


def throw(running, port: str, data: bytes) -> None:
    """Send it, close the sending side, read what comes until the end (or a while)."""
    with contextlib.suppress(OSError), running.connect(port) as connection:
        connection.settimeout(0.2)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass


SIZES = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(0, 40), st.sampled_from([1 << 20, (1 << 20) + 1]))
WORDS = st.sampled_from([b"PUB", b"MPUB", b"DPUB", b"IDENTIFY", b"SUB", b"RDY", b"FIN", b"CLS", b"NOP", b"AUTH", b""])
NAMES = st.one_of(st.sampled_from([b"t1", b"t2", b"t1 c", b"#ephemeral", b"t" * 65]), st.binary(max_size=8))
PIECES = st.one_of(
    st.builds(lambda word, name: word + b" " + name + b"\n", WORDS, NAMES),
    st.builds(lambda size: struct.pack(">i", size), SIZES),
    st.builds(lambda data: struct.pack(">i", len(data)) + data, st.binary(max_size=40)),
    st.builds(nsq.mpub, st.just("t1"), st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=4)),
    st.binary(max_size=60),
)
SCRIPTS = st.lists(PIECES, max_size=8).map(b"".join)
QUICKLY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("port", ["ingress", "nsqd"])
@pytest.mark.parametrize("greeting", [nsq.MAGIC + nsq.auth(TOKEN), nsq.MAGIC, b""])
def test_random_commands(running, still_works, port, greeting):
    @QUICKLY
    @given(SCRIPTS)
    def storm(script):
        throw(running, port, greeting + script)

    storm()


def test_random_requests_on_the_control_port(running, still_works):
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
        max_leaves=6,
    )
    names = st.sampled_from(["acquire", "set_bucket", "report", "move", "record", "stats", "nothing"])
    keys = st.sampled_from(["topic", "rate", "capacity", "full", "publishers", "target", "on", "rows"])
    requests = st.builds(lambda name, rest: {**rest, "do": name}, names, st.dictionaries(keys, values, max_size=4))
    lines = st.one_of(requests.map(lambda it: json.dumps(it).encode()), st.binary(max_size=50))

    @QUICKLY
    @given(st.booleans(), st.lists(lines, max_size=4))
    def storm(knows_the_token, script):
        first = [json.dumps({"token": TOKEN}).encode()] if knows_the_token else []
        throw(running, "control", b"\n".join([*first, *script]) + b"\n")

    storm()


def test_a_line_without_an_end_is_cut_off(running, still_works):
    for port in ("ingress", "control"):
        with running.connect(port) as connection, contextlib.suppress(OSError):
            connection.settimeout(60)
            for _ in range(3000):  # more than any socket buffers
                connection.sendall(b"  V2" + b"x" * 10_000)
            pytest.fail(f"{port} swallows it all")


def test_slow_clients_hold_nobody_up(running, still_works):
    """A command byte by byte, and one that never ends, beside publishers in good health."""
    slow, stuck = running.connect("ingress"), running.connect("ingress")
    stuck.sendall(nsq.MAGIC + nsq.auth(TOKEN) + b"PUB sound\n" + struct.pack(">i", 1000) + b"half")
    publisher, reader = Client(running.connect("ingress"), 1), subscriber(running, "sound")
    script = nsq.MAGIC + nsq.auth(TOKEN) + nsq.pub("sound", b"s" * 30)
    for at, byte in enumerate(script[:-1]):
        slow.sendall(bytes([byte]))
        publisher.publish("sound", numbered(at))
        assert number_of(reader.receive(1)[0]) == at
    slow.sendall(script[-1:])
    assert reader.receive(1)[0].body == b"s" * 30
    for each in (slow, stuck, publisher, reader):
        each.close()


def test_clients_that_never_read_their_answers_are_dropped(running, still_works):
    commands = b"CLS\n" * 50_000
    # Its receive buffer is as it comes: where one shrinks below what was promised, Linux drops the broker's segments
    # whole, what they acknowledge included, and both ends wait for each other until a heartbeat ends it.
    with running.connect("ingress") as deaf, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        deaf.sendall(nsq.MAGIC + nsq.auth(TOKEN))
        for _ in range(2000):
            deaf.sendall(commands)
        pytest.fail("the broker keeps answering")


def test_half_open_connections_end_by_heartbeat(running, still_works):
    mute = running.connect("ingress")  # never says the magic word
    half = Client(running.connect("ingress"), 1, heartbeat_interval=1000)
    began_s = time.monotonic()
    half.send(b"PUB sound\n\0\0")  # and nothing more, not even an answer to heartbeats
    frames = []
    with contextlib.suppress(EOFError):
        while True:
            frames.append(half.frame().data)
    assert frames == [nsq.HEARTBEAT] * 2
    assert 2 < time.monotonic() - began_s < 60
    mute.settimeout(60)
    assert mute.recv(1) == b""
    mute.close()
    half.close()


def test_connections_that_vanish_with_a_reset(running, still_works):
    for _ in range(200):
        connection = running.connect("ingress")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(nsq.MAGIC + nsq.auth(TOKEN) + b"PUB sound\n" + struct.pack(">i", 100))
        connection.close()
    Client(running.connect("ingress"), 1).close()  # in turn: whoever vanished before it was accepted, as well
    client = running.client()
    until(lambda: client.stats()["connection_count"] == 0, "the end of all connections")
    client.close()


def test_publishers_cannot_make_topics_without_end(running, still_works):
    publisher = Client(running.connect("ingress"), 1)
    publisher.send(b"".join(nsq.pub(f"many.{i}#ephemeral", b"x") for i in range(1001)))
    answers = []
    with contextlib.suppress(EOFError, OSError):
        while True:
            answers.append(publisher.frame().data)
    assert answers[-1].startswith(b"E_PUB_FAILED there are 1000 topics")
    publisher.close()
