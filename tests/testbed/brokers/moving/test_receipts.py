"""Receipts over a socket: rows in pieces of any size, and nothing from who does not know the token."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.brokers.moving.receipts import ReceiptPort, Receipts, ReceiptSocket
from testbed.hosts.loop import Loop, LoopThread

TOKEN = "of-this-test"
Row = tuple[int, int, int]
ROWS = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))


def taken(data: bytes, cuts: list[int]) -> tuple[list[Row], bool]:
    """What an end of a connection makes of bytes in these pieces, and whether it stays."""
    ours, other = socket.socketpair()
    rows: list[Row] = []
    with closing(ours), closing(other):
        end = ReceiptSocket(Loop(), ours, TOKEN, lambda *row: rows.append(row))
        edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
        for begin, until in pairwise(edges):
            if until > begin and not end.is_closed:
                end._take(data[begin:until])
        return rows, not end.is_closed


@given(st.lists(ROWS, max_size=20), st.lists(st.integers(0, 1000), max_size=8))
def test_rows_come_whole_in_pieces_of_any_size(rows: list[Row], cuts: list[int]) -> None:
    data = TOKEN.encode() + b"".join(struct.pack(">iiq", *row) for row in rows)
    assert taken(data, cuts) == (rows, True)


@given(st.binary(min_size=len(TOKEN), max_size=100), st.lists(st.integers(0, 100), max_size=4))
def test_who_does_not_know_the_token_says_nothing(data: bytes, cuts: list[int]) -> None:
    if not data.startswith(TOKEN.encode()):
        assert taken(data, cuts) == ([], False)


@given(st.integers(0, len(TOKEN) - 1), st.integers(1, 255), st.lists(ROWS, max_size=5), st.lists(st.integers(0, 100)))
def test_who_knows_the_token_but_for_a_byte_says_nothing(
    at: int, off_by: int, rows: list[Row], cuts: list[int]
) -> None:
    nearly = bytearray(TOKEN.encode())
    nearly[at] ^= off_by
    assert taken(bytes(nearly) + b"".join(struct.pack(">iiq", *row) for row in rows), cuts) == ([], False)


@pytest.fixture
def loop() -> Iterator[tuple[Loop, LoopThread]]:
    its = Loop()
    thread = LoopThread(its, "receipts")
    thread.start()
    yield its, thread
    thread.stop()


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
