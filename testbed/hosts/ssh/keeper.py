"""The keeper: our only process on a machine besides the agents: it starts them, hears them, ends them.

Arguments: the run's folder, which it makes, the token that marks its processes, and for how long the harness may be
silent, in s.  Commands come by its standard input, one JSON object a line, what happens goes out by its output:

    {"do": "write", "id": 1, "text": "…"}                 to its standard input        -> {"said": 1, "text": "…"}
    {"do": "close", "id": 1}                              that ends                    -> {"logged": 1, "text": "…"}
    {"do": "signal", "id": 1, "signal": 9}                                             -> {"ended": 1, "code": 0}
    {"do": "folder", "path": "…"}                         make it
    {"do": "start" | "clock" | "seen" | "device" | "shape", "number": 7, …}  -> {"answer": 7, …}, perhaps "error": "…"
    {"do": "alive"}                                       we are still there           -> {"beat": 1} once a second
                                                                                       -> {"broken": "…"}: our bug

and its first word is the answer 0: {"answer": 0, "cores": 8}, or an error.

It ends with its input, or where nothing has come for so long: the harness is dead, or cut off.  Then it ends
what it started, takes back what was set by tc, and removes the folder.  ``--clean FOLDER`` does that for a keeper that
was killed.  Where tc cannot take it back, the folder stays, with the record: exit code ``STUCK``, or 1 of ``--clean``.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, NoReturn

from collectors.probes import Probes
from core.errors import MachineError
from core.records import Json
from testbed.hosts.capabilities import tool
from testbed.hosts.cleaning import kill_left, kill_marked
from testbed.hosts.scheduling import scheduling
from testbed.hosts.state import TOKEN, start_time

BEAT_S = 1.0
GRACE_S = 3.0  # agents end by themselves when their input does
LEFT_S = 2.0  # for what an ended process has said: who has left its session may hold its pipes for ever
TC_S = 10.0
STUCK = 3
RECORD = "keeper.json"  # in the run's folder: what --clean must know
PART_BYTES = 1 << 16


class Child(subprocess.Popen[bytes]):
    """A process that was started, in a session of its own."""

    def __init__(self, name: str, words: Sequence[str], folder: Path, environment: Mapping[str, str]):
        super().__init__(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, **environment},
            start_new_session=True,
            bufsize=0,
        )
        self.name = name
        self.waiting = SimpleQueue[bytes]()  # for its standard input; empty: the end of that

    def kill_group(self) -> None:
        """It, and what it has left of its session; its number is ours until we have waited for it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


