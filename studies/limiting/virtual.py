"""Runs a limiter on a request workload in virtual time."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.errors import SpecError
from core.records import Request
from core.registry import hint
from core.seeds import generator
from core.units import SECOND_NS
from systems.api import System
from testbed.faults import Fault
from testbed.nodes.journal import Journal
from testbed.topologies.topology import Topology
from testbed.trust.evidence import NOTHING, Evidence
from testbed.trust.replicas import replica_rows
from testbed.virtual.boot import event_loop
from testbed.virtual.scheduler import EventLoop

LOST = "lost"  # a request without a verdict
SETTLE_NS = 5 * SECOND_NS  # for late verdicts of nodes that do not say whether they are idle


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
    evidence: Evidence = field(default=NOTHING, kw_only=True)  # of the testbed; virtual time has none to give

    def requests(self) -> dict[str, list[Any]]:
        """Columns of ``requests``, in the order offered; ``node`` is the one that the user asked."""
        rows = []
        for node, request in self.journal.offered.values():
            decided_at_ns, _, verdict = self.journal.verdicts.get(request.id, (None, None, None))
            decision = verdict.value if verdict else LOST
            rows.append((node, request.user, request.id, request.cost, request.at_ns, decided_at_ns, decision))
        names = ("node", "user", "request_id", "cost", "intended_at_ns", "decided_at_ns", "decision")
        return _columns(names, rows)

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
    drain_ns: int = 0,
    clock_skew_ns: int = 0,
    compare_replicas: bool = False,
) -> RequestJournal:
    """Offer ``requests`` (node -> requests in order of time) to the system's nodes, one on each node of ``topology``.

    Events up to ``duration_ns`` are handled, and then up to ``drain_ns`` longer: until all nodes are
    idle with nothing under way (thesis 4.3.1), or for 5 s where nodes do not say.  A request without
    a verdict by then is lost.  Each node's clock is off by a uniform draw from plus or minus
    ``clock_skew_ns``.  Samples of node "": ``load_end_ns``, ``convergence_ns`` (both instants; the
    latter is missing where the run was cut off), and what ``testbed.trust.replicas`` says if they are to be compared.
    """
    names = topology.node_names()
    check_places(requests, topology)
    assert not system.service, f"virtual time has no {system.service}"
    offsets_ns = clock_offsets_ns(seed, names, clock_skew_ns)
    loop = event_loop(system, config, topology, names, seed, clock_offsets_ns=offsets_ns)
    for node, offered in requests.items():
        loop.offer(node, offered)
    planned = tuple(faults)
    loop.fail(planned)
    last_request_ns = max((offered[-1].at_ns for offered in requests.values() if offered), default=0)
    journal = loop.run(duration_ns)
    journal.samples.append((duration_ns, "", "load_end_ns", float(last_request_ns)))
    _drain(loop, duration_ns, drain_ns, max((fault.at_ns for fault in planned), default=0))
    if compare_replicas:
        journal.samples += replica_rows(system, config, loop.states(), loop.now_ns)
    return RequestJournal(journal)


def check_places(nodes: Iterable[str], topology: Topology) -> None:
    """SpecError for a node that requests are meant for and that the topology lacks."""
    names = topology.node_names()
    for node in nodes:
        if node not in names:
            raise SpecError(f"requests for {node!r}, which topology {topology.name} lacks", hint(node, names))


def clock_offsets_ns(seed: int, names: Iterable[str], clock_skew_ns: int) -> dict[str, int]:
    """How far each node's clock is ahead: a uniform draw from plus or minus ``clock_skew_ns``."""
    return {
        name: int(generator(seed, "clock skew", name).integers(-clock_skew_ns, clock_skew_ns, endpoint=True))
        for name in names
    }


def _drain(loop: EventLoop, load_end_ns: int, drain_ns: int, last_fault_ns: int) -> None:
    """Run on until nothing is left to send, in steps of a second; at most ``drain_ns``."""
    until_ns = load_end_ns
    while True:
        quiet = loop.is_quiet()
        if quiet and until_ns >= last_fault_ns:
            loop.journal.samples.append((until_ns, "", "convergence_ns", float(loop.last_traffic_ns)))
            return
        end_ns = load_end_ns + (min(drain_ns, SETTLE_NS) if quiet is None else drain_ns)
        if until_ns >= end_ns:
            return
        until_ns = min(until_ns + SECOND_NS, end_ns)
        loop.run(until_ns)


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}
