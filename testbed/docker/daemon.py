"""The Docker daemon that a run's containers live in: one of our own, or the one that runs on this machine.

Our own has everything private: a folder for its data, a socket, namespaces for its mounts and its network, a control
group above those of its containers.  So the host's firewall and forwarding stay as they are, and nothing is left when
it ends: this is why it is the default, though starting it takes seconds.  One serves all runs of a process; it ends
with that, and ``ratebed clean`` ends that of a process which was killed.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.errors import MachineError, SpecError
from core.registry import hint
from testbed.live.capabilities import CAPABILITIES, find_capability, tool
from testbed.live.cleaning import kill_marked, remove_group
from testbed.live.state import RunState, start_time

CHOICE = "RATEBED_DOCKER_DAEMON"  # how the command line tells it: which daemon it is changes no result
PRIVATE, RUNNING = "private", "running"
NEEDED = ("docker-sdk", "dockerd", "containerd", "runc", "unshare")
START_S, STOP_S = 60.0, 20.0
TIMEOUT_S = 120  # of one question to a daemon
# A daemon would use the machine's own containerd where one runs, which sees none of the mounts in here.
_HIDDEN = 'mkdir -p /run/containerd && mount -t tmpfs hidden /run/containerd && exec "$@"'
_FLAGS = (
    *("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
    *("--userland-proxy=false", "--log-level=warn", "--exec-opt=native.cgroupdriver=cgroupfs"),
)


@dataclass(frozen=True)
class Daemon:
    """A daemon that answers.  ``client``: the SDK's."""

    url: str
    client: Any
    is_private: bool


def check_choice(choice: str) -> str:
    """SpecError for a daemon that is none of ours."""
    if choice not in (PRIVATE, RUNNING):
        raise SpecError(f"unknown Docker daemon {choice!r}", hint(choice, (PRIVATE, RUNNING)))
    return choice


def chosen() -> str:
    """Which daemon the user wants."""
    return check_choice(os.environ.get(CHOICE) or PRIVATE)


@cache
def use_daemon(choice: str) -> Daemon:
    """The daemon of this process; MachineError where there is none to be had."""
    if choice == RUNNING:
        return running_daemon()
    private = PrivateDaemon()
    atexit.register(private.close)
    return private.daemon


def client_of(url: str) -> Any:
    """The SDK's client of the daemon at ``url``; MachineError where none answers."""
    if find_capability("docker-sdk") is None:
        raise MachineError("this machine has no Docker SDK", CAPABILITIES["docker-sdk"].fix)
    import docker

    try:
        return docker.DockerClient(base_url=url, timeout=TIMEOUT_S)
    except (docker.errors.DockerException, OSError) as error:
        raise MachineError(
            f"no Docker daemon answers at {url}: {error}", "start it, or use --docker-daemon private"
        ) from None


def running_url() -> str:
    """Where the machine's own daemon is."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def running_daemon() -> Daemon:
    """The machine's own."""
    return Daemon(running_url(), client_of(running_url()), False)


class PrivateDaemon:
    """A daemon of our own, up when this returns; ``close`` ends it and removes all that it had."""

    def __init__(self, state_folder: Path | None = None):
        for name in NEEDED:
            if find_capability(name) is None:
                raise MachineError(f"this machine has no {CAPABILITIES[name].what}", CAPABILITIES[name].fix)
        self.state = RunState(state_folder)
        self.folder = Path(tempfile.mkdtemp(prefix="ratebed-docker-"))
        self.group = f"/ratebed-{self.state.token}"
        self._undo = ExitStack()
        self._undo.callback(self.state.close)
        try:
            self._make("folder", shutil.rmtree, self.folder, path=str(self.folder), whole=True)
            self._make("group", remove_group, self.group, name=self.group)
            number = self.state.making("process", name="dockerd")
            self._process = self._start()
            self._undo.callback(self._end, number)
            self.state.made(number, pid=self._process.pid, started=start_time(self._process.pid))
            self.daemon = Daemon(f"unix://{self._socket}", self._await(), True)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it, and what is left of its containers; a second call does nothing."""
        self._undo.close()

    def _make(self, kind: str, remove: Callable[[Any], Any], it: Any, **what: Any) -> None:
        """Put on record what the daemon is about to make, and how that goes."""
        number = self.state.making(kind, **what)
        self._undo.callback(self.state.gone, number)
        self._undo.callback(remove, it)

    def _end(self, number: int) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        kill_marked(self.state.token)
        self._process.wait(STOP_S)
        self.state.gone(number)

    @property
    def _socket(self) -> Path:
        return self.folder / "docker.sock"

    def _start(self) -> "subprocess.Popen[bytes]":
        """Mounts in a namespace of their own are gone with the last process in it."""
        folders = ("--data-root", self.folder / "data", "--exec-root", self.folder / "exec",
                   "--pidfile", self.folder / "docker.pid", "--host", f"unix://{self._socket}",
                   "--config-file", self.folder / "none.json")  # fmt: skip
        (self.folder / "none.json").write_text("{}")  # and not the host's
        enter = [tool("unshare"), "--mount", "--net", "sh", "-c", _HIDDEN, "sh"]
        words = [*enter, tool("dockerd"), *folders, *_FLAGS, "--cgroup-parent", self.group]
        path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin:/sbin:/usr/local/sbin"])
        environment = {**os.environ, **self.state.environment, "PATH": path}
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                start_new_session=True,
            )  # fmt: skip

    def _await(self) -> Any:
        until_s = time.monotonic() + START_S
        while self._process.poll() is None and time.monotonic() < until_s:
            with suppress(MachineError):
                if self._socket.exists():
                    client = client_of(f"unix://{self._socket}")
                    client.ping()
                    return client
            time.sleep(0.02)
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        raise MachineError(
            f"the Docker daemon does not start: {lines[-1][:300] if lines else 'it says nothing'}", "run as root"
        )
