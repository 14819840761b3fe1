"""One publisher's connection: a small state machine over a non-blocking socket.

Nothing is lost or sent twice unless a connection breaks.  Then what was written and not acknowledged
stays unacknowledged, since nobody can know what became of it, and what was not written whole is sent
on the next connection.
"""

import errno
import heapq
import os
import select
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from time import time_ns
from typing import Protocol

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.brokers import nsq
from testbed.brokers.publish_load import Load

CONNECT_TIMEOUT_NS = 3 * SECOND_NS  # until the socket is there and the broker has answered IDENTIFY
DRAIN_TIMEOUT_NS = 5 * SECOND_NS  # until a broker that is left has acknowledged everything
RETRY_FIRST_NS = 50 * MILLISECOND_NS  # doubles with every try that fails
_READ_BYTES = 1 << 16


class State(Enum):
    """Of a connection."""

    IDLE = "idle"  # has no target, or lost it for good: what is due is not sent
    RETRYING = "retrying"  # waits before its next try
    STARTING = "starting"  # waits for its turn to connect
    CONNECTING = "connecting"
    IDENTIFYING = "identifying"
    OPEN = "open"
    DRAINING = "draining"  # will move: writes nothing new, waits for answers


class Timers:
    """What is to be done later, by instant (CLOCK_REALTIME)."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0

    def add(self, at_ns: int, call: Callable[[], None]) -> None:
        """Have ``call`` called at the instant."""
        self._serial += 1
        heapq.heappush(self._heap, (at_ns, self._serial, call))

    @property
    def due_ns(self) -> int | None:
        """The instant of the next one."""
        return self._heap[0][0] if self._heap else None

    def run(self, now_ns: int) -> None:
        """Call what is due."""
        while self._heap and self._heap[0][0] <= now_ns:
            heapq.heappop(self._heap)[2]()


class Post(Protocol):
    """What a connection needs of the process that it lives in."""

    epoll: select.epoll
    timers: Timers
    tries_maximum: int
    tally: dict[str, int]
    by_descriptor: dict[int, "Connection"]

    def enqueue(self, connection: "Connection") -> None:
        """Have the connection's ``begin`` called when there is room."""
        ...

    def settled(self) -> None:
        """Hear that a connection attempt is over."""
        ...

    def broker_number(self, address: str) -> int:
        """The number of a broker in the records."""
        ...

    def problem(self, what: str) -> None:
        """Keep the last thing that went wrong."""
        ...


