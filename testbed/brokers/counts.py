"""What a window of a topic's messages showed, counted by broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from collectors.histogram import BUCKET_COUNT, bucket_index
from core.records import Int32, Int64


@dataclass(frozen=True)
class Counts:
    """What one window showed: histogram counts by broker, and messages that never came, of those counted."""

    latency: Int64
    access_delay: Int64
    dropped_count: Int64  # by the token bucket, on purpose
    lost_count: Int64 | None = None  # by whatever else; None where nothing can be lost
    more: Mapping[str, Int64] = field(default_factory=dict)  # further histograms, by metric: of live brokers only


def histogram(values_ns: Int64, broker: Int32, brokers: int) -> Int64:
    """Counts of shape (brokers, BUCKET_COUNT).  Clocks of one machine: what is below 0 by a hair is 0."""
    index = bucket_index(np.maximum(values_ns, 0)) + broker.astype(np.int64) * BUCKET_COUNT
    return np.bincount(index, minlength=brokers * BUCKET_COUNT).reshape(brokers, BUCKET_COUNT).astype(np.int64)
