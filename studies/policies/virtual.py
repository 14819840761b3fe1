"""The study of placement policies (ePulsar 5.5): coordinates once, then many random placements of clients.

No message is sent.  The coordinate agents of a topology probe each other for a while; then clients are placed at
random, and each policy chooses a broker for every topic.  Load is left out, as in the paper.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from core.records import Float64, Int64
from core.seeds import generator
from core.units import SECOND_NS
from studies.policies.asked import PolicyResults, PolicyStudy, Setting
from systems.parts.consistent_hash import NAMESPACE, ranges_of
from systems.parts.coordinates import Coordinates
from systems.parts.topic_placement import delays_s
from systems.parts.vivaldi_kernel import begin, coordinates, run_rounds
from systems.placement.cast import AGENT
from testbed.topologies.topology import Topology
from testbed.virtual.placement_kernel import study


class Places(NamedTuple):
    """Who has a coordinate: brokers first, then sites, then others.  One-way delays in seconds between all."""

    delay_s: Float64  # (n, n), symmetric, 0 on the diagonal
    brokers: int
    sites: int
    names: tuple[str, ...]

    def site_to_broker(self, matrix: Float64) -> Float64:
        """The part (sites, brokers) of a matrix (n, n)."""
        return matrix[self.brokers : self.brokers + self.sites, : self.brokers]


def places_of(topology: Topology) -> Places:
    """Brokers, sites and managers, in the order of their numbers."""
    brokers, sites, managers = (
        [name for name in topology.node_names(role) if not name.endswith(AGENT)]
        for role in ("broker", "proxy", "manager")
    )
    nodes = [*brokers, *sites, *managers]
    delay_ns = np.array([[topology.path(a, b).one_way_delay_ns for b in nodes] for a in nodes], np.int64)
    return Places(delay_ns / SECOND_NS, len(brokers), len(sites), tuple(nodes))


def shuffled(places: Places, rng: np.random.Generator) -> Places:
    """The delays between brokers dealt anew among their pairs: the same numbers, but no geometry behind them.

    Whoever is no broker stays as far from the nearest one, and reaches others through it.
    """
    count = places.brokers
    nearest = places.delay_s[:, :count].argmin(axis=1)
    nearest[:count] = np.arange(count)
    away_s = places.delay_s[np.arange(len(nearest)), nearest]
    upper = np.triu_indices(count, 1)
    between = np.zeros((count, count))
    between[upper] = rng.permutation(places.delay_s[:count, :count][upper])
    between += between.T
    delay_s = between[np.ix_(nearest, nearest)] + away_s[:, None] + away_s[None, :]
    np.fill_diagonal(delay_s, 0.0)
    return places._replace(delay_s=delay_s)


def settled(places: Places, rounds: int, rng: np.random.Generator) -> Coordinates:
    """The coordinates after so many rounds of probes from the start, 600 being ten minutes of Serf's LAN profile."""
    state = begin(len(places.delay_s), rng)
    run_rounds(state, 2.0 * places.delay_s, rounds, rng)
    return coordinates(state)


class PolicyScenario(NamedTuple):
    """Who publishes what to whom: groups of ``members`` clients each, consecutive."""

    topics: tuple[str, ...]
    producers: tuple[tuple[int, ...], ...]  # of each topic: numbers of clients
    consumers: tuple[tuple[int, ...], ...]


def game(groups: int, members: int) -> PolicyScenario:
    """MMOG (5.1.2): every avatar has a topic, which all others of its group subscribe to."""
    of_groups = [range(group * members, (group + 1) * members) for group in range(groups)]
    clients = [(avatar, tuple(one for one in group if one != avatar)) for group in of_groups for avatar in group]
    names = tuple(f"{NAMESPACE}avatar_{avatar}" for avatar, _ in clients)
    return PolicyScenario(names, tuple((avatar,) for avatar, _ in clients), tuple(others for _, others in clients))


def swarms(groups: int, members: int) -> PolicyScenario:
    """UAV swarms (5.1.1): the leader commands the others, and they tell it what they see."""
    names, producers, consumers = [], [], []
    for group in range(groups):
        leader, *followers = range(group * members, (group + 1) * members)
        names += [f"{NAMESPACE}follow_leader_{group}", f"{NAMESPACE}sensor_data_{group}"]
        producers += [(leader,), tuple(followers)]
        consumers += [tuple(followers), (leader,)]
    return PolicyScenario(tuple(names), tuple(producers), tuple(consumers))


def drawn(count: int, groups: int, members: int, sites: int, together: bool, rng: np.random.Generator) -> Int64:
    """Sites of all clients, int64 (count, groups x members), all sites alike: a group's ``together``, or each alone.

    Clients are exchangeable, so that dealing them to groups at random is to give consecutive ones random sites.
    """
    if together:
        return np.repeat(rng.integers(0, sites, (count, groups)), members, axis=1)
    return rng.integers(0, sites, (count, groups * members))


def results(
    places: Places, where: Coordinates, scenario: PolicyScenario, placements: Int64, setting: Setting
) -> Float64:
    """The kernel's results: float64 (placements, policies, measures), in seconds and shares."""
    brokers = Coordinates(*(part[: places.brokers] for part in where))
    sites = Coordinates(*(part[places.brokers : places.brokers + places.sites] for part in where))
    if setting.access_in_height:
        sites = sites._replace(height=sites.height + 2.0 * setting.access_s)  # coordinates are of round trips
    shown: Float64 = study(
        placements,
        (*_flat(scenario.producers), *_flat(scenario.consumers)),
        ranges_of(scenario.topics, places.brokers),
        delays_s(sites, brokers, setting.policy),
        places.site_to_broker(places.delay_s) + setting.access_s,
        tuple(sites[:3]),
        tuple(brokers[:3]),
        setting.bound_s,
        setting.policy.share,
        setting.policy.shortcut,
        setting.only_violated,
    )
    return shown


def _flat(members: Sequence[Sequence[int]]) -> tuple[Int64, Int64]:
    """All members one after another, and where each topic's begin."""
    starts = np.cumsum([0, *(len(each) for each in members)])
    return np.array([one for each in members for one in each], np.int64), starts.astype(np.int64)


def run(asked: PolicyStudy) -> PolicyResults:
    """Let coordinates settle, draw the placements, and see what each policy makes of them."""
    config, places = asked.config, places_of(asked.topology)
    if config.shuffled:
        places = shuffled(places, generator(asked.seed, "placement-study", "delays"))
    where = settled(places, config.rounds, generator(asked.seed, "placement-study", "coordinates"))
    in_swarms = config.scenario == "swarms"
    scenario = (swarms if in_swarms else game)(config.groups, config.members)
    rng = generator(asked.seed, "placement-study", "clients")
    placements = drawn(config.permutations, config.groups, config.members, places.sites, in_swarms, rng)
    shown = results(places, where, scenario, placements, config.setting())
    return PolicyResults(shown, places.names, places.delay_s, where)
