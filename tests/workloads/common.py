"""What the workload tests share."""

import numpy as np

from core.records import Block, Schedule
from core.units import SECOND_NS
from workloads import load

SECOND = SECOND_NS


def schedule(key: str, seed: int = 1, **options) -> Schedule:
    workload = load(key)
    return workload.make(workload.configure(options), seed)


def assert_same(left: Block, right: Block) -> None:
    for name in ("at_ns", "publisher", "count"):
        a, b = getattr(left, name), getattr(right, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(left.messages()[2], right.messages()[2])


def assert_canonical(block: Block, start_ns: int, end_ns: int) -> None:
    assert block.at_ns.dtype == np.int64 and block.publisher.dtype == np.int32 and block.count.dtype == np.int32
    assert len(block.at_ns) == len(block.publisher) == len(block.count)
    assert ((block.at_ns >= start_ns) & (block.at_ns < end_ns)).all()
    later = np.diff(block.at_ns) > 0
    tied_in_order = (np.diff(block.at_ns) == 0) & (np.diff(block.publisher) >= 0)
    assert (later | tied_in_order).all()
