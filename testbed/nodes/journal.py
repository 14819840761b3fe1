"""What happened in a run of nodes, in order: requests, verdicts, samples, commands, faults, and every step if asked."""

from dataclasses import dataclass, field

from core.records import Request
from systems.api import Step, Verdict
from testbed.faults import Fault


@dataclass
class NodeJournal:
    """Everything that happened, in order."""

    offered: dict[int, tuple[str, Request]] = field(default_factory=dict)  # request id -> (node, request)
    verdicts: dict[int, tuple[int, str, Verdict]] = field(default_factory=dict)  # request id -> (at_ns, node, verdict)
    samples: list[tuple[int, str, str, float]] = field(default_factory=list)  # (at_ns, node, metric, value)
    commands: list[tuple[int, str, object]] = field(default_factory=list)  # (at_ns, node, command)
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)  # on request
