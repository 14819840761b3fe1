"""The event loop for the nodes of a system on a topology."""

from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import SpecError
from systems.api import Node, System
from testbed.nodes.member import node_seed
from testbed.topologies.topology import Topology
from testbed.virtual.network import Network
from testbed.virtual.scheduler import DataPlane, EventLoop


def event_loop(
    system: System,
    config: Any,
    topology: Topology,
    names: Sequence[str],
    seed: int,
    plane: DataPlane | None = None,
    keep_steps: bool = False,
    start_ns: int = 0,
    clock_offsets_ns: Mapping[str, int] | None = None,
) -> EventLoop:
    """The loop for ``system.nodes(names, ...)`` on ``topology``; a restarted node has a seed of its own.

    SpecError where the topology has no place for a node, or the system has none.
    """
    make = system.nodes
    if make is None:
        raise SpecError(f"system {system.key} has no nodes", "it distributes publishers; run it as a distributor")

    def boot(restart: int) -> dict[str, Node]:
        return make(list(names), config, node_seed(seed, restart))

    network = Network(topology, seed, system.transport)
    return EventLoop(boot, network, system.messages, plane, keep_steps, start_ns, clock_offsets_ns=clock_offsets_ns)
