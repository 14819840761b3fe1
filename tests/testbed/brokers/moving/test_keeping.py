"""A publisher that keeps its messages: when it leaves, what it offers again, and in which order; without sockets."""

import heapq
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from core.records import Block
from testbed.brokers import nsq
from testbed.brokers.moving.keeping import RULES, KeepingPublisher, KeptLoad
from testbed.brokers.publish_engine import TALLIED
from testbed.brokers.publisher import State

A, B = "10.0.0.1:1", "10.0.0.2:2"
TAG = 7


class FakeConnection:
    """Takes frames whole; what happens to it the test says."""

    opened: ClassVar[list["FakeConnection"]] = []

    def __init__(self, loop: object, address: str, token: str, **features: object):
        self.address, self.frames, self.is_closed, self.read_at_ns = address, list[bytes](), False, 0
        self.takes_all = True
        self.on_open: Callable[[bytes], None]
        self.on_close: Callable[[str], None]
        self.on_frame: Callable[[int, bytes], None]
        self.on_drained: Callable[[], None]
        FakeConnection.opened.append(self)

    def write(self, frame: bytes) -> bool:
        self.frames.append(bytes(frame))
        return self.takes_all

    def close(self) -> None:
        self.is_closed = True

    def numbers(self) -> list[int]:
        """Of the messages of each frame: one a frame."""
        return [nsq.HEADER.unpack_from(frame, frame.index(b"\n") + 5)[0] for frame in self.frames]


class Stand:
    """One publisher, a load of ten messages of its own, and an engine that has no thread."""

    def __init__(self, count: int = 10):
        self.timers: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self.engine: Any = SimpleNamespace(
            loop=SimpleNamespace(call_at=self.call_at), token="", brokers={}, queue=deque(), starting_count=0, moves=[],
            withheld=set(), tally=dict.fromkeys((*TALLIED, *RULES), 0), last_problem="", tries_maximum=1,
        )  # fmt: skip
        block = Block(np.arange(count), np.zeros(count, np.int32), np.ones(count, np.int32))
        self.load = KeptLoad(block, "topic", 0, [0], TAG)
        self.publisher = KeepingPublisher(self.engine, 0)
        self.publisher.move(A)
        self.connection = self.connect()

    def call_at(self, at_ns: int, action: Callable[..., None], *arguments: object) -> None:
        heapq.heappush(self.timers, (at_ns, len(self.timers), action, arguments))

    def dial(self) -> FakeConnection:
        """The connection that it begins now."""
        before = len(FakeConnection.opened)
        while self.engine.queue or (len(FakeConnection.opened) == before and self.timers):
            if self.engine.queue:
                self.engine.starting_count += 1
                self.engine.queue.popleft().begin()
            else:
                _, _, action, arguments = heapq.heappop(self.timers)
                action(*arguments)
        return FakeConnection.opened[-1]

    def connect(self) -> FakeConnection:
        self.connection = self.dial()
        self.connection.on_open(nsq.OK)
        return self.connection

    def send(self, *indices: int) -> None:
        for index in indices:
            self.publisher.publish(self.load, index)

    def receipts(self, *messages: int) -> None:
        for message in messages:
            if self.load.receive(message):
                self.publisher.settle()

    def answer(self, count: int) -> None:
        for _ in range(count):
            self.connection.on_frame(nsq.RESPONSE, nsq.OK)

    def migrate(self, target: str) -> None:
        self.connection.on_frame(nsq.RESPONSE, nsq.MIGRATE + target.encode())


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    monkeypatch.setattr("testbed.brokers.publisher.Connection", FakeConnection)
    monkeypatch.setattr(FakeConnection, "opened", [])
    return Stand()


