"""What live runs make outside themselves, written down before it is made: ``ratebed clean`` removes exactly that.

One file a run in a folder of the user's own, one JSON object a line.  The first line names the owner, the process of
the harness; the others say what it is about to make, that it is there, and that it is gone again::

    {"owner": 4711, "started": 123456, "boot": "6f…", "token": "a3…", "command": "ratebed run …", "since_ns": 17…}
    {"making": 1, "kind": "process", "name": "node-n1"}
    {"made": 1, "pid": 4712, "started": 123460}
    {"gone": 1}

A process is known by its id and its start time, so that an id that was given out anew is never taken for it.
Between a process's start and the line that says so, it is known by the run's token in its environment, which
its children inherit.
"""

import json
import os
import secrets
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from collectors.procfs import read
from core.errors import MachineError
from core.records import Json

TOKEN = "RATEBED_RUN"  # the environment variable that marks all processes of a run


def state_folder() -> Path:
    """The user's folder for the state of running things; MachineError where it is not theirs alone.

    ``RATEBED_STATE`` names another one.
    """
    user = os.geteuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if os.environ.get("RATEBED_STATE"):
        folder = Path(os.environ["RATEBED_STATE"])
    elif user == 0 and Path("/run").is_dir():  # not the variable: root by sudo finds what root by login made
        folder = Path("/run/ratebed")
    elif runtime and os.path.isabs(runtime) and Path(runtime).is_dir():
        folder = Path(runtime) / "ratebed"
    else:
        folder = Path(tempfile.gettempdir()) / f"ratebed-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError as error:
        raise MachineError(f"{folder}: {error.strerror}", "set XDG_RUNTIME_DIR to a folder of your own") from None
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != user or facts.st_mode & 0o022:
        raise MachineError(f"{folder} is not yours alone", "remove it; what is in it may be somebody else's")
    return folder


def boot_id() -> str:
    """Names this start of the machine; what an earlier one left is gone."""
    return read("/proc/sys/kernel/random/boot_id").strip()


def start_time(pid: int) -> int | None:
    """When a living process began, in clock ticks since the start of the machine; None if there is none such.

    A process that has ended and waits for its parent to notice has no start time either.
    """
    fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()  # the name before it may hold anything
    return int(fields[19]) if fields and fields[0] not in "ZX" else None


def own_command() -> str:
    """The command line of this process, for people."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200]


class RunState:
    """The file of a run that goes on.  ``close`` removes it, if everything is gone by then."""

    def __init__(self, folder: Path | None = None):
        self.token = secrets.token_hex(16)
        self.path = (folder or state_folder()) / f"run-{os.getpid()}-{self.token[:8]}.jsonl"
        self._numbers, self._writing = count(1), threading.Lock()  # containers are made side by side
        self._there: set[int] = set()
        try:
            self._file = self.path.open("x", buffering=1)
        except OSError as error:
            raise MachineError(f"{self.path}: {error.strerror}", "free space there") from None
        owner = {"owner": os.getpid(), "started": start_time(os.getpid()), "boot": boot_id(), "token": self.token}
        self._write({**owner, "command": own_command(), "since_ns": time.time_ns()})

    @property
    def tag(self) -> str:
        """Five characters for names that must be this run's alone (an interface has room for 15)."""
        return f"r{self.token[:4]}"

    @property
    def environment(self) -> dict[str, str]:
        """What every process of the run must have in its environment."""
        return {TOKEN: self.token}

    def making(self, kind: str, **what: object) -> int:
        """Say what is about to be made; returns its number for ``made`` and ``gone``.

        ``process``: name, then ``made(pid=, started=)`` · ``folder``: path of one that will be empty at the end, or
        with ``whole=True`` is removed with all that is in it · ``group``: name of a control group in every hierarchy,
        with all that is in it · ``container``: name, daemon = its URL, private = whether that is gone with us, then
        ``made(id=)`` · ``remote``: name, machine = its line of the inventory, clean = the command that removes what
        the run left there.
        """
        number = next(self._numbers)
        self._write({"making": number, "kind": kind, **what})
        self._there.add(number)
        return number

    def made(self, number: int, **more: object) -> None:
        """It is there now; ``more`` is what identifies it."""
        self._write({"made": number, **more})

    def gone(self, number: int) -> None:
        """It is removed."""
        self._there.discard(number)
        self._write({"gone": number})

    def close(self) -> None:
        """The run is over; the file stays where something of it did, for ``ratebed clean``."""
        self._file.close()
        if not self._there:
            self.path.unlink(missing_ok=True)

    def _write(self, line: Json) -> None:
        try:
            with self._writing:
                self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise MachineError(f"{self.path}: {error.strerror}", "free space there") from None


@dataclass
class Leftovers:
    """What the state file of a run says: its owner, and the things that were made and not removed, oldest first."""

    path: Path
    owner: Json = field(default_factory=dict)
    things: dict[int, Json] = field(default_factory=dict)

    @property
    def token(self) -> str:
        """What marks the run's processes."""
        return str(self.owner["token"])

    @property
    def is_running(self) -> bool:
        """Whether the harness that wrote it lives."""
        if not self.owner:  # it may be about to write its first line; its file's name has its id
            return start_time(int(self.path.name.split("-")[1])) is not None
        return self.is_of_this_boot and start_time(self.owner["owner"]) == self.owner["started"]

    @property
    def is_of_this_boot(self) -> bool:
        """Whether what it lists can still be there."""
        return bool(self.owner) and self.owner["boot"] == boot_id()


def read_state(path: Path) -> Leftovers:
    """Read a state file; a last line that was cut short by a kill counts as not written."""
    left = Leftovers(path)
    for text in path.read_text(errors="replace").splitlines():
        with suppress(ValueError, TypeError, RecursionError):
            _take(left, json.loads(text))
    return left


def _take(left: Leftovers, line: Json) -> None:
    if "owner" in line:
        left.owner = line
    elif "making" in line:
        left.things[line["making"]] = line
    elif "made" in line:
        left.things.get(line["made"], {}).update(line)
    elif "gone" in line:
        left.things.pop(line["gone"], None)


def all_states(folder: Path | None = None) -> Iterator[Leftovers]:
    """Every run that has a state file, living or left behind."""
    for path in sorted((folder or state_folder()).glob("run-*.jsonl")):
        try:
            yield read_state(path)
        except FileNotFoundError:
            continue  # it has just ended
