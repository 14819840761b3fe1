"""Token buckets alone: 1,000 Poisson publishers x 10 msg/s, r = 1.1 x the rate, smallest b (fig4-1000, panel b)."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet

from collectors.histogram import BUCKET_COUNT, bucket_index, quantile
from harness.run import execute
from paper_figs.srtm.fig4 import ALONE, PUBLISHERS
from paper_figs.srtm.grids import split
from systems.parts import md1


def p99_ms(folder: Path, k: int) -> float:
    """p99 of the access delay on the fresh round, all brokers together."""
    execute(split(k, {"publishers": PUBLISHERS}, calibration=ALONE), f"k{k}", folder)
    table = parquet.read_table(folder / "latency_histogram.parquet").to_pandas()
    table = table[(table.metric == "access_delay") & (table["round"] == 0)]
    counts = np.bincount(bucket_index(table.low_ns.to_numpy()), table["count"].to_numpy(), BUCKET_COUNT)
    return quantile(counts.astype(np.int64), 0.99) / 1e6


def test_p99_access_delay_rises_with_k_to_9_to_16_ms(tmp_path: Path) -> None:
    found = {k: p99_ms(tmp_path / str(k), k) for k in (1, 2, 4, 6)}
    assert found[1] < found[2] < found[4] < found[6]
    assert 9 <= found[6] <= 16


def test_the_model_says_where_it_should_be() -> None:
    """11.4 ms: the p99 of (U + 1 - b/6)^+ / (r/6), which the simulation above meets within its noise."""
    burst, rate_rps = md1.smallest_burst(1 / 1.1), 11_000 / 6
    exceeding_s = 11.4e-3
    level = exceeding_s * rate_rps + burst / 6 - 1
    assert abs(md1.workload_exceeds(1 / 1.1, level) - 0.01) < 0.0005
