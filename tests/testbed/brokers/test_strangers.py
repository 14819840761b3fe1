"""Somebody else on the machine, who has not the run's token: takes nothing off, fills nothing up, spoils no run."""

import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import numpy as np
import psutil
import pytest

from studies.distribution.live import LiveDeployment
from testbed.brokers import nsq
from testbed.brokers.publish_host import allow_descriptors
from tests.live import needs
from tests.studies.distribution.test_live import ROUND_NS, deployed, spread, values
from tests.testbed.brokers.running import TOKEN, Broker, Client, broker, numbered, subscriber

pytestmark = [needs("linux", "go"), pytest.mark.slow, pytest.mark.live]

GROWTH_BYTES = 64 << 20
MEGABYTE = 1 << 20
CROWD = 10_000
PORTS = ("ingress", "nsqd")
GUESSES = [(topic, channel) for topic in ("topic", "t", "load") for channel in ("sub", "a", "consumer1")]


def answers(connection: socket.socket) -> list[nsq.Frame]:
    """What a broker says until it hangs up."""
    parser, frames = nsq.FrameParser(), []
    with suppress(OSError):
        while data := connection.recv(1 << 16):
            frames += list(parser.feed(data))
    return frames


def knock(address: str, script: bytes) -> list[nsq.Frame]:
    """Say something at a port, and listen until it hangs up, which it does soon."""
    with socket.create_connection(nsq.address(address), 10) as connection, suppress(OSError):
        connection.settimeout(60)
        connection.sendall(nsq.MAGIC + script)
        return answers(connection)
    return []


@contextmanager
def crowd(address: str, count: int, said: bytes) -> Iterator[None]:
    """Connections that say so much, and nothing more."""
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.socket())
            connection.setblocking(False)
            with suppress(BlockingIOError):
                connection.connect(nsq.address(address))
            with suppress(OSError):
                connection.sendall(said)
        yield


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    """For a crowd."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    allow_descriptors()
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(scope="module", params=["friendly"])
def running(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("broker"), "-gc", request.param) as its:
        client = its.client()
        client.acquire("topic")
        client.close()
        yield its


@pytest.fixture(autouse=True)
def unmoved(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test the broker has not grown by much, knows no further topic, and delivers."""
    if "running" not in request.fixturenames:
        yield
        return
    its: Broker = request.getfixturevalue("running")
    process = psutil.Process(its.process.pid)
    before = process.memory_info().rss
    yield
    grown = process.memory_info().rss - before
    client = its.client()
    assert grown < GROWTH_BYTES, f"{grown / 1e6:.0f} MB"
    assert set(client.queues()) == {"topic"} and client.stats()["panic_count"] == 0
    reader, publisher = subscriber(its, "topic"), Client(its.connect("ingress"), 1)
    publisher.publish("topic", numbered(1))
    assert len(reader.receive(1)) == 1
    for each in (reader, publisher, client):
        each.close()


@pytest.mark.parametrize("port", PORTS)
def test_guesses_take_nothing_off(running: Broker, port: str) -> None:
    publisher = Client(running.connect("ingress"), 1)
    publisher.publish("topic", *(numbered(i) for i in range(100)))
    for topic, channel in GUESSES:
        for before in (
            b"",
            nsq.identify(client_id="p1"),
            nsq.auth("guess"),
            nsq.auth(TOKEN[:-1]),
            nsq.auth(TOKEN + "x"),
        ):
            found = knock(running.addresses[port], before + nsq.sub(topic, channel) + nsq.rdy(100))
            assert found and found[-1].kind == nsq.ERROR and not any(frame.kind == nsq.MESSAGE for frame in found)
    reader = subscriber(running, "topic")
    assert len(reader.receive(100)) == 100, "the others' messages are all there"
    for each in (publisher, reader):
        each.close()


@pytest.mark.parametrize("port", PORTS)
def test_publications_are_not_even_read(running: Broker, port: str) -> None:
    large = nsq.MAGIC + nsq.pub("unread", bytes(MEGABYTE))
    for number in range(1_500):
        for script in (large, nsq.MAGIC + nsq.pub(f"unread{number}", b"x")):
            connection = socket.create_connection(nsq.address(running.addresses[port]), 10)
            with connection, suppress(OSError):
                connection.settimeout(0.05)
                connection.sendall(script)
    assert knock(running.addresses[port], nsq.pub("unread", b"x"))[-1].data.startswith(b"E_AUTH_FIRST")


@pytest.mark.parametrize("port", [*PORTS, "control"])
@pytest.mark.parametrize(
    "said",
    [
        b"",
        nsq.MAGIC,
        nsq.MAGIC + nsq.identify(client_id="p1", feature_negotiation=True, heartbeat_interval=-1),
        nsq.MAGIC + b"IDENTIFY\n" + struct.pack(">i", 4_000),
        nsq.MAGIC + b"AUTH\n" + struct.pack(">i", 1_000) + b"x" * 999,
    ],
    ids=["silent", "greeted", "identified", "half an IDENTIFY", "half an AUTH"],
)
def test_a_crowd_that_says_little(running: Broker, port: str, said: bytes) -> None:
    process = psutil.Process(running.process.pid)
    before = process.memory_info().rss
    with crowd(running.addresses[port], CROWD, said):
        until_s = time.monotonic() + 3.0
        while time.monotonic() < until_s:
            assert process.memory_info().rss - before < GROWTH_BYTES
            time.sleep(0.05)
        late = Client(running.connect("ingress"), 2)  # who knows the token gets in
        late.publish("topic", numbered(2))
        late.close()
    subscriber(running, "topic").close()


def test_the_token_is_on_no_command_line(running: Broker) -> None:
    root = psutil.Process(running.process.pid)
    for process in (root, *root.children(recursive=True)):
        assert not any(TOKEN in word for word in process.cmdline())


def attack(deployment: LiveDeployment, done: threading.Event) -> list[nsq.Frame]:
    """All of it, over and over, at each broker of a run; returns what the stranger was sent."""
    heard = []
    while not done.is_set():
        for its in deployment.brokers_up:
            for address in (its.ingress, its.nsqd):
                heard += knock(address, nsq.sub("topic", "sub") + nsq.rdy(100))
                for _ in range(20):
                    heard += knock(address, nsq.pub("topic", bytes(MEGABYTE)))
                with crowd(address, 300, b""):
                    pass
    return heard


def test_a_run_beside_a_stranger_is_as_valid_as_one_alone() -> None:
    live, heard, done = deployed(), list[nsq.Frame](), threading.Event()
    thread = threading.Thread(target=lambda: heard.extend(attack(live, done)))
    try:
        before = [psutil.Process(its.agent.pid).memory_info().rss for its in live.brokers_up]
        thread.start()
        for _ in range(3):
            live.next_round(spread(2), ROUND_NS)
        grown = [psutil.Process(its.agent.pid).memory_info().rss for its in live.brokers_up] - np.array(before)
        done.set()
        thread.join()
        numbers = live.evidence().fidelity.numbers
        assert numbers["delivered_count"] == numbers["offered_count"] > 500 and numbers["unexplained_count"] == 0
        assert not any(frame.kind == nsq.MESSAGE for frame in heard) and len(heard) > 20
        assert sum(values(live, "stranger_count")) > 20 and sum(values(live, "refused_message_count")) == 0
        assert (grown < GROWTH_BYTES).all()
    finally:
        done.set()
        live.close()
