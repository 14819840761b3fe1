"""A node by its system's name, made as in virtual time, and warm: what is compiled on use has been used."""

from collections.abc import Sequence
from typing import Any

from core.errors import SpecError
from core.registry import configure
from systems.api import Node, System
from systems.loader import load_system
from testbed.nodes.rehearsal import rehearse


def load_node(name: str, system: str, options: dict[str, Any], names: Sequence[str], seed: int) -> tuple[System, Node]:
    """Node ``name`` of the nodes that the system makes for ``names``; SpecError where there is none."""
    loaded = load_system(system)
    if loaded.nodes is None:
        raise SpecError(f"system {loaded.key} has no nodes", "it distributes publishers; run it as a distributor")
    config = configure(f"system {loaded.key}", loaded.config, options)
    nodes = loaded.nodes(list(names), config, seed)
    if name not in nodes:
        raise SpecError(f"system {loaded.key} made no node {name!r}", f"nodes: {', '.join(nodes)}")
    if not loaded.servers:  # a rehearsal has none
        rehearse(loaded, config, list(names))
    return loaded, nodes[name]
