"""One host as a container, made, limited, watched and removed through Docker's SDK."""

import os
import re
import shlex
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import MachineError, SpecError
from core.records import Json
from testbed.hosts.capabilities import CHECKOUT, tool
from testbed.hosts.docker.daemon import Daemon
from testbed.hosts.docker.image import CODE_LABEL, code_key, node_image
from testbed.hosts.docker.wishes import ARCHIVE, Wish
from testbed.hosts.groups import groups_of, kill_members, kills_count
from testbed.hosts.state import RunState

if TYPE_CHECKING:
    from docker.models.containers import Container as _Container
    from docker.models.images import Image

RUN_LABEL = "ratebed.run"  # of a container: the token of its run
LOG_MEGABYTES = 10  # that a daemon keeps of a container's output
PROBLEM_LINES = 3
END_S = 5.0
SETTLE_S = 0.3  # a server that cannot run has mostly ended by then


class Container:
    """A container that runs.  MachineError where its image is missing, or where it ends at once.

    It has no network but its loopback: the links are somebody else's.  ``shared``: the run's folder and other places
    that containers of our image have at the same path.
    """

    _container: "_Container"  # the SDK's; none before it is made

    def __init__(self, daemon: Daemon, host: str, wish: Wish, image: "Image", state: RunState, shared: Sequence[Path]):
        self.host, self.wish, self._image, self._state = host, wish, image, state
        self.is_out_of_memory = False
        self._threads: list[threading.Thread] = []  # that end with it
        self._statistics: Json = {}  # the latest
        code = (image.labels or {}).get(CODE_LABEL, "")
        self.is_ours = bool(code)
        if code and code != code_key():
            raise MachineError(f"image {wish.image} has another state of this code", "build it anew: testbed/README.md")
        self._daemon, self._name = daemon, f"ratebed-{state.tag}-{host}"
        self._may_come = False  # after this: the daemon was asked, and has not answered
        self._number = state.making("container", name=self._name, daemon=daemon.url, private=daemon.is_private)
        try:
            self._container = container = self._create(shared)
            state.made(self._number, id=container.id)
            container.start()
            if wish.command or not self.is_ours:
                time.sleep(SETTLE_S)
            container.reload()
            self.pid: int = container.attrs["State"]["Pid"]
            if not self.pid:
                lines = container.logs(tail=PROBLEM_LINES).decode(errors="replace").split("\n")
                said = " / ".join(filter(None, lines))[:300] or "it said nothing"
                ended = f"the container of host {host} has ended at once (code {container.attrs['State']['ExitCode']})"
                raise MachineError(f"{ended}: {said}", f"give it a command: testbed.{host}.command")
        except Exception as error:
            self._abandon(error)
            if isinstance(error, MachineError):
                raise
            raise MachineError(f"no container for host {host}: {_said(error)}", "see what the daemon says") from None
        self.groups = groups_of(self.pid)
        self._in_thread("statistics", self._follow_statistics)

    def _create(self, shared: Sequence[Path]) -> "_Container":
        wish = self.wish
        hostname = re.sub(r"[^0-9A-Za-z]", "-", self.host).strip("-")[:63]
        volumes = {str(path): {"bind": str(path), "mode": "rw"} for path in shared} if self.is_ours else {}
        # Our own containers share our process ids: agents in them have the same ones there and here, and /proc is
        # right for both.  Others have ids of their own, as their servers expect.
        return self._daemon.client.containers.create(
            self._image.id, shlex.split(wish.command) or None, name=self._name, hostname=hostname,
            network_mode="none", pid_mode="host" if self.is_ours else None, volumes=volumes,
            nano_cpus=round(wish.cpus * 10**9) or None, mem_limit=wish.memory_bytes or None,
            memswap_limit=wish.memory_bytes or None, environment=self._state.environment,
            labels={RUN_LABEL: self._state.token},
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
        programs = [word for word in command if word.startswith("/") and shutil.which(word)]
        if self.is_ours and all(os.path.lexists(f"/proc/{self.pid}/root{program}") for program in programs):
            enter += ["--mount", "--", "env", f"--chdir={CHECKOUT}"]
        else:
            enter += ["--"]
        return [*enter, *command]

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
            for group in set(self.groups.values()):  # the agents in it, too
                kill_members(group)
            with suppress(Exception):  # it has ended of that already
                self._container.kill()
        return self.is_out_of_memory

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

        is_gone = not self._may_come
        try:
            self._remove()
            is_gone = True
        except docker.errors.NotFound:
            pass
        except (docker.errors.DockerException, OSError) as error:
            raise MachineError(f"the container of host {self.host} cannot be removed: {error}") from None
        for thread in self._threads:
            thread.join(END_S)
        if is_gone:
            self._state.gone(self._number)

    def _remove(self) -> None:
        """By its name where nobody has told its id; one of that name may be another run's, with the same tag."""
        if hasattr(self, "_container"):
            self._container.remove(force=True, v=True)
            return
        container = self._daemon.client.containers.get(self._name)
        if container.labels.get(RUN_LABEL) == self._state.token:
            container.remove(force=True, v=True)

    def _abandon(self, error: Exception) -> None:
        """Remove what there is of it; where that cannot be done now, it stays on record, and the first error counts."""
        import docker

        is_answered = hasattr(self, "_container") or isinstance(error, docker.errors.APIError)
        self._may_come = not is_answered and isinstance(error, OSError)
        with suppress(MachineError):
            self.close()


def image_of(daemon: Daemon, name: str) -> "Image":
    """The image of a host, made, loaded or fetched (see ``Wish``); MachineError where it is not to be had."""
    import docker

    images = daemon.client.images
    try:
        if not name:
            return images.get(node_image(daemon.client))
        if name.endswith(ARCHIVE):
            with open(name, "rb") as file:
                return images.load(file)[0]
        try:
            return images.get(name)
        except docker.errors.ImageNotFound:
            if daemon.is_private:  # it has neither network nor images
                raise
            return images.pull(name)
    except FileNotFoundError:
        raise SpecError(f"there is no image {name}", "docker save NAME -o FILE.tar") from None
    except (docker.errors.DockerException, OSError) as error:
        text = f"no image {name or 'of this system'}: {_said(error)}"
        fix = f"docker save {name} -o FILE.tar and give that, or use --docker-daemon running"
        raise MachineError(text, fix if name and daemon.is_private else "see what the daemon says") from None


def _said(error: BaseException) -> str:
    return str(getattr(error, "explanation", None) or error)[:300]
