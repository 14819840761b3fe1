"""What a run of demands asks of a testbed; a journal of the nodes is the answer."""

from collections.abc import Mapping
from dataclasses import dataclass

from core.records import Float64
from systems.api import System
from testbed.faults import Fault
from testbed.topologies.topology import Topology


@dataclass(frozen=True)
class Throttling:
    """``demands`` (cycles, servers) are told to the nodes of ``topology``, cycle k at (k + 1) x ``cycle_ns``.

    ``clients``: cycle -> demands by client (servers, clients), which replace that cycle's totals.
    """

    system: System
    config: object  # of the system's class
    topology: Topology
    demands: Float64
    clients: Mapping[int, Float64]
    cycle_ns: int
    seed: int
    faults: tuple[Fault, ...] = ()
