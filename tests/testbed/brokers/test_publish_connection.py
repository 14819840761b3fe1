"""A publisher against a broker that does by script what real ones do rarely: hearts, odd frames, held-back answers."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest

from core.records import Block
from core.units import MILLISECOND_NS
from testbed.brokers import nsq
from testbed.brokers.publish_engine import Engine
from testbed.brokers.publish_load import PreparedLoad
from testbed.brokers.publisher import State
from testbed.trust.accounts import ABSENT
from tests.live import needs
from tests.testbed.brokers.with_clients import until

pytestmark = needs("linux")

HEARTBEAT = nsq.frame(nsq.RESPONSE, nsq.HEARTBEAT)


class Script:
    """A listener that reads one publisher's commands; the test writes the answers."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.commands: list[tuple[bytes, bytes]] = []  # first words, body
        self.peer: socket.socket | None = None
        self.accepted = 0
        self.identifies = True  # whether IDENTIFY is answered
        threading.Thread(target=self._run, daemon=True).start()

    def say(self, data: bytes) -> None:
        """Write to the publisher."""
        assert self.peer is not None
        self.peer.sendall(data)

    @property
    def numbers(self) -> list[int]:
        """The messages that have come."""
        return [nsq.HEADER.unpack_from(body)[0] for line, body in self.commands if line.startswith(b"PUB")]

    def count(self, word: bytes) -> int:
        """How often a command has come."""
        return sum(line == word for line, _ in self.commands)

    def close(self) -> None:
        """Stop listening; cut the publisher off."""
        with suppress(OSError):  # closing alone does not end the accept of another thread
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with suppress(OSError):
            if self.peer is not None:
                self.peer.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            self.peer = peer
            stream = peer.makefile("rb")
            assert stream.read(4) == nsq.MAGIC
            try:
                while line := stream.readline():
                    body = b""
                    if line.startswith((b"IDENTIFY", b"AUTH", b"PUB", b"MPUB")):
                        body = stream.read(int.from_bytes(stream.read(4)))
                    self.commands.append((line.strip(), body))
                    if line.startswith((b"IDENTIFY", b"AUTH")) and self.identifies:
                        peer.sendall(nsq.OK_FRAME)
            except (OSError, ValueError):
                pass


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(tries_maximum=2)
    yield engine
    engine.stop()


@pytest.fixture
def scripts() -> Iterator[Callable[[], Script]]:
    made: list[Script] = []

    def make() -> Script:
        made.append(Script())
        return made[-1]

    yield make
    for script in made:
        script.close()


def play(engine: Engine, count: int, size_bytes: int = 60) -> PreparedLoad:
    """A millisecond between messages of publisher 7."""
    at_ns = np.arange(count, dtype=np.int64) * MILLISECOND_NS
    block = Block(at_ns, np.full(count, 7, np.int32), np.ones(count, np.int32), size_bytes)
    load = PreparedLoad(block, "t", time.time_ns(), [7])
    engine.call(lambda: engine.offer(load))
    return load


def connect(engine: Engine, address: str) -> None:
    engine.call(lambda: engine.move([(7, address)]))
    until(lambda: engine.publishers[7].state is State.OPEN, "the connection")


def acknowledged(load: PreparedLoad) -> int:
    return sum(at_ns != ABSENT for at_ns in load.acknowledged_at_ns)


def test_answers_in_single_bytes_and_hearts_in_between(engine: Engine, scripts: Callable[[], Script]) -> None:
    broker = scripts()
    connect(engine, broker.address)
    assert b'"client_id": "p7"' in broker.commands[0][1]
    load = play(engine, 5)
    until(lambda: broker.numbers == [0, 1, 2, 3, 4], "the messages")
    assert acknowledged(load) == 0
    for byte in nsq.OK_FRAME + HEARTBEAT + nsq.OK_FRAME:
        broker.say(bytes([byte]))
    until(lambda: acknowledged(load) == 2 and broker.count(b"NOP") == 1, "two answers and a NOP")
    broker.say(nsq.frame(nsq.RESPONSE, b"CONGEST") + 3 * nsq.OK_FRAME)
    until(lambda: acknowledged(load) == 5, "all answers")
    assert list(load.acknowledged_at_ns) == sorted(load.acknowledged_at_ns)
    assert engine.tally["unknown_frames"] == 1
    assert "CONGEST" in engine.last_problem


