"""The processes of a deployed limiter on the hosts of a live site, as its driver wants them."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from core.errors import MachineError
from systems.limiting.deployed import Cluster, Driver, Process, quota_of
from testbed.hosts.capabilities import Capability, of_programs
from testbed.hosts.site import Site
from testbed.nodes.planes import ServerAt
from testbed.servers.server import Placing, Server, ServerGroup, ServerProcess, ask_over, port_on, write_secretly
from testbed.servers.versions import version_of

START_S = 60.0  # five virtual machines of Java start at once, on few cores; HAProxys take 30 s to meet for good


class Driven(Server):
    """What a system's ``DRIVER`` says."""

    def __init__(self, driver: Driver, start_s: float = START_S):
        self.driver, self.name, self.start_s = driver, driver.key, start_s

    @property
    def programs(self) -> tuple[str, ...]:
        """See ``Server``."""
        return tuple(self.driver.programs)

    @property
    def capability(self) -> Capability:
        """See ``Server``."""
        return of_programs(self.name, self.driver.programs)

    @property
    def versions(self) -> Mapping[str, str]:
        """See ``Server``."""
        return {name: said for name, word in self.driver.versions.items() if (said := version_of(name, word))}

    def deploy(self, site: Site, placing: Placing) -> ServerGroup:
        """See ``Server``."""
        return _Processes(self.driver, site, placing, self.start_s)


class _Processes(ServerGroup):
    """They keep their ports and folders; what they are told is written anew at each start."""

    def __init__(self, driver: Driver, site: Site, placing: Placing, start_s: float):
        self.name, self._driver, self._site, self._start_s = driver.key, driver, site, start_s
        self._ports, self._down = dict[tuple[str, str, int], int](), set[str]()  # nodes whose processes were killed
        addresses = {node: site.address(node) for node in placing.nodes}
        self._cluster = Cluster(addresses, placing.main, placing.secret, self._port, self._folder)
        self._config, self._quota = placing.config, quota_of(placing.config)
        self._running = [(each, self._made(each)) for each in driver.servers(self._cluster, self._quota, self._config)]

    @property
    def processes(self) -> list[tuple[str, ServerProcess]]:
        return [(process.node, running) for process, running in self._running]

    def start(self, nodes: Sequence[str]) -> None:
        """Those of one name at once, and when they answer the next."""
        self._down.difference_update(nodes)
        there = [pair for pair in self._running if pair[0].node in nodes]
        for pairs in (list(group) for _, group in groupby(there, key=lambda pair: pair[0].name)):
            for process, running in pairs:
                for name, text in process.files.items():
                    write_secretly(self._site, process.node, self._site.folder / running.name / name, text)
                running.start()
            for process, running in pairs:
                running.wait_for(lambda: process.until in self._answer(process), self._start_s)  # noqa: B023

    def wait(self) -> None:
        """Until the driver calls them ready.  While some are down, there is no more to be had than answers."""
        until_s = time.monotonic() + self._start_s
        while not self._down and (missing := self._driver.ready(self._cluster, dict(self._answers()))):
            if time.monotonic() > until_s:
                raise MachineError(f"{self.name} is not ready: {missing}", f"see {self._site.folder}/logs")
            time.sleep(0.05)

    def kill(self, node: str) -> None:
        self._down.update({node} & {beside for beside, _ in self.processes})
        super().kill(node)

    def reached_from(self, node: str) -> ServerAt:
        entry = self._driver.entry(self._cluster, node, self._quota, self._config)
        return ServerAt(entry.address, entry.port, greeting=entry.greeting)

    def _made(self, process: Process) -> ServerProcess:
        where = self._site, self._site.topology.host_of(process.node), f"{process.name}-{process.node}"
        return ServerProcess(*where, lambda: process.command, process.environment, self._driver.programs)

    def _port(self, node: str, name: str, usual: int) -> int:
        if (node, name, usual) not in self._ports:
            self._ports[node, name, usual] = port_on(self._cluster.addresses[node], usual)
        return self._ports[node, name, usual]

    def _folder(self, node: str, name: str) -> str:
        return str(Path(self._site.place(node, self._site.folder / f"{name}-{node}" / "settings")).parent)

    def _answers(self) -> Iterator[tuple[str, bytes]]:
        """Of each process, by node and name; MachineError where one has ended."""
        for process, running in self._running:
            if not running.alive:
                raise MachineError(f"{running.name} has ended (code {running.exit_code})", running.see_log)
            answer = b""
            with suppress(OSError, MachineError):
                answer = self._answer(process)
            yield f"{process.node}/{process.name}", answer

    def _answer(self, process: Process) -> bytes:
        return ask_over(self._site, process.node, process.port, process.question, process.until)