class Keeper:
    """The commands, and threads that never wait for each other's pipes."""

    def __init__(self, folder: Path, token: str, silence_s: float):
        self.folder, self.token, self.silence_s = folder, token, silence_s
        self.children: dict[int, Child] = {}
        self._shaped: list[str] = []  # interfaces
        self._heard_s = time.monotonic()
        self._ending, self._said, self._removing = threading.Lock(), threading.Lock(), threading.Lock()
        self._probes = Probes(lambda: [(child.name, child.pid) for child in list(self.children.values())])
        folder.mkdir(parents=True, mode=0o700)
        self._record()
        self._probes.start()

    def run(self) -> None:
        """Serve until the input ends."""
        _in_thread(self._watch)
        self.say(answer=0, cores=len(os.sched_getaffinity(0)))
        _in_thread(self._beat)
        for line in sys.stdin.buffer:
            self._heard_s = time.monotonic()
            command = json.loads(line)
            what, number = command.pop("do"), command.pop("number", None)
            try:
                answer = getattr(self, f"do_{what}")(**command)
            except (OSError, subprocess.SubprocessError, MachineError) as error:
                answer = {"error": str(error)}
            if number is not None:
                self.say(answer=number, **answer)

    def say(self, **what: object) -> None:
        """One line to the harness; the end, where it does not listen any more."""
        data = json.dumps(what).encode() + b"\n"
        with self._said:
            try:
                while data:
                    data = data[os.write(1, data) :]
            except OSError:
                self.finish()

    def finish(self) -> NoReturn:
        """End everything, once."""
        with self._ending:
            for child in list(self.children.values()):
                child.waiting.put(b"")
            until_s = time.monotonic() + GRACE_S
            while self.children and time.monotonic() < until_s:
                time.sleep(0.02)
            for child in list(self.children.values()):
                child.kill_group()
            kill_marked(self.token)
            if _take_back(self._shaped):
                os._exit(STUCK)
            shutil.rmtree(self.folder, ignore_errors=True)
            os._exit(0)

    def _watch(self) -> None:
        """Others may hang where nobody takes what they say."""
        while time.monotonic() - self._heard_s < self.silence_s:
            time.sleep(BEAT_S)
        self.finish()

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_S)
            self.say(beat=1)

    def _record(self) -> None:
        """What ``--clean`` needs, whole or not at all."""
        part = self.folder / f"{RECORD}.part"
        own = {"pid": os.getpid(), "started": start_time(os.getpid()), "token": self.token, "shaped": self._shaped}
        part.write_text(json.dumps(own))
        part.replace(self.folder / RECORD)

    # --- commands ------------------------------------------------------------------------------------------

    def do_alive(self) -> None:
        """We were heard: that is all."""

    def do_start(
        self, id: int, name: str, command: list[str], environment: dict[str, str], cores: list[int], fifo_priority: int
    ) -> Json:
        """Start a process."""
        wishes, refused = scheduling(tuple(cores), fifo_priority)
        try:
            child = Child(name, [*wishes, *command], self.folder, {**environment, TOKEN: self.token})
        except OSError as error:
            raise OSError(f"cannot start {name}: {error.filename or command[0]}: {error.strerror}") from None
        self.children[id] = child
        assert child.stdin and child.stdout and child.stderr
        hearing = [_in_thread(self._hear, id, *each) for each in (("said", child.stdout), ("logged", child.stderr))]
        _in_thread(_feed, child.stdin, child.waiting)
        _in_thread(self._await_end, id, child, hearing)
        return {"pid": child.pid, "refused": refused}

    def do_write(self, id: int, text: str) -> None:
        """Give text to a process's standard input, when it takes it."""
        if child := self.children.get(id):
            child.waiting.put(text.encode(errors="surrogateescape"))

    def do_close(self, id: int) -> None:
        """End a process's standard input, after what waits for it."""
        if child := self.children.get(id):
            child.waiting.put(b"")

    def do_signal(self, id: int, signal: int) -> None:
        """A signal for a process that has not ended."""
        with self._removing:
            if child := self.children.get(id):
                os.kill(child.pid, signal)

    def do_folder(self, path: str) -> None:
        """Make a folder; who writes to it will say what is wrong."""
        Path(path).mkdir(parents=True, exist_ok=True)

    def do_clock(self) -> Json:
        """What time it is here."""
        return {"at_ns": time.time_ns()}

    def do_seen(self, span_ns: tuple[int, int | None], rows: bool) -> Json:
        """What the machine's probes have seen so far; an error where they see no more."""
        self._probes.check()
        shares = self._probes.busy_share(*span_ns), self._probes.steal_share(*span_ns)
        samples = self._probes.samples(0) if rows else []
        return {"shares": shares, "rows": samples, "clock_step_ns": self._probes.clock_step_ns}

    def do_device(self, address: str) -> Json:
        """The interface that has an IPv4 address."""
        for row in json.loads(_run("ip", "-json", "-4", "address") or "[]"):
            if any(each.get("local") == address for each in row.get("addr_info", ())):
                return {"device": row["ifname"]}
        raise OSError(f"no interface has the address {address}")

    def do_shape(self, device: str, lines: list[str]) -> Json:
        """Set an interface by lines of ``tc -batch``; recorded before it is done.

        What somebody else has set with tc stays.
        """
        if row := _queue_of(device):
            raise OSError(f"{device} has a {row['kind']} of somebody else's: tc qdisc del dev {device} root")
        self._shaped.append(device)
        self._record()
        _tc("-batch", "-", text="\n".join(lines) + "\n")
        return {}

    # --- pipes ---------------------------------------------------------------------------------------------

    def _hear(self, id: int, kind: str, pipe: IO[bytes]) -> None:
        with pipe:
            while part := pipe.read(PART_BYTES):
                self.say(**{kind: id, "text": part.decode(errors="surrogateescape")})

    def _await_end(self, id: int, child: Child, hearing: list[threading.Thread]) -> None:
        """Everything it said first, then its end; what it left of its session ends, too."""
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        child.kill_group()
        for thread in hearing:
            thread.join(LEFT_S)
        child.waiting.put(b"")
        with self._removing:
            del self.children[id]
        self.say(ended=id, code=child.wait())


