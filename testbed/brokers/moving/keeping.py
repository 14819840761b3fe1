"""A publisher that keeps each message until its receipt has come, and moves without losing any or their order.

Told to move it stops, waits until all that it had sent is delivered, and goes on at the new broker, first with what it
had to hold.  Where its connection breaks it offers again what has no receipt, oldest first: at the new broker if it was
on its way, else where it was, as often as it takes.  So what a broker is sent by a publisher is always the oldest
without a receipt and all that follows; first copies come in order, and nothing is lost.  The rules are those of
``testbed.virtual.moving``.
"""

import time
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable
from time import time_ns
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from core.records import Block, Int64
from core.units import MILLISECOND_NS
from testbed.brokers import nsq
from testbed.brokers.publish_engine import Engine
from testbed.brokers.publish_load import PreparedLoad
from testbed.brokers.publisher import Publisher, State
from testbed.trust.accounts import ABSENT

if TYPE_CHECKING:
    from testbed.brokers.connection import Connection

REDIAL_NS = 50 * MILLISECOND_NS  # ours: to a broker that is down
RULES = ("refused", "offered_again")  # counted beside what engines count


class Leaving(NamedTuple):
    """A publisher was told to leave a broker, by its number: when, CLOCK_REALTIME."""

    told_at_ns: int
    publisher: int
    source: int


class KeptLoad(PreparedLoad):
    """A load whose messages are kept until their receipts have come.

    Sequences have one entry an emission.  ``fired_at_ns``: when the process came to it; ``held``: its publisher was not
    connected then; ``missing``: messages without a receipt; ``waits``: at the load's end, it was to be sent.
    """

    def __init__(self, block: Block, topic: str, epoch_ns: int, mine: Collection[int], tag: int = 0):
        super().__init__(block, topic, epoch_ns, mine, tag)
        self.fired_at_ns = array("q", [ABSENT]) * self.count
        self.held, self.waits = bytearray(self.count), bytearray(self.count)
        self.missing = array("q", self._messages.tobytes())
        self.kept_count = 0  # emissions that were sent and are kept
        self._sendings = array("q")  # of each: emission, instant, broker
        self._numbers = array("q", self._first.tobytes())
        self._before = array("q", (np.cumsum(self._messages) - self._messages).tobytes())
        self._received = bytearray(self.message_count)

    def sent(self, index: int, broker: int) -> None:
        """An emission has been written, whole, to a broker's socket."""
        self._sendings.extend((index, self.sent_at_ns[index], broker))

    def receive(self, message: int) -> bool:
        """A message has come: whether that was the last of its emission that was missing."""
        index = bisect_right(self._numbers, message) - 1
        within = message - self._numbers[index] if index >= 0 else -1
        if not 0 <= within < self._messages[index]:
            return False
        place = self._before[index] + within
        if self._received[place]:
            return False
        self._received[place] = 1
        self.missing[index] -= 1
        return not self.missing[index]

    def columns(self) -> dict[str, Int64]:
        """See ``PreparedLoad``; and a row a sending of each message: ``sending_message``, ``_at_ns``, ``_broker``."""
        count = self._messages
        per_emission = {
            "fired_at_ns": np.frombuffer(self.fired_at_ns, np.int64),
            "held": np.frombuffer(self.held, np.uint8).astype(np.int64),
            "waits": np.frombuffer(self.waits, np.uint8).astype(np.int64),
        }
        rows = {name: np.repeat(column, count) for name, column in per_emission.items()}
        index, at_ns, broker = np.frombuffer(self._sendings, np.int64).reshape(-1, 3).T
        many = count[index]
        within = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
        return {
            **super().columns(),
            **rows,
            "sending_message": np.repeat(self._first[index], many) + within,
            "sending_at_ns": np.repeat(at_ns, many),
            "sending_broker": np.repeat(broker, many),
        }


