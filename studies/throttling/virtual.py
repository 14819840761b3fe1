"""Runs a throttler on demands that are given cycle by cycle (DST), in virtual time."""

from core.units import SECOND_NS
from studies.throttling.asked import Throttling
from systems.api import Report
from systems.limiting.throttling_users import Demand
from testbed.nodes.journal import NodeJournal
from testbed.virtual.scheduler import event_loop

AFTER_NS = SECOND_NS  # for messages of the last cycle


def run(asked: Throttling) -> NodeJournal:
    """Report the demands to the system's nodes, one on each node of the topology.

    All reports of an instant come before what they cause at that instant.  Only the nodes' samples are of interest.
    """
    names = asked.topology.node_names()
    loop = event_loop(asked.system, asked.config, asked.topology, names, asked.seed)
    for cycle, row in enumerate(asked.demands.tolist()):
        parts = asked.clients[cycle].tolist() if cycle in asked.clients else [()] * len(names)
        for name, total, each in zip(names, row, parts, strict=True):
            report = Demand(cycle, sum(each), tuple(each)) if each else Demand(cycle, total)
            loop.inject(name, (cycle + 1) * asked.cycle_ns, Report(report))
    loop.fail(asked.faults)
    return loop.run((len(asked.demands) + 1) * asked.cycle_ns + AFTER_NS)
