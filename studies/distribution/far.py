"""Paths of a topic that are longer than a LAN's: publisher to broker, broker to subscriber."""

from dataclasses import dataclass

import numpy as np

from core.records import Int64
from testbed.topologies.topology import Topology

LAN_NS = 20_000  # two links of srtm-lan: what the calibrations' ``network_ns`` has in it already


@dataclass(frozen=True)
class Far:
    """One-way delays beyond a LAN's, int64 ns.

    Publisher i lives on publisher host i modulo their number, and broker j has its subscriber on host j modulo
    theirs: as ``testbed.brokers.traffic`` places them.
    """

    inbound_ns: Int64  # (publishers, brokers)
    outbound_ns: Int64  # (brokers,)
    uncertain: bool  # some path has jitter or loses packets


def far_of(topology: Topology, publishers: int) -> Far | None:
    """What the paths add; None where nothing is longer than a LAN, or the topology does not say who is where."""
    brokers, sources, sinks = (topology.node_names(role) for role in ("broker", "publisher", "subscriber"))
    if not (brokers and sources and sinks):
        return None
    inbound = [[topology.path(source, broker) for broker in brokers] for source in sources]
    outbound = [topology.path(broker, sinks[number % len(sinks)]) for number, broker in enumerate(brokers)]
    paths = [path for row in [*inbound, outbound] for path in row]
    if all(path.one_way_delay_ns <= LAN_NS for path in paths):
        return None
    beyond = [[max(0, path.one_way_delay_ns - LAN_NS) for path in row] for row in [*inbound, outbound]]
    table = np.array(beyond[:-1], np.int64)
    uncertain = any(path.jitter_ns or path.loss_probability for path in paths)
    return Far(table[np.arange(publishers) % len(sources)], np.array(beyond[-1], np.int64), uncertain)
