"""Releases by one bucket, by a bucket that changes, and the brokers' work: against each other and the bucket's step."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.records import Envelope, Int64
from core.units import NEVER_NS
from systems.parts import token_bucket
from systems.parts.token_bucket import TOKEN
from testbed.virtual.released_kernel import one_bucket, sub_bucket

GAPS = st.lists(st.integers(0, 3_000_000), min_size=1, max_size=60)
ENVELOPES = st.builds(Envelope, st.floats(100, 5_000), st.floats(1, 20))
NO_CHANGES: tuple[tuple[int, Envelope], ...] = ()


def arrivals(gaps: list[int]) -> Int64:
    return np.cumsum(np.array(gaps, np.int64))


def changes_of(first: Envelope, later: tuple[tuple[int, Envelope], ...] = NO_CHANGES) -> Int64:
    return np.array([(at_ns, *token_bucket.units(envelope)) for at_ns, envelope in ((0, first), *later)], np.int64)


@given(GAPS, ENVELOPES)
def test_one_bucket_is_the_step(gaps: list[int], envelope: Envelope) -> None:
    at_ns, (rate, capacity) = arrivals(gaps), token_bucket.units(envelope)
    level, before_ns, expected = capacity, 0, []
    for now_ns in at_ns.tolist():
        level, wait = token_bucket.take(level, now_ns - before_ns, rate, capacity)
        before_ns = now_ns
        expected.append(now_ns + wait)
    assert one_bucket(at_ns, 0, rate, capacity).tolist() == expected


@given(GAPS, ENVELOPES)
def test_a_bucket_that_does_not_change_is_one_bucket(gaps: list[int], envelope: Envelope) -> None:
    at_ns = arrivals(gaps)
    assert (sub_bucket(at_ns, changes_of(envelope)) == one_bucket(at_ns, 0, *token_bucket.units(envelope))).all()


@given(GAPS, ENVELOPES, st.lists(st.tuples(st.integers(0, 60_000_000), ENVELOPES), max_size=6))
def test_a_bucket_that_changes_grants_no_more_than_its_rates(
    gaps: list[int], first: Envelope, later: list[tuple[int, Envelope]]
) -> None:
    """In order, none before it came; from any release to any other no more than the largest size and what came in."""
    at_ns, steps = arrivals(gaps), changes_of(first, tuple(sorted(later, key=lambda one: one[0])))
    released_ns = sub_bucket(at_ns, steps)
    assert (released_ns >= at_ns).all() and (np.diff(released_ns) >= 0).all() and released_ns.max() < NEVER_NS
    at, rate, capacity = steps.T

    def came_in(until_ns: int) -> int:
        ends = np.append(at[1:], NEVER_NS)
        return int(sum(r * max(0, min(until_ns, end) - begin) for begin, end, r in zip(at, ends, rate, strict=True)))

    for i, begin_ns in enumerate(released_ns.tolist()):
        for n, end_ns in enumerate(released_ns[i:].tolist(), start=1):
            rounded = int(rate.max())  # an instant is a whole nanosecond, the first at which the token is there
            assert n * TOKEN <= int(capacity.max()) + rounded + came_in(end_ns) - came_in(begin_ns)


def test_a_larger_rate_counts_for_those_who_wait() -> None:
    slow, fast = Envelope(1, 1), Envelope(1_000, 1)
    at_ns = np.zeros(2, np.int64)
    assert sub_bucket(at_ns, changes_of(slow)).tolist() == [0, 1_000_000_000]
    hurried = sub_bucket(at_ns, changes_of(slow, ((100_000_000, fast),)))
    assert hurried.tolist() == [0, 100_900_000]  # a tenth of the token was there already
