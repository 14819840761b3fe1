"""What a study of policies showed, as rows of its tables.  Pure: from the kernel's arrays to columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.records import Float64
from core.units import SECOND_NS
from systems.parts.coordinates import Coordinates, distances_s


def policy_rows(results: Float64, policies: Sequence[str], measures: Sequence[str]) -> dict[str, Any]:
    """Columns of ``policies``, from the kernel's (placements, policies, measures) in seconds and shares."""
    number, policy = (part.ravel() for part in np.indices(results.shape[:2]))
    found: dict[str, Any] = {"permutation": number, "policy": np.array(policies, object)[policy]}
    for place, name in enumerate(measures):
        found[name] = (results[:, :, place] * (SECOND_NS if name.endswith("_ns") else 1)).ravel()
    return found


def pair_rows(names: Sequence[str], delay_s: Float64, where: Coordinates) -> dict[str, Any]:
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
