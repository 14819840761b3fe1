"""Agents: processes of ours, told what to do over their standard input.

One JSON object a line goes down, ``{"do": "start", ...}``, and one a line comes back, ``{"ok": ...}``
or ``{"error": "..."}``; the first line that comes up is the answer to nothing and says that the agent
is ready.  The end of its standard input is the agent's end: when the harness dies, all agents go.
Standard output belongs to this protocol; anything else is written to standard error, the log.
"""

import json
import os
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TextIO

from core.errors import HarnessError, LinkError, MachineError, SpecError, SystemFault
from testbed.hosts.pipes import Process

ANSWER_TIMEOUT_S = 20.0
END_TIMEOUT_S = 5.0
GRACE_S = 3.0  # less than END_TIMEOUT_S: an agent ends by itself before it is killed
CUT_SHORT = 75  # the exit code of an agent that was still at work then
COMMENT = "# "  # begins a line that the harness writes into an agent's log

_FAULTS: dict[str, type[HarnessError]] = {
    fault.__name__: fault for fault in (SpecError, MachineError, SystemFault, LinkError)
}


class Agent:
    """The harness' end of an agent.  MachineError where it does not answer in time, or is gone.

    Answers come in the order of the commands.  One that did not come in time would be taken for the next, so
    after that the agent only takes ``stop``.
    """

    def __init__(self, name: str, process: Process, log: Path, host: str = ""):
        self.name, self.process, self.log, self.host = name, process, log, host
        self._buffer = b""
        self._asked: deque[str] = deque(["start"])  # what is not answered yet; the first line is asked by starting
        self._lost = ""  # the command whose answer did not come in time

    @property
    def pid(self) -> int:
        """Of the process itself."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """As of ``Popen``: negative = the signal that ended it; None while it lives."""
        return self.process.exit_code

    def ready(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """Wait for the agent's first line."""
        assert list(self._asked) == ["start"], self._asked
        return self.answer(timeout_s)

    def ask(self, command: str, timeout_s: float = ANSWER_TIMEOUT_S, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._check_in_step()
        assert not self._asked, f"take the answer to {self._asked[0]!r} first"
        self.post(command, timeout_s, **arguments)
        return self.answer(timeout_s)

    def post(self, command: str, timeout_s: float = ANSWER_TIMEOUT_S, **arguments: Any) -> None:
        """Send a command; ``answer`` takes its answer later (several agents work at once)."""
        self._check_in_step()
        try:
            self.process.send(json.dumps({"do": command, **arguments}).encode() + b"\n", time.monotonic() + timeout_s)
        except TimeoutError:
            raise self._late(command) from None
        except BrokenPipeError:
            raise self._gone(command) from None
        self._asked.append(command)

    def answer(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """The answer to the oldest command that was posted and not answered yet."""
        assert self._asked, "nothing was asked"
        self._check_in_step()
        command = self._asked[0]
        line = self._line(command, time.monotonic() + timeout_s)
        self._asked.popleft()
        try:
            answer = json.loads(line)
            assert isinstance(answer, dict)
        except (ValueError, AssertionError):
            raise MachineError(f"agent {self.name} said {line[:100]!r}", f"see {self.log}") from None
        if "error" in answer:
            fault = _FAULTS.get(answer.get("fault", ""), MachineError)
            raise fault(f"agent {self.name}, {command}: {answer['error']}", f"see {self.log}")
        return answer

    def stop(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """End it by closing its standard input, then by SIGKILL, its children too; returns its exit code.

        A second call returns the same.
        """
        self.process.close_input()
        if self.process.returncode is None:
            if not self._wait_for_end(timeout_s):
                self.process.kill()  # one that is stopped, too
                if not self._wait_for_end(END_TIMEOUT_S):
                    raise MachineError(f"agent {self.name} (process {self.pid}) cannot be ended", f"see {self.log}")
            self.process.kill_group()
        code = self.process.wait()
        self.process.close()
        return code

    def _wait_for_end(self, timeout_s: float) -> bool:
        """Wait until it has ended, but leave its id taken: its session bears the same number."""
        until_s, pause_s = time.monotonic() + timeout_s, 0.001
        while self.alive:
            if time.monotonic() > until_s:
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)
        return True

    def _line(self, command: str, until_s: float) -> bytes:
        while b"\n" not in self._buffer:
            try:
                part = self.process.receive(until_s)
            except TimeoutError:
                raise self._late(command) from None
            if not part:
                raise self._gone(command)
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _check_in_step(self) -> None:
        if self._lost:
            raise MachineError(f"agent {self.name} did not answer to {self._lost!r} in time", f"see {self.log}")

    def _late(self, command: str) -> MachineError:
        self._lost = command
        return MachineError(f"agent {self.name} did not answer to {command!r} in time", f"see {self.log}")

    def _gone(self, command: str) -> MachineError:
        said = self._last_words()
        return MachineError(f"agent {self.name} has ended (asked for {command!r}){said}", f"see {self.log}")

    def _last_words(self) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 4096))
                lines = file.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f": {lines[-1][:200]}" if lines and not lines[-1].startswith(COMMENT) else ""


# --- the agent's own end -----------------------------------------------------------------------------


def say(**answer: Any) -> None:
    """Send one line to the harness."""
    stream: TextIO = sys.__stdout__  # type: ignore[assignment]
    stream.write(json.dumps(answer) + "\n")
    stream.flush()


def serve(commands: Mapping[str, Callable[..., dict[str, Any] | None]], **ready: Any) -> None:
    """Say ``ready``, then carry out commands, one after another, until standard input ends.

    A command is a function of the object's other fields; what it raises goes back as the error.  A command that
    is still at work ``GRACE_S`` after the end of the input is cut short: nobody waits for it any more.
    """
    lines: SimpleQueue[bytes | None] = SimpleQueue()
    Thread(target=_read_commands, args=(lines,), daemon=True).start()
    try:
        say(ok="ready", **ready)
        while (line := lines.get()) is not None:
            _carry_out(line, commands)
    except BrokenPipeError:  # the harness is dead
        os._exit(1)


def _read_commands(lines: "SimpleQueue[bytes | None]") -> None:
    """Reads the descriptor, not ``sys.stdin``: the interpreter could not end while a thread holds that."""
    rest = b""
    while part := os.read(0, 1 << 16):
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            lines.put(line)
    lines.put(None)
    time.sleep(GRACE_S)
    os._exit(CUT_SHORT)


def _carry_out(line: bytes, commands: Mapping[str, Callable[..., dict[str, Any] | None]]) -> None:
    name = "a command"
    try:
        arguments = json.loads(line)
        name = arguments.pop("do")
        if name not in commands:
            raise KeyError(f"no command {name!r}")
        answer = commands[name](**arguments)
    except Exception as error:
        with suppress(OSError):  # a full disk: the harness must hear of it all the same
            traceback.print_exc(file=sys.stderr)
            sys.stderr.flush()
        what = str(error) if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"
        say(error=what, fault=type(error).__name__)
    else:
        say(**{"ok": name, **(answer or {})})
