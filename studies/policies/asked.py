"""What a study of placement policies asks of a testbed, and what it gets back."""

from dataclasses import dataclass
from typing import NamedTuple

from core.limits import ROWS, ClientCount, RoundCount, check_product
from core.records import Float64
from core.units import SECOND_NS
from studies.api import check_least
from systems.parts.coordinates import Coordinates
from systems.parts.options import choice, span_ns
from systems.parts.topic_placement import Policy
from testbed.topologies.topology import Topology


class Setting(NamedTuple):
    """What the policies know and what they are judged by."""

    policy: Policy
    bound_s: float
    access_s: float  # one way, client to site
    access_in_height: bool  # the paper's rule (4); its public code knows nothing of the access
    only_violated: bool  # ours: topics begin at Pulsar's brokers, and only those above the bound are moved


@dataclass(frozen=True)
class Config:
    """Options of the study; its defaults are the paper's MMOG (5.5.2)."""

    scenario: str = "game"  # or swarms: UAVs (5.5.3), whose groups are at one site each
    groups: ClientCount = 128  # 5.5.2; of swarms 16 (5.5.3)
    members: ClientCount = 8  # of a group: 1024 clients / 128 groups (5.5.2), 8 UAVs (5.5.3)
    bound: str = "100ms"  # L_th (5.1.2); of swarms 40 ms (5.1.1)
    access: str = "0ms"  # client to site, one way; ours: the paper's game servers are at their sites
    access_in_height: bool = True  # 4: the client-proxy latency is added to the height; the public code does not
    permutations: RoundCount = 1_000  # 5.5.1
    rounds: RoundCount = 600  # of probes: ten minutes (5.5.1) at one a second (Serf's LAN profile)
    shuffled: bool = False  # ours: deal the delays between brokers anew among their pairs
    only_violated: bool = False  # ours: begin at Pulsar's brokers and move what violates the bound, as Algorithm 1 does
    literal: bool = False  # as systems.parts.topic_placement.Policy
    shortcut: bool = False

    def __post_init__(self) -> None:
        choice("study policies", "scenario", self.scenario, ("game", "swarms"))
        check_least("policies", self, groups=1, members=2, permutations=1, rounds=0)
        check_product("study policies", ROWS, groups=self.groups, members=self.members)
        self.setting()

    def setting(self) -> Setting:
        """What policies know and are judged by; SpecError for spans that are none."""
        bound_ns, access_ns = (
            span_ns("study policies", name, getattr(self, name), "0") for name in ("bound", "access")
        )
        policy = Policy(literal=self.literal, shortcut=self.shortcut)
        bound_s, access_s = bound_ns / SECOND_NS, access_ns / SECOND_NS
        return Setting(policy, bound_s, access_s, self.access_in_height, self.only_violated)


@dataclass(frozen=True)
class PolicyStudy:
    """One topology, on which all policies choose for the same clients."""

    topology: Topology
    seed: int
    config: Config


@dataclass(frozen=True)
class PolicyResults:
    """``results``: (placements, policies, measures) in seconds and shares; the true delays, and the coordinates."""

    results: Float64
    names: tuple[str, ...]  # of all that have a coordinate
    delay_s: Float64  # one way, between all that have a coordinate
    coordinates: Coordinates
