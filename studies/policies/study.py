"""The study of the placement study: coordinates once, then many random placements, all policies (ePulsar 5.5).

Nothing is offered, and no system runs: a run is one topology, on which all policies choose for the same clients.  Its
table ``policies`` has a row for each placement and policy; ``coordinates`` has what is estimated, pair by pair.
"""

import numpy as np

from core.errors import SpecError
from core.records import Columns, Float64
from core.units import SECOND_NS
from studies.api import Journal, Point, Study
from studies.policies.asked import Config, PolicyResults, PolicyStudy
from studies.spec import RunSpec
from systems.parts.coordinates import Coordinates, distances_s

POLICIES = ("pulsar", "all-pairs", "epulsar", "optimal")  # in the order of the kernel's rows
# Printed: of sums of round trips, as the paper's formulas have them; alike where the policy is literal anyway.
MEASURES = ("estimated_worst_ns", "estimated_violation_ratio", "printed_violation_ratio", "true_worst_ns",
            "true_violation_ratio", "feasible_ratio")  # fmt: skip


SECONDS_PER_CHOICE = 1.2e-6  # of a topic's brokers, by all policies, in one placement of the clients


def asked(point: Point, config: Config) -> PolicyStudy:
    """SpecError where the topology does not fit the options."""
    for role, what in (("proxy", "sites"), ("broker", "brokers")):
        if not point.topology.node_names(role):
            raise SpecError(
                f"topology {point.spec.topology} has no {what}", "choose us-cities, city-mec or matrix-sites"
            )
    return PolicyStudy(point.topology, point.spec.seed, config)


def journal(point: Point, asked: PolicyStudy, shown: PolicyResults) -> Journal:
    """The tables of a run."""
    pairs = pair_rows(shown.names, shown.delay_s, shown.coordinates)
    return Journal({"policies": policy_rows(shown.results), "coordinates": pairs})


def policy_rows(results: Float64) -> Columns:
    """Columns of ``policies``, from the kernel's (placements, policies, measures) in seconds and shares."""
    number, policy = (part.ravel() for part in np.indices(results.shape[:2]))
    units = {name: SECOND_NS if name.endswith("_ns") else 1 for name in MEASURES}
    measured = {name: (results[:, :, place] * unit).ravel() for place, (name, unit) in enumerate(units.items())}
    return {"permutation": number, "policy": np.array(POLICIES, object)[policy], **measured}


def pair_rows(names: tuple[str, ...], delay_s: Float64, where: Coordinates) -> Columns:
    """Columns of ``coordinates``: estimate and truth of each pair that is apart, in seconds made nanoseconds.

    ``delay_s`` (n, n): one way; ``where``: the coordinates; both in the order of ``names``.
    """
    here, there = np.triu_indices(len(names), 1)
    rtt_s, estimate_s = 2.0 * delay_s[here, there], distances_s(where, where)[here, there]
    apart = rtt_s > 0.0
    nodes = np.array(names, object)
    return {
        "at_ns": np.zeros(int(apart.sum()), np.int64),  # there is no time: once the coordinates have settled
        "a": nodes[here[apart]],
        "b": nodes[there[apart]],
        "estimated_rtt_ns": estimate_s[apart] * SECOND_NS,
        "true_rtt_ns": np.rint(rtt_s[apart] * SECOND_NS).astype(np.int64),
    }


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Topics times placements: a game has a topic a member of a group, swarms have two a group."""
    options = spec.study_options
    a_group = 2.0 if options.get("scenario") == "swarms" else float(options.get("members", Config.members))
    topics = float(options.get("groups", Config.groups)) * a_group
    return topics * float(options.get("permutations", Config.permutations)) * SECONDS_PER_CHOICE


STUDY = Study(
    "policies",
    "placement policies on many random placements of clients",
    Config,
    asked,
    journal,
    expected_seconds,
    virtual="studies.policies.virtual",
)
