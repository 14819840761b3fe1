"""What an agent's process must be to the harness, wherever it runs; and what it is on this machine: ``Popen``."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Protocol

KILL_S = 5.0  # within which a process ends of SIGKILL


class AgentProcess(Protocol):
    """The harness' end of a process: its input, its output, its end."""

    pid: int  # on its own machine

    @property
    def exit_code(self) -> int | None:
        """As of ``Popen``: negative = the signal that ended it; None while it lives."""

    def send(self, data: bytes, until_s: float) -> None:
        """Write to its standard input; TimeoutError from the monotonic instant on, BrokenPipeError: it has closed."""

    def receive(self, until_s: float) -> bytes:
        """Some bytes of its standard output, at least one; empty at the end; TimeoutError as for ``send``."""

    def terminate(self) -> None:
        """SIGTERM."""

    def kill(self) -> None:
        """SIGKILL."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns the exit code.  subprocess.TimeoutExpired."""

    def end(self, timeout_s: float) -> int:
        """End its standard input, and so an agent; after a while by SIGKILL; and what it has left of its session.

        Returns the exit code, at a second call too.  subprocess.TimeoutExpired where it lives on for ``KILL_S``.
        """


class PipedProcess(subprocess.Popen[bytes]):
    """``AgentProcess`` here, in a session of its own: Ctrl-C is for the harness, and its children end with it."""

    def __init__(self, words: Sequence[str], log: IO[str], environment: Mapping[str, str]):
        super().__init__(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
        assert self.stdin is not None and self.stdout is not None
        self._input, self._output = self.stdin, self.stdout
        for pipe in (self._input, self._output):
            os.set_blocking(pipe.fileno(), False)

    @property
    def exit_code(self) -> int | None:
        """How it ended, without taking that away from ``Popen``; None while it lives."""
        if self.returncode is not None:
            return int(self.returncode)
        try:
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # somebody else has waited for it
            return self.poll()
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def send(self, data: bytes, until_s: float) -> None:
        """See ``AgentProcess``."""
        if self._input.closed:
            raise BrokenPipeError
        line, descriptor = memoryview(data), self._input.fileno()
        while line:
            try:
                line = line[os.write(descriptor, line) :]
            except BlockingIOError:
                _wait_for(descriptor, select.POLLOUT, until_s)

    def receive(self, until_s: float) -> bytes:
        """See ``AgentProcess``."""
        if self._output.closed:
            return b""
        descriptor = self._output.fileno()
        _wait_for(descriptor, select.POLLIN, until_s)
        return os.read(descriptor, 1 << 16)

    def end(self, timeout_s: float) -> int:
        """See ``AgentProcess``."""
        with suppress(BrokenPipeError):
            self._input.close()
        if self.returncode is None:
            with suppress(ProcessLookupError, PermissionError):  # somebody else has waited for it
                if not self._ends_within(timeout_s):
                    self.kill()  # one that is stopped, too
                    if not self._ends_within(KILL_S):
                        raise subprocess.TimeoutExpired(self.args, KILL_S)
                if os.getpgid(self.pid) == self.pid:
                    os.killpg(self.pid, signal.SIGKILL)
        self._output.close()
        return self.wait()

    def _ends_within(self, timeout_s: float) -> bool:
        """Whether it ends in time; its id stays taken, for its session bears the same number."""
        handle = os.pidfd_open(self.pid)
        try:
            _wait_for(handle, select.POLLIN, time.monotonic() + timeout_s)
        except TimeoutError:
            return False
        finally:
            os.close(handle)
        return True


def _wait_for(descriptor: int, event: int, until_s: float) -> None:
    """TimeoutError where the descriptor is not ready in time.  ``poll``, for it takes descriptors of any number."""
    left_s = until_s - time.monotonic()
    poll = select.poll()
    poll.register(descriptor, event)
    if left_s <= 0 or not poll.poll(left_s * 1000):
        raise TimeoutError
