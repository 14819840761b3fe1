from collections import Counter

import numpy as np
import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from workloads.requests import WORKLOAD, poisson_requests

NODES = ["n1", "n2", "n3"]


def test_instants_are_poisson_and_in_order() -> None:
    requests = poisson_requests(NODES, users_count=50, rate_rps=20.0, duration_ns=20 * SECOND_NS, seed=4)
    everything = sorted((r for rows in requests.values() for r in rows), key=lambda r: r.id)
    at_ns = np.array([r.at_ns for r in everything])
    assert [r.id for r in everything] == list(range(len(everything)))
    assert (np.diff(at_ns) >= 0).all() and at_ns[0] >= 0 and at_ns[-1] < 20 * SECOND_NS
    assert abs(len(at_ns) - 20_000) < 5 * 20_000**0.5
    gaps = np.diff(at_ns) / SECOND_NS
    assert abs(gaps.std() / gaps.mean() - 1.0) < 0.05  # exponential
    for rows in requests.values():
        assert [r.at_ns for r in rows] == sorted(r.at_ns for r in rows)


def test_sticky_users_stay_at_their_node_and_others_spread() -> None:
    sticky = poisson_requests(NODES, 6, 10.0, 10 * SECOND_NS, 1)
    assert {r.user for r in sticky["n2"]} == {"user-1", "user-4"}
    spread = poisson_requests(NODES, 1, 300.0, 10 * SECOND_NS, 1, sticky=False, cost=2)
    counts = Counter({name: len(rows) for name, rows in spread.items()})
    assert all(abs(count - 1_000) < 150 for count in counts.values())
    assert {r.cost for rows in spread.values() for r in rows} == {2}


def test_more_users_shift_nobody_else() -> None:
    few = poisson_requests(NODES, 3, 10.0, 10 * SECOND_NS, 1)
    many = poisson_requests(NODES, 30, 10.0, 10 * SECOND_NS, 1)
    for name in NODES:
        user = few[name][0].user
        assert [r.at_ns for r in many[name] if r.user == user] == [r.at_ns for r in few[name]]
    other = poisson_requests(NODES, 3, 10.0, 10 * SECOND_NS, 2)
    assert [r.at_ns for r in other["n1"]] != [r.at_ns for r in few["n1"]]


@pytest.mark.parametrize(("users", "duration_ns"), [(0, SECOND_NS), (5, 0)])
def test_nothing_is_offered_without_users_or_time(users: int, duration_ns: int) -> None:
    assert poisson_requests(NODES, users, 10.0, duration_ns, 1) == {name: [] for name in NODES}


def test_rates_go_from_the_lowest_to_the_highest() -> None:
    rows = poisson_requests(["n1"], 5, 10.0, 100 * SECOND_NS, 1, highest_rps=30.0)["n1"]
    counts = Counter(r.user for r in rows)
    for user, rate in enumerate((10, 15, 20, 25, 30)):
        assert abs(counts[f"user-{user}"] - 100 * rate) < 4 * (100 * rate) ** 0.5


def test_uneven_users_ask_some_nodes_more_often_each_in_an_order_of_its_own() -> None:
    rows = poisson_requests(NODES, 30, 100.0, 10 * SECOND_NS, 1, sticky=False, uneven=True)
    even = poisson_requests(NODES, 30, 100.0, 10 * SECOND_NS, 1, sticky=False)
    counts = [
        Counter({name: sum(r.user == f"user-{user}" for r in rows[name]) for name in NODES}) for user in range(30)
    ]
    shares = np.array([sorted(count.values(), reverse=True) for count in counts]) / 1_000
    wanted = 1 / np.arange(1, len(NODES) + 1)
    assert np.allclose(shares.mean(axis=0), wanted / wanted.sum(), atol=0.02)
    assert len({count.most_common(1)[0][0] for count in counts}) == len(NODES)
    instants = [sorted(r.at_ns for each in found.values() for r in each) for found in (rows, even)]
    assert instants[0] == instants[1], "where requests go does not move them"


@pytest.mark.parametrize("options", [{"highest_rps": 5.0}, {"uneven": True}, {"highest_rps": 1e300}, {"cost": 2**31}])
def test_options_that_do_not_fit(options: dict[str, object]) -> None:
    with pytest.raises(SpecError):
        WORKLOAD.configure(options)
