"""Receipts over a socket: rows in pieces of any size, and nothing from who does not know the token."""

import socket
import struct
import time
from collections.abc import Iterator
from itertools import pairwise

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.units import MILLISECOND_NS
from testbed.brokers.moving.receipts import ReceiptPort, Receipts
from testbed.hosts.loop import Loop, LoopThread
from testbed.nodes import links
from testbed.nodes.frames import Hello
from tests.testbed.brokers.with_clients import until

TOKEN = "of-this-test"
Row = tuple[int, int, int]
ROWS = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
SOCKETS = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def framed(*frames: bytes) -> bytes:
    """As they travel."""
    return b"".join(struct.pack(">I", len(frame)) + frame for frame in frames)


def greeting(token: str) -> bytes:
    """The first frame of who knows this token."""
    return framed(msgspec.json.encode(Hello(token)))


def packed(rows: list[Row]) -> bytes:
    """A frame of them."""
    return framed(b"".join(struct.pack(">iiq", *row) for row in rows))


def hung_up(connection: socket.socket) -> bool:
    """Whether the other side has, within a minute; what it had not read resets the connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


class Port:
    """A port in a loop of its own, and what came there."""

    def __init__(self, loop: Loop, thread: LoopThread):
        self.rows: list[Row] = []
        self.port = thread.call(lambda: ReceiptPort(loop, "127.0.0.1", TOKEN, self._take)).port

    def _take(self, *row: int) -> None:
        self.rows.append(row)  # type: ignore[arg-type]

    def call(self) -> socket.socket:
        """A connection to it."""
        return socket.create_connection(("127.0.0.1", self.port), 60)


@pytest.fixture
def loop() -> Iterator[tuple[Loop, LoopThread]]:
    its = Loop()
    thread = LoopThread(its, "receipts")
    thread.start()
    yield its, thread
    thread.stop()


@pytest.fixture
def port(loop: tuple[Loop, LoopThread]) -> Port:
    return Port(*loop)


@SOCKETS
@given(rows=st.lists(ROWS, min_size=1, max_size=20), cuts=st.lists(st.integers(0, 1000), max_size=8))
def test_rows_come_whole_in_pieces_of_any_size(port: Port, rows: list[Row], cuts: list[int]) -> None:
    port.rows.clear()
    data = greeting(TOKEN) + packed(rows[:3]) + packed(rows[3:])
    edges = sorted({0, *(cut % len(data) for cut in cuts), len(data)})
    with port.call() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for begin, end in pairwise(edges):
            connection.sendall(data[begin:end])
        until(lambda: len(port.rows) >= len(rows), "the rows")
    assert port.rows == rows


@pytest.mark.parametrize("token", ["", TOKEN[:-1], "Of-this-test", TOKEN + "s"])
def test_who_does_not_know_the_token_says_nothing(port: Port, token: str) -> None:
    with port.call() as connection:
        connection.sendall(greeting(token) + packed([(1, 2, 3)]))
        assert hung_up(connection)
    assert not port.rows


def test_who_says_nothing_does_not_stay(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "DIAL_NS", 50 * MILLISECOND_NS)
    with port.call() as connection, port.call() as friend:
        friend.sendall(greeting(TOKEN))
        assert hung_up(connection)
        friend.sendall(packed([(1, 2, 3)]))
        until(lambda: port.rows == [(1, 2, 3)], "its row")


def test_each_process_gets_its_publishers_receipts(loop: tuple[Loop, LoopThread]) -> None:
    its, thread = loop
    got: list[list[Row]] = [[], []]
    ports = [
        thread.call(lambda rows=rows: ReceiptPort(its, "127.0.0.1", TOKEN, lambda *row: rows.append(row)))
        for rows in got
    ]
    receipts = thread.call(lambda: Receipts(its, [f"127.0.0.1:{port.port}" for port in ports], TOKEN))
    sent = [(publisher, 3, 1000 + publisher) for publisher in range(7)]
    for row in sent:
        thread.call(lambda row=row: receipts.add(*row))
    until_s = time.monotonic() + 60
    while sum(map(len, got)) < len(sent) and time.monotonic() < until_s:
        time.sleep(0.005)
    assert got == [sent[::2], sent[1::2]]
