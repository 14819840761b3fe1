"""One publisher: what is due goes to the broker that it is assigned to, over one connection after another.

Nothing is lost or sent twice unless a connection breaks.  Then what was written and not acknowledged
stays unacknowledged, since nobody can know what became of it, and what was not written whole is sent
on the next connection.
"""

import time
from collections import deque
from enum import Enum
from time import time_ns
from typing import Protocol

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.brokers import nsq
from testbed.brokers.connection import Connection, Retries
from testbed.brokers.publish_load import PreparedLoad
from testbed.hosts.loop import Loop

DRAIN_TIMEOUT_NS = 5 * SECOND_NS  # until a broker that is left has acknowledged everything
RETRY_FIRST_NS = 50 * MILLISECOND_NS  # doubles with every try that fails


class State(Enum):
    """Of a publisher."""

    IDLE = "idle"  # has no target, or lost it for good: what is due is not sent
    RETRYING = "retrying"  # waits before its next try
    STARTING = "starting"  # waits for its turn to connect
    CONNECTING = "connecting"
    OPEN = "open"
    DRAINING = "draining"  # will move: writes nothing new, waits for answers


class PublishersShare(Protocol):
    """What the publishers of a process have in common: see ``publish_engine.Engine``."""

    tries_maximum: int
    token: str
    brokers: dict[str, int]
    tally: dict[str, int]
    last_problem: str
    loop: Loop
    queue: deque["Publisher"]
    starting_count: int


