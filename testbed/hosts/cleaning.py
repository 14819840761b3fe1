"""Removes what a killed run left: exactly what its state file lists, in reverse order, never by a name's pattern."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import psutil

from core.errors import HarnessError
from core.records import Json
from testbed.hosts.groups import END_TIMEOUT_S, remove_group
from testbed.hosts.state import TOKEN, Leftovers, all_states, start_time

LOOKS = 10  # at most, for the processes of a run
READS = 1000  # of an environment that is empty, while a program is executed
STILL_READS = 20  # of one that stays so: the kernel writes it down just after the command line


@dataclass
class Cleaned:
    """What cleaning up did, a line each."""

    removed: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)  # runs that go on, left alone
    stuck: list[str] = field(default_factory=list)  # what could not be removed, and why


def remove_left(folder: Path | None = None) -> Cleaned:
    """Clean up after all runs whose harness is dead.

    A state file goes once nothing of its run is left; what could not be removed stays listed for the next time.
    """
    cleaned = Cleaned()
    for left in all_states(folder):
        if left.is_running:
            who = f"process {left.owner['owner']} ({left.owner['command']})" if left.owner else left.path.name
            cleaned.running.append(f"the run of {who}, which is going on")
            continue
        stuck = _remove_run(left, cleaned.removed) if left.is_of_this_boot else []
        cleaned.stuck += stuck
        if not stuck:
            left.path.unlink(missing_ok=True)
    return cleaned


def _remove_run(left: Leftovers, removed: list[str]) -> list[str]:
    """Remove the things of one run, the processes first; returns what resisted."""
    stuck = []
    things = list(reversed(left.things.values()))
    processes = [thing for thing in things if thing["kind"] == "process"]
    known = {thing.get("pid") for thing in processes}
    marked = (
        {"kind": "process", "name": "marked as this run's", **process}
        for process in remaining_processes(left.token)  # which looks when the known ones have ended
        if process["pid"] not in known
    )
    for thing in chain(processes, marked, [thing for thing in things if thing["kind"] != "process"]):
        name = thing.get("name") or thing.get("path", "")
        what = f"{thing['kind']} {thing['pid']} ({name})" if "pid" in thing else f"{thing['kind']} {name}"
        try:
            if _remove(thing):
                removed.append(what)
        except OSError as error:
            stuck.append(f"{what}: {error}")
    return stuck


def _remove(thing: Json) -> bool:
    """Whether it was there."""
    match thing:
        case {"kind": "process"}:
            return "pid" in thing and kill_left(thing["pid"], thing["started"])
        case {"kind": "folder", "path": path}:
            return _remove_folder(Path(path), whole=thing.get("whole", False))
        case {"kind": "group", "name": name}:
            return remove_group(name)
        case {"kind": "container", "private": private}:
            return not private and _remove_container(thing)  # a private one ends with its daemon
        case {"kind": "remote", "machine": machine, "clean": clean}:
            return _remove_remote(machine, clean)
    raise OSError("another version of Ratebed made it, and has to remove it")


def marked_processes(token: str) -> list[dict[str, int]]:
    """Living processes (pid, started) that have the run's token in their environment, youngest first.

    Ourselves and our parents aside: one may clean up from a shell that the run opened.
    """
    mark = f"{TOKEN}={token}".encode()
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        pid = int(path.name)
        started = start_time(pid)
        with suppress(OSError):  # ended, or another user's
            if started is not None and pid not in own and mark in _environment(path):
                processes.append({"pid": pid, "started": started})
    return sorted(processes, key=lambda process: (process["started"], process["pid"]), reverse=True)


def _environment(process: Path) -> list[bytes]:
    """Of a process; OSError if it has ended, or is the kernel's.

    Whoever starts a program may know of it before it has its environment: what is empty is read again, until
    the process has its command line, and some time after that.
    """
    executed_count = 0
    for _ in range(READS):
        if text := (process / "environ").read_bytes():
            return text.split(b"\0")
        os.readlink(process / "exe")  # the kernel's processes have none, nor those that have ended
        executed_count += bool((process / "cmdline").read_bytes())
        if executed_count == STILL_READS:
            break
        time.sleep(0.001)
    return []


def remaining_processes(token: str) -> Iterator[dict[str, int]]:
    """Processes that bear the run's token, for somebody who ends one after another.

    Each may have started others since it was looked at, so this goes on until a look tells nothing new.
    """
    seen: set[int] = set()
    for _ in range(LOOKS):
        new = [process for process in marked_processes(token) if process["pid"] not in seen]
        if not new:
            return
        seen |= {process["pid"] for process in new}
        yield from new


def kill_marked(token: str) -> list[int]:
    """End all processes that bear the run's token; returns those that were there."""
    return [process["pid"] for process in remaining_processes(token) if kill_left(process["pid"], process["started"])]


def kill_left(pid: int, started: int | None) -> bool:
    """SIGKILL for the process ``pid`` if it is the one that began at ``started``; returns whether it was there.

    The process is held by a descriptor while it is looked at, so that its id cannot change hands in between.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if started is None or start_time(pid) != started:
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        until_s = time.monotonic() + END_TIMEOUT_S
        while start_time(pid) == started:
            if time.monotonic() > until_s:
                raise OSError(f"process {pid} does not end")
            time.sleep(0.005)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def _remove_folder(path: Path, whole: bool) -> bool:
    if not path.is_dir() or path.is_symlink():
        return False
    if whole:
        shutil.rmtree(path)
    else:
        path.rmdir()
    return True


def _remove_container(thing: Json) -> bool:
    """By its id, or, where the harness was killed before it knew that, by its name, which has the run's tag."""
    import docker

    try:
        client = docker.DockerClient(base_url=thing["daemon"])
        client.containers.get(thing.get("id") or thing["name"]).remove(force=True, v=True)
    except docker.errors.NotFound:
        return False
    except docker.errors.DockerException as error:
        raise OSError(str(error)) from None
    return True


def _remove_remote(machine: Json, clean: str) -> bool:
    """What a keeper left on another machine; mostly it has gone by itself when its connection broke."""
    from testbed.hosts.ssh.connection import SshConnection
    from testbed.hosts.ssh.inventory import Machine

    try:
        with closing(SshConnection(Machine(**machine))) as connection:
            return connection.done(clean).strip() == b"removed"
    except HarnessError as error:
        raise OSError(error.what) from None
