"""A node by its system's name, made as in virtual time, and warm: what is compiled on use has been used."""

from collections.abc import Sequence
from typing import Any

from core.errors import SpecError
from core.registry import configure
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Arrival, Node, System
from systems.loader import load_system
from testbed.faults import Crash, Fault, Restart

_WARM_SEED, _WARM_USERS = 1, 3


def load_node(name: str, system: str, options: dict[str, Any], names: Sequence[str], seed: int) -> tuple[System, Node]:
    """Node ``name`` of the nodes that the system makes for ``names``; SpecError where there is none."""
    loaded = load_system(system)
    if loaded.nodes is None:
        raise SpecError(f"system {loaded.key} has no nodes", "it distributes publishers; run it as a distributor")
    config = configure(f"system {loaded.key}", loaded.config, options)
    nodes = loaded.nodes(list(names), config, seed)
    if name not in nodes:
        raise SpecError(f"system {loaded.key} made no node {name!r}", f"nodes: {', '.join(nodes)}")
    if not loaded.service:  # virtual time has no services
        _warm(loaded, config, list(names))
    return loaded, nodes[name]


def _warm(system: System, config: Any, names: list[str]) -> None:
    """Run other nodes of the same system for two seconds of virtual time: kernels are compiled or loaded then."""
    from studies.limiting.virtual import run_requests
    from testbed.topologies.topology import mesh
    from workloads.requests import poisson_requests

    topology = mesh("warm-up", names, MILLISECOND_NS)
    requests = {}
    if Arrival in system.inputs:
        requests = poisson_requests(names, _WARM_USERS, 20.0, 2 * SECOND_NS, _WARM_SEED, sticky=False)
    faults: tuple[Fault, ...] = ()
    if len(names) > 1:
        faults = Crash(SECOND_NS, names[-1]), Restart(SECOND_NS + 1, names[-1], names[0])
    run_requests(system, config, topology, requests, 2 * SECOND_NS, _WARM_SEED, faults)
