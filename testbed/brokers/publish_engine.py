"""The pacing thread: sends what is due at the instant it is due, and takes in answers in between.

Open loop: nothing that a broker does, or fails to do, delays the next emission.  One thread sends and
receives, because two would wait for each other's interpreter.  It is the loop of all live processes, which sleeps to
the microsecond, and spins for the last of them.
"""

from collections import deque
from collections.abc import Callable, Iterable
from time import time_ns
from typing import TypeVar

from core.units import SECOND_NS
from testbed.brokers.publish_load import Load
from testbed.brokers.publisher import Publisher
from testbed.hosts.loop import Loop, LoopThread, precise_sleep

SPIN_NS = 20_000  # part of what a sleep oversleeps; more buys little and takes the processor from a broker beside us
SLEEP_NS_MAXIMUM = SECOND_NS
SEND_BURST = 16  # emissions in a row, when late, before answers get a turn
RECEIVE_BURST = 8  # sockets in a row before it is looked whether something is due
STARTING_MAXIMUM = 128  # connections that are being made at once: brokers' queues of new ones are short
TALLIED = (
    *("connections", "moves", "broken", "given_up", "unacknowledged_emissions"),
    *("error_frames", "unknown_frames"),
)

Answer = TypeVar("Answer")


class _PacedLoop(Loop):
    """A loop that does something of its own at its instants: ``act`` says when next, CLOCK_REALTIME."""

    def __init__(self, act: Callable[[], int], spin_ns: int):
        super().__init__()
        self._act, self._spin_ns = act, spin_ns

    def run(self) -> None:
        """Until ``stop``; spins for the last ``spin_ns`` before an instant."""
        precise_sleep()
        while self._running:
            due_ns = self._act()
            self._ring()
            if not self._dispatch(RECEIVE_BURST):
                wait_ns = min(due_ns - time_ns(), self._until_next_ns()) - self._spin_ns
                if wait_ns > 0:
                    self._sleep(wait_ns)


class Engine:
    """Publishers and loads of one process, and the thread that serves them.  Others use ``call``, or only read."""

    def __init__(self, tries_maximum: int = 5, spin_ns: int = SPIN_NS):
        self.tries_maximum = tries_maximum
        self.publishers: dict[int, Publisher] = {}
        self.brokers: list[str] = []
        self.loads: list[Load] = []  # with emissions that are not due yet
        self.tally = dict.fromkeys(TALLIED, 0)
        self.last_problem = ""
        self.loop: Loop = _PacedLoop(self._act, spin_ns)
        self._thread = LoopThread(self.loop, "pacing")
        self._queue: deque[Publisher] = deque()
        self._starting_count = 0

    # --- from the main thread -----------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def call(self, function: Callable[[], Answer]) -> Answer:
        """Run a function in the pacing thread and wait for what it returns or raises."""
        return self._thread.call(function)

    def stop(self) -> None:
        """End the thread and close all connections."""
        self._thread.stop()
        for publisher in self.publishers.values():
            publisher.close()

    # --- in the pacing thread: commands ---------------------------------------------------------------

    def move(self, targets: Iterable[tuple[int, str | None]]) -> None:
        """Assign publishers to brokers; those that are new are connected, those with None stop."""
        for number, target in targets:
            if number not in self.publishers:
                self.publishers[number] = Publisher(self, number)
            self.publishers[number].move(target)

    def offer(self, load: Load) -> None:
        """Begin to play a load."""
        if load.count:
            self.loads.append(load)

    def end(self, load: Load) -> None:
        """Send nothing more of a load."""
        load.ended = True
        if load in self.loads:
            self.loads.remove(load)

    # --- in the pacing thread: what publishers ask for --------------------------------------------------

    def enqueue(self, publisher: Publisher) -> None:
        """Start its connection when fewer than ``STARTING_MAXIMUM`` others are being made."""
        self._queue.append(publisher)

    def settled(self) -> None:
        """One connection attempt less."""
        self._starting_count -= 1

    def broker_number(self, address: str) -> int:
        """The number of a broker, new if it is not known yet."""
        if address not in self.brokers:
            self.brokers.append(address)
        return self.brokers.index(address)

    # --- a turn of the loop ---------------------------------------------------------------------------

    def _act(self) -> int:
        """Send what is due, begin a connection; returns the instant of what is next."""
        due_ns = self._send()
        if self._queue and self._starting_count < STARTING_MAXIMUM:
            self._starting_count += 1
            self._queue.popleft().begin()
            return 0  # there may be more: one at a time, so that nothing due waits for many
        return due_ns

    def _send(self) -> int:
        """Send what is due, a burst at most; returns the instant of the next emission."""
        if not self.loads:
            return time_ns() + SLEEP_NS_MAXIMUM
        load, until_ns = self._first_load()
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
        return until_ns if self.loads else time_ns() + SLEEP_NS_MAXIMUM

    def _first_load(self) -> tuple[Load, int]:
        """The load with the next emission, and the instant of the next one of the others."""
        if len(self.loads) == 1:
            return self.loads[0], 1 << 62
        first, second = sorted(self.loads, key=lambda load: load.at_ns[load.next])[:2]
        return first, second.at_ns[second.next]
