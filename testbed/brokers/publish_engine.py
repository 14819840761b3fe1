"""The pacing thread: sends what is due at the instant it is due, and takes in answers in between.

Open loop: nothing that a broker does, or fails to do, delays the next emission.  One thread sends and
receives, because two would wait for each other's interpreter.  It is the loop of all live processes, which sleeps to
the microsecond, and spins for the last of them.
"""

from collections import deque
from collections.abc import Callable, Iterable
from time import time_ns

from core.units import NEVER_NS
from testbed.brokers.publish_load import PreparedLoad
from testbed.brokers.publisher import Publisher
from testbed.hosts.loop import Loop, LoopThread, precise_sleep

SPIN_NS = 20_000  # part of what a sleep oversleeps; more buys little and takes the processor from a broker beside us
SEND_BURST = 16  # emissions in a row, when late, before answers get a turn
RECEIVE_BURST = 8  # sockets in a row before it is looked whether something is due
STARTING_MAXIMUM = 128  # connections that are being made at once: brokers' queues of new ones are short
TALLIED = (
    *("connections", "moves", "broken", "given_up", "unacknowledged_emissions"),
    *("error_frames", "unknown_frames"),
)


class _PacedLoop(Loop):
    """A loop that does something of its own at its instants: ``act`` says when next, CLOCK_REALTIME."""

    def __init__(self, act: Callable[[], int]):
        super().__init__()
        self._act = act

    def run(self) -> None:
        """Until ``stop``; spins for the last ``SPIN_NS`` before an instant."""
        precise_sleep()
        while self._running:
            due_ns = self._act()
            self._ring()
            if not self._dispatch(RECEIVE_BURST):
                wait_ns = min(due_ns - time_ns(), self._until_next_ns()) - SPIN_NS
                if wait_ns > 0:
                    self._sleep(wait_ns)


class Engine:
    """Publishers and loads of one process, and the thread that serves them.

    Other threads use ``call`` (a function in the pacing thread; it returns or raises as that does), or only read.
    """

    def __init__(self, tries_maximum: int = 5):
        self.tries_maximum = tries_maximum
        self.token = ""  # of the run's brokers
        self.publishers: dict[int, Publisher] = {}
        self.brokers: dict[str, int] = {}  # address -> number
        self.loads: list[PreparedLoad] = []  # with emissions that are not due yet
        self.tally = dict.fromkeys(TALLIED, 0)
        self.last_problem = ""
        self.loop: Loop = _PacedLoop(self._act)
        self._thread = LoopThread(self.loop, "pacing")
        self.call = self._thread.call
        self.queue: deque[Publisher] = deque()  # in want of a connection
        self.starting_count = 0  # connections that are being made, ``STARTING_MAXIMUM`` at most
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close all connections."""
        self._thread.stop()
        for publisher in self.publishers.values():
            publisher.drop()

    def move(self, targets: Iterable[tuple[int, str | None]]) -> None:
        """Assign publishers to brokers; those that are new are connected, those with None stop."""
        for number, target in targets:
            if number not in self.publishers:
                self.publishers[number] = Publisher(self, number)
            self.publishers[number].move(target)

    def offer(self, load: PreparedLoad) -> None:
        """Begin to play a load."""
        if load.count:
            self.loads.append(load)

    def end(self, load: PreparedLoad) -> None:
        """Send nothing more of a load."""
        load.ended = True
        if load in self.loads:
            self.loads.remove(load)

    def _act(self) -> int:
        """Send what is due, begin a connection; returns the instant of what is next."""
        due_ns = self._send()
        if self.queue and self.starting_count < STARTING_MAXIMUM:
            self.starting_count += 1
            self.queue.popleft().begin()
            return 0  # there may be more: one at a time, so that nothing due waits for many
        return due_ns

    def _send(self) -> int:
        """Send what is due, a burst at most; returns the instant of the next emission."""
        if not self.loads:
            return NEVER_NS
        self.loads.sort(key=lambda load: load.at_ns[load.next])
        load, *others = self.loads
        until_ns = others[0].at_ns[others[0].next] if others else NEVER_NS
        at_ns, number, publishers = load.at_ns, load.publisher, self.publishers
        index = load.next
        end = min(index + SEND_BURST, load.count)
        while index < end and at_ns[index] <= until_ns and at_ns[index] <= time_ns():
            publishers[number[index]].publish(load, index)
            index += 1
        load.next = index
        if index < load.count:
            return min(at_ns[index], until_ns)
        self.loads.remove(load)
        return until_ns
