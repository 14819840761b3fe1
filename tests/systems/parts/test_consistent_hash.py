"""Topics by the hash of their names."""

import numpy as np
import pytest

from systems.parts.consistent_hash import NAMESPACE, SPACE, name_hash, range_of, ranges_of


def test_the_hash_is_crc_32() -> None:
    assert name_hash("123456789") == 0xCBF43926  # the check value of CRC-32


@pytest.mark.parametrize("ranges", [1, 3, 4, 7, 128])
def test_ranges_are_in_order_and_equal(ranges: int) -> None:
    segment = SPACE // ranges
    for number in range(ranges):
        assert range_of(number * segment, ranges) == range_of((number + 1) * segment - 1, ranges) == number
    assert range_of(SPACE - 1, ranges) == ranges - 1


@pytest.mark.parametrize("ranges", [3, 8, 20])
def test_names_spread_evenly(ranges: int) -> None:
    counts = np.bincount(ranges_of([f"{NAMESPACE}avatar_{n}" for n in range(20_000)], ranges), minlength=ranges)
    assert counts.min() > 0.9 * 20_000 / ranges and counts.max() < 1.1 * 20_000 / ranges
