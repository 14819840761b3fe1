"""Hosts as containers, the Containernet way: Docker makes the machines, Mininet joins them.

Links, delays, faults and their checks are those of ``testbed.hosts.mininet``, unchanged.  Hosts may be mixed: what is
to be a namespace and no container says ``kind``.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Semaphore, Thread

from core.errors import HarnessError, MachineError
from core.files import loaded_files
from testbed.findings import Finding
from testbed.hosts.agent import Agent
from testbed.hosts.capabilities import probe_capabilities
from testbed.hosts.docker.container import Container, image_of
from testbed.hosts.docker.daemon import chosen, running_daemon, use_daemon
from testbed.hosts.docker.wishes import CONTAINER, Wish, read_wishes
from testbed.hosts.groups import joining
from testbed.hosts.mininet import site as mininet_site
from testbed.hosts.mininet.site import MininetSite
from testbed.hosts.site import Program, SiteWatch
from testbed.servers import SERVERS
from testbed.servers.found import load_server

AT_ONCE = 4  # containers that are being made
WATCH_EVERY_S = 0.2


def probe() -> list[Finding]:
    """What this testbed needs of the machine: what Mininet's does, and an engine to start, or one that runs."""
    mininet, answers = mininet_site.probe(), ""
    with suppress(Exception):
        daemon = running_daemon()
        answers = f"{daemon.url}, version {daemon.client.version()['Version']}"
    text = answers or "none is needed: runs start their own, unless --docker-daemon running"
    return [
        *(finding for finding in mininet if finding.needed),
        *probe_capabilities("docker-sdk"),
        *probe_capabilities("dockerd", "containerd", "runc", "unshare", needed=not answers),
        Finding("running daemon", bool(answers), text, needed=False),
        *(finding for finding in mininet if not finding.needed),
    ]


class DockerSite(MininetSite):
    """A topology in containers.  MachineError where the machine lacks something; a context manager.

    ``wishes``: what each machine is.
    """

    def _set_up(self) -> None:
        self.wishes = read_wishes(self.options, self.topology)
        self.containers: dict[str, Container] = {}
        self._daemon = use_daemon(chosen())
        self._done = Event()
        self._watcher = Thread(target=self._watch, name="memory of containers", daemon=True)
        super()._set_up()

    # --- agents ------------------------------------------------------------------------------------------

    def _prefix(self, host: str, is_limited: bool = True) -> Sequence[str]:
        """Into a container's limits: before what pins to cores, which joining a control group may undo.

        The container itself is entered behind that, for it may not have its programs: see ``start``.
        """
        if host not in self.containers:
            return super()._prefix(host, is_limited)
        return joining(self.containers[host].groups) if is_limited and self.network is not None else ()

    def start(self, host: str, program: Program) -> Agent:
        """See ``testbed.hosts.site.Site.start``."""
        container = self.containers.get(self.topology.host_of(host))
        if container is not None and self.network is not None:
            program = replace(program, command=container.entering(program.command))
        return super().start(host, program)

    # --- what becomes of the containers ------------------------------------------------------------------

    def watched(self) -> SiteWatch:
        """Containers, too; of an image that has a program of its own, that program: we have not started it."""
        foreign = [
            (f"container {host}", one.pid)
            for host, one in self.containers.items()
            if not one.is_ours or one.wish.command
        ]
        return SiteWatch(lambda: [*self.processes, *foreign], self._namespaces, self.usage)

    def usage(self) -> list[tuple[str, str, float]]:
        """What Docker counts of each container: (host, metric, value)."""
        return [(host, metric, value) for host, one in self.containers.items() for metric, value in one.usage()]

    def counters(self) -> list[tuple[str, str, float]]:
        """Those of links, and of each container its limits and whether it came to its end."""
        rows = super().counters()
        for host, container in self.containers.items():
            if container.wish.cpus:
                rows.append((host, "container_cpu_limit", container.wish.cpus))
            if container.wish.memory:
                rows.append((host, "container_memory_limit_bytes", float(container.wish.memory_bytes)))
            if container.check_memory():
                rows.append((host, "out_of_memory_count", 1.0))
            elif not container.alive:
                rows.append((f"container {host}", "alive_count", 0.0))
        return rows

    def explained(self, error: HarnessError) -> HarnessError:
        """See ``testbed.hosts.site.Site.explained``: what has happened to a host, so that its agents cannot go on."""
        full, ended = [], []
        for host, container in self.containers.items():
            if container.check_memory():
                full.append(f"host {host} was over its memory limit of {container.wish.memory} and was killed")
            elif not container.alive:
                ended.append(f"the container of host {host} has ended")
        cause = "; ".join(full + ended)
        if not cause or cause in error.what:
            return error
        return MachineError(f"{cause} ({error.what})", "see its log, or give it more (--set testbed.memory=…)")

    # --- inside ------------------------------------------------------------------------------------------

    def _holders(self) -> Mapping[str, int]:
        """Make the containers; their networks are empty then."""
        wishes = {host: wish for host, wish in self.wishes.items() if wish.kind == CONTAINER}
        images = {name: image_of(self._daemon, name) for name in {wish.image for wish in wishes.values()}}
        files = [self.folder, _compiled_folder(), self.memory, *loaded_files()]
        files += [path for name in SERVERS for path in load_server(name).folders if path.is_dir()]
        self._undo.callback(self._remove)

        slots, ended = Semaphore(AT_ONCE), Event()

        def make(host: str, wish: Wish) -> None:
            with slots:
                if not ended.is_set():
                    self.containers[host] = Container(self._daemon, host, wish, images[wish.image], self.state, files)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                list(pool.map(make, wishes, wishes.values()))
            except BaseException:  # none begins any more, and those that have begun are awaited:
                ended.set()
                for _ in range(AT_ONCE):  # a pool forgets the thread that it was just starting when Ctrl-C came
                    slots.acquire()
                slots.release(AT_ONCE)
                raise
        self.containers = {host: self.containers[host] for host in wishes}  # in their order again
        for host, container in self.containers.items():
            if not container.is_ours or container.wish.command:
                container.follow(self.folder / "logs" / f"container-{host}.log")
        self._watcher.start()
        return {host: container.pid for host, container in self.containers.items()}

    def _watch(self) -> None:
        """End hosts that were over their memory limit as soon as that shows, and not when the run is over."""
        while not self._done.wait(WATCH_EVERY_S):
            for container in self.containers.values():
                container.check_memory()

    def _remove(self) -> None:
        """Remove all containers, side by side; the first problem is raised at the end."""
        self._done.set()
        if self._watcher.is_alive():
            self._watcher.join()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for future in [pool.submit(container.close) for container in list(self.containers.values())]:
                future.result()


def _compiled_folder() -> Path:
    """Where Numba keeps what it has compiled: what one host's agents have compiled, the others find."""
    import numba

    import core.compiled  # noqa: F401  sets it

    folder = Path(numba.config.CACHE_DIR)  # type: ignore[attr-defined]
    folder.mkdir(parents=True, exist_ok=True)
    return folder
