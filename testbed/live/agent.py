"""Agents: processes of ours, told what to do over their standard input.

One JSON object a line goes down, ``{"do": "start", ...}``, and one a line comes back, ``{"ok": ...}``
or ``{"error": "..."}``; the first line that comes up is the answer to nothing and says that the agent
is ready.  The end of its standard input is the agent's end: when the harness dies, all agents go.
Standard output belongs to this protocol; anything else is written to standard error, the log.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from core.errors import MachineError

ANSWER_TIMEOUT_S = 20.0


class Agent:
    """The harness' end of an agent.  MachineError where it does not answer in time, or is gone."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path):
        self.name, self.process, self.log = name, process, log
        self._buffer = b""
        assert process.stdin is not None and process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)

    @property
    def pid(self) -> int:
        """Of the process itself."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def ready(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """Wait for the agent's first line."""
        return self._answer("start", timeout_s)

    def ask(self, command: str, timeout_s: float = ANSWER_TIMEOUT_S, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self.post(command, **arguments)
        return self._answer(command, timeout_s)

    def post(self, command: str, **arguments: Any) -> None:
        """Send a command; ``answer`` takes its answer later (several agents work at once)."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": command, **arguments}).encode() + b"\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._gone(command) from None

    def answer(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """The answer to the oldest command that was posted and not answered yet."""
        return self._answer("a command", timeout_s)

    def stop(self, timeout_s: float = 5.0) -> int:
        """End it by closing its standard input, then by SIGKILL; returns its exit code."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            code = self.process.wait(timeout_s)
        self.process.stdout.close()
        return code

    def _answer(self, command: str, timeout_s: float) -> dict[str, Any]:
        line = self._line(command, time.monotonic() + timeout_s)
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            raise MachineError(f"agent {self.name} said {line[:100]!r}", f"see {self.log}") from None
        if "error" in answer:
            raise MachineError(f"agent {self.name}, {command}: {answer['error']}", f"see {self.log}")
        return answer

    def _line(self, command: str, until_s: float) -> bytes:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self._buffer:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise MachineError(f"agent {self.name} did not answer to {command!r} in time", f"see {self.log}")
            if select.select([descriptor], [], [], left_s)[0]:
                part = os.read(descriptor, 1 << 16)
                if not part:
                    raise self._gone(command)
                self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _gone(self, command: str) -> MachineError:
        return MachineError(
            f"agent {self.name} has ended (asked for {command!r}){self._last_words()}", f"see {self.log}"
        )

    def _last_words(self) -> str:
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f": {lines[-1][:200]}" if lines else ""


# --- the agent's own end -----------------------------------------------------------------------------


def say(**answer: Any) -> None:
    """Send one line to the harness."""
    stream: TextIO = sys.__stdout__  # type: ignore[assignment]
    stream.write(json.dumps(answer) + "\n")
    stream.flush()


def serve(commands: Mapping[str, Callable[..., dict[str, Any] | None]], **ready: Any) -> None:
    """Say ``ready``, then carry out commands, one after another, until standard input ends.

    A command is a function of the object's other fields; what it raises goes back as the error.
    """
    say(ok="ready", **ready)
    for line in sys.stdin:
        arguments = json.loads(line)
        name = arguments.pop("do")
        try:
            found = commands[name](**arguments) if name in commands else None
            if name not in commands:
                raise KeyError(f"no command {name!r}")
            say(**{"ok": name, **(found or {})})
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            say(error=f"{type(error).__name__}: {error}")
