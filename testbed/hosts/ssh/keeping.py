"""The harness' end of a keeper: its processes, as agents see them, and what it answers."""

import itertools
import json
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import paramiko

from core.records import Json
from testbed.hosts.pipes import KILL_S
from testbed.hosts.site import Program
from testbed.hosts.ssh.connection import CONNECT_S, SshConnection, lines_of
from testbed.hosts.ssh.keeper import STUCK

ALIVE_S = 2.0  # how often the keeper hears of us
LOST_S = 10.0  # a keeper says something every second: after such a silence it is gone
LOST = 255  # as the exit code of processes that nobody can ask any more: ssh's own
ANSWER_S = 20.0
START_S = 30.0
_PART = 1 << 16


class RemoteProcess:
    """See ``testbed.hosts.pipes.AgentProcess``."""

    def __init__(self, keeper: "Keeping", number: int, log: Path):
        self._keeper, self.number, self._log = keeper, number, log
        self.pid = 0  # there; 0 until the keeper has told it
        self.exit_code: int | None = None  # ``LOST`` where its machine is lost
        self._said = b""
        self._input_open = True
        self._changed = threading.Condition()

    def send(self, data: bytes, until_s: float) -> None:
        """To its standard input; the keeper keeps what it does not take."""
        if not self._input_open or self.exit_code is not None:
            raise BrokenPipeError
        self._keeper.tell("write", id=self.number, text=data.decode(errors="surrogateescape"))

    def receive(self, until_s: float) -> bytes:
        """What it said; empty once it has ended, or is lost."""
        with self._changed:
            left_s = max(0.0, until_s - time.monotonic())
            if not self._changed.wait_for(lambda: self._said or self.exit_code is not None, left_s):
                raise TimeoutError
            said, self._said = self._said, b""
            return said

    def terminate(self) -> None:
        """SIGTERM."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.exit_code is None:
            self._keeper.tell("signal", id=self.number, signal=int(number))

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        with self._changed:
            self._changed.wait_for(lambda: self.exit_code is not None, timeout)
        if self.exit_code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self.exit_code

    def end(self, timeout_s: float) -> int:
        """See ``AgentProcess``; the keeper ends its session."""
        if self._input_open:
            self._input_open = False
            self._keeper.tell("close", id=self.number)
        with suppress(subprocess.TimeoutExpired):
            return self.wait(timeout_s)
        self.kill()
        return self.wait(KILL_S)

    # --- what the keeper says of it ------------------------------------------------------------------------

    def said(self, text: str) -> None:
        """Something on its standard output."""
        with self._changed:
            self._said += text.encode(errors="surrogateescape")
            self._changed.notify_all()

    def logged(self, text: str) -> None:
        """Something on its standard error: it goes to the log, here."""
        with suppress(OSError), self._log.open("ab") as file:
            file.write(text.encode(errors="surrogateescape"))

    def ended(self, code: int, problem: str = "") -> None:
        """It has ended, or is lost."""
        with self._changed:
            if self.exit_code is None:
                if problem:
                    self.logged(f"{problem}\n")
                self.exit_code = code
            self._changed.notify_all()


class Keeping:
    """A keeper that was started over a connection.  ``lost`` says why it is not there any more; empty: it is."""

    def __init__(self, connection: SshConnection, command: str):
        self.connection = connection
        self.lost = ""
        self._processes: dict[int, RemoteProcess] = {}
        self._answers: dict[int, Json] = {}
        self._numbers = itertools.count(1)
        self._closing = False
        self._changed, self._sending = threading.Condition(), threading.Lock()
        self._channel = connection.open(command)
        self._channel.settimeout(LOST_S / 2)
        self._heard_s = time.monotonic() + START_S  # so long it may take before it says something
        for each in (self._listen, self._keep_alive):
            threading.Thread(target=each, daemon=True).start()
        self.ready = self._answer(0, f"its keeper does not start within {START_S:.0f} s", START_S)

    def start(self, program: Program, log: Path) -> tuple[RemoteProcess, list[str]]:
        """Start a program's process; also returns which of its wishes are refused.  MachineError where it cannot be."""
        number = next(self._numbers)
        process = self._processes[number] = RemoteProcess(self, number, log)
        told = asdict(replace(program, environment=dict(program.environment)))
        answer = self.ask("start", START_S, id=number, **told)
        process.pid = answer["pid"]
        return process, answer["refused"]

    def tell(self, command: str, /, **arguments: object) -> None:
        """Send a command; what is told to one that is lost is told to nobody."""
        line = json.dumps({"do": command, **arguments}).encode() + b"\n"
        try:
            with self._sending:
                if not self.lost:
                    self._channel.sendall(line)
        except OSError as error:  # a time-out, too: the machine takes nothing any more
            self._lose(f"it takes no commands: {error or 'time-out'}")

    def ask(self, command: str, /, timeout_s: float = ANSWER_S, **arguments: object) -> Json:
        """Send a command and wait for its answer; MachineError where there is none, or an error."""
        number = next(self._numbers)
        self.tell(command, number=number, **arguments)
        return self._answer(number, f"no answer to {command!r} in time", timeout_s)

    def _answer(self, number: int, otherwise: str, timeout_s: float) -> Json:
        with self._changed:
            self._changed.wait_for(lambda: number in self._answers or bool(self.lost), timeout_s)
            answer = self._answers.pop(number, None)
        if answer is None:
            raise self.connection.wrong(self.lost or otherwise, "is it up?")
        if "error" in answer:
            raise self.connection.failed(answer["error"])
        return answer

    def close(self) -> bool:
        """End the keeper, and so all that it made; whether it has said that it did.

        MachineError where it says that it could not take back what it had set.
        """
        self._closing = True
        if self.lost:
            return False
        with suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()
        code = int(self._channel.exit_status) if self._channel.status_event.wait(CONNECT_S) else None
        self._channel.close()
        if code == STUCK:
            raise self.connection.wrong("its keeper cannot take back what tc was told", "ratebed clean tries again")
        return code == 0

    # --- threads -------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        rest = b""
        while not self.lost:
            try:
                part = self._channel.recv(_PART)
                last_words = [] if part else lines_of(self._channel.recv_stderr(_PART))
            except TimeoutError:
                continue
            except OSError as error:
                self._lose(f"the connection broke: {error}")
                return
            if not part:
                self._lose(": ".join(["its keeper has ended", *last_words[-1:]]))
                return
            self._heard_s, came_ns = time.monotonic(), time.time_ns()
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                try:
                    self._take({**json.loads(line), "came_ns": came_ns})
                except (ValueError, TypeError, LookupError, RecursionError):
                    self._lose(f"its keeper said {line[:60]!r}")
                    return

    def _keep_alive(self) -> None:
        while not self.lost and not self._closing:
            if time.monotonic() - self._heard_s > LOST_S:
                self._lose(f"it has said nothing for {LOST_S:.0f} s")
            self.tell("alive")
            time.sleep(ALIVE_S)

    def _take(self, line: Json) -> None:
        match line:
            case {"answer": number}:
                with self._changed:
                    self._answers[number] = line
                    self._changed.notify_all()
            case {"broken": error}:
                self._lose(f"its keeper broke: {error}")
            case {"said": number, "text": text}:
                self._processes[number].said(text)
            case {"logged": number, "text": text}:
                self._processes[number].logged(text)
            case {"ended": number, "code": code}:
                self._processes[number].ended(code)

    def _lose(self, why: str) -> None:
        """Everybody who waits for it hears of it; what still goes over the connection ends."""
        with self._changed:
            if self.lost:
                return
            self.lost = why
            self._changed.notify_all()
        name = self.connection.machine.name
        for process in list(self._processes.values()):
            process.ended(LOST, "" if self._closing else f"host {name} is lost: {why}")
        if not self._closing:
            threading.Thread(target=self.connection.close, daemon=True).start()  # it may wait for the machine
