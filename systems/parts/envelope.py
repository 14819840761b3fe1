"""A topic's envelope (r, b) from a recorded trace of it (SRTM VI, "profiling phase").

r is 10 % above the topic's message rate; b is the smallest bucket for which the 99th percentile of
the access delay is zero.  A message waits exactly when the unfinished work that it finds in the
G/D/1 queue of rate r, plus its own token, exceeds b (report, Eq. 2), and that work does not depend
on b: so b is a quantile, and no search is needed.
"""

import numpy as np

from core.records import Block, Envelope, Float64

RATE_FACTOR = 1.1  # SRTM VI: "a token rate r set 10% higher than the topic's message rate"
QUANTILE = 0.99  # SRTM VI: the 99th percentile of the access delay is zero
_TOLERANCE = 1e-6  # of a token: rounding of the running sums


def tokens_needed(block: Block, rate_rps: float) -> Float64:
    """For each message of the trace: the burst size from which on it would not wait, in tokens.

    That is U(a-) + 1 of the report's Eq. 2, with the bucket full at the start.  float64 (messages,).
    """
    at_ns, _, _ = block.messages()
    if len(at_ns) == 0:
        return np.empty(0)
    work = np.arange(len(at_ns)) - (at_ns - at_ns[0]) * (rate_rps / 1e9)
    needed: Float64 = work - np.minimum.accumulate(work) + 1.0
    return needed


def smallest_burst(needed: Float64, quantile: float = QUANTILE) -> int:
    """The smallest whole burst with which at most ``1 - quantile`` of the messages wait."""
    if len(needed) == 0:
        return 1
    allowed = int((1 - quantile) * len(needed) + 1e-9)
    rank = len(needed) - 1 - allowed
    return max(1, int(np.ceil(np.partition(needed, rank)[rank] - _TOLERANCE)))


def profile(block: Block, message_rate_rps: float, rate_factor: float = RATE_FACTOR, margin: float = 1.0) -> Envelope:
    """The envelope of a trace: ``margin`` enlarges b (footnote 1: deviations from the profile)."""
    rate_rps = rate_factor * message_rate_rps
    burst = smallest_burst(tokens_needed(block, rate_rps))
    return Envelope(rate_rps, float(np.ceil(burst * margin - _TOLERANCE)))