def _in_thread(what: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=what, args=arguments, daemon=True)
    thread.start()
    return thread


def _feed(pipe: IO[bytes], waiting: "SimpleQueue[bytes]") -> None:
    with suppress(BrokenPipeError), pipe:
        while part := waiting.get():
            pipe.write(part)


def _run(program: str, *words: str, text: str = "") -> str:
    """What a command prints; OSError with what it says if it fails."""
    command = [tool(program) or program, *words]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TC_S)
    if done.returncode:
        raise OSError(((done.stderr or done.stdout).strip() or program).splitlines()[0])
    return done.stdout


def _tc(*words: str, text: str = "") -> None:
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    _run(*sudo, tool("tc") or "tc", *words, text=text)


def _queue_of(device: str) -> Json | None:
    """What somebody has set an interface's root to, if it was set: the kernel's own queues have the handle 0."""
    rows = json.loads(_run("tc", "-json", "qdisc", "show", "dev", device) or "[]")
    return next((row for row in rows if row.get("root") and row.get("handle", "0:") != "0:"), None)


def _take_back(shaped: Iterable[str]) -> list[str]:
    """Undo what was set; returns the interfaces that have it still, as far as one can see."""
    for device in shaped:
        with suppress(OSError, subprocess.SubprocessError):  # nothing was set yet, for one
            _tc("qdisc", "del", "dev", device, "root")
    return [device for device in shaped if _is_set(device)]


def _is_set(device: str) -> bool:
    try:
        return _queue_of(device) is not None
    except FileNotFoundError:  # who has no tc has set nothing
        return False
    except (OSError, ValueError, subprocess.SubprocessError):
        return device in {name for _, name in socket.if_nameindex()}


def clean(folder: Path) -> bool:
    """End a keeper and all that it made; returns whether anything was left.  OSError, and the folder stays, if not."""
    if not folder.is_dir():
        return False
    left: Json = {}
    with suppress(OSError, ValueError):
        left = json.loads((folder / RECORD).read_text())
    if left:
        try:
            kill_left(left["pid"], left["started"])
            kill_marked(left["token"])
        finally:
            stuck = _take_back(left["shaped"])
        if stuck:
            raise OSError(f"what tc was told stays: sudo tc qdisc del dev {stuck[0]} root")
    shutil.rmtree(folder)
    return True


def main() -> None:
    """Clean, or serve."""
    if sys.argv[1] == "--clean":
        try:
            print("removed" if clean(Path(sys.argv[2])) else "nothing")
        except OSError as error:
            sys.exit(str(error))
        return
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the end of the input is what counts
    folder = Path(sys.argv[1])
    try:
        keeper = Keeper(folder, sys.argv[2], float(sys.argv[3]))
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        print(json.dumps({"answer": 0, "error": f"{error.filename or folder}: {error.strerror}"}), flush=True)
        return
    try:
        keeper.run()
    except Exception as error:
        traceback.print_exc()
        keeper.say(broken=f"{type(error).__name__}: {error}")
    finally:
        keeper.finish()


if __name__ == "__main__":
    main()