def test_it_leaves_when_all_has_its_receipt_and_goes_on_with_what_it_held(stand: Stand) -> None:
    stand.send(0, 1, 2)
    stand.answer(3)
    stand.receipts(0)
    stand.migrate(B)
    stand.send(3, 4)
    old = stand.connection
    stand.receipts(1)
    assert stand.publisher.state is State.DRAINING and not old.is_closed, "the broker's OK is not enough"
    stand.receipts(2)
    assert old.is_closed and old.numbers() == [0, 1, 2]
    new = stand.connect()
    assert (new.address, new.numbers()) == (B, [3, 4])
    stand.send(5)
    assert new.numbers() == [3, 4, 5]
    assert list(stand.load.held[:6]) == [0, 0, 0, 1, 1, 0]
    ((_, publisher, source, target, _),) = stand.engine.moves
    assert (publisher, source, target) == (0, 0, 1) and stand.load.kept_count == 3


def test_what_has_no_receipt_when_its_broker_dies_is_offered_again_oldest_first(stand: Stand) -> None:
    stand.send(0, 1, 2, 3, 4)
    stand.answer(2)
    stand.receipts(0, 2)
    stand.connection.on_close("killed")
    stand.send(5)
    assert stand.load.kept_count == 0 and stand.load.waiting_count == 4
    stand.receipts(1, 4)  # late: they need no second offer
    again = stand.connect()
    assert (again.address, again.numbers()) == (A, [3, 5])
    assert stand.engine.tally["offered_again"] == 3 and stand.load.waiting_count == 0
    rows = stand.load.columns()
    assert rows["sending_message"].tolist() == [0, 1, 2, 3, 4, 3, 5]


def test_who_is_on_its_way_when_its_broker_dies_offers_again_at_the_new_one(stand: Stand) -> None:
    stand.send(0, 1)
    stand.migrate(B)
    stand.send(2)
    stand.connection.on_close("killed")
    new = stand.connect()
    assert (new.address, new.numbers()) == (B, [0, 1, 2]) and len(stand.engine.moves) == 1


def test_who_is_on_its_way_refuses_another_move(stand: Stand) -> None:
    stand.send(0)
    stand.migrate(B)
    stand.migrate("10.0.0.3:3")
    stand.migrate(B)
    stand.receipts(0)
    stand.answer(1)
    assert stand.connect().address == B and stand.engine.tally["refused"] == 1


def test_a_broker_that_is_not_ready_is_not_dialled(stand: Stand) -> None:
    stand.engine.withheld.add(A)
    stand.connection.on_close("killed")
    stand.send(0)
    before = len(FakeConnection.opened)
    for _ in range(3):
        _, _, action, arguments = heapq.heappop(stand.timers)
        action(*arguments)
        stand.engine.starting_count += 1
        stand.engine.queue.popleft().begin()
    assert len(FakeConnection.opened) == before and stand.engine.starting_count == 0
    stand.engine.withheld.clear()
    assert stand.connect().numbers() == [0]


def test_a_command_that_was_written_in_part_goes_out_whole_or_anew(stand: Stand) -> None:
    stand.connection.takes_all = False
    stand.send(0, 1)
    stand.migrate(B)
    assert stand.publisher.state is State.DRAINING and not stand.connection.is_closed
    stand.connection.on_drained()
    stand.receipts(0)
    assert not stand.connection.is_closed, "its answer has not come"
    stand.answer(1)
    assert stand.connect().numbers() == [1]
    stand.connection.takes_all = False
    stand.send(2)
    stand.connection.on_close("killed")
    assert stand.connect().numbers() == [1, 2]


def test_an_emission_has_come_when_all_its_messages_have_each_counted_once() -> None:
    block = Block(np.arange(3), np.array([0, 1, 0], np.int32), np.array([2, 5, 3], np.int32))
    load = KeptLoad(block, "topic", 0, [0], TAG)
    assert not load.receive(0) and not load.receive(0)
    assert load.receive(1) and not load.receive(1)
    assert not load.receive(2) and not load.receive(6), "another process' messages"
    assert not load.receive(8) and not load.receive(7) and load.receive(9)
    assert not load.receive(10) and not load.receive(-1)
    assert load.missing.tolist() == [0, 0]
