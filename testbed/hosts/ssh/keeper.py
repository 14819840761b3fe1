"""The keeper: our only process on a machine besides the agents: it starts them, hears them, ends them.

Arguments: the run's folder, which it makes, the token that marks its processes, and for how long the harness may be
silent, in s.  Commands come by its standard input, one JSON object a line, what happens goes out by its output:

    {"do": "start", "id": 1, "name": "…", "words": […], "environment": {}, "cores": [0], "fifo_priority": 0}
                                   -> {"started": 1, "pid": …, "refused": […]} or {"failed": 1, "error": "…"}
    {"do": "write", "id": 1, "text": "…"}                 to its standard input        -> {"said": 1, "text": "…"}
    {"do": "close", "id": 1}                              that ends                    -> {"logged": 1, "text": "…"}
    {"do": "signal", "id": 1, "number": 9}                                             -> {"ended": 1, "code": 0}
    {"do": "folder", "path": "…"}                         make it
    {"do": "clock" | "seen" | "device" | "shape", "number": 7, …}       -> {"answer": 7, …} or {"answer": 7, "error": …}
    {"do": "alive"}                                       we are still there           -> {"beat": 1} once a second
                                                                                       -> {"broken": "…"}: our bug

It ends with its input, or where nothing has come for so long: the harness is dead, or cut off.  Then it ends
what it started, takes back what was set by tc, and removes the folder.  ``--clean FOLDER`` does that for a keeper that
was killed.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from collectors.probes import Probes
from testbed.hosts.capabilities import tool
from testbed.hosts.cleaning import kill_left, kill_marked
from testbed.hosts.pipes import scheduling
from testbed.hosts.state import TOKEN, start_time

BEAT_S = 1.0
GRACE_S = 3.0  # agents end by themselves when their input does
TC_S = 10.0
RECORD = "keeper.json"  # in the run's folder: what --clean must know
_PART = 1 << 16


class Child:
    """A process that was started, in a session of its own."""

    def __init__(self, number: int, name: str, words: Sequence[str], folder: Path, environment: Mapping[str, str]):
        self.number, self.name = number, name
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, **environment},
            start_new_session=True,
            bufsize=0,
        )
        self.pid = self.process.pid
        self.handle = os.pidfd_open(self.pid)
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.input, self.outputs = self.process.stdin, {"said": self.process.stdout, "logged": self.process.stderr}
        self.waiting = b""  # for its standard input
        self.closing = False
        for pipe in (self.input, *self.outputs.values()):
            os.set_blocking(pipe.fileno(), False)

    def kill_group(self) -> None:
        """It, and what it has left of its session; its number is ours until we have waited for it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


