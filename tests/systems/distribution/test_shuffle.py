"""SRTM takes a group's members as it has shuffled them, once a search, and not by their numbers ([C])."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from core.records import Envelope, Int32, Population
from systems.api import Broker, BrokerMeasure, Measured, Problem
from systems.distribution import srtm

GROUPS, SIZE = 12, 20


def problem_of(brokers: int) -> Problem:
    publishers = Population(np.full(GROUPS * SIZE, 10.0), np.repeat(np.arange(GROUPS, dtype=np.int32), SIZE))
    some = tuple(Broker(f"b{i}", 110_000.0, 0.0) for i in range(brokers))
    return Problem(publishers, Envelope(2_640.0, 100.0), some, 100, 60 * 10**9)


def forced(brokers: int, seed: int) -> Int32:
    """Everybody's broker, a row a group, with so many brokers and no search."""
    search = srtm.distribute(problem_of(6), srtm.Config(brokers=brokers), np.random.default_rng(seed))
    try:
        next(search)
    except StopIteration as stop:
        assignment: Int32 = stop.value.assignment.reshape(GROUPS, SIZE)
        return assignment
    raise AssertionError("a fixed number of brokers needs no round")


def switches(rows: Int32) -> int:
    """How often neighbours by number are on different brokers."""
    return int((rows[:, 1:] != rows[:, :-1]).sum())


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(0, 2**32))
def test_neighbours_by_number_are_parted(brokers, seed):
    rows = forced(brokers, seed)
    shares = np.array([np.bincount(row, minlength=brokers) for row in rows])
    assert (shares == shares[0]).all() and shares[0].max() - shares[0].min() <= 1 + SIZE % brokers  # as even as ever
    # In order of numbers each group switches brokers - 1 times; shuffled, nearly (1 - 1/k) of 19 times.
    assert switches(rows) > GROUPS * (brokers - 1) + 0.5 * GROUPS * (SIZE - 1 - brokers) * (1 - 1 / brokers)


def test_groups_are_shuffled_apart_from_each_other_and_by_the_seed_alone():
    rows = forced(2, 7)
    assert (rows == forced(2, 7)).all() and (rows != forced(2, 8)).any()
    assert len({row.tobytes() for row in rows}) > GROUPS / 2


def test_a_search_keeps_the_order_that_it_began_with():
    """What a broker tries is part of what it tried before, or holds it, round by round: nobody is drawn anew."""
    search = srtm.distribute(problem_of(1), srtm.Config(fill_vacancy=False), np.random.default_rng(3))
    trial, tried = next(search), []
    for p99_ns in (200, 190, 180, 60, 60):
        tried.append(frozenset(np.flatnonzero(trial.assignment == 0).tolist()))
        on_it = BrokerMeasure(p99_ns, 0, 10.0 * len(tried[-1]))
        try:
            trial = search.send(Measured((on_it,), p99_ns))
        except StopIteration:
            break
    assert [len(members) for members in tried[:3]] == [240, 120, 60]
    by_size = sorted(tried, key=len)
    assert all(small <= large for small, large in pairwise(by_size))
