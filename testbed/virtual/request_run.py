"""Runs a limiter on a request workload in virtual time."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import SpecError
from core.records import Request
from core.registry import hint
from core.seeds import child_seed
from systems.api import Node, System
from testbed.faults import Fault
from testbed.topology import Topology
from testbed.virtual.network import Network
from testbed.virtual.scheduler import DataPlane, EventLoop, Journal

LOST = "lost"  # a request without a verdict


def event_loop(
    system: System,
    config: Any,
    topology: Topology,
    names: Sequence[str],
    seed: int,
    plane: DataPlane | None = None,
    keep_steps: bool = False,
    start_ns: int = 0,
) -> EventLoop:
    """The loop for ``system.nodes(names, ...)`` on ``topology``; a restarted node has a seed of its own.

    SpecError where the topology has no place for a node, or the system has none.
    """
    make = system.nodes
    if make is None:
        raise SpecError(f"system {system.key} has no nodes", "it distributes publishers; run it as a distributor")

    def boot(restart: int) -> dict[str, Node]:
        return make(list(names), config, child_seed(seed, "nodes", restart) >> 1)

    network = Network(topology, seed, system.transport)
    return EventLoop(boot, network, system.messages, plane, keep_steps, start_ns)


@dataclass(frozen=True)
class NodeSummary:
    """Requests of one node: how many were offered to it, and what became of them."""

    offered_count: int
    admitted_count: int
    rejected_count: int
    lost_count: int


@dataclass(frozen=True)
class RequestJournal:
    """What a request run showed, as columns of the tables in ``collectors.schema`` (without ``run_id``)."""

    journal: Journal

    def requests(self) -> dict[str, list[Any]]:
        """Columns of ``requests``, in the order offered; ``node`` is the one that the user asked."""
        rows = []
        for node, request in self.journal.offered.values():
            decided_at_ns, _, verdict = self.journal.verdicts.get(request.id, (None, None, None))
            decision = verdict.value if verdict else LOST
            rows.append((node, request.user, request.id, request.at_ns, decided_at_ns, decision))
        return _columns(("node", "user", "request_id", "intended_at_ns", "decided_at_ns", "decision"), rows)

    def samples(self) -> dict[str, list[Any]]:
        """Columns of ``samples``."""
        return _columns(("at_ns", "node", "metric", "value"), self.journal.samples)

    def summary(self) -> dict[str, NodeSummary]:
        """Per node, counts of its requests."""
        requests = self.requests()
        counts = Counter(zip(requests["node"], requests["decision"], strict=True))
        found = {}
        for node in sorted(set(requests["node"])):
            admitted, rejected, lost = (counts[node, decision] for decision in ("admit", "reject", LOST))
            found[node] = NodeSummary(admitted + rejected + lost, admitted, rejected, lost)
        return found


def run_requests(
    system: System,
    config: Any,
    topology: Topology,
    requests: Mapping[str, Sequence[Request]],
    duration_ns: int,
    seed: int,
    faults: Iterable[Fault] = (),
) -> RequestJournal:
    """Offer ``requests`` (node -> requests in order of time) to the system's nodes, one on each node of ``topology``.

    Events up to ``duration_ns`` are handled; a request without a verdict by then is lost.
    """
    names = topology.node_names()
    for node in requests:
        if node not in names:
            raise SpecError(f"requests for {node!r}, which topology {topology.name} lacks", hint(node, names))
    loop = event_loop(system, config, topology, names, seed)
    for node, offered in requests.items():
        loop.offer(node, offered)
    loop.fail(faults)
    return RequestJournal(loop.run(duration_ns))


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}
