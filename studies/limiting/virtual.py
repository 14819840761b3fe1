"""Runs a limiter on a request workload in virtual time."""

from core.units import SECOND_NS
from studies.limiting.asked import SETTLE_NS, Limiting, RequestJournal, clock_offsets_ns
from testbed.api import Testbed
from testbed.servers import refuse_servers
from testbed.trust.replicas import replica_rows
from testbed.virtual.scheduler import EventLoop, event_loop


def run(asked: Limiting) -> RequestJournal:
    """Offer the requests to the system's nodes, one on each node of the topology.

    Events up to ``duration_ns`` are handled, and then up to ``drain_ns`` longer: until all nodes are
    idle with nothing under way (thesis 4.3.1), or for 5 s where nodes do not say.  A request without
    a verdict by then is lost.  Each node's clock is off by a uniform draw from plus or minus
    ``clock_skew_ns``.  Samples of node "": ``load_end_ns``, ``convergence_ns`` (both instants; the
    latter is missing where the run was cut off), and what ``testbed.trust.replicas`` says if they are to be compared.
    """
    names, requests = asked.topology.node_names(), asked.requests()
    offsets_ns = clock_offsets_ns(asked.seed, names, asked.clock_skew_ns)
    loop = event_loop(asked.system, asked.config, asked.topology, names, asked.seed, clock_offsets_ns=offsets_ns)
    for node, offered in requests.items():
        loop.offer(node, offered)
    loop.fail(asked.faults)
    last_request_ns = max((offered[-1].at_ns for offered in requests.values() if offered), default=0)
    journal = loop.run(asked.duration_ns)
    journal.samples.append((asked.duration_ns, "", "load_end_ns", float(last_request_ns)))
    _drain(loop, asked.duration_ns, asked.drain_ns, max((fault.at_ns for fault in asked.faults), default=0))
    if asked.compare_replicas:
        journal.samples += replica_rows(asked.system, asked.config, loop.states(), loop.now_ns)
    return RequestJournal(journal)


def check(testbed: Testbed, asked: Limiting) -> None:
    """SpecError for a system that asks a real server."""
    refuse_servers(asked.system, testbed.name)


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
