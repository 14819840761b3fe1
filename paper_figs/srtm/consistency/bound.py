"""What a second broker costs by theory, and why two claims exclude each other."""

from paper_figs.srtm.published import BATCH, PUBLISHER_RPS
from systems.parts.envelope import QUANTILE, RATE_FACTOR
from systems.parts.md1 import wait_probability

PUBLISHERS = 10_000  # Fig. 5b and 6b, the right end
EXCLUSION = (
    "R11 needs a second broker by estimate at 8,000 and at 10,000 publishers of batch 10 but none at 4,000, so mcap is "
    "below 90,000; then Conc begins with two brokers on the idle ones of Fig. 5b as well, where R5 allows 1 ms and the "
    "second broker alone costs, with the smallest b, 2.25 ms of access delay at the 99th percentile."
)


def least_burst(message_rps: float, rate_rps: float, batch: int) -> float:
    """The burst, not rounded, with which exactly 1 % of messages in Poisson batches wait: M/D/1."""
    low, high = float(batch), 1e6
    while high - low > 1e-6:
        middle = (low + high) / 2
        waits = wait_probability(message_rps, rate_rps, middle, batch) > 1 - QUANTILE
        low, high = (middle, high) if waits else (low, middle)
    return high


def split_delay_ms(publishers: int = PUBLISHERS, brokers: int = 2, batch: int = BATCH, margin: float = 1.0) -> float:
    """p99 of the access delay of a Poisson topic spread evenly over so many brokers, exactly.

    b is ``margin`` times the smallest whole bucket, r 1.1 x the rate.  A message of a sub-bucket (b/k, r/k) waits
    more than d where a bucket of b/k + d r/k would make it wait; utilisation and batches are as they were.
    """
    message_rps = publishers * PUBLISHER_RPS / brokers
    rate_rps = RATE_FACTOR * message_rps
    least = least_burst(message_rps, rate_rps, batch)
    whole = -(-least // 1)
    return max(0.0, (least - margin * whole / brokers) / rate_rps) * 1_000
