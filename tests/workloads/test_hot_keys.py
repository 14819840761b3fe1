"""Keys at multiples of their limit: how much, when, where, and what moves none of it."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from workloads import load
from workloads.hot_keys import WORKLOAD, HotKeysConfig, keys_of

NODES = ["n1", "n2", "n3", "n4", "n5"]


def made(seed=1, **options):
    return WORKLOAD.make(WORKLOAD.configure(options), seed)


def rows(schedule, nodes=NODES, duration_ns=None):
    """(instant, user, node) of all requests, in order of their ids."""
    requests = schedule.requests(nodes, duration_ns or schedule.duration_ns)
    found = sorted((r.id, r.at_ns, r.user, node) for node, its in requests.items() for r in its)
    assert [row[0] for row in found] == list(range(len(found))), "ids are unique, and count up"
    assert all([r.at_ns for r in its] == sorted(r.at_ns for r in its) for its in requests.values())
    return [row[1:] for row in found]


def of_user(found, user):
    return [(at_ns, node) for at_ns, its, node in found if its == user]


def test_keys_say_their_shape_and_factor():
    keys = keys_of(HotKeysConfig(factors="0.5, 10", shapes="skewed,even", keys=2))
    assert [key.user for key in keys] == [
        *("skewed-0.5x-1", "skewed-0.5x-2", "skewed-10x-1", "skewed-10x-2"),
        *("even-0.5x-1", "even-0.5x-2", "even-10x-1", "even-10x-2"),
    ]
    assert keys[0][1:] == ("skewed", Fraction(1, 2), 1) and keys[-1][1:] == ("even", 10, 2)
    assert len(made().keys) == 12


@pytest.mark.parametrize(("count", "period"), [(20, "1s"), (30, "1min")])
def test_each_key_is_offered_its_multiple_of_the_limit_at_poisson_instants(count, period):
    schedule = made(count=count, period=period, keys=4, duration="100s" if period == "1s" else "100min")
    found, config = rows(schedule), schedule.config
    counts = Counter(user for _, user, _ in found)
    for key in schedule.keys:
        expected = key.factor * count * config.duration_ns / config.period_ns
        assert abs(counts[key.user] - expected) < 5 * float(expected) ** 0.5
    assert abs(len(found) - config.request_count) < 5 * config.request_count**0.5
    assert WORKLOAD.size(config) == (config.request_count, schedule.duration_ns)
    gaps = np.diff([at_ns for at_ns, _ in of_user(found, "even-5x-1")])
    assert abs(gaps.std() / gaps.mean() - 1.0) < 0.05  # exponential
    assert found[0][0] >= 0 and found[-1][0] < schedule.duration_ns


def shares(at_nodes):
    counts = Counter(node for _, node in at_nodes)
    return np.array([counts[node] for node in NODES]) / len(at_nodes)


def test_even_keys_ask_all_nodes_alike_and_skewed_ones_mostly_one_of_their_own():
    schedule = made(factors="5", shapes="even,skewed", keys=6, duration="50s")
    found, hot = rows(schedule), Counter()
    for key in schedule.keys:
        its = np.sort(shares(of_user(found, key.user)))
        if key.shape == "even":
            np.testing.assert_allclose(its, 0.2, atol=0.03)
        else:
            np.testing.assert_allclose(its, [0.05, 0.05, 0.05, 0.05, 0.8], atol=0.03)
            hot[NODES[int(np.argmax(shares(of_user(found, key.user))))]] += 1
    assert len(hot) > 1, "not all at the node that has the servers"


def test_a_moving_key_is_mostly_at_each_node_in_turn():
    schedule = made(factors="5", shapes="moving", keys=3, duration="200s", share=0.7)
    found = rows(schedule)
    for key in schedule.keys:
        tops = []
        for part in range(5):
            span = [row for row in of_user(found, key.user) if part <= row[0] // (40 * SECOND_NS) < part + 1]
            its = shares(span)
            tops.append(int(np.argmax(its)))
            np.testing.assert_allclose(np.sort(its), [0.075] * 4 + [0.7], atol=0.03)
        assert [(top - tops[0]) % 5 for top in tops] == [0, 1, 2, 3, 4]


def test_other_keys_shapes_and_nodes_move_no_request():
    whole = rows(made())
    alone = made(factors="2", shapes="moving")
    assert rows(alone) == [row for row in whole if row[1] == "moving-2x-1"]
    more = rows(made(keys=3, shapes="moving,even,skewed", factors="7,2"))
    for shape in ("even", "skewed", "moving"):
        assert of_user(more, f"{shape}-2x-1") == of_user(whole, f"{shape}-2x-1")
    times = [row[:2] for row in whole]
    assert [row[:2] for row in rows(made(), ["a", "b"])] == [row[:2] for row in rows(made(), ["a"])] == times
    assert [row[:2] for row in rows(made(share=0.1))] == times
    assert rows(made(seed=2)) != whole and rows(made()) == whole


def test_a_longer_load_begins_with_the_shorter_one():
    short, long = made(duration="7s"), made(duration="60s")
    found, cut = rows(short), rows(long, duration_ns=short.duration_ns)
    assert [row[:2] for row in found] == [row[:2] for row in cut]
    assert [row for row in found if row[1][0] != "m"] == [row for row in cut if row[1][0] != "m"]


def test_one_node_and_two_have_all():
    assert {row[2] for row in rows(made(), ["a"])} == {"a"}
    all_at_one = rows(made(share=1.0, shapes="skewed"), ["a", "b"])
    assert all(len({node for _, node in of_user(all_at_one, key.user)}) == 1 for key in made(shapes="skewed").keys)
    none_at_it = rows(made(share=0.0, shapes="skewed", factors="5"), NODES)
    assert len({node for _, node in of_user(none_at_it, "skewed-5x-1")}) == 4


def test_a_load_of_no_request_is_empty():
    assert rows(made(duration="1ns")) == []
    assert made(duration="1ns").requests(NODES, SECOND_NS) == {node: [] for node in NODES}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"count": 0}, "count"),
        ({"period": "0s"}, "period"),
        ({"period": "a minute"}, "period"),
        ({"factors": ""}, "factors"),
        ({"factors": "1,two"}, "factors"),
        ({"factors": "1,0"}, "factors"),
        ({"factors": "-1"}, "factors"),
        ({"factors": "1/2,0.5"}, "factors"),
        ({"shapes": "even,round"}, "shapes"),
        ({"shapes": ""}, "shapes"),
        ({"shapes": "even,even"}, "shapes"),
        ({"keys": 0}, "keys"),
        ({"duration": "0s"}, "duration"),
        ({"duration": "100h"}, "keys"),
        ({"share": 1.1}, "share"),
    ],
)
def test_a_wrong_option_is_named(options, names):
    with pytest.raises(SpecError, match=f"option {names}="):
        load("hot-keys").configure(options)