class Keeper:
    """The loop, and the commands."""

    def __init__(self, folder: Path, token: str, silence_s: float):
        self.folder, self.token, self.silence_s = folder, token, silence_s
        self.children: dict[int, Child] = {}
        self._undo: list[list[str]] = []
        self._heard_s = time.monotonic()
        self._ending = threading.Lock()
        self._said = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._probes = Probes(lambda: [(child.name, child.pid) for child in list(self.children.values())])
        self._rest = b""
        self._open = True
        folder.mkdir(parents=True, mode=0o700)
        self._record()
        self._probes.start()

    def run(self) -> None:
        """Serve until the input ends, or nobody listens."""
        threading.Thread(target=self._watch, daemon=True).start()
        self._selector.register(0, selectors.EVENT_READ, self._read_commands)
        self.say(ready=os.getpid(), cores=len(os.sched_getaffinity(0)))
        beat_s = 0.0
        while self._open:
            for key, events in self._selector.select(BEAT_S):
                key.data(events)
            if time.monotonic() > beat_s:
                beat_s = time.monotonic() + BEAT_S
                self.say(beat=1)

    def say(self, **what: Any) -> None:
        """One line to the harness, where it still listens."""
        data = json.dumps(what).encode() + b"\n"
        with self._said:
            try:
                while data:
                    data = data[os.write(1, data) :]
            except OSError:
                self._open = False

    def finish(self) -> None:
        """End everything, once."""
        with self._ending:
            for child in list(self.children.values()):
                with suppress(OSError):
                    child.input.close()
            until_s = time.monotonic() + GRACE_S
            while time.monotonic() < until_s and any(child.process.poll() is None for child in self.children.values()):
                time.sleep(0.02)
            for child in self.children.values():
                if child.process.poll() is None:
                    child.kill_group()
            kill_marked(self.token)
            _take_back(self._undo)
            shutil.rmtree(self.folder, ignore_errors=True)
            os._exit(0)

    def _watch(self) -> None:
        """A thread of its own: the loop may hang where nobody takes what it says."""
        while time.monotonic() - self._heard_s < self.silence_s:
            time.sleep(BEAT_S)
        self.finish()

    def _record(self) -> None:
        """What ``--clean`` needs, whole or not at all."""
        part = self.folder / f"{RECORD}.part"
        own = {"pid": os.getpid(), "started": start_time(os.getpid()), "token": self.token, "undo": self._undo}
        part.write_text(json.dumps(own))
        part.replace(self.folder / RECORD)

    # --- commands ------------------------------------------------------------------------------------------

    def _read_commands(self, events: int) -> None:
        part = os.read(0, _PART)
        self._heard_s = time.monotonic()
        if not part:
            self._open = False
            return
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            command = json.loads(line)
            what = command.pop("do")
            if what != "alive":
                getattr(self, f"do_{what}")(**command)

    def do_start(
        self, id: int, name: str, words: list[str], environment: dict[str, str], cores: list[int], fifo_priority: int
    ) -> None:
        """Start a process."""
        wishes, refused = scheduling(tuple(cores), fifo_priority)
        try:
            child = Child(id, name, [*wishes, *words], self.folder, {**environment, TOKEN: self.token})
        except OSError as error:
            self.say(failed=id, error=f"{error.filename or words[0]}: {error.strerror}")
            return
        self.children[id] = child
        for kind, pipe in child.outputs.items():
            self._selector.register(pipe, selectors.EVENT_READ, self._hears(child, kind))
        self._selector.register(child.handle, selectors.EVENT_READ, lambda events: self._ended(child))
        self.say(started=id, pid=child.pid, refused=refused)

    def do_write(self, id: int, text: str) -> None:
        """Give text to a process's standard input, now or when it takes it."""
        child = self.children.get(id)
        if child is not None and not child.input.closed:
            child.waiting += text.encode(errors="surrogateescape")
            self._push(child)

    def do_close(self, id: int) -> None:
        """End a process's standard input, after what waits for it."""
        child = self.children.get(id)
        if child is not None:
            child.closing = True
            self._push(child)

    def do_signal(self, id: int, number: int) -> None:
        """A signal for a process that has not ended."""
        child = self.children.get(id)
        if child is not None:
            signal.pidfd_send_signal(child.handle, number)

    def do_folder(self, path: str) -> None:
        """Make a folder; who writes to it will say what is wrong."""
        with suppress(OSError):
            Path(path).mkdir(parents=True, exist_ok=True)

    def do_clock(self, number: int) -> None:
        """What time it is here."""
        self.say(answer=number, at_ns=time.time_ns())

    def do_seen(self, number: int, spans_ns: list[tuple[int, int]], rows: bool) -> None:
        """What the machine's probes have seen so far."""
        shares = [[self._probes.busy_share(*span), self._probes.steal_share(*span)] for span in spans_ns]
        samples = self._probes.samples(0) if rows else []
        self.say(answer=number, shares=shares, rows=samples, clock_step_ns=self._probes.clock_step_ns)

    def do_device(self, number: int, address: str) -> None:
        """The interface that has an address."""
        self._answer(number, lambda: {"device": _device_of(address)})

    def do_shape(self, number: int, device: str, lines: list[str], first: bool) -> None:
        """Set an interface by lines of ``tc -batch``; recorded before it is done."""
        undo = [*_as_root(), tool("tc") or "tc", "qdisc", "del", "dev", device, "root"]

        def shape() -> dict[str, Any]:
            if first:
                _check_unshaped(device)
                self._undo.append(undo)
                self._record()
            _run([*_as_root(), tool("tc") or "tc", "-batch", "-"], "\n".join(lines) + "\n")
            return {}

        self._answer(number, shape)

    def _answer(self, number: int, function: Callable[[], dict[str, Any]]) -> None:
        try:
            self.say(answer=number, **function())
        except (OSError, subprocess.SubprocessError) as error:
            self.say(answer=number, error=str(error))

    # --- pipes ---------------------------------------------------------------------------------------------

    def _hears(self, child: Child, kind: str) -> Callable[[int], bool]:
        return lambda events: self._hear(child, kind)

    def _hear(self, child: Child, kind: str) -> bool:
        """Hand on a part of what a process says; whether there was something."""
        pipe = child.outputs[kind]
        if pipe.closed:
            return False
        try:
            part = os.read(pipe.fileno(), _PART)
        except BlockingIOError:
            return False
        if part:
            self.say(**{kind: child.number, "text": part.decode(errors="surrogateescape")})
        else:
            self._selector.unregister(pipe)
            pipe.close()
        return bool(part)

    def _push(self, child: Child, events: int = 0) -> None:
        """Write what waits, as far as the pipe takes it."""
        if child.input.closed:
            return
        with suppress(KeyError):
            self._selector.unregister(child.input)
        try:
            while child.waiting:
                child.waiting = child.waiting[os.write(child.input.fileno(), child.waiting) :]
        except BlockingIOError:
            self._selector.register(child.input, selectors.EVENT_WRITE, lambda ready: self._push(child, ready))
            return
        except BrokenPipeError:
            child.closing = True
        if child.closing:
            child.input.close()

    def _ended(self, child: Child) -> None:
        """Everything it said first, then its end; what it left of its session ends, too."""
        for kind in child.outputs:
            while self._hear(child, kind):
                pass
        child.kill_group()
        code = child.process.wait()
        for pipe in (child.input, *child.outputs.values()):
            with suppress(KeyError, ValueError):
                self._selector.unregister(pipe)
            pipe.close()
        self._selector.unregister(child.handle)
        os.close(child.handle)
        del self.children[child.number]
        self.say(ended=child.number, code=code)


