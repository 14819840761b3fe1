"""Agents: processes of ours, told what to do over their standard input.

One JSON object a line goes down, ``{"do": "start", ...}``, and one a line comes back, ``{"ok": ...}``
or ``{"error": "..."}``; the first line that comes up is the answer to nothing and says that the agent
is ready.  The end of its standard input is the agent's end: when the harness dies, all agents go.
Standard output belongs to this protocol; anything else is written to standard error, the log.
"""

import json
import os
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from core.errors import HarnessError, LinkError, MachineError, SpecError, SystemFault
from core.records import Json
from testbed.hosts.pipes import AgentProcess

ANSWER_TIMEOUT_S = 20.0
END_TIMEOUT_S = 5.0
GRACE_S = 3.0  # less than END_TIMEOUT_S: an agent ends by itself before it is killed
CUT_SHORT = 75  # the exit code of an agent that was still at work then
COMMENT = "# "  # begins a line that the harness writes into an agent's log

Commands = Mapping[str, Callable[..., Json | None]]  # of an agent: functions of the command's other fields

_FAULTS: dict[str, type[HarnessError]] = {
    fault.__name__: fault for fault in (SpecError, MachineError, SystemFault, LinkError)
}


class AgentGone(MachineError):
    """An agent has ended, and had not answered."""


class Agent:
    """The harness' end of an agent.  MachineError where it does not answer in time; AgentGone where it has ended.

    Answers come in the order of the commands.  One that did not come in time would be taken for the next, so
    after that the agent only takes ``stop``.
    """

    def __init__(self, name: str, process: AgentProcess, log: Path, host: str = ""):
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

    def ready(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Json:
        """Wait for the agent's first line."""
        assert list(self._asked) == ["start"], self._asked
        return self.answer(timeout_s)

    def ask(self, command: str, timeout_s: float = ANSWER_TIMEOUT_S, **arguments: object) -> Json:
        """Send a command and wait for its answer."""
        assert self._lost or not self._asked, f"take the answer to {self._asked[0]!r} first"
        self.post(command, timeout_s, **arguments)
        return self.answer(timeout_s)

    def post(self, command: str, timeout_s: float = ANSWER_TIMEOUT_S, **arguments: object) -> None:
        """Send a command; ``answer`` takes its answer later (several agents work at once)."""
        with self._in_step(command):
            self.process.send(json.dumps({"do": command, **arguments}).encode() + b"\n", time.monotonic() + timeout_s)
        self._asked.append(command)

    def answer(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Json:
        """The answer to the oldest command that was posted and not answered yet."""
        assert self._asked, "nothing was asked"
        command, until_s = self._asked[0], time.monotonic() + timeout_s
        with self._in_step(command):
            while b"\n" not in self._buffer:
                part = self.process.receive(until_s)
                if not part:
                    raise BrokenPipeError
                self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        self._asked.popleft()
        try:
            answer: Json = json.loads(line)
            assert isinstance(answer, dict)
        except (ValueError, AssertionError, RecursionError):
            raise MachineError(f"agent {self.name} said {line[:100]!r}", f"see {self.log}") from None
        if "error" in answer:
            fault = _FAULTS.get(answer.get("fault", ""), MachineError)
            raise fault(f"agent {self.name}, {command}: {answer['error']}", f"see {self.log}")
        return answer

    def settle(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Json:
        """Take the answers to all that was posted; returns the last."""
        last: Json = {}
        while self._asked:
            last = self.answer(timeout_s)
        return last

    def stop(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """End it by closing its standard input, then by SIGKILL, its children too; returns its exit code.

        A second call returns the same.
        """
        try:
            return self.process.end(timeout_s)
        except subprocess.TimeoutExpired:
            what = f"agent {self.name} (process {self.pid}) cannot be ended"
            raise MachineError(what, f"see {self.log}") from None

    @contextmanager
    def _in_step(self, command: str) -> Iterator[None]:
        """MachineError where the agent is too late in here, was so before, or has ended."""
        if not self._lost:
            try:
                yield
                return
            except TimeoutError:
                self._lost = command
            except BrokenPipeError:
                last = last_line(self.log)
                said = f": {last[:200]}" if last and not last.startswith(COMMENT) else ""
                what = f"agent {self.name} has ended (asked for {command!r}){said}"
                raise AgentGone(what, f"see {self.log}") from None
        raise MachineError(f"agent {self.name} did not answer to {self._lost!r} in time", f"see {self.log}")


def last_line(log: Path) -> str:
    """What a process said last; empty: nothing."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


# --- the agent's own end -----------------------------------------------------------------------------


def say(**answer: object) -> None:
    """Send one line to the harness."""
    print(json.dumps(answer), file=sys.__stdout__, flush=True)


def serve(commands: Commands, **ready: object) -> None:
    """Say ``ready``, then carry out commands, one after another, until standard input ends.

    What one raises goes back as the error.  A command that is still at work ``GRACE_S`` after the end of the input is
    cut short: nobody waits for it any more.
    """
    lines: SimpleQueue[bytes | None] = SimpleQueue()
    Thread(target=_read_commands, args=(lines,), daemon=True).start()
    try:
        say(ok="ready", **ready)
        while (line := lines.get()) is not None:
            carry_out(line, commands)
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


def carry_out(line: bytes, commands: Commands) -> None:
    """Do what a line from the harness says, and say what came of it."""
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
