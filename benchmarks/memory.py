"""``python -m benchmarks.memory MINUTES``: cost and peak memory of one run of that length, in a process of its own.

A process each, because a peak is a high-water mark: what one run raised would hide the next.
"""

import sys

from benchmarks.pipeline import SPLITS, rate_of
from benchmarks.process_tree import own_peak_mib
from core.units import SECOND_NS


def main() -> None:
    """Print one line for so many minutes of ``SPLITS[0]``; the first second only warms the compiled code."""
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal() or int(sys.argv[1]) == 0:
        sys.exit("usage: python -m benchmarks.memory MINUTES (a whole number, at least 1)")
    minutes = int(sys.argv[1])
    rate_of(SPLITS[0], SECOND_NS)
    rate_rps = rate_of(SPLITS[0], minutes * 60 * SECOND_NS)
    print(
        f"{minutes:>4} min of traffic: {rate_rps / 1e6:6.1f} M msg/s, {1e9 / rate_rps:6.1f} ns/message, "
        f"peak RSS {own_peak_mib():.0f} MiB"
    )


if __name__ == "__main__":
    main()
