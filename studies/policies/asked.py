"""What the study of placement policies is asked for, and what it shows."""

from dataclasses import dataclass
from typing import NamedTuple

from core.records import Float64
from systems.parts.coordinates import Coordinates
from systems.parts.topic_placement import Policy
from testbed.topologies.topology import Topology

POLICIES = ("pulsar", "all-pairs", "epulsar", "optimal")  # in the order of the kernel's rows
# Printed: of sums of round trips, as the paper's formulas have them; alike where the policy is literal anyway.
MEASURES = ("estimated_worst_ns", "estimated_violation_ratio", "printed_violation_ratio", "true_worst_ns",
            "true_violation_ratio", "feasible_ratio")  # fmt: skip


class Setting(NamedTuple):
    """What the policies know and what they are judged by."""

    policy: Policy
    bound_s: float
    access_s: float  # one way, client to site
    access_in_height: bool  # the paper's rule (4); its public code knows nothing of the access
    only_violated: bool  # ours: topics begin at Pulsar's brokers, and only those above the bound are moved


@dataclass(frozen=True)
class PolicyStudy:
    """One topology, on which all policies choose for the same clients.  See ``study.Config``."""

    topology: Topology
    seed: int
    scenario: str
    groups: int
    members: int
    permutations: int
    rounds: int  # of probes before the coordinates are taken
    shuffled: bool
    setting: Setting


@dataclass(frozen=True)
class PolicyResults:
    """``results``: (placements, policies, measures) in seconds and shares; the true delays, and the coordinates."""

    results: Float64
    names: tuple[str, ...]  # of all that have a coordinate
    delay_s: Float64  # one way, between all that have a coordinate
    coordinates: Coordinates