class Publisher:
    """The publisher with a number, and its connection, while there is one."""

    def __init__(self, engine: PublishersShare, number: int):
        self._engine, self.number = engine, number
        self.target: str | None = None
        self.broker = -1
        self.state = State.IDLE
        self.is_partial = False  # of the first that waits, the connection keeps what the socket did not take
        self.connection: Connection | None = None
        self._waiting: deque[tuple[PreparedLoad, int]] = deque()  # due, not written whole
        self._in_flight: deque[tuple[PreparedLoad, int]] = deque()  # written, not answered
        self._retries = Retries(engine.tries_maximum, RETRY_FIRST_NS, doubles=True)  # until something is acknowledged
        self._attempt = 0  # number of the connection, so that old timers know themselves

    def publish(self, load: PreparedLoad, index: int) -> None:
        """Send an emission now, or as soon as the connection takes it."""
        if self.state is State.OPEN and not self._waiting:  # nearly always: a burst waits for each of its steps
            assert self.connection is not None
            if self.connection.write(load.frame(index)):
                self._sent(load, index)
                return
            self.is_partial = True
        if self.state is not State.IDLE:
            load.waiting_count += 1
            self._waiting.append((load, index))

    def _flush(self) -> None:
        while self._waiting and self.state is State.OPEN and not self.is_partial:
            assert self.connection is not None
            load, index = self._waiting[0]
            if load.ended:
                load.waiting_count -= 1
                self._waiting.popleft()
            elif self.connection.write(load.frame(index)):
                self._first_sent()
            else:
                self.is_partial = True

    def _drained(self) -> None:
        """The socket has taken all: what was written in part is whole now."""
        if self.is_partial:
            self._first_sent()
        self._flush()

    def _first_sent(self) -> None:
        self.is_partial = False
        load, index = self._waiting.popleft()
        self._sent(load, index)
        load.waiting_count -= 1  # after it is in the other count: who adds both never misses it

    def _sent(self, load: PreparedLoad, index: int) -> None:
        load.sent_at_ns[index] = time_ns()
        load.broker[index] = self.broker
        self._in_flight.append((load, index))
        load.in_flight_count += 1

    def _take(self, kind: int, data: bytes) -> None:
        assert self.connection is not None
        if kind == nsq.RESPONSE and data == nsq.OK and self._in_flight:
            load, index = self._in_flight.popleft()
            load.acknowledged_at_ns[index] = self.connection.read_at_ns
            load.in_flight_count -= 1
            self._retries.succeeded()
            if self.state is State.DRAINING:
                self._maybe_leave()
        elif kind == nsq.ERROR:
            self._engine.tally["error_frames"] += 1
            self.connection.fail(nsq.text(data))
        elif data.startswith(nsq.MIGRATE):
            self.move(nsq.text(data.removeprefix(nsq.MIGRATE)).strip())
        elif data == nsq.CLOSE:
            self.move(None)
        else:
            self._engine.tally["unknown_frames"] += 1
            self._engine.last_problem = f"publisher {self.number} was sent {data[:60]!r}"

    def move(self, target: str | None) -> None:
        """Go on at ``target`` once everything sent has been acknowledged; None: stop there."""
        if target == self.target and self.state is not State.IDLE:
            return
        if target is not None:
            nsq.address(target)
        self.target = target
        self._retries.succeeded()
        if self.state in (State.OPEN, State.DRAINING):
            self._engine.tally["moves"] += 1
            if self.state is State.OPEN:
                self.state = State.DRAINING
                assert self.connection is not None
                self.connection.expect(lambda: False, DRAIN_TIMEOUT_NS, "did not acknowledge everything in time")
            self._maybe_leave()
        elif self.state is not State.STARTING:
            if self.state is State.CONNECTING:
                self.drop()
                self._engine.starting_count -= 1
            self._restart()

    def _maybe_leave(self) -> None:
        if not self._in_flight and not self.is_partial:
            self.drop()
            self._restart()

    def _restart(self) -> None:
        if self.target is None:
            self._stop()
        else:
            self.state = State.STARTING
            self._engine.queue.append(self)

    def _stop(self) -> None:
        """What waits will not be sent."""
        self.state = State.IDLE
        for load, _ in self._waiting:
            load.waiting_count -= 1
        self._waiting.clear()

    def begin(self) -> None:
        """Start a connection attempt, counted in ``starting_count``."""
        if self.target is None:
            self._stop()
            self._engine.starting_count -= 1
            return
        self._attempt += 1
        self.state, name = State.CONNECTING, f"p{self.number}"
        self.connection = Connection(
            self._engine.loop, self.target, self._engine.token, client_id=name, hostname=name, user_agent="ratebed"
        )
        self.connection.on_open, self.connection.on_close = self._opened, self._broken
        self.connection.on_frame, self.connection.on_drained = self._take, self._drained

    def _opened(self, answer: bytes) -> None:
        assert self.connection is not None and self.target is not None
        if answer != nsq.OK:
            self.connection.fail(f"no answer to IDENTIFY: {answer[:60]!r}")
            return
        self.state = State.OPEN
        self.broker = self._engine.brokers.setdefault(self.target, len(self._engine.brokers))
        self._engine.tally["connections"] += 1
        self._engine.starting_count -= 1
        self._flush()

    def _broken(self, why: str) -> None:
        """The connection is gone: try again, a bounded number of times."""
        if self.state is State.CONNECTING:
            self._engine.starting_count -= 1
        else:
            self._engine.tally["broken"] += 1
        self._engine.last_problem = f"publisher {self.number} at {self.target}: {why}"
        self._engine.tally["unacknowledged_emissions"] += len(self._in_flight)
        self.drop()
        if self.state is State.DRAINING:  # for another broker: no reason to wait
            self._restart()
        elif (pause_ns := self._retries.next_ns()) is not None:
            self.state = State.RETRYING
            self._engine.loop.call_at(time.monotonic_ns() + pause_ns, self._retry, self._attempt)
        else:
            self._engine.tally["given_up"] += 1
            self.target = None
            self._restart()

    def _retry(self, attempt: int) -> None:
        if self._attempt == attempt and self.state is State.RETRYING:
            self._restart()

    def drop(self) -> None:
        """Close the connection.  A command that was written in part is forgotten: no broker takes a part."""
        if self.connection is not None:
            self.connection.close()
        self.connection, self.is_partial = None, False
        for load, _ in self._in_flight:
            load.in_flight_count -= 1
        self._in_flight.clear()
