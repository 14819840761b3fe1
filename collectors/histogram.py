"""The log-linear histogram of latencies: 128 buckets for every power of two, so widths of at most 1/128.

Value v (integer ns, below 2^62) falls into bucket

* ``v`` where v < 128: one bucket a nanosecond, and 0 is exactly bucket 0;
* ``(e << 7) + (v >> e)`` with ``e = floor(log2 v) - 7`` otherwise: 128..255 exactly, 256..511 in
  steps of 2, 512..1023 in steps of 4, and so on.

A bucket stands for the value in its middle, ``low + (high - low - 1) // 2``: exact for buckets one
wide, at most 0.4 % off for the others.  ``testbed.virtual.broker_kernel`` computes the same index
with one shift; ``analysis.metrics`` computes the same quantiles in Spark.
"""

from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from core.records import Int64

SUB_BUCKET_BITS = 7
VALUE_BITS = 62  # values are below 2^62 ns, 146 years
BUCKET_COUNT = (VALUE_BITS - SUB_BUCKET_BITS + 1) << SUB_BUCKET_BITS


def bucket_index(values_ns: ArrayLike) -> Int64:
    """The bucket of each value: int64, of the shape of ``values_ns`` (integers, 0 <= v < 2^62)."""
    values = np.asarray(values_ns, np.int64)
    assert values.size == 0 or (values.min() >= 0 and int(values.max()) >> VALUE_BITS == 0)
    exponent = np.maximum(_floor_log2(values) - SUB_BUCKET_BITS, 0)
    return (exponent << SUB_BUCKET_BITS) + (values >> exponent)


def _floor_log2(values: Int64) -> Int64:
    """``floor(log2 v)`` in integers; 0 for v = 0.  Floating point would round up below large powers of two."""
    rest, exponents = values.copy(), np.zeros_like(values)
    for step in (32, 16, 8, 4, 2, 1):
        high = rest >= 1 << step
        exponents += high * step
        rest = np.where(high, rest >> step, rest)
    return exponents


@cache
def bucket_bounds() -> tuple[Int64, Int64]:
    """(low_ns[], high_ns[]), each (BUCKET_COUNT,): bucket i holds low_ns[i] <= v < high_ns[i].  Read-only."""
    index = np.arange(BUCKET_COUNT, dtype=np.int64)
    exponent = np.maximum((index >> SUB_BUCKET_BITS) - 1, 0)
    low_ns = (index - (exponent << SUB_BUCKET_BITS)) << exponent
    high_ns = low_ns + (np.int64(1) << exponent)
    low_ns.flags.writeable = high_ns.flags.writeable = False
    return low_ns, high_ns


@cache
def bucket_values() -> Int64:
    """The value that each bucket stands for, int64 (BUCKET_COUNT,).  Read-only."""
    low_ns, high_ns = bucket_bounds()
    values = low_ns + (high_ns - low_ns - 1) // 2
    values.flags.writeable = False
    return values


def quantile(counts: Int64, q: float) -> int:
    """The ``q``-quantile (0 < q <= 1) of ``counts`` (BUCKET_COUNT,) in ns.

    It is the value of the smallest bucket whose cumulative count is at least ``q * n`` (the
    "inverted CDF" of statistics books).  Counting nothing is a bug: there is no quantile.
    """
    assert counts.shape == (BUCKET_COUNT,) and 0 < q <= 1
    cumulative = np.cumsum(counts)
    total = int(cumulative[-1])
    assert total > 0, "a quantile of nothing"
    return int(bucket_values()[np.searchsorted(cumulative, q * total, side="left")])
