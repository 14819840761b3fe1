"""Which node a request reaches, and what that leaves alone."""

from collections import Counter
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.units import MILLISECOND_NS
from workloads.placement import EPOCH_MS, RULES, Columns, PlacedRequests, owners, place, user_number

NODES = [f"n{number}" for number in range(1, 31)]
NAMES = ("0123456789abcdef" * 2, "deadbeef" * 4, "a host", "höst")


def columns(at_ms, user) -> Columns:
    at_ns, users = np.array(at_ms, np.int64) * MILLISECOND_NS, np.array(user, np.int32)
    return Columns(at_ns, users, np.ones(len(users), np.int32), NAMES)


MANY = columns(np.arange(20_000) // 2, np.arange(20_000) % 4)


def test_a_user_id_is_its_own_number_and_other_text_its_digest():
    assert user_number("deadbeef" * 4) == 0xDEADBEEF_DEADBEEF_DEADBEEF_DEADBEEF
    assert user_number("a host") == int.from_bytes(blake2b(b"a host", digest_size=16).digest(), "little")
    assert len({user_number(name) for name in (*NAMES, "DEADBEEF" * 4)}) == 5
    assert user_number("\ud800") != user_number("\ud801"), "half of a surrogate pair is text, too"


def test_the_injector_hashes_recorded_time_times_user():
    found = place("injector", 1, NODES, columns([0, 7], [1, 3]))
    keys = [EPOCH_MS * user_number(NAMES[1]), (EPOCH_MS + 7) * user_number(NAMES[3])]
    np.testing.assert_array_equal(found, owners(NODES, keys))
    np.testing.assert_array_equal(found, place("injector", 2, NODES, columns([0, 7], [1, 3])), "no seed in it")


@given(at_ms=st.integers(0, 10**9), user=st.integers(0, 3), nodes=st.integers(1, 40))
def test_requests_of_one_user_in_one_millisecond_reach_one_node(at_ms, user, nodes):
    asked = columns([at_ms] * 3, [user] * 3)
    asked.at_ns[:] += [0, 1, MILLISECOND_NS - 1]
    assert len(set(place("injector", 1, NODES[:nodes], asked).tolist())) == 1


@pytest.mark.parametrize("rule", ["injector", "random"])
def test_every_node_gets_its_share_of_every_user(rule):
    found = place(rule, 1, NODES, MANY)
    for user in range(4):
        counts = np.bincount(found[MANY.user == user], minlength=30)
        assert (abs(counts / (5_000 / 30) - 1) < 0.45).all()


def test_equal_instants_of_several_users_spread():
    places = [place("injector", 1, NODES, columns([at_ms] * 4, range(4))) for at_ms in range(50)]
    assert np.mean([len(set(row.tolist())) for row in places]) > 3.5


def test_sticky_users_stay():
    found = place("user", 1, NODES, MANY)
    assert all(len(set(found[MANY.user == user].tolist())) == 1 for user in range(4))


def test_a_node_that_leaves_moves_its_own_requests_only():
    before, after = (np.array(nodes)[place("injector", 1, nodes, MANY)] for nodes in (NODES, NODES[:-1]))
    moved = before != after
    assert moved.any() and set(before[moved]) == {NODES[-1]}
    backwards = np.array(NODES[::-1])[place("injector", 1, NODES[::-1], MANY)]
    np.testing.assert_array_equal(before, backwards, "the order of the nodes does not matter")


def test_chance_is_named_by_user():
    few = Columns(MANY.at_ns[MANY.user == 2], np.zeros(5_000, np.int32), np.ones(5_000, np.int32), (NAMES[2],))
    np.testing.assert_array_equal(place("random", 9, NODES, few), place("random", 9, NODES, MANY)[MANY.user == 2])
    assert (place("random", 8, NODES, MANY) != place("random", 9, NODES, MANY)).mean() > 0.9


@pytest.mark.parametrize("rule", RULES)
def test_only_the_placement_depends_on_the_nodes(rule):
    schedule = PlacedRequests(MANY, 10_000 * MILLISECOND_NS, rule, 1)
    one, several = schedule.requests(["x"], 5_000 * MILLISECOND_NS), schedule.requests(NODES, 5_000 * MILLISECOND_NS)
    assert [request.id for request in one["x"]] == list(range(10_000))
    assert sorted((r for rows in several.values() for r in rows), key=lambda r: r.id) == one["x"]
    assert all([r.id for r in rows] == sorted(r.id for r in rows) for rows in several.values())
    assert list(several) == NODES
    assert Counter(r.user for r in one["x"]) == Counter({name: 2_500 for name in NAMES})
