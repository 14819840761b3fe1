"""A machine of the inventory in use: its connection, what was brought to it, its keeper, its clock, its probes."""

import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collectors.probes import HARNESS, MACHINE
from collectors.rows import Sample
from core.errors import MachineError
from testbed.hosts.ssh.clock import ROUND_TRIPS, Offset, least
from testbed.hosts.ssh.connection import COMMAND_S, SshConnection
from testbed.hosts.ssh.inventory import Machine
from testbed.hosts.ssh.keeping import Keeping
from testbed.hosts.ssh.shipping import Shipped, q, script, ship

FILE_S = 120.0
PROMPT_S = 5.0
SILENCE_S = 30.0  # for so long a keeper waits for a word of ours


class RemoteHost:
    """Made in steps: connected, shipped, kept.  MachineError names the machine in each."""

    shipped: Shipped
    keeping: Keeping
    offset: Offset

    def __init__(self, machine: Machine):
        self.machine = machine
        self.connection = SshConnection(machine)
        self._run_folder = ""

    def ship(self, brokerd: Path | None, token: str) -> None:
        """Bring code, broker and environment."""
        self.shipped = ship(self.connection, brokerd, secrets.token_hex(4))
        self._run_folder = f"{self.shipped.folder}/run-{token}"

    def keep(self, token: str, silence_s: float = SILENCE_S) -> None:
        """Start the keeper, and measure the clock."""
        words = (
            f"exec {q(self.shipped.python)} -m testbed.hosts.ssh.keeper {q(self._run_folder)} {q(token)} {silence_s}"
        )
        self.keeping = Keeping(self.connection, script(f"cd {q(self.shipped.code)}; {self._path()} {words}"))
        has = self.keeping.ready["cores"]
        if has < self.machine.cores:
            self.keeping.close()
            what = f"it has {has} cores, the inventory says {self.machine.cores}"
            raise self.connection.wrong(what, "mend the inventory")
        self.offset = self.measured_offset()

    def clean_command(self) -> str:
        """What removes all that a keeper of this run has left, should it have been killed."""
        words = f"{q(self.shipped.python)} -m testbed.hosts.ssh.keeper --clean {q(self._run_folder)}"
        return script(f"cd {q(self.shipped.code)}; {self._path()} {words}")

    def place(self, relative: str) -> str:
        """What it calls a file of the run's folder."""
        return f"{self._run_folder}/{relative}"

    def put(self, relative: str, data: bytes) -> str:
        """Write a file there, whole or not at all; returns its path."""
        path = self.place(relative)
        self._check()
        folder, part = q(path.rpartition("/")[0]), q(f"{path}.part")
        text = f"umask 077; mkdir -p {folder}; cat > {part} || {{ rm -f {part}; exit 1; }}; mv {part} {q(path)}"
        self.connection.done(script(text), data, FILE_S)
        return path

    def fetch(self, relative: str) -> bytes:
        """Read a file there, and remove it."""
        self._check()
        path = q(self.place(relative))
        return self.connection.done(script(f"cat {path}; rm -f {path}"), timeout_s=FILE_S)

    def measured_offset(self) -> Offset:
        """Its clock against ours, now."""
        trips = []
        for _ in range(ROUND_TRIPS):
            sent_ns = time.time_ns()
            answer = self.keeping.ask("clock")
            trips.append((sent_ns, int(answer["at_ns"]), int(answer["came_ns"])))
        return least(trips)

    def answers(self) -> bool:
        """Whether its keeper says something at once."""
        try:
            self.keeping.ask("clock", PROMPT_S)
        except MachineError:
            return False
        return True

    def disconnect(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _path(self) -> str:
        return f"PYTHONPATH={q(self.shipped.code)} PYTHONDONTWRITEBYTECODE="

    def _check(self) -> None:
        if self.keeping.lost:
            raise self.connection.wrong(f"it is lost: {self.keeping.lost}", "is it up?")


class RemoteSeen:
    """``collectors.probes.Seen`` of a machine: its keeper's probes, asked when somebody wants to know."""

    def __init__(self, remote: RemoteHost):
        self._remote = remote
        self._step_ns = 0

    def samples(self, epoch_ns: int) -> list[Sample]:
        """By our clock; rows of the machine itself bear its name.  None of one that is lost meanwhile."""
        answer = self._asked(rows=True)
        name, shift_ns = self._remote.machine.name, self._remote.offset.offset_ns + epoch_ns
        own = {MACHINE: name, HARNESS: f"keeper-{name}"}
        rows = answer["rows"] if answer else ()
        return [(at_ns - shift_ns, own.get(node, node), metric, value) for at_ns, node, metric, value in rows]

    def busy_share(self, from_ns: int = 0, until_ns: int | None = None) -> float | None:
        """See ``Seen``."""
        return self._share(0, from_ns, until_ns)

    def steal_share(self, from_ns: int = 0, until_ns: int | None = None) -> float | None:
        """See ``Seen``."""
        return self._share(1, from_ns, until_ns)

    @property
    def clock_step_ns(self) -> int:
        """See ``Seen``."""
        answer = self._asked()
        return int(answer["clock_step_ns"]) if answer else 0

    def _share(self, which: int, from_ns: int, until_ns: int | None) -> float | None:
        offset_ns = self._remote.offset.offset_ns
        span = [from_ns + offset_ns, None if until_ns is None else until_ns + offset_ns]
        answer = self._asked([span])
        return answer["shares"][0][which] if answer else None

    def _asked(self, spans_ns: Sequence[Any] = (), rows: bool = False) -> dict[str, Any] | None:
        try:
            return self._remote.keeping.ask("seen", COMMAND_S, spans_ns=list(spans_ns), rows=rows)
        except MachineError:
            return None