def test_no_nop_in_the_middle_of_a_command(engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        engine.call(lambda: engine.move([(7, f"127.0.0.1:{listener.getsockname()[1]}")]))
        peer, _ = listener.accept()
        with peer, peer.makefile("rb") as stream:
            hello = stream.readline()
            assert hello.endswith(b"IDENTIFY\n")
            stream.read(int.from_bytes(stream.read(4)))
            assert stream.readline() == b"AUTH\n"
            stream.read(int.from_bytes(stream.read(4)))
            peer.sendall(2 * nsq.OK_FRAME)
            load = play(engine, 100, size_bytes=200_000)
            until(lambda: engine.publishers[7].is_partial, "a full socket")
            connection = engine.publishers[7].connection
            read_at_ns = connection.read_at_ns
            peer.sendall(HEARTBEAT)
            until(lambda: connection.read_at_ns != read_at_ns, "the heartbeat")
            commands = [load.frame(index) for index in range(load.count)]
            found = stream.read(sum(map(len, commands)) + len(nsq.NOP))
            assert found.count(b"NOP\n") == 1
            assert found.replace(b"NOP\n", b"") == b"".join(commands)
            at = found.index(b"NOP\n")
            assert found[at + 4 :].startswith(b"PUB t\n") or at + 4 == len(found)


def test_a_move_waits_for_every_answer_and_keeps_the_order(engine: Engine, scripts: Callable[[], Script]) -> None:
    first, other = scripts(), scripts()
    connect(engine, first.address)
    load = play(engine, 3_000)
    until(lambda: len(first.numbers) >= 10, "ten messages")
    first.say(nsq.frame(nsq.RESPONSE, b"MIGRATE " + other.address.encode()))
    until(lambda: load.next == 3_000, "the load's end")
    kept = sum(at_ns != ABSENT for at_ns in load.sent_at_ns)
    assert kept < 3_000
    until(lambda: len(first.numbers) == kept, "what was sent")
    assert other.accepted == 0, "nothing moves while an answer is missing"
    first.say(nsq.OK_FRAME * (kept - 1))
    time.sleep(0.05)
    assert other.accepted == 0
    first.say(nsq.OK_FRAME)
    until(lambda: len(other.numbers) == 3_000 - kept, "the rest, at the other broker")
    assert first.numbers + other.numbers == list(range(3_000))
    other.say(nsq.OK_FRAME * (3_000 - kept))
    until(lambda: acknowledged(load) == 3_000, "all answers")
    assert list(load.broker) == [0] * kept + [1] * (3_000 - kept)


@pytest.mark.parametrize(
    "said",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", nsq.frame(nsq.ERROR, b"E_PUB_FAILED"), nsq.frame(0, b"MIGRATE nowhere"), b""],
)
def test_after_garbage_it_begins_anew_and_sends_nothing_twice(
    said: bytes, engine: Engine, scripts: Callable[[], Script]
) -> None:
    broker = scripts()
    connect(engine, broker.address)
    load = play(engine, 10)
    until(lambda: len(broker.numbers) == 10, "the messages")
    broker.say(4 * nsq.OK_FRAME + said)
    if not said:
        assert broker.peer is not None
        broker.peer.shutdown(socket.SHUT_RDWR)
    until(lambda: broker.accepted == 2 and engine.publishers[7].state is State.OPEN, "the second connection")
    assert acknowledged(load) == 4
    assert engine.tally["unacknowledged_emissions"] == 6
    more = play(engine, 3)
    until(lambda: len(broker.numbers) == 13, "the next messages")
    broker.say(3 * nsq.OK_FRAME)
    until(lambda: acknowledged(more) == 3, "their answers")
    assert acknowledged(load) == 4
    assert broker.numbers == [*range(10), *range(3)]


def test_it_gives_up_after_so_many_tries(engine: Engine, scripts: Callable[[], Script]) -> None:
    broker = scripts()
    connect(engine, broker.address)
    broker.close()
    load = play(engine, 4_000)
    until(lambda: engine.tally["given_up"] == 1, "giving up")
    assert engine.publishers[7].state is State.IDLE
    assert load.next < 4_000
    other = scripts()
    engine.call(lambda: engine.move([(7, other.address)]))
    until(lambda: load.next == 4_000 and other.numbers[-1:] == [3_999], "the rest at another broker")
    assert other.numbers == list(range(other.numbers[0], 4_000))
    never = [index for index, at_ns in enumerate(load.sent_at_ns) if at_ns == ABSENT]
    assert never, "what was due without a broker is not sent late"
    assert all(at_ns == ABSENT for at_ns in load.acknowledged_at_ns)


def test_a_load_that_is_ended_sends_nothing_more(engine: Engine, scripts: Callable[[], Script]) -> None:
    broker = scripts()
    connect(engine, broker.address)
    load = play(engine, 5_000)
    until(lambda: len(broker.numbers) > 20, "some messages")
    engine.call(lambda: engine.end(load))
    sent = sum(at_ns != ABSENT for at_ns in load.sent_at_ns)
    until(lambda: len(broker.numbers) == sent, "what was sent")
    time.sleep(0.05)
    assert len(broker.numbers) == sent < 5_000