class Connection:
    """A publisher's connection to the broker that it is assigned to."""

    __slots__ = (
        "attempt",
        "broker",
        "in_flight",
        "nop_due",
        "parser",
        "post",
        "publisher",
        "socket",
        "state",
        "target",
        "tries",
        "waiting",
        "written",
    )

    def __init__(self, post: Post, publisher: int):
        self.post, self.publisher = post, publisher
        self.target: str | None = None
        self.broker = -1
        self.state = State.IDLE
        self.socket: socket.socket | None = None
        self.parser = nsq.FrameParser()
        self.waiting: deque[tuple[Load, int]] = deque()  # due, not written whole
        self.written = 0  # bytes of the first of them that are
        self.in_flight: deque[tuple[Load, int]] = deque()  # written, not answered
        self.nop_due = False
        self.tries = 0  # that failed, since the broker last acknowledged something
        self.attempt = 0  # number of the socket, so that old timers know themselves

    # --- what is due ------------------------------------------------------------------------------

    def publish(self, load: Load, index: int) -> None:
        """Send an emission now, or as soon as the connection takes it."""
        if self.waiting or self.state is not State.OPEN:
            if self.state is not State.IDLE:
                self._wait(load, index)
            return
        frame = load.frame(index)
        assert self.socket is not None
        try:
            written = self.socket.send(frame)
        except BlockingIOError:
            written = 0
        except OSError as error:
            self._wait(load, index)
            self.broken(_reason(error))
            return
        if written == len(frame):
            load.sent_at_ns[index] = time_ns()
            load.broker[index] = self.broker
            load.in_flight_count += 1
            self.in_flight.append((load, index))
        else:
            self._wait(load, index)
            self.written = written
            self._want_write(True)

    def _wait(self, load: Load, index: int) -> None:
        load.waiting_count += 1
        self.waiting.append((load, index))

    def _forget_waiting(self) -> None:
        """What waits will not be sent."""
        for load, _ in self.waiting:
            load.waiting_count -= 1
        self.waiting.clear()

    def _flush(self) -> None:
        """Write what waits, until the socket is full; while draining only what was begun."""
        assert self.socket is not None
        while self.waiting and (self.written or self.state is State.OPEN):
            load, index = self.waiting[0]
            if load.ended and not self.written:
                load.waiting_count -= 1
                self.waiting.popleft()
                continue
            frame = load.frame(index)
            with suppress(BlockingIOError):
                self.written += self.socket.send(frame[self.written :])
            if self.written < len(frame):
                self._want_write(True)
                return
            load.sent_at_ns[index] = time_ns()
            load.broker[index] = self.broker
            load.in_flight_count += 1  # before it leaves the other count: who adds both never misses it
            load.waiting_count -= 1
            self.in_flight.append(self.waiting.popleft())
            self.written = 0
        if self.nop_due:
            self._answer_heartbeat()
        self._want_write(False)

    def _answer_heartbeat(self) -> None:
        """NOP, but not into the middle of a command."""
        assert self.socket is not None
        self.nop_due = bool(self.written)
        if not self.nop_due:
            try:
                self.nop_due = self.socket.send(nsq.NOP) == 0
            except BlockingIOError:
                # The broker does not read.  Anything that waits will tell it that we live.
                self.nop_due = False

    def _want_write(self, wanted: bool) -> None:
        assert self.socket is not None
        events = select.EPOLLIN | (select.EPOLLOUT if wanted else 0)
        self.post.epoll.modify(self.socket.fileno(), events)

    # --- what comes in ----------------------------------------------------------------------------

    def happened(self, events: int) -> None:
        """React to what epoll says about the socket."""
        try:
            if self.state is State.CONNECTING:
                self._connected()
                return
            if events & ~select.EPOLLOUT:
                self._read()
            if events & select.EPOLLOUT and self.socket is not None and self.state in (State.OPEN, State.DRAINING):
                self._flush()
        except BlockingIOError:
            pass
        except (OSError, nsq.ProtocolError) as error:
            self.broken(_reason(error))

    def _read(self) -> None:
        assert self.socket is not None
        data = self.socket.recv(_READ_BYTES)
        now_ns = time_ns()
        if not data:
            self.broken("closed by the broker")
        elif data == nsq.OK_FRAME and not self.parser.rest and self.in_flight:
            self._acknowledged(now_ns)
        else:
            for kind, content in self.parser.feed(data):
                self._take(kind, content, now_ns)
                if self.socket is None:
                    return
        if self.state is State.DRAINING:
            self._maybe_leave()

    def _take(self, kind: int, data: bytes, now_ns: int) -> None:
        """One frame."""
        if kind == nsq.ERROR:
            self.post.tally["error_frames"] += 1
            self.broken(data.decode("ascii", "replace")[:200])
        elif data == nsq.HEARTBEAT:
            self.post.tally["heartbeats"] += 1
            self._answer_heartbeat()
        elif data.startswith(nsq.MIGRATE):
            host, port = nsq.migrate_target(data)
            self.move(f"{host}:{port}")
        elif data == nsq.CLOSE:
            self.move(None)
        elif data == nsq.OK and self.state is State.IDENTIFYING:
            self._opened()
        elif data == nsq.OK and self.in_flight:
            self._acknowledged(now_ns)
        else:
            self.post.tally["unknown_frames"] += 1
            self.post.problem(f"publisher {self.publisher} was sent {data[:60]!r}")

    def _acknowledged(self, now_ns: int) -> None:
        load, index = self.in_flight.popleft()
        load.acknowledged_at_ns[index] = now_ns
        load.in_flight_count -= 1
        self.tries = 0

    # --- connecting, moving, breaking -------------------------------------------------------------

    def move(self, target: str | None) -> None:
        """Go on at ``target`` once everything sent has been acknowledged; None: stop there."""
        if target == self.target and self.state is not State.IDLE:
            return
        if target is not None:
            nsq.address(target)
        self.target, self.tries = target, 0
        if self.state in (State.OPEN, State.DRAINING):
            self.post.tally["moves"] += 1
            if self.state is State.OPEN:
                self.state = State.DRAINING
                self._limit(DRAIN_TIMEOUT_NS, (State.DRAINING,), "did not acknowledge everything in time")
            self._maybe_leave()
        elif self.state is not State.STARTING:
            if self.socket is not None:
                self._drop()
                self.post.settled()
            self._restart()

    def _maybe_leave(self) -> None:
        if not self.in_flight and not self.written:
            self._drop()
            self._restart()

    def _restart(self) -> None:
        """Connect to the target, if there is one."""
        if self.target is None:
            self.state = State.IDLE
            self._forget_waiting()
        else:
            self.state = State.STARTING
            self.post.enqueue(self)

    def begin(self) -> None:
        """Start a connection attempt; ``settled`` will follow."""
        if self.target is None:
            self.state = State.IDLE
            self._forget_waiting()
            self.post.settled()
            return
        self.attempt += 1
        self.state = State.CONNECTING
        try:
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.post.by_descriptor[self.socket.fileno()] = self
            self.post.epoll.register(self.socket.fileno(), select.EPOLLOUT)
            code = self.socket.connect_ex(nsq.address(self.target))
        except OSError as error:
            code = error.errno or errno.EIO
        if code not in (0, errno.EINPROGRESS):
            self.broken(_reason(OSError(code, os.strerror(code))))
        else:
            self._limit(CONNECT_TIMEOUT_NS, (State.CONNECTING, State.IDENTIFYING), "no connection in time")

    def _connected(self) -> None:
        assert self.socket is not None and self.target is not None
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.broken(_reason(OSError(code, os.strerror(code))))
            return
        name = f"p{self.publisher}"
        self.socket.send(nsq.MAGIC + nsq.identify(client_id=name, hostname=name, user_agent="ratebed"))
        self.state = State.IDENTIFYING
        self._want_write(False)

    def _opened(self) -> None:
        assert self.target is not None
        self.state = State.OPEN
        self.broker = self.post.broker_number(self.target)
        self.post.tally["connections"] += 1
        self.post.settled()
        self._flush()

    def broken(self, why: str) -> None:
        """The connection is gone: try again, a bounded number of times."""
        if self.state in (State.CONNECTING, State.IDENTIFYING):
            self.post.settled()
        else:
            self.post.tally["broken"] += 1
        self.post.problem(f"publisher {self.publisher} at {self.target}: {why}")
        was_leaving = self.state is State.DRAINING
        self.post.tally["unacknowledged_emissions"] += len(self.in_flight)
        self._drop()
        if was_leaving:  # for another broker: no reason to wait
            self._restart()
            return
        self.tries += 1
        if self.tries > self.post.tries_maximum:
            self.target, self.state = None, State.IDLE
            self.post.tally["given_up"] += 1
            self._forget_waiting()
            return
        self.state = State.RETRYING
        attempt = self.attempt

        def retry() -> None:
            if self.attempt == attempt and self.state is State.RETRYING:
                self._restart()

        self.post.timers.add(time_ns() + (RETRY_FIRST_NS << (self.tries - 1)), retry)

    def _limit(self, span_ns: int, states: tuple[State, ...], why: str) -> None:
        """Break this connection if it is still in one of these states then."""
        attempt = self.attempt

        def check() -> None:
            if self.attempt == attempt and self.state in states:
                self.broken(why)

        self.post.timers.add(time_ns() + span_ns, check)

    def _drop(self) -> None:
        """Close the socket.  A command that was written in part is forgotten: no broker takes a part."""
        if self.socket is not None:
            self.post.by_descriptor.pop(self.socket.fileno(), None)
            self.socket.close()  # takes itself out of epoll
        self.socket = None
        self.written, self.nop_due = 0, False
        for load, _ in self.in_flight:
            load.in_flight_count -= 1
        self.in_flight.clear()
        self.parser = nsq.FrameParser()


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
