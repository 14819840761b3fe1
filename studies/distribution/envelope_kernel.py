"""The envelope of ``systems.parts.envelope``, also of long windows: one compiled pass, constant memory."""

# mypy: allow-untyped-defs, allow-untyped-calls
import numpy as np

from core.compiled import njit
from core.records import Envelope, Int64, Schedule
from systems.parts.envelope import QUANTILE, RATE_FACTOR
from workloads.chunks import piece_ns


@njit(cache=True)
def _tokens_needed(at_ns, count, tokens_per_ns, work, last_ns, from_ns, until_ns, counts, most):
    """Count messages by the whole burst from which on they would not wait; returns (work, last instant, most).

    ``most``: the largest burst that any message needed so far.
    """
    top = counts.shape[0] - 1
    for i in range(at_ns.shape[0]):
        work = max(0.0, work - (at_ns[i] - last_ns) * tokens_per_ns)
        last_ns = at_ns[i]
        recorded = from_ns <= last_ns < until_ns
        for _ in range(count[i]):
            work += 1.0
            if recorded:
                burst = min(top, int(np.ceil(work - 1e-6)))
                counts[burst] += 1
                most = max(most, burst)
    return work, last_ns, most


def tokens_needed_counts(
    schedule: Schedule, start_ns: int, end_ns: int, rate_rps: float, from_ns: int, until_ns: int
) -> Int64:
    """Entry n: how many messages sent in [from_ns, until_ns) need a burst of n; the bucket is full at ``start_ns``.

    Up to the largest n that one needs: the table has room for a million, of which a window touches hundreds.
    """
    counts = np.zeros(1 << 20, np.int64)
    work, last_ns, most, at_ns = 0.0, start_ns, 0, start_ns
    piece = piece_ns([schedule])
    while at_ns < end_ns:
        block = schedule.block(at_ns, min(end_ns, at_ns + piece))
        work, last_ns, most = _tokens_needed(
            block.at_ns, block.count, rate_rps / 1e9, work, last_ns, from_ns, until_ns, counts, most
        )
        at_ns += piece
    return counts[: most + 1]


def profile(
    schedule: Schedule, start_ns: int, end_ns: int, from_ns: int, until_ns: int, margin: float = 1.0
) -> Envelope:
    """The envelope of the messages in [from_ns, until_ns); ``margin`` enlarges b (footnote 1)."""
    rate_rps = RATE_FACTOR * schedule.population.total_rps
    counts = tokens_needed_counts(schedule, start_ns, end_ns, rate_rps, from_ns, until_ns)
    allowed = int((1 - QUANTILE) * counts.sum() + 1e-9)
    waiting = counts.sum() - np.cumsum(counts)  # entry b: messages that wait with a burst of b
    burst = max(1, int(np.argmax(waiting <= allowed)))
    return Envelope(rate_rps, float(np.ceil(burst * margin - 1e-6)))
