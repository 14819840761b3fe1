"""ring: every node is linked to the two beside it, and so what the farthest hear is half a ring old.

An example of a topology in one file: a function of plain options.

    ratebed run --system crdt-counter --workload requests --topology docs/examples/ring.py:TOPOLOGY
"""

from core.errors import SpecError
from core.units import duration_ns
from testbed.topologies.topology import Host, Link, Topology


def ring(nodes: int = 6, delay: str = "5ms", loss_probability: float = 0.0) -> Topology:
    """Nodes ``n1`` ... ``nN``; ``delay`` one way, from a node to the next."""
    if nodes < 3:
        raise SpecError(f"topology ring: nodes = {nodes}", "give at least 3")
    names = [f"n{number}" for number in range(1, nodes + 1)]
    delay_ns = duration_ns(delay)
    links = [
        Link(one, other, delay_ns, loss_probability=loss_probability)
        for one, other in zip(names, [*names[1:], names[0]], strict=True)
    ]
    return Topology("ring", tuple(Host(name, role="node") for name in names), tuple(links))


TOPOLOGY = ring
