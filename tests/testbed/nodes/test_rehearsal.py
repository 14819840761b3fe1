"""Every system that runs as nodes can be rehearsed, and is shown all that happens in a run."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest

from systems import SYSTEMS
from systems.api import Arrival, Effect, Event, Node, Start
from systems.loader import load_system
from testbed.nodes.rehearsal import rehearse

NAMES = ["n1", "n2", "n3"]
REHEARSED = [key for key in SYSTEMS if load_system(key).nodes and not load_system(key).service]


@dataclass
class Counting:
    """A node whose events are counted."""

    node: Node
    counts: Counter[type]

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        self.counts[type(event)] += 1
        return self.node.handle(event, now_ns)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)


@pytest.mark.parametrize("key", REHEARSED)
def test_a_system_is_shown_what_happens_in_a_run(key: str) -> None:
    system = load_system(key)
    make, counts = system.nodes, Counter[type]()
    assert make is not None

    def nodes(names: list[str], config: Any, seed: int) -> dict[str, Node]:
        return {name: Counting(node, counts) for name, node in make(names, config, seed).items()}

    names = list(system.rehearsal.names) if system.rehearsal else NAMES
    rehearse(replace(system, nodes=nodes), system.config(), names)
    assert counts[Start] == len(make(names, system.config(), 1)) + 1  # one re-joined
    assert (counts[Arrival] > 20) == (Arrival in system.inputs)
    assert counts[Arrival] == 0 or len(counts) > 2 or key == "static-split"  # it talks, or sets timers
