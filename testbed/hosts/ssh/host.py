"""A machine of the inventory in use: its connection, what was brought to it, its keeper, its clock, its probes."""

import secrets
import shlex
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from collectors.probes import HARNESS, MACHINE
from core.errors import MachineError
from core.records import Json, Sample
from testbed.hosts.ssh.connection import SshConnection
from testbed.hosts.ssh.inventory import Machine
from testbed.hosts.ssh.keeping import Keeping
from testbed.hosts.ssh.shipping import Shipped, script, ship

FILE_S = 120.0
FILE_BYTES = 4 << 30  # of one that comes back, records for the most part (ours)
SEEN_S = 120.0  # of what a long run's probes have seen, megabytes
PROMPT_S = 5.0
SILENCE_S = 30.0  # for so long a keeper waits for a word of ours
ROUND_TRIPS = 60


@dataclass(frozen=True)
class Offset:
    """The other's clock less ours, in ns; it is certain to ``doubt_ns`` either way: half of the round trip."""

    offset_ns: int
    doubt_ns: int

    def doubt_until_ns(self, later: "Offset") -> int:
        """How wrong this offset may be at any instant until ``later`` was measured, if the clocks drift evenly."""
        return max(self.doubt_ns, abs(later.offset_ns - self.offset_ns) + later.doubt_ns)


def least(round_trips: Iterable[tuple[int, int, int]]) -> Offset:
    """What the shortest of (sent, the other's instant, answered) shows: it is the least wrong (NTP's way)."""
    sent_ns, there_ns, came_ns = min(round_trips, key=lambda trip: trip[2] - trip[0])
    return Offset(there_ns - (sent_ns + came_ns) // 2, (came_ns - sent_ns + 1) // 2)


class RemoteHost:
    """Made in steps: connected, shipped, kept.  MachineError names the machine in each.

    It is a ``collectors.probes.Seen``, too: its keeper's probes, asked when somebody wants to know.
    """

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
        self.keeping = Keeping(self.connection, self._keeper(self._run_folder, token, str(silence_s)))
        has = self.keeping.ready["cores"]
        if has < self.machine.cores:
            self.keeping.close()
            what = f"it has {has} cores, the inventory says {self.machine.cores}"
            raise self.connection.wrong(what, "mend the inventory")
        self.offset = self.measured_offset()

    def clean_command(self) -> str:
        """What removes all that a keeper of this run has left, should it have been killed."""
        return self._keeper("--clean", self._run_folder)

    def _keeper(self, *words: str) -> str:
        command = shlex.join([self.shipped.python, "-m", "testbed.hosts.ssh.keeper", *words])
        code = quote(self.shipped.code)
        return script(f"cd {code}; PYTHONPATH={code} PYTHONDONTWRITEBYTECODE= exec {command}")

    def place(self, relative: str) -> str:
        """What it calls a file of the run's folder."""
        return f"{self._run_folder}/{relative}"

    def put(self, relative: str, data: bytes) -> str:
        """Write a file there, whole or not at all; returns its path."""
        path = self.place(relative)
        self._check()
        folder, part = quote(path.rpartition("/")[0]), quote(f"{path}.part")
        text = f"umask 077; mkdir -p {folder}; cat > {part} || {{ rm -f {part}; exit 1; }}; mv {part} {quote(path)}"
        self.connection.done(script(text), data, FILE_S)
        return path

    def fetch(self, relative: str) -> bytes:
        """Read a file there, and remove it."""
        self._check()
        path = quote(self.place(relative))
        return self.connection.done(script(f"cat {path}; rm -f {path}"), timeout_s=FILE_S, most_bytes=FILE_BYTES)

    def measured_offset(self) -> Offset:
        """Its clock against ours, now."""
        trips = []
        for _ in range(ROUND_TRIPS):
            sent_ns = time.time_ns()
            answer = self.keeping.ask("clock")
            trips.append((sent_ns, answer["at_ns"], answer["came_ns"]))
        return least(trips)

    def answers(self) -> bool:
        """Whether its keeper says something at once."""
        try:
            self.keeping.ask("clock", PROMPT_S)
        except MachineError:
            return False
        return True

    def _check(self) -> None:
        if self.keeping.lost:
            raise self.connection.wrong(f"it is lost: {self.keeping.lost}", "is it up?")

    # --- what its keeper has seen ----------------------------------------------------------------------------

    def samples(self, epoch_ns: int) -> list[Sample]:
        """By our clock; rows of the machine itself bear its name.  None of one that is lost meanwhile."""
        name, shift_ns = self.machine.name, self.offset.offset_ns + epoch_ns
        own = {MACHINE: name, HARNESS: f"keeper-{name}"}
        rows = self._seen(rows=True).get("rows", ())
        return [(at_ns - shift_ns, own.get(node, node), metric, value) for at_ns, node, metric, value in rows]

    def busy_share(self, from_ns: int = 0, until_ns: int | None = None) -> float | None:
        """See ``Seen``."""
        return self._shares(from_ns, until_ns)[0]

    def steal_share(self, from_ns: int = 0, until_ns: int | None = None) -> float | None:
        """See ``Seen``."""
        return self._shares(from_ns, until_ns)[1]

    @property
    def clock_step_ns(self) -> int:
        """See ``Seen``."""
        return int(self._seen().get("clock_step_ns", 0))

    def _shares(self, from_ns: int, until_ns: int | None) -> tuple[float | None, float | None]:
        offset_ns = self.offset.offset_ns
        span = (from_ns + offset_ns, None if until_ns is None else until_ns + offset_ns)
        busy, steal = self._seen(span).get("shares", (None, None))
        return busy, steal

    def _seen(self, span_ns: tuple[int, int | None] = (0, 0), rows: bool = False) -> Json:
        """Nothing of one that is lost, which is told elsewhere; MachineError where one that is there does not say."""
        try:
            return self.keeping.ask("seen", SEEN_S, span_ns=span_ns, rows=rows)
        except MachineError:
            if self.keeping.lost:
                return {}
            raise
