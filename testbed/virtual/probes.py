"""Paths of the model's network, measured by echoes as a live testbed's are."""

from testbed.live.site import PathMeasure
from testbed.topology import Topology
from testbed.virtual.network import Network, Parcel

PROBES = 200  # echoes a pair, as on live testbeds
PROBE_BYTES = 100
SPACING_NS = 1_000_000


def measured_paths(topology: Topology, seed: int) -> list[PathMeasure]:
    """Every ordered pair of machines; half the round trip counts as one way, as nobody could tell more live.

    A lost echo may have been lost on either way.
    """
    network = Network(topology, seed)
    names = [host.name for host in topology.machines]
    return [_measured(network, topology, a, b) for a in names for b in names if a != b]


def _measured(network: Network, topology: Topology, source: str, target: str) -> PathMeasure:
    halves = []
    for probe in range(PROBES):
        for there in network.send(Parcel(source, target, None, PROBE_BYTES, 0), probe * SPACING_NS):
            for back in network.send(Parcel(target, source, None, PROBE_BYTES, 0), there):
                halves.append((back - probe * SPACING_NS) // 2)
    halves.sort()
    path = topology.path(source, target)
    p05, p50, p95 = (halves[int(q * (len(halves) - 1))] if halves else 0 for q in (0.05, 0.5, 0.95))
    return PathMeasure(
        source, target, path.one_way_delay_ns, p50, path.loss_probability, PROBES - len(halves), PROBES,
        path.jitter_ns, p05, p95,
    )  # fmt: skip
