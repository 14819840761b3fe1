"""The placement study: places, scenarios, and the kernel beside its twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.seeds import generator
from studies.policies import virtual as study
from studies.policies.asked import Setting
from studies.policies.study import POLICIES
from systems.parts.consistent_hash import ranges_of
from systems.parts.coordinates import Coordinates, distances_s
from systems.parts.topic_placement import Policy
from testbed.topologies.topology import load_topology
from tests.studies.policies import twin as placement_twin


def test_places_of_a_topology_with_sites() -> None:
    places = study.places_of(load_topology("city-mec", {"sites": 3}))
    assert (places.brokers, places.sites, len(places.delay_s)) == (3, 3, 7)  # and a manager in the cloud
    to_broker = places.site_to_broker(places.delay_s)
    assert to_broker == pytest.approx(0.015 * (1 - np.eye(3)))
    assert places.delay_s[6, :6] == pytest.approx(0.040)


def test_shuffling_keeps_the_delays_and_the_sites() -> None:
    before = study.places_of(load_topology("us-cities", {"cities": 5, "edge_sites": 2}))
    after = study.shuffled(before, generator(1, "delays"))
    upper = np.triu_indices(5, 1)
    assert sorted(after.delay_s[:5, :5][upper]) == sorted(before.delay_s[:5, :5][upper])
    assert not np.array_equal(after.delay_s, before.delay_s)
    assert np.array_equal(after.delay_s, after.delay_s.T)
    homes = np.repeat(np.arange(5), 2)
    assert after.site_to_broker(after.delay_s) == pytest.approx(after.delay_s[homes, :5] + 0.005)
    between = after.delay_s[np.ix_(homes, homes)] + 0.010
    np.fill_diagonal(between, 0)
    assert after.delay_s[5:15, 5:15] == pytest.approx(between)
    assert after.delay_s[15, :5] == pytest.approx(after.delay_s[0, :5])  # the manager is in New York


def test_coordinates_settle() -> None:
    places = study.places_of(load_topology("us-cities", {"cities": 4}))
    where = study.settled(places, 600, generator(1, "coordinates"))
    off = np.abs(distances_s(where, where) - 2 * places.delay_s)[places.delay_s > 0]
    assert np.median(off) < 0.005


def test_who_tells_whom() -> None:
    game = study.game(2, 3)
    assert game.topics[4] == "persistent://public/default/avatar_4"
    assert (game.producers[4], game.consumers[4]) == ((4,), (3, 5))
    swarms = study.swarms(2, 3)
    assert swarms.topics[2:] == (
        "persistent://public/default/follow_leader_1",
        "persistent://public/default/sensor_data_1",
    )
    assert (swarms.producers[2:], swarms.consumers[2:]) == (((3,), (4, 5)), ((4, 5), (3,)))


def test_clients_are_everywhere_and_swarms_together() -> None:
    alone = study.drawn(50, 128, 8, 4, False, generator(1, "clients"))
    assert alone.shape == (50, 1024)
    assert np.bincount(alone.ravel()) == pytest.approx(np.full(4, 50 * 256), rel=0.05)
    together = study.drawn(50, 16, 8, 4, True, generator(1, "clients"))
    assert (together.reshape(50, 16, 8) == together.reshape(50, 16, 8)[:, :, :1]).all()
    assert len(np.unique(together)) == 4
    more = study.drawn(60, 128, 8, 4, False, generator(1, "clients"))
    assert np.array_equal(more[:50], alone)  # more placements are the same ones, and some more


def random_places(seed: int, brokers: int, sites: int) -> tuple[study.Places, Coordinates]:
    """Delays and coordinates that have nothing to do with each other."""
    rng = generator(seed, "places")
    count = brokers + sites
    delay_s = rng.uniform(0, 0.08, (count, count))
    delay_s = np.triu(delay_s, 1) + np.triu(delay_s, 1).T
    parts = rng.normal(0, 0.02, (count, 8)), rng.uniform(0, 0.01, count), rng.normal(0, 0.003, count)
    names = tuple(f"n{n}" for n in range(count))
    return study.Places(delay_s, brokers, sites, names), Coordinates(*parts, np.ones(count))


@given(
    st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4), st.booleans(),
    st.sampled_from([Policy(), Policy(literal=True), Policy(shortcut=True)]), st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_kernel_finds_what_its_twin_does(
    seed: int, brokers: int, sites: int, swarms: bool, policy: Policy, in_height: bool, only_violated: bool
) -> None:
    places, where = random_places(seed, brokers, sites)
    scenario = (study.swarms if swarms else study.game)(3, 3)
    setting = Setting(policy, 0.08, 0.004, in_height, only_violated)
    placements = study.drawn(2, 3, 3, sites, swarms, generator(seed, "clients"))
    found = study.results(places, where, scenario, placements, setting)
    hashed = ranges_of(scenario.topics, brokers)
    for number, sites_of in enumerate(placements):
        twin = placement_twin.results(places, where, scenario, sites_of, hashed, setting)
        for row, name in enumerate(POLICIES):
            assert found[number, row] == pytest.approx(np.array(twin[name])), name


def test_by_hand() -> None:
    """Two sites 30 ms apart, a broker each; a swarm at the second, whose topics are hashed to the first broker."""
    places = study.places_of(load_topology("city-mec", {"sites": 2, "site_rtt": "60ms"}))
    scenario = study.swarms(1, 3)
    vec = np.zeros((5, 8))
    vec[[1, 3], 0] = 0.060  # a perfect embedding of brokers 1 and 2, sites 1 and 2; the manager is anywhere
    where = Coordinates(vec, np.zeros(5), np.zeros(5), np.ones(5))
    setting = Setting(Policy(), 0.040, 0.008, True, False)
    found = study.results(places, where, scenario, np.array([[1, 1, 1]]), setting)[0]
    hashed = ranges_of(scenario.topics, 2).tolist()
    away = hashed.count(0) / 2  # of the pairs, half are of either topic
    far = 0.076 if away else 0.016
    assert found[0, :5] == pytest.approx([far, away, away, far, away])
    for row in (1, 2, 3):
        assert found[row, :5] == pytest.approx([0.016, 0, 0, 0.016, 0])  # 32 ms there and back
    # The centroid of clients at one place has their height as well: 16 ms of access are counted as 48.
    assert found[:, 5].tolist() == [0.0, 1.0, 0.0, 1.0]
