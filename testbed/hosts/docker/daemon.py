"""The Docker daemon that a run's containers live in: one of our own, or the one that runs on this machine.

Our own leaves nothing on the host (see ``PrivateServer``): this is why it is the default, though starting it takes
seconds.  One serves all runs of a process.
"""

import atexit
import os
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from core.errors import MachineError, SpecError
from core.registry import hint
from testbed.hosts.capabilities import require, tool
from testbed.hosts.groups import remove_group
from testbed.hosts.private import PrivateServer

CHOICE = "RATEBED_DOCKER_DAEMON"  # how the command line tells it: which daemon it is changes no result
PRIVATE, RUNNING = "private", "running"
NEEDED = ("docker-sdk", "dockerd", "containerd", "runc", "unshare")
TIMEOUT_S = 120  # of one question to a daemon
# A daemon would use the machine's own containerd where one runs, which sees none of the mounts in here.
_HIDDEN = 'mkdir -p /run/containerd && mount -t tmpfs hidden /run/containerd && exec "$@"'
_FLAGS = (
    *("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
    *("--userland-proxy=false", "--log-level=warn", "--exec-opt=native.cgroupdriver=cgroupfs"),
)


class Daemon:
    """A daemon that answers; MachineError where none does at ``url``.  ``client``: the SDK's."""

    def __init__(self, url: str, is_private: bool):
        require("docker-sdk")
        import docker

        self.url, self.is_private = url, is_private
        try:
            self.client = docker.DockerClient(base_url=url, timeout=TIMEOUT_S)
        except (docker.errors.DockerException, OSError) as error:
            fix = "start it, or use --docker-daemon private"
            raise MachineError(f"no Docker daemon answers at {url}: {error}", fix) from None


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


def running_daemon() -> Daemon:
    """The machine's own."""
    return Daemon(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock", is_private=False)


class PrivateDaemon(PrivateServer):
    """A daemon of our own; see ``PrivateServer``.  ``group``: the control group that those of its containers are in."""

    name = "dockerd"
    needed = NEEDED
    ends_by_itself = True
    daemon: Daemon

    @property
    def _socket(self) -> Path:
        return self.folder / "docker.sock"

    def _prepare(self) -> None:
        self.group = f"/ratebed-{self.state.token}"
        self._make("group", partial(remove_group, self.group), name=self.group)
        (self.folder / "none.json").write_text("{}")  # and not the host's

    def _command(self) -> list[str]:
        """Mounts in a namespace of their own are gone with the last process in it."""
        folders = ("--data-root", self.folder / "data", "--exec-root", self.folder / "exec",
                   "--pidfile", self.folder / "docker.pid", "--host", f"unix://{self._socket}",
                   "--config-file", self.folder / "none.json")  # fmt: skip
        enter = [tool("unshare"), "--mount", "--net", "sh", "-c", _HIDDEN, "sh"]
        words = [*enter, tool("dockerd"), *folders, *_FLAGS, "--cgroup-parent", self.group]
        return [str(word) for word in words]

    def _answers(self) -> bool:
        if self._socket.exists():
            with suppress(MachineError):
                self.daemon = Daemon(f"unix://{self._socket}", is_private=True)
                return True
        return False