def _device_of(address: str) -> str:
    """The interface of this machine that has an IPv4 address."""
    for row in json.loads(_run([tool("ip") or "ip", "-json", "-4", "address"]) or "[]"):
        if any(each.get("local") == address for each in row.get("addr_info", ())):
            return str(row["ifname"])
    raise OSError(f"no interface has the address {address}")


def _as_root() -> list[str]:
    return [] if os.geteuid() == 0 else ["sudo", "-n"]


def _check_unshaped(device: str) -> None:
    """What somebody else has set with tc stays: the kernel's own queues have the handle 0."""
    for row in json.loads(_run([tool("tc") or "tc", "-json", "qdisc", "show", "dev", device]) or "[]"):
        if row.get("root") and row.get("handle", "0:") != "0:":
            raise OSError(f"{device} has a {row['kind']} of somebody else's: tc qdisc del dev {device} root")


def _run(words: Sequence[str], text: str = "") -> str:
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=TC_S)
    if done.returncode:
        raise OSError((done.stderr or done.stdout).strip().splitlines()[0] if done.stderr or done.stdout else words[0])
    return done.stdout


def _take_back(undo: list[list[str]]) -> None:
    """Undo what was set, the last first."""
    for words in reversed(undo):
        with suppress(OSError, subprocess.SubprocessError):
            _run(words)


def clean(folder: Path) -> bool:
    """End a keeper and all that it made; returns whether anything was left."""
    if not folder.is_dir():
        return False
    with suppress(OSError, ValueError):
        left = json.loads((folder / RECORD).read_text())
        kill_left(left["pid"], left["started"])
        kill_marked(left["token"])
        _take_back(left["undo"])
    shutil.rmtree(folder)
    return True


def main() -> None:
    """Clean, or serve."""
    if sys.argv[1] == "--clean":
        print("removed" if clean(Path(sys.argv[2])) else "nothing")
        return
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the end of the input is what counts
    folder = Path(sys.argv[1])
    try:
        keeper = Keeper(folder, sys.argv[2], float(sys.argv[3]))
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        print(json.dumps({"error": f"{error.filename or folder}: {error.strerror}"}), flush=True)
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
