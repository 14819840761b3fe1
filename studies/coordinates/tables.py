"""What coordinate agents showed, as rows of their tables.  Pure: from arrays by read to columns."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from core.records import Float64, Int64
from core.units import SECOND_NS
from studies.coordinates.asked import Located
from studies.tables import Columns


class PairRead(NamedTuple):
    """Of all pairs at one read: arrays (pairs,); an estimate that is not a number: an agent was lost."""

    at_ns: int
    estimated_ns: Float64
    true_ns: Int64


def pair_rows(pairs: Sequence[tuple[str, str]], reads: Iterable[PairRead]) -> Columns:
    """Columns of ``coordinates``, read by read."""
    found: dict[str, list[Any]] = {name: [] for name in ("at_ns", "a", "b", "estimated_rtt_ns", "true_rtt_ns")}
    for read in reads:
        found["at_ns"] += [read.at_ns] * len(pairs)
        found["a"] += [a for a, _ in pairs]
        found["b"] += [b for _, b in pairs]
        rounded = np.rint(read.estimated_ns).tolist()
        found["estimated_rtt_ns"] += [value if np.isfinite(value) else None for value in rounded]
        found["true_rtt_ns"] += read.true_ns.tolist()
    return found


def shift_rows(located: Located) -> Columns:
    """Columns of ``agents``: how far each coordinate is from where it was at the read before; without lost agents."""
    found: dict[str, list[Any]] = {"at_ns": [], "agent": [], "shift_ns": []}
    for at_ns, (before, now) in zip(located.at_ns[1:], pairwise(located.coordinates), strict=True):
        shift_s = np.linalg.norm(now.vec - before.vec, axis=1) + np.abs(now.height - before.height)
        known = np.flatnonzero(np.isfinite(shift_s))
        found["at_ns"] += [at_ns] * len(known)
        found["agent"] += [located.nodes[i] for i in known]
        found["shift_ns"] += np.rint(shift_s[known] * SECOND_NS).astype(np.int64).tolist()
    return found
