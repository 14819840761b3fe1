"""A loop in a thread of its own, and calls into it: it alone touches its connections, so nothing needs a lock."""

import gc
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from testbed.hosts.loop import Loop

CALL_TIMEOUT_S = 15.0

Answer = TypeVar("Answer")


class LoopThread:
    """Runs ``loop``.  Where that breaks, the process ends: without its thread it must not look alive."""

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
        done, values, errors = threading.Event(), list[Answer](), list[Exception]()

        def run() -> None:
            try:
                values.append(function())
            except Exception as error:
                errors.append(error)
            done.set()

        self._waiting.append(run)
        os.eventfd_write(self._wake, 1)
        if not done.wait(CALL_TIMEOUT_S):
            state = "does not answer" if self._thread.is_alive() else "has died"
            raise TimeoutError(f"{self._thread.name} {state}")
        if errors:
            raise errors[0]
        return values[0]

    def stop(self) -> None:
        """End the loop, and wait for the thread."""
        self._waiting.append(self._loop.stop)
        os.eventfd_write(self._wake, 1)
        self._thread.join(CALL_TIMEOUT_S)

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
