"""What a node's process writes down: JSON lines, appended while it runs, read by the harness afterwards."""

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core import errors
from core.errors import HarnessError, MachineError
from core.units import MILLISECOND_NS
from systems.api import Decide, Verdict
from testbed.hosts.loop import Loop

_FLUSH_NS = 100 * MILLISECOND_NS


class Recorder:
    """Appends rows to a file, every 100 ms what is new; the file survives its writer's death."""

    def __init__(self, loop: Loop, path: Path):
        self._loop, self._lines = loop, [""]
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        self._planned = False

    def sample(self, at_ns: int, metric: str, value: float) -> None:
        """A row of ``samples``."""
        self._add("sample", at_ns, metric, value)

    def verdict(self, at_ns: int, decision: Decide) -> None:
        """A verdict on a request that another node handed on."""
        self._add("verdict", at_ns, decision.request_id, decision.verdict.value, decision.unanswered)

    def command(self, at_ns: int, command: Any) -> None:
        """A command to a data plane that is not there."""
        self._add("command", at_ns, repr(command))

    def fault(self, error: HarnessError) -> None:
        """Why the node ended."""
        self._add("fault", type(error).__name__, error.what, error.fix)

    def flush(self) -> None:
        """Write all there is, in one piece."""
        data, self._lines, self._planned = "\n".join(self._lines).encode(), [""], False
        os.write(self._descriptor, data)

    def _add(self, *row: Any) -> None:
        self._lines.insert(-1, json.dumps(row))
        if not self._planned:
            self._planned = True
            self._loop.call_at(time.monotonic_ns() + _FLUSH_NS, self.flush)


@dataclass
class NodeRecords:
    """The rows of a node's processes, one after another."""

    samples: list[tuple[int, str, float]] = field(default_factory=list)
    verdicts: list[tuple[int, int, Verdict, bool]] = field(default_factory=list)  # at_ns, request id, …, unanswered
    commands: list[tuple[int, str]] = field(default_factory=list)
    fault: HarnessError | None = None


def read_records(path: Path) -> NodeRecords:
    """Everything in a file; the last line may be torn, where its writer was killed.  Empty if there is no file."""
    records = NodeRecords()
    if not path.exists():
        return records
    for line in path.read_text().split("\n")[:-1]:
        kind, *row = json.loads(line)
        match kind:
            case "sample":
                records.samples.append(tuple(row))
            case "verdict":
                records.verdicts.append((row[0], row[1], Verdict(row[2]), row[3]))
            case "command":
                records.commands.append(tuple(row))
            case "fault":
                name, what, fix = row
                records.fault = getattr(errors, name, MachineError)(what, fix)
    return records
