"""Sockets of the tests inside hosts of a site."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.hosts.mininet.namespaces import network_of
from testbed.hosts.mininet.site import MininetSite

PORT = 7001
PATIENCE_S = 60.0


def pid_of(site: MininetSite, host: str) -> int:
    assert site.network is not None
    return site.network.pid(host)


@contextmanager
def udp(site: MininetSite, *hosts: str) -> Iterator[list[socket.socket]]:
    """A bound datagram socket in each host."""
    opened = []
    for host in hosts:
        with network_of(pid_of(site, host)):
            opened.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        opened[-1].bind((site.address(host), PORT))
        opened[-1].settimeout(PATIENCE_S)
        opened[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    try:
        yield opened
    finally:
        for one in opened:
            one.close()


@contextmanager
def tcp(site: MininetSite, source: str, target: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection."""
    with network_of(pid_of(site, target)):
        listener = socket.create_server((site.address(target), PORT + 1))
    with network_of(pid_of(site, source)):
        mine = socket.socket()
    with listener, mine:
        mine.settimeout(PATIENCE_S)
        mine.connect((site.address(target), PORT + 1))
        listener.settimeout(PATIENCE_S)
        theirs, _ = listener.accept()
        with theirs:
            theirs.settimeout(PATIENCE_S)
            yield mine, theirs


def send_numbers(sender: socket.socket, address: str, count: int, every_s: float = 0.001) -> None:
    for number in range(count):
        sender.sendto(number.to_bytes(4, "big"), (address, PORT))
        time.sleep(every_s)


def received_numbers(receiver: socket.socket, least: int = 0, quiet_s: float = 0.5) -> list[int]:
    """What comes until nothing has come for a while; ``least`` of them are waited for, however long they take."""
    numbers: list[int] = []
    try:
        while True:
            receiver.settimeout(quiet_s if len(numbers) >= least else PATIENCE_S)
            numbers.append(int.from_bytes(receiver.recv(2048), "big"))
    except TimeoutError:
        return numbers
    finally:
        receiver.settimeout(PATIENCE_S)


def one_way_ns(site: MininetSite, source: str, target: str, count: int = 30) -> int:
    """The least delay of some datagrams."""
    with udp(site, source, target) as (sender, receiver):
        spans = []
        for _ in range(count):
            sent_ns = time.monotonic_ns()
            sender.sendto(b"x", (site.address(target), PORT))
            receiver.recv(10)
            spans.append(time.monotonic_ns() - sent_ns)
        return min(spans)


def pump(sender: socket.socket, receiver: socket.socket, size_bytes: int) -> float:
    """Seconds that so many bytes take over a connection."""
    block = bytes(1 << 16)

    def send() -> None:
        for _ in range(size_bytes // len(block)):
            sender.sendall(block)

    began_s = time.monotonic()
    thread = threading.Thread(target=send)
    thread.start()
    left = size_bytes // len(block) * len(block)
    while left:
        part = receiver.recv(1 << 20)
        assert part
        left -= len(part)
    thread.join()
    return time.monotonic() - began_s
