"""Paths of the model's network, measured by small datagrams as a live testbed's are."""

from studies.links.asked import Measuring
from testbed.hosts.site import PathMeasure
from testbed.topologies.topology import Topology
from testbed.trust.evidence import RunEvidence
from testbed.virtual.network import Network, Parcel

PROBES = 200  # a path, as on live testbeds
PROBE_BYTES = 100
SPACING_NS = 4_000_000


def run(asked: Measuring) -> RunEvidence:
    """Every ordered pair of machines, over the model's network, probed like a real one."""
    network = Network(asked.topology, asked.seed)
    names = [host.name for host in asked.topology.machines]
    return RunEvidence(paths=[_measured(network, asked.topology, a, b) for a in names for b in names if a != b])


def _measured(network: Network, topology: Topology, source: str, target: str) -> PathMeasure:
    probe, sent_at_ns = Parcel(source, target, b"", PROBE_BYTES, 0), range(0, PROBES * SPACING_NS, SPACING_NS)
    delays_ns = sorted(at_ns - sent_ns for sent_ns in sent_at_ns for at_ns, _ in network.send(probe, sent_ns))
    path = topology.path(source, target)
    p05, p50, p95 = (delays_ns[int(q * (len(delays_ns) - 1))] if delays_ns else 0 for q in (0.05, 0.5, 0.95))
    return PathMeasure(
        source, target, path.one_way_delay_ns, p50, path.loss_probability, PROBES - len(delays_ns), PROBES,
        path.jitter_ns, p05, p95,
    )  # fmt: skip
