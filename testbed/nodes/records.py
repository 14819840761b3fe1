"""What a node's process writes down: JSON lines, appended while it runs, read by the harness afterwards."""

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from core import errors
from core.errors import HarnessError, MachineError
from core.units import MILLISECOND_NS
from systems.api import Verdict
from testbed.hosts.loop import Loop

_FLUSH_NS = 100 * MILLISECOND_NS


class Recorder:
    """Appends rows to a file, every 100 ms what is new; the file survives its writer's death."""

    def __init__(self, loop: Loop, path: Path):
        self._loop, self._lines = loop, [""]
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        self._planned = False

    def add(self, kind: str, *row: object) -> None:
        """A row of one of the kinds that ``read_records`` knows; numbers and text."""
        self._lines.insert(-1, json.dumps([kind, *row]))
        if not self._planned:
            self._planned = True
            self._loop.call_at(time.monotonic_ns() + _FLUSH_NS, self.flush)

    def flush(self) -> None:
        """Write all there is, in one piece if the disk takes it so."""
        data, self._lines, self._planned = "\n".join(self._lines).encode(), [""], False
        while data:
            data = data[os.write(self._descriptor, data) :]


@dataclass
class NodeRecords:
    """The rows of a node's processes, one after another."""

    samples: list[tuple[int, str, float]] = field(default_factory=list)
    verdicts: list[tuple[int, int, Verdict, bool]] = field(default_factory=list)  # at_ns, request id, …, unanswered
    commands: list[tuple[int, str]] = field(default_factory=list)  # to data planes that are not there
    fault: HarnessError | None = None  # why the node ended


def read_records(paths: Iterable[Path]) -> NodeRecords:
    """Everything in some files; the last line of one may be torn, where its writer was killed, or there is no file."""
    records = NodeRecords()
    for path in paths:
        for line in path.read_text().split("\n")[:-1] if path.exists() else ():
            match json.loads(line):
                case ["sample", *row]:
                    records.samples.append(tuple(row))
                case ["command", *row]:
                    records.commands.append(tuple(row))
                case ["verdict", at_ns, request_id, verdict, is_unanswered]:
                    records.verdicts.append((at_ns, request_id, Verdict(verdict), is_unanswered))
                case ["fault", name, what, fix]:
                    records.fault = records.fault or getattr(errors, name, MachineError)(what, fix)
    return records