class KeepingPublisher(Publisher):
    """See the module."""

    def __init__(self, engine: "KeepingEngine", number: int):
        super().__init__(engine, number)
        self._keeping = engine
        self._kept: deque[tuple[KeptLoad, int]] = deque()  # sent on this connection, without a receipt
        self._left: Leaving | None = None  # the move that is not over

    def publish(self, load: PreparedLoad, index: int) -> None:
        """See ``Publisher``."""
        kept = _kept(load)
        kept.fired_at_ns[index] = time_ns()
        kept.held[index] = self.state is not State.OPEN
        super().publish(load, index)

    def settle(self) -> None:
        """Let go of what has its receipts, and leave if that was all."""
        while self._kept and _has_come(*self._kept[0]):
            self._kept.popleft()[0].kept_count -= 1
        while self._waiting and not self.is_partial and _has_come(*self._waiting[0]):
            self._waiting.popleft()[0].waiting_count -= 1
        if self.state is State.DRAINING:
            self._maybe_leave()

    def move(self, target: str | None) -> None:
        """See ``Publisher``; who is on its way already, and is told to go elsewhere, refuses."""
        if target == self.target or target is None or self.state not in (State.OPEN, State.DRAINING):
            super().move(target)
            return
        nsq.address(target)
        if self.state is State.DRAINING:
            self._keeping.tally["refused"] += 1
            return
        assert self.connection is not None
        self._left = Leaving(self.connection.read_at_ns, self.number, self.broker)
        self._keeping.tally["moves"] += 1
        self.target, self.state = target, State.DRAINING
        self._maybe_leave()

    def begin(self) -> None:
        """See ``Publisher``; not where the broker is said not to be ready."""
        if self.target in self._keeping.withheld:
            self._keeping.starting_count -= 1
            self._redial()
        else:
            super().begin()

    def waiting(self) -> Iterable[tuple[KeptLoad, int]]:
        """What is to be sent, again or for the first time."""
        return ((_kept(load), index) for load, index in self._waiting if not _has_come(load, index))

    def _flush(self) -> None:
        while self._waiting and self.state is State.OPEN and not self.is_partial:
            assert self.connection is not None
            load, index = self._waiting[0]
            if load.ended or _has_come(load, index):
                load.waiting_count -= 1
                self._waiting.popleft()
            elif self.connection.write(load.frame(index)):
                self._first_sent()
            else:
                self.is_partial = True

    def _sent(self, load: PreparedLoad, index: int) -> None:
        super()._sent(load, index)
        kept = _kept(load)
        kept.sent(index, self.broker)
        if kept.missing[index]:
            self._kept.append((kept, index))
            kept.kept_count += 1

    def _maybe_leave(self) -> None:
        if not self._kept:
            super()._maybe_leave()

    def _opened(self, answer: bytes) -> None:
        super()._opened(answer)
        if self.state is State.OPEN and self._left is not None:
            connection: Connection | None = self.connection
            assert connection is not None
            self._keeping.moves.append((*self._left, self.broker, connection.read_at_ns))
            self._left = None

    def _broken(self, why: str) -> None:
        """The connection is gone: nobody knows what the broker had done with what has no receipt."""
        engine = self._keeping
        if self.state is State.CONNECTING:
            engine.starting_count -= 1
        else:
            engine.tally["broken"] += 1
        engine.last_problem = f"publisher {self.number} at {self.target}: {why}"
        engine.tally["unacknowledged_emissions"] += len(self._in_flight)
        self.drop()
        while self._kept:
            load, index = self._kept.pop()
            load.kept_count -= 1
            if not _has_come(load, index) and not load.ended:
                load.waiting_count += 1
                self._waiting.appendleft((load, index))
                engine.tally["offered_again"] += 1
        if self.state is State.DRAINING:  # nothing more will be delivered there
            self._restart()
        else:
            self._redial()

    def _redial(self) -> None:
        self.state = State.RETRYING
        self._keeping.loop.call_at(time.monotonic_ns() + REDIAL_NS, self._retry, self._attempt)


def _kept(load: PreparedLoad) -> KeptLoad:
    assert isinstance(load, KeptLoad)
    return load


def _has_come(load: PreparedLoad, index: int) -> bool:
    return not _kept(load).missing[index]


class KeepingEngine(Engine):
    """An engine of publishers that keep.

    ``withheld``: brokers that are not ready, though they may answer.  ``moves``: of each that is over, when the
    publisher was told, who, from where, to where, and when it was connected there; CLOCK_REALTIME.
    """

    def __init__(self) -> None:
        self.kept: dict[int, KeptLoad] = {}  # by tag
        self.moves: list[tuple[int, int, int, int, int]] = []
        self.withheld: set[str] = set()
        super().__init__()
        self.tally |= dict.fromkeys(RULES, 0)

    def move(self, targets: Iterable[tuple[int, str | None]]) -> None:
        """See ``Engine``."""
        pairs = list(targets)
        for number, _ in pairs:
            if number not in self.publishers:
                self.publishers[number] = KeepingPublisher(self, number)
        super().move(pairs)

    def offer(self, load: PreparedLoad) -> None:
        """See ``Engine``; receipts may come from now on."""
        self.kept[load.tag] = _kept(load)
        super().offer(load)

    def receive(self, publisher: int, tag: int, message: int) -> None:
        """A receipt has come."""
        load, who = self.kept.get(tag), self.publishers.get(publisher)
        if load is not None and load.receive(message) and isinstance(who, KeepingPublisher):
            who.settle()

    def end(self, load: PreparedLoad) -> None:
        """See ``Engine``; what still waits is marked."""
        for publisher in self.publishers.values():
            if isinstance(publisher, KeepingPublisher):
                for other, index in publisher.waiting():
                    if other is load:
                        other.waits[index] = 1
        super().end(load)
