"""What a bucket does to conformant messages, by either kind of stamps: worked out by hand."""

import numpy as np

from core.records import Envelope
from testbed.trust.accounts import ABSENT, undue_delays

BUCKET = Envelope(1_000.0, 1.0)  # a token a millisecond
MS = 1_000_000


def rows(arrived_ms, read_ms, released_ms):
    """A broker's rows, in the order of reading."""
    columns = {"arrived_at_ns": arrived_ms, "read_at_ns": read_ms, "released_at_ns": released_ms}
    return {name: np.rint(np.array(values) * MS).astype(np.int64) for name, values in columns.items()}


def test_messages_that_are_read_together_wait_by_stamps_at_reading_only():
    """The second and the third come a millisecond apart and are read at once."""
    found = undue_delays(rows([0, 1, 2], [0.1, 2.5, 2.5], [0.1, 2.5, 3.52]), np.array([False, False, True]), BUCKET)
    assert found["undue_delay"].tolist() == [0, 0, 1_020_000]
    assert found["undue_delay_kernel"].tolist() == [0, 0, 0]
    assert found["undue_delay_read"].tolist() == [0, 0, 1 * MS]


def test_what_does_not_conform_is_left_out():
    """The second comes too early: its wait is its own fault, and the third has its token."""
    found = undue_delays(rows([0, 0.4, 2], [0.1, 0.5, 2.1], [0.1, 1, 2.1]), np.array([False, True, False]), BUCKET)
    for delays in found.values():
        assert delays.tolist() == [0, ABSENT, 0]


def test_a_late_reading_costs_tokens_with_kernel_stamps_too():
    """The last to arrive is read first: the bucket is full by then, and the tokens of the others are lost."""
    found = undue_delays(rows([3, 1, 2], [3.1, 3.2, 3.3], [3.1, 4, 5]), np.array([False, True, True]), BUCKET)
    assert found["undue_delay_kernel"].tolist() == [0, 800_000, 1_700_000]
    assert found["undue_delay"].tolist() == [0, 800_000, 1_700_000]


def test_what_the_broker_let_through_has_no_delay():
    """Reading and releasing take their time, which is no token's."""
    found = undue_delays(rows([0, 5], [0.1, 5.1], [0.3, 9]), np.array([False, False]), BUCKET)
    assert found["undue_delay"].tolist() == [0, 0]
