"""The processes of a deployed limiter on the hosts of a live site, as its driver wants them."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from core.errors import MachineError
from systems.limiting.deployed import Cluster, Driver, Process, quota_of
from testbed.hosts.capabilities import Capability, tool
from testbed.hosts.site import Site
from testbed.nodes.planes import ServerAt
from testbed.servers.server import Deployment, Placing, Server, ServerProcess, ask_over, port_on
from testbed.servers.versions import version_of

START_S = 20.0  # five virtual machines of Java start at once, on few cores
_LOOK_AGAIN_S = 0.05


class Driven(Server):
    """What a system's ``DRIVER`` says."""

    def __init__(self, driver: Driver):
        self.driver, self.name = driver, driver.key

    @property
    def programs(self) -> tuple[str, ...]:
        """See ``Server``."""
        return tuple(self.driver.programs)

    @property
    def capability(self) -> Capability:
        """See ``Server``: all its programs, and how to get the first that is missing."""
        programs = self.driver.programs
        missing = [name for name in programs if tool(name) is None]
        fix = programs[missing[0]] if missing else ""
        return Capability(self.name, lambda: not missing and tool([*programs][-1]), fix)

    @property
    def versions(self) -> Mapping[str, str]:
        """See ``Server``."""
        said = {name: version_of(name, word) for name, word in self.driver.versions.items()}
        return {name: version for name, version in said.items() if version}

    def deploy(self, site: Site, placing: Placing) -> "DrivenServers":
        """See ``Server``."""
        return DrivenServers(self.driver, site, placing)


class DrivenServers(Deployment):
    """They keep their ports and folders; what they are told is written anew at each start."""

    def __init__(self, driver: Driver, site: Site, placing: Placing):
        self.name = driver.key
        self._driver, self._site, self._config = driver, site, placing.config
        self._ports: dict[tuple[str, str, int], int] = {}
        self._down = set[str]()  # nodes
        addresses = {node: site.address(node) for node in placing.nodes}
        self._cluster = Cluster(addresses, placing.main, placing.secret, self._port, self._folder)
        self._quota = quota_of(placing.config)
        told = driver.servers(self._cluster, self._quota, self._config)
        self._running = [(process, self._made(process)) for process in told]

    @property
    def processes(self) -> list[tuple[str, ServerProcess]]:
        """See ``Deployment``."""
        return [(process.node, running) for process, running in self._running]

    def start(self, nodes: Sequence[str]) -> None:
        """See ``Deployment``: those of one name at once, and when they answer the next."""
        self._down.difference_update(nodes)
        for _, group in groupby(self._of(nodes), key=lambda pair: pair[0].name):
            pairs = list(group)
            for process, running in pairs:
                self._write(process)
                running.start()
            for process, running in pairs:
                self._wait_for(process, running)

    def wait(self) -> None:
        """Until the driver calls them ready; MachineError says what it misses.

        While some are down, that those answer which were started is all that can be had.
        """
        if self._down:
            return
        until_s = time.monotonic() + START_S
        while missing := self._driver.ready(self._cluster, self._answers()):
            if time.monotonic() > until_s:
                raise MachineError(f"{self.name} is not ready: {missing}", f"see {self._site.folder}/logs")
            time.sleep(_LOOK_AGAIN_S)

    def kill(self, node: str) -> None:
        """See ``Deployment``."""
        self._down.add(node)
        for _, running in self._of([node]):
            running.kill()

    def stop(self) -> None:
        """See ``Deployment``: all are told before one is waited for."""
        for _, running in self._running:
            running.terminate()
        for _, running in reversed(self._running):
            running.stop()

    def reached_from(self, node: str) -> ServerAt:
        """See ``Deployment``."""
        entry = self._driver.entry(self._cluster, node, self._quota, self._config)
        return ServerAt(entry.address, entry.port, greeting=entry.greeting)

    def _of(self, nodes: Sequence[str]) -> Iterator[tuple[Process, ServerProcess]]:
        return (pair for pair in self._running if pair[0].node in nodes)

    def _made(self, process: Process) -> ServerProcess:
        host, name = self._site.topology.host_of(process.node), f"{process.name}-{process.node}"
        return ServerProcess(self._site, host, name, lambda: process.command, process.environment)

    def _port(self, node: str, name: str, usual: int) -> int:
        return self._ports.setdefault((node, name, usual), port_on(self._cluster.addresses[node], usual))

    def _folder(self, node: str, name: str) -> str:
        return str(Path(self._site.place(node, self._site.folder / f"{name}-{node}" / "settings")).parent)

    def _write(self, process: Process) -> None:
        """Its files, for its user alone: there may be the secret in them."""
        for name, text in process.files.items():
            file = self._site.folder / f"{process.name}-{process.node}" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)
            file.write_text(text)
            self._site.put(process.node, file)

    def _wait_for(self, process: Process, running: ServerProcess) -> None:
        try:
            running.wait_for(lambda: process.until in self._answer(process), START_S)
        except MachineError as error:
            if running.exit_code == ServerProcess.NO_PROGRAM:
                program = process.command[0]
                fix = self._driver.programs.get(program, "install it")
                raise MachineError(f"{running.host} has no {program}", fix) from error
            raise

    def _answers(self) -> Mapping[str, bytes]:
        """Of each process; MachineError where one has ended."""
        answers: dict[str, bytes] = {}
        for process, running in self._running:
            if not running.alive:
                raise MachineError(f"{running.name} has ended (code {running.exit_code})", running.see_log)
            key = f"{process.node}/{process.name}"
            answers[key] = b""
            with suppress(OSError, MachineError):
                answers[key] = self._answer(process)
        return answers

    def _answer(self, process: Process) -> bytes:
        return ask_over(self._site, process.node, process.port, process.question, process.until)
