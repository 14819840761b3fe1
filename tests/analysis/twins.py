"""Single-process twins of ``analysis.metrics``: the definitions, read literally, one message at a time."""

import numpy as np
import pandas as pd

from collectors.histogram import BUCKET_COUNT, bucket_bounds, bucket_index, bucket_values, quantile


def histogram_columns(values, **labels):
    """Columns of ``latency_histogram`` for ``values`` (ns), without empty buckets."""
    counts = np.bincount(bucket_index(values), minlength=BUCKET_COUNT)
    used = np.flatnonzero(counts)
    low_ns, high_ns = bucket_bounds()
    rows = {"low_ns": low_ns[used], "high_ns": high_ns[used], "count": counts[used]}
    return pd.DataFrame({**{key: [value] * len(used) for key, value in labels.items()}, **rows})


def mean(counts):
    """The mean of a histogram's counts (BUCKET_COUNT,) in ns."""
    return float(counts @ bucket_values().astype(float)) / int(counts.sum())


def percentiles(values_by_group):
    """Group -> values: one row a group, as ``metrics.percentiles`` gives."""
    rows = []
    for group, values in sorted(values_by_group.items()):
        counts = np.bincount(bucket_index(values), minlength=BUCKET_COUNT)
        quantiles = {f"p{round(100 * q)}_ns": quantile(counts, q) for q in (0.5, 0.95, 0.99)}
        rows.append({"run_id": group, **quantiles, "count": len(values), "mean_ns": mean(counts)})
    return pd.DataFrame(rows)


def running_sum_of_delay(arrived, released, t_ns):
    """Proposition 1's S(t), message by message."""
    return sum(
        min(max(t_ns - a, 0), (r if r is not None else t_ns + a) - a) for a, r in zip(arrived, released, strict=True)
    )


def released_in_window(released, window_ns):
    """The most releases in [r, r + window], for every release r."""
    return max(sum(r <= other <= r + window_ns for other in released) for r in released)
