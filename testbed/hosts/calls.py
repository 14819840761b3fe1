"""Calls into a thread that waits in epoll: it alone touches its connections, so nothing needs a lock."""

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

CALL_TIMEOUT_S = 15.0


class Calls:
    """What other threads want done in the thread that waits for ``descriptor``, in order."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK)
        self._waiting: deque[Callable[[], None]] = deque()

    def wake(self) -> None:
        """Let the thread look around."""
        os.eventfd_write(self.descriptor, 1)

    def call(self, function: Callable[[], Any], thread: threading.Thread) -> Any:
        """From outside: run a function in ``thread``; what it returns or raises.  TimeoutError where it does not."""
        done, outcome = threading.Event(), {}

        def run() -> None:
            try:
                outcome["value"] = function()
            except Exception as error:
                outcome["error"] = error
            done.set()

        self._waiting.append(run)
        self.wake()
        if not done.wait(CALL_TIMEOUT_S):
            raise TimeoutError(f"{thread.name} " + ("does not answer" if thread.is_alive() else "has died"))
        if "error" in outcome:
            raise outcome["error"]
        return outcome["value"]

    def carry_out(self) -> None:
        """In the thread, once ``descriptor`` is ready: all that waits."""
        os.eventfd_read(self.descriptor)
        while self._waiting:
            self._waiting.popleft()()
