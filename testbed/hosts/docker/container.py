"""One host as a container, made, limited, watched and removed through Docker's SDK."""

import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.errors import MachineError, SpecError
from testbed.hosts.capabilities import CHECKOUT, tool
from testbed.hosts.docker.daemon import Daemon
from testbed.hosts.docker.groups import groups_of, kills_count, members
from testbed.hosts.docker.image import CODE_LABEL, code_key, node_image
from testbed.hosts.docker.wishes import Wish
from testbed.hosts.state import RunState

LOG_MEGABYTES = 10  # that a daemon keeps of a container's output
PROBLEM_LINES = 3
END_S = 5.0
SETTLE_S = 0.3  # a server that cannot run has mostly ended by then


class Container:
    """A container that runs.  MachineError where its image is missing, or where it ends at once.

    It has no network but its loopback: the links are somebody else's.  ``folder`` is the run's: containers of our
    image have it at the same path, and so have ``files``.
    """

    def __init__(
        self,
        daemon: Daemon,
        host: str,
        wish: Wish,
        image: Any,
        state: RunState,
        folder: Path,
        files: Sequence[Path] = (),
    ):
        self.host, self.wish, self._daemon = host, wish, daemon
        self.is_out_of_memory = False
        self._threads: list[threading.Thread] = []  # that end with it
        self._statistics: dict[str, Any] = {}  # the latest
        self._image = image
        code = (self._image.labels or {}).get(CODE_LABEL, "")
        self.is_ours = bool(code)
        if code and code != code_key():
            raise MachineError(f"image {wish.image} has another state of this code", "build it anew: testbed/README.md")
        name = f"ratebed-{state.tag}-{host}"
        self._state = state
        self._number = state.making("container", name=name, daemon=daemon.url, private=daemon.is_private)
        self._container: Any = None
        try:
            self._container = self._create(name, state, [folder, *files])
            state.made(self._number, id=self._container.id)
            self._container.start()
            if wish.command or not self.is_ours:
                time.sleep(SETTLE_S)
            self._container.reload()
            self.pid: int = self._container.attrs["State"]["Pid"]
            if not self.pid:
                raise MachineError(
                    f"{self._ended()}: {self._last_lines()}", f"give it a command: testbed.{host}.command"
                )
        except Exception as error:
            problem = _problem(error, f"no container for host {host}")
            self.close()
            raise problem from None
        self.groups = groups_of(self.pid)
        self._in_thread("statistics", self._follow_statistics)

    def _create(self, name: str, state: RunState, shared: Sequence[Path]) -> Any:
        wish = self.wish
        volumes = {str(path): {"bind": str(path), "mode": "rw"} for path in shared} if self.is_ours else {}
        # Our own containers share our process ids: agents in them have the same ones there and here, and /proc is
        # right for both.  Others have ids of their own, as their servers expect.
        return self._daemon.client.containers.create(
            self._image.id, shlex.split(wish.command) or None, name=name, hostname=_hostname(self.host),
            network_mode="none", pid_mode="host" if self.is_ours else None, volumes=volumes,
            nano_cpus=round(wish.cpus * 10**9) or None, mem_limit=wish.memory_bytes or None,
            memswap_limit=wish.memory_bytes or None, environment=state.environment, labels={"ratebed.run": state.token},
            log_config={"type": "json-file", "config": {"max-size": f"{LOG_MEGABYTES}m"}},
        )  # fmt: skip

    # --- agents ------------------------------------------------------------------------------------------

    def entering(self, command: Sequence[str]) -> list[str]:
        """The command as it runs in the container; the process keeps its id, its pipes and its environment.

        It enters the namespaces itself (and the control groups: ``groups.joining``), where ``docker exec`` would start
        it as a child of the daemon: so signals, probes, logs and the record of the run are those of any agent.  What
        the container's image does not have runs from our own file system, in the container's network.
        """
        enter = [tool("nsenter") or "nsenter", "--target", str(self.pid), "--net", "--uts", "--ipc"]
        words = list(command)
        if self.is_ours and all(os.path.lexists(f"/proc/{self.pid}/root{word}") for word in _programs(words)):
            enter.append("--mount")
            words = ["env", f"--chdir={CHECKOUT}", *words]
        return [*enter, "--", *words]

    def follow(self, log: Path) -> None:
        """From now on, what the container prints is in this file."""

        def copy() -> None:
            with log.open("ab", buffering=0) as file:
                for part in self._container.logs(stream=True, follow=True):
                    file.write(part)

        self._in_thread("log", copy)

    def _in_thread(self, what: str, follow: Callable[[], None]) -> None:
        def run() -> None:
            with suppress(Exception):  # the container is gone, or the disk is full
                follow()

        thread = threading.Thread(target=run, name=f"{what} of {self.host}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow_statistics(self) -> None:
        """The daemon sends them once a second; who asks for a single one waits as long."""
        for statistics in self._container.stats(stream=True, decode=True):
            self._statistics = statistics

    # --- what becomes of it ------------------------------------------------------------------------------

    def check_memory(self) -> bool:
        """Whether it was over its limit; the kernel kills one process for that, and we what is left of the host."""
        if self.is_out_of_memory or not self.wish.memory:
            return self.is_out_of_memory
        count = kills_count(self.groups.get("memory", self.groups.get("", Path())))
        if count is None:  # it has ended, and its group with it
            with suppress(Exception):
                self._container.reload()
                count = int(self._container.attrs["State"]["OOMKilled"])
        if count:
            self.is_out_of_memory = True
            self.kill()
        return self.is_out_of_memory

    def kill(self) -> None:
        """End it, with the agents in it."""
        for group in set(self.groups.values()):
            for pid in members(group):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with suppress(Exception):  # it has ended of that already
            self._container.kill()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        with suppress(Exception):
            self._container.reload()
            return bool(self._container.status == "running")
        return False

    def usage(self) -> list[tuple[str, float]]:
        """What Docker has counted of it since its start, a second ago at most: metric, value."""
        try:
            cpu, memory = self._statistics["cpu_stats"], self._statistics["memory_stats"]
            throttled = cpu["throttling_data"]
            rows = [
                ("container_cpu_ns", cpu["cpu_usage"]["total_usage"]),
                ("container_throttled_count", throttled["throttled_periods"]),
                ("container_throttled_ns", throttled["throttled_time"]),
                ("container_memory_bytes", memory["usage"]),
            ]
        except KeyError:  # it has not begun, or has ended
            return []
        return [(name, float(value)) for name, value in rows]

    def close(self) -> None:
        """Remove it; MachineError where the daemon refuses."""
        import docker

        try:
            if self._container is not None:
                self._container.remove(force=True, v=True)
        except docker.errors.NotFound:
            pass
        except (docker.errors.DockerException, OSError) as error:
            raise MachineError(f"the container of host {self.host} cannot be removed: {error}") from None
        for thread in self._threads:
            thread.join(END_S)
        self._state.gone(self._number)

    def _ended(self) -> str:
        code = self._container.attrs["State"]["ExitCode"]
        return f"the container of host {self.host} has ended at once (code {code})"

    def _last_lines(self) -> str:
        lines = self._container.logs(tail=PROBLEM_LINES).decode(errors="replace").split("\n")
        return " / ".join(filter(None, lines))[:300] or "it said nothing"


def image_of(daemon: Daemon, wish: Wish) -> Any:
    """The image of a host, made, loaded or fetched; MachineError where it is not to be had."""
    import docker

    images = daemon.client.images
    try:
        if not wish.image:
            return images.get(node_image(daemon.client))
        if wish.is_archive:
            with open(wish.image, "rb") as file:
                return images.load(file)[0]
        try:
            return images.get(wish.image)
        except docker.errors.ImageNotFound:
            if daemon.is_private:  # it has neither network nor images
                raise
            return images.pull(wish.image)
    except (docker.errors.DockerException, OSError) as error:
        if wish.is_archive and not Path(wish.image).is_file():
            raise SpecError(f"there is no image {wish.image}", "docker save NAME -o FILE.tar") from None
        text = f"no image {wish.image or 'of this system'}: {_said(error)}"
        fix = f"docker save {wish.image} -o FILE.tar and give that, or use --docker-daemon running"
        raise MachineError(text, fix if wish.image and daemon.is_private else "see what the daemon says") from None


def _programs(words: Sequence[str]) -> list[str]:
    """The words of a command that are programs here."""
    return [word for word in words if word.startswith("/") and os.path.isfile(word) and os.access(word, os.X_OK)]


def _hostname(host: str) -> str:
    """As a host's name may be."""
    return "".join(letter if letter.isalnum() else "-" for letter in host).strip("-")[:63]


def _said(error: BaseException) -> str:
    return str(getattr(error, "explanation", None) or error)[:300]


def _problem(error: Exception, what: str) -> Exception:
    if isinstance(error, MachineError | SpecError):
        return error
    return MachineError(f"{what}: {_said(error)}", "see what the daemon says")
