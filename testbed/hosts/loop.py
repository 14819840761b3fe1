"""The one loop of a live process: timers of microseconds, sockets, and the commands on standard input.

``select`` for the sleep, since it takes its time-out in microseconds where epoll and asyncio round to milliseconds;
and epoll as the only descriptor that it watches, since it takes none above 1023.
"""

import ctypes
import gc
import heapq
import os
import select
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TypeVar

from testbed.hosts.agent import Commands, carry_out, say

_PR_SET_TIMERSLACK = 29  # prctl(2), of a thread: by default Linux may wake a sleeper 50 us late
_LONGEST_SLEEP_NS = 10**9
CALL_TIMEOUT_S = 15.0

Answer = TypeVar("Answer")


class Clock:
    """Nanoseconds since a run's epoch.

    Anchored once to the real-time clock, which all agents share, and then steady: a step of that clock
    moves nothing.
    """

    def __init__(self, epoch_ns: int):
        self.zero_ns = epoch_ns - real_offset_ns()

    def now_ns(self) -> int:
        """Now."""
        return time.monotonic_ns() - self.zero_ns


def real_offset_ns() -> int:
    """How far the real-time clock is ahead of the steady one, from the quickest of a few readings."""
    readings = []
    for _ in range(5):
        before = time.monotonic_ns()
        real = time.time_ns()
        after = time.monotonic_ns()
        readings.append((after - before, real - (before + after) // 2))
    return min(readings)[1]


class Loop:
    """Calls actions at instants of the steady clock, and handlers of sockets that can be read or written."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._serial = 0
        self._readers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Callable[[], None]] = {}
        self._epoll = select.epoll()
        assert self._epoll.fileno() < 1024, "select takes small descriptors only"
        self._watched: set[int] = set()
        self._running = True

    def call_at(self, monotonic_ns: int, action: Callable[..., None], *arguments: object) -> None:
        """Call ``action`` at an instant, or as soon after it as can be; of one instant in the order given."""
        self._serial += 1
        heapq.heappush(self._heap, (monotonic_ns, self._serial, action, arguments))

    def on_readable(self, descriptor: int, action: Callable[[], None]) -> None:
        """Call ``action`` whenever there is something to read."""
        self._readers[descriptor] = action
        self._watch(descriptor)

    def on_writable(self, descriptor: int, action: Callable[[], None] | None) -> None:
        """Call ``action`` whenever something can be written; None: no more."""
        if action is None:
            self._writers.pop(descriptor, None)
        else:
            self._writers[descriptor] = action
        self._watch(descriptor)

    def forget(self, descriptor: int) -> None:
        """Watch a descriptor no longer; to be called before it is closed."""
        self._readers.pop(descriptor, None)
        self._writers.pop(descriptor, None)
        self._watch(descriptor)

    def stop(self) -> None:
        """End ``run`` after the present action."""
        self._running = False

    def run(self) -> None:
        """Until ``stop``."""
        precise_sleep()
        while self._running:
            self._ring()
            if self._running:
                self._sleep(self._until_next_ns())
                self._dispatch()

    def _ring(self) -> None:
        """Timers that are due now; what they set for now waits for the sockets' turn."""
        if not self._heap:
            return
        now_ns, due = time.monotonic_ns(), []
        while self._heap and self._heap[0][0] <= now_ns:
            due.append(heapq.heappop(self._heap))
        for _, _, action, arguments in due:
            action(*arguments)

    def _watch(self, descriptor: int) -> None:
        wanted = select.EPOLLIN if descriptor in self._readers else 0
        wanted |= select.EPOLLOUT if descriptor in self._writers else 0
        if not wanted:
            if descriptor in self._watched:
                self._epoll.unregister(descriptor)
                self._watched.remove(descriptor)
        elif descriptor in self._watched:
            self._epoll.modify(descriptor, wanted)
        else:
            self._epoll.register(descriptor, wanted)
            self._watched.add(descriptor)

    def _until_next_ns(self) -> int:
        if not self._heap:
            return _LONGEST_SLEEP_NS
        return min(_LONGEST_SLEEP_NS, max(0, self._heap[0][0] - time.monotonic_ns()))

    def _sleep(self, span_ns: int) -> None:
        select.select([self._epoll], (), (), span_ns / 1e9)

    def _dispatch(self, most: int = -1) -> bool:
        """Serve the sockets that are ready, so many at most; whether there were any."""
        events = self._epoll.poll(0, most)
        for descriptor, happened in events:
            # What is broken can be written and read: both learn of it, unless an earlier action has forgotten them.
            if happened & ~select.EPOLLIN and (action := self._writers.get(descriptor)) is not None:
                action()
            if happened & ~select.EPOLLOUT and (action := self._readers.get(descriptor)) is not None:
                action()
        return bool(events)


class LoopThread:
    """A loop in a thread of its own, and calls into it: it alone touches its connections, so nothing needs a lock.

    Where the loop breaks, the process ends: without its thread it must not look alive.
    """

    def __init__(self, loop: Loop, name: str):
        self._loop = loop
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._waiting: deque[Callable[[], None]] = deque()
        loop.on_readable(self._wake, self._carry_out)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def call(self, function: Callable[[], Answer]) -> Answer:
        """Run a function in the thread; what it returns or raises.  TimeoutError where it does not."""
        answer: Future[Answer] = Future()

        def run() -> None:
            try:
                answer.set_result(function())
            except Exception as error:
                answer.set_exception(error)

        self._soon(run)
        if not wait([answer], CALL_TIMEOUT_S).done:
            state = "does not answer" if self._thread.is_alive() else "has died"
            raise TimeoutError(f"{self._thread.name} {state}")
        return answer.result()

    def stop(self) -> None:
        """End the loop, and wait for the thread."""
        self._soon(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)

    def _soon(self, action: Callable[[], None]) -> None:
        self._waiting.append(action)
        os.eventfd_write(self._wake, 1)

    def _carry_out(self) -> None:
        os.eventfd_read(self._wake)
        while self._waiting:
            self._waiting.popleft()()

    def _run(self) -> None:
        gc.collect()
        gc.freeze()
        gc.disable()  # nothing here makes cycles worth a pause
        try:
            self._loop.run()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)


def precise_sleep() -> None:
    """Ask the kernel not to lump this thread's wake-ups with others'."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)


def serve_in(loop: Loop, commands: Commands, **ready: object) -> None:
    """``testbed.hosts.agent.serve`` inside a loop: carry out commands between other things; ends with the input."""
    descriptor, waiting = sys.stdin.fileno(), bytearray()
    os.set_blocking(descriptor, False)

    def read() -> None:
        nonlocal waiting
        try:
            part = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return
        if not part:
            loop.stop()
            return
        waiting += part
        *lines, waiting = waiting.split(b"\n")
        for line in lines:
            carry_out(bytes(line), commands)

    loop.on_readable(descriptor, read)
    say(ok="ready", **ready)
    loop.run()
