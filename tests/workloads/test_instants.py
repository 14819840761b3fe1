"""Patterns of stated instants, and probes of every node."""

import numpy as np
import pytest

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from workloads.instants import WORKLOAD as INSTANTS
from workloads.probes import OFFSET_NS
from workloads.probes import WORKLOAD as PROBES

NODES = ["n1", "n2", "n3"]


def made(workload, seed=1, **options):
    return workload.make(workload.configure(options), seed)


def rows(schedule, duration_ns=None):
    requests = schedule.requests(NODES, duration_ns or schedule.duration_ns)
    return sorted((r.at_ns, node, r.id, r.user, r.cost) for node, found in requests.items() for r in found)


def test_a_pattern_comes_again_every_period():
    schedule = made(INSTANTS, at=["1s", "3500ms", "3500ms"], period="5s", repeats=3, cost=2)
    found = schedule.columns()
    np.testing.assert_array_equal(found.at_ns // MILLISECOND_NS, [at + k for k in (0, 5_000, 10_000)
                                                                   for at in (1_000, 3_500, 3_500)])  # fmt: skip
    assert schedule.duration_ns == 15 * SECOND_NS and set(found.cost) == {2} and len(found.names) == 1
    assert [row[2] for row in rows(schedule)] == sorted(range(9))


def test_a_single_pattern_may_be_longer_than_its_period_and_is_offered_whole():
    schedule = made(INSTANTS, at=["0ms", "7s"])
    assert [row[0] for row in rows(schedule)] == [0, 7 * SECOND_NS]


def test_sticky_requests_share_a_node_and_the_injector_spreads_them():
    options = {"period": "100ms", "repeats": 100}
    assert len({row[1] for row in rows(made(INSTANTS, placement="user", **options))}) == 1
    assert len({row[1] for row in rows(made(INSTANTS, **options))}) == 3


def test_one_node_is_asked_first_and_after_the_lag_all_others():
    schedule = made(PROBES, lags=["100ms", "250ms"], trials=2, spacing="10s")
    found = rows(schedule)
    assert len({row[2] for row in found}) == len(found) == 4 * len(NODES)
    users = list(dict.fromkeys(row[3] for row in found))
    assert len(users) == 4
    for number, user in enumerate(users):
        (first, node, *_), *others = [row for row in found if row[3] == user]
        assert first == number * 10 * SECOND_NS + OFFSET_NS and node == "n1"
        lag_ns = (100, 250)[number % 2] * MILLISECOND_NS
        assert [(row[0] - first, row[1]) for row in others] == [(lag_ns, "n2"), (lag_ns, "n3")]


def test_steps_multiply_the_lags_and_a_trial_cut_short_is_left_out():
    schedule = made(PROBES, lags=["10ms"], steps=3, trials=1, spacing="1s")
    ends = [row[0] - OFFSET_NS for row in rows(schedule) if row[1] == "n3"]
    assert ends == [10 * MILLISECOND_NS, SECOND_NS + 20 * MILLISECOND_NS, 2 * SECOND_NS + 30 * MILLISECOND_NS]
    assert len(rows(schedule, 2 * SECOND_NS + 20 * MILLISECOND_NS)) == 2 * len(NODES)


@pytest.mark.parametrize(
    ("workload", "options", "names"),
    [
        (INSTANTS, {"at": []}, "at"),
        (INSTANTS, {"at": ["2s", "1s"]}, "at"),
        (INSTANTS, {"at": ["1us"]}, "at"),
        (INSTANTS, {"at": ["soon"]}, "at"),
        (INSTANTS, {"period": "0s"}, "period"),
        (INSTANTS, {"at": ["0ms", "2s"], "repeats": 2}, "period"),
        (INSTANTS, {"repeats": 0}, "repeats"),
        (INSTANTS, {"cost": 0}, "cost"),
        (INSTANTS, {"placement": "nearest"}, "placement"),
        (PROBES, {"lags": []}, "lags"),
        (PROBES, {"lags": ["0ms"]}, "lags"),
        (PROBES, {"steps": 0}, "steps"),
        (PROBES, {"trials": 0}, "trials"),
        (PROBES, {"spacing": "900ms"}, "spacing"),
        (PROBES, {"cost": 0}, "cost"),
    ],
)
def test_a_wrong_option_is_named(workload, options, names):
    with pytest.raises(SpecError, match=names):
        workload.configure(options)
