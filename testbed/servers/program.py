"""Any server program that is told by a file, or by words, where to listen, and that answers bytes with bytes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import MachineError
from testbed.hosts.capabilities import Capability, tool
from testbed.hosts.site import Site
from testbed.nodes.planes import ServerAt
from testbed.servers.server import (
    LOOPBACK,
    RunningServer,
    ServerProcess,
    SingleServer,
    ask_over,
    port_on,
    write_secretly,
)

START_S = 10.0
_PORTS = 5  # tried one after another, where somebody else has the first


@dataclass(frozen=True)
class Spot:
    """Where one server is to run, as its host calls things."""

    address: str  # where nodes come from; the harness comes over the loopback
    port: int
    secret: str
    folder: str  # its own
    settings: str  # the file with ``ServerProgram.settings``, for its user alone

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it is to listen."""
        return tuple(dict.fromkeys((self.address, LOOPBACK)))


@dataclass(frozen=True)
class ServerProgram(SingleServer):
    """A server as text and bytes.

    It is up when it answers ``question`` with what contains ``expected``.
    """

    name: str
    program: str  # its name on the PATH of a host
    fix: str  # the command that installs it
    port: int  # its usual one
    words: Callable[[Spot], Sequence[str]]  # the program's arguments
    question: Callable[[Spot], bytes]
    expected: bytes
    settings: Callable[[Spot], str] = lambda spot: ""  # what its file of settings holds

    @property
    def programs(self) -> tuple[str, ...]:
        """See ``Server``."""
        return (self.program,)

    @property
    def capability(self) -> Capability:
        """See ``Server``."""
        return Capability(self.name.capitalize(), lambda: tool(self.program), self.fix)

    def beside(self, site: Site, node: str, secret: str) -> "RunningProgram":
        """See ``Server``."""
        return RunningProgram(self, site, node, secret)


class RunningProgram(RunningServer):
    """One such server.  It keeps its port once it has answered there."""

    def __init__(self, program: ServerProgram, site: Site, node: str, secret: str):
        self.program, self._site, self._secret = program, site, secret
        self._host, self._address = site.topology.host_of(node), site.address(node)
        self._port, self._begun_s = port_on(self._address, program.port), 0
        self._file = site.folder / f"{program.name}-{node}" / "settings"
        fixes = {program.program: program.fix}
        self.process = ServerProcess(site, self._host, f"{program.name}-{node}", self._command, fixes=fixes)

    def wait(self, timeout_s: float = START_S) -> None:
        """Until it answers; before it has done so once, it is tried on other ports as well."""
        for ports_left in reversed(range(_PORTS)):
            try:
                self.process.wait_for(self._answers, timeout_s)
                self._begun_s = self._begun_s or int(time.time())
                return
            except MachineError:
                is_running, code = self.process.alive, self.process.exit_code
                self.process.stop()
                if code == ServerProcess.NO_PROGRAM or self._begun_s or is_running or not ports_left:
                    raise
            self._port = port_on(self._address, self._port + 1)
            self.process.start()

    def reached_at(self) -> ServerAt:
        """See ``RunningServer``."""
        return ServerAt(self._address, self._port, self._secret, self._begun_s)

    def ask(self, question: bytes, expected: bytes) -> bytes:
        """What it answers, until that contains ``expected`` or nothing more comes."""
        return ask_over(self._site, self._host, self._port, question, expected)

    def _answers(self) -> bool:
        program = self.program
        return program.expected in self.ask(program.question(self._spot("")), program.expected)

    def _spot(self, settings: str) -> Spot:
        return Spot(self._address, self._port, self._secret, str(Path(settings).parent), settings)

    def _command(self) -> list[str]:
        spot = self._spot(self._site.place(self._host, self._file))
        write_secretly(self._site, self._host, self._file, self.program.settings(spot))
        return [self.program.program, *self.program.words(spot)]
