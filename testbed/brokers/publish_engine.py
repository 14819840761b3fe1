"""The pacing thread: sends what is due at the instant it is due, and takes in answers in between.

Open loop: nothing that a broker does, or fails to do, delays the next emission.  One thread sends and
receives, because two would wait for each other's interpreter.  Timeouts of epoll are whole milliseconds
in Python, so the thread sleeps in select, on the epoll descriptor, and spins for the last microseconds.
"""

import ctypes
import gc
import os
import select
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from time import time_ns
from typing import Any

from core.units import SECOND_NS
from testbed.brokers.publish_connection import Connection, Timers
from testbed.brokers.publish_load import Load
from testbed.hosts.calls import CALL_TIMEOUT_S, Calls

SPIN_NS = 20_000  # part of what a sleep oversleeps; more buys little and takes the processor from a broker beside us
SLEEP_NS_MAXIMUM = SECOND_NS
SEND_BURST = 16  # emissions in a row, when late, before answers get a turn
RECEIVE_BURST = 8  # sockets in a row before it is looked whether something is due
STARTING_MAXIMUM = 128  # connections that are being made at once: brokers' queues of new ones are short
_PR_SET_TIMERSLACK = 29


class Engine:
    """Connections and loads of one process, and the thread that serves them.  Others use ``call``, or only read."""

    def __init__(self, tries_maximum: int = 5, spin_ns: int = SPIN_NS):
        self.tries_maximum, self.spin_ns = tries_maximum, spin_ns
        self.connections: dict[int, Connection] = {}
        self.by_descriptor: dict[int, Connection] = {}
        self.brokers: list[str] = []
        self.loads: list[Load] = []  # with emissions that are not due yet
        self.tally = dict.fromkeys(
            (
                *("connections", "moves", "broken", "given_up", "unacknowledged_emissions"),
                *("error_frames", "unknown_frames", "heartbeats"),
            ),
            0,
        )
        self.last_problem = ""
        self.timers = Timers()
        self.epoll = select.epoll()
        assert self.epoll.fileno() < 1024, "select takes small descriptors only"
        self._calls = Calls()
        self.epoll.register(self._calls.descriptor, select.EPOLLIN)
        self._queue: deque[Connection] = deque()
        self._starting_count = 0
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="pacing", daemon=True)

    # --- from the main thread -----------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def call(self, function: Callable[[], Any]) -> Any:
        """Run a function in the pacing thread and wait for what it returns or raises."""
        return self._calls.call(function, self._thread)

    def stop(self) -> None:
        """End the thread and close all connections."""
        self._ending = True
        self._calls.wake()
        self._thread.join(CALL_TIMEOUT_S)

    # --- in the pacing thread: commands ---------------------------------------------------------------

    def move(self, targets: Iterable[tuple[int, str | None]]) -> None:
        """Assign publishers to brokers; those that are new are connected, those with None stop."""
        for publisher, target in targets:
            if publisher not in self.connections:
                self.connections[publisher] = Connection(self, publisher)
            self.connections[publisher].move(target)

    def offer(self, load: Load) -> None:
        """Begin to play a load."""
        if load.count:
            self.loads.append(load)

    def end(self, load: Load) -> None:
        """Send nothing more of a load."""
        load.ended = True
        if load in self.loads:
            self.loads.remove(load)

    # --- in the pacing thread: what connections ask for -------------------------------------------------

    def enqueue(self, connection: Connection) -> None:
        """Start the connection when fewer than ``STARTING_MAXIMUM`` others are being made."""
        self._queue.append(connection)

    def settled(self) -> None:
        """One connection attempt less."""
        self._starting_count -= 1

    def broker_number(self, address: str) -> int:
        """The number of a broker, new if it is not known yet."""
        if address not in self.brokers:
            self.brokers.append(address)
        return self.brokers.index(address)

    def problem(self, what: str) -> None:
        """Keep what went wrong last."""
        self.last_problem = what

    # --- the loop -------------------------------------------------------------------------------------

    def _run(self) -> None:
        _precise_sleep()
        gc.collect()
        gc.freeze()
        gc.disable()  # nothing here makes cycles worth a pause
        try:
            while not self._ending:
                due_ns = self._send()
                if self.timers.due_ns is not None:
                    self.timers.run(time_ns())
                if self._queue and self._starting_count < STARTING_MAXIMUM:
                    self._starting_count += 1
                    self._queue.popleft().begin()
                    due_ns = 0  # there may be more: one at a time, so that nothing due waits for many
                self._receive(due_ns)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)  # a publisher without its pacing thread must not look alive
        for connection in self.connections.values():
            if connection.socket is not None:
                connection.socket.close()

    def _send(self) -> int:
        """Send what is due, a burst at most; returns the instant of the next emission."""
        if not self.loads:
            return time_ns() + SLEEP_NS_MAXIMUM
        load, until_ns = self._first_load()
        at_ns, publisher, connections = load.at_ns, load.publisher, self.connections
        index = load.next
        end = min(index + SEND_BURST, load.count)
        while index < end and at_ns[index] <= until_ns and at_ns[index] <= time_ns():
            connections[publisher[index]].publish(load, index)
            index += 1
        load.next = index
        if index < load.count:
            return min(at_ns[index], until_ns)
        self.loads.remove(load)
        return until_ns if self.loads else time_ns() + SLEEP_NS_MAXIMUM

    def _first_load(self) -> tuple[Load, int]:
        """The load with the next emission, and the instant of the next one of the others."""
        if len(self.loads) == 1:
            return self.loads[0], 1 << 62
        first, second = sorted(self.loads, key=lambda load: load.at_ns[load.next])[:2]
        return first, second.at_ns[second.next]

    def _receive(self, due_ns: int) -> None:
        """Take in answers; sleep until there are some, or until just before something is due."""
        events = self.epoll.poll(0, RECEIVE_BURST)
        if not events:
            if self.timers.due_ns is not None:
                due_ns = min(due_ns, self.timers.due_ns)
            wait_ns = due_ns - time_ns() - self.spin_ns
            if wait_ns > 0:
                select.select([self.epoll], [], [], min(wait_ns, SLEEP_NS_MAXIMUM) / SECOND_NS)
            return
        for descriptor, what in events:
            if descriptor == self._calls.descriptor:
                self._calls.carry_out()
            elif descriptor in self.by_descriptor:
                self.by_descriptor[descriptor].happened(what)


def _precise_sleep() -> None:
    """Ask the kernel not to lump this thread's wake-ups with others' (50 us by default)."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
