"""What a measuring of links asks of a testbed; its evidence is the answer."""

from dataclasses import dataclass

from testbed.topologies.topology import Topology


@dataclass(frozen=True)
class Measuring:
    """Make the links of ``topology`` and measure every path; nothing is offered."""

    topology: Topology
    seed: int
