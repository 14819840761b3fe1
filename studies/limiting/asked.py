"""What limiters are asked for and what a run shows, on every testbed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from core.errors import SpecError
from core.records import Columns, Request
from core.registry import hint
from core.seeds import generator
from core.units import SECOND_NS
from studies.tables import columns, sample_rows
from systems.api import System
from testbed.faults import Fault
from testbed.nodes.journal import NodeJournal
from testbed.topologies.topology import Topology
from testbed.trust.answers import AnswerAccount
from testbed.trust.evidence import NOTHING, RunEvidence

LOST = "lost"  # a request without a verdict
SETTLE_NS = 5 * SECOND_NS  # for late verdicts of nodes that do not say whether they are idle


class RequestSchedule(Protocol):
    """What workloads of requests make."""

    def requests(self, nodes: Sequence[str], duration_ns: int) -> Mapping[str, Sequence[Request]]:
        """The requests at each node up to ``duration_ns``, in order of time."""
        ...


@dataclass(frozen=True)
class Limiting:
    """One run: the requests of ``schedule`` up to ``duration_ns``, at the nodes of ``topology``, one a node.

    ``align_ns``: live, time 0 is a whole multiple of this on the real-time clock; 0: at any instant.
    """

    system: System
    config: object  # of the system's class
    topology: Topology
    schedule: RequestSchedule
    duration_ns: int
    seed: int  # of nodes, links and clocks
    faults: tuple[Fault, ...] = ()
    drain_ns: int = 0
    clock_skew_ns: int = 0
    compare_replicas: bool = False
    align_ns: int = 0

    def requests(self) -> Mapping[str, Sequence[Request]]:
        """The load: node -> requests in order of time; SpecError for a node that the topology lacks."""
        names = self.topology.node_names()
        offered = self.schedule.requests(names, self.duration_ns)
        for node in offered:
            if node not in names:
                raise SpecError(f"requests for {node!r}, which topology {self.topology.name} lacks", hint(node, names))
        return offered


@dataclass(frozen=True)
class RequestJournal:
    """What a request run showed; what only real processes have to tell is empty in virtual time.

    ``users``: request id -> instants sent and received (None: it was not).  ``states``: the snapshots of the nodes at
    the end.  ``epoch_ns``: the run's time 0 on the real-time clock.  ``answers``: to what nodes asked before they
    decided.  ``lost_servers``: that ended by no fault.
    """

    journal: NodeJournal
    users: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)
    states: Mapping[str, object] = field(default_factory=dict)
    epoch_ns: int = 0
    answers: AnswerAccount | None = None
    lost_servers: tuple[str, ...] = ()
    evidence: RunEvidence = NOTHING

    def lateness_ns(self) -> list[int]:
        """How late each request was sent."""
        offered = self.journal.offered
        return [sent - offered[number][1].at_ns for number, (sent, _) in self.users.items() if sent is not None]

    def requests(self) -> Columns:
        """Columns of ``requests``, in the order offered; ``node`` is the one that the user asked."""
        names = ("node", "user", "request_id", "cost", "intended_at_ns")
        later = ("sent_at_ns", "received_at_ns", "decided_at_ns", "decision")
        rows = []
        for node, request in self.journal.offered.values():
            decided_at_ns, _, verdict = self.journal.verdicts.get(request.id, (None, None, None))
            decision = verdict.value if verdict else LOST
            asked = node, request.user, request.id, request.cost, request.at_ns
            rows.append((*asked, *self.users.get(request.id, (None, None)), decided_at_ns, decision))
        return columns((*names, *later), rows)

    def samples(self) -> Columns:
        """Columns of ``samples``."""
        return sample_rows(self.journal.samples)


def clock_offsets_ns(seed: int, names: Iterable[str], clock_skew_ns: int) -> dict[str, int]:
    """How far each node's clock is ahead: a uniform draw from plus or minus ``clock_skew_ns``."""
    return {
        name: int(generator(seed, "clock skew", name).integers(-clock_skew_ns, clock_skew_ns, endpoint=True))
        for name in names
    }
