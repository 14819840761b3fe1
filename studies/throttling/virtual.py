"""Runs a throttler on demands that are given cycle by cycle (DST), in virtual time."""

from collections.abc import Iterable, Mapping
from typing import Any

from core.errors import SpecError
from core.records import Float64
from core.units import SECOND_NS
from studies.limiting.virtual import RequestJournal
from systems.api import Report, System
from systems.limiting.throttling_users import Demand
from testbed.faults import Fault
from testbed.topologies.topology import Topology
from testbed.virtual.boot import event_loop

AFTER_NS = SECOND_NS  # for messages of the last cycle


def run_cycles(
    system: System,
    config: Any,
    topology: Topology,
    demands: Float64,
    clients: Mapping[int, Float64],
    cycle_ns: int,
    seed: int,
    faults: Iterable[Fault] = (),
) -> RequestJournal:
    """Report ``demands`` (cycles, nodes) to the system's nodes, one on each node of ``topology``.

    Cycle k ends at (k + 1) x ``cycle_ns``; all reports of an instant come before what they cause at that
    instant.  ``clients``: cycle -> demands by client (nodes, clients), which replace that cycle's totals.
    Only the nodes' samples are of interest.  SpecError where there are not as many curves as nodes.
    """
    names = topology.node_names()
    if demands.shape[1] != len(names):
        raise SpecError(f"{demands.shape[1]} load curves for {len(names)} nodes", "give one a node")
    loop = event_loop(system, config, topology, names, seed)
    for cycle, row in enumerate(demands.tolist()):
        parts = clients[cycle].tolist() if cycle in clients else [()] * len(names)
        for name, total, each in zip(names, row, parts, strict=True):
            report = Demand(cycle, sum(each), tuple(each)) if each else Demand(cycle, total)
            loop.inject(name, (cycle + 1) * cycle_ns, Report(report))
    loop.fail(faults)
    return RequestJournal(loop.run((len(demands) + 1) * cycle_ns + AFTER_NS))
