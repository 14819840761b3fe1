"""Coordinate agents: trips between them, handovers, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from studies.coordinates.asked import Located, Locating, TripTable, check_locating, trips
from studies.coordinates.virtual import located
from systems.parts.coordinates import distances_s
from testbed.faults import Handover
from testbed.topologies.topology import SWITCH, Host, Link, Topology, load_topology

MS = MILLISECOND_NS
# Two sites 20 ms apart one way, a node at each; a client with 3 ms of access, at the first.
TWO_SITES = Topology(
    "two-sites",
    (Host("a", nodes=("a", "a-agent")), Host("b"), Host("client"), Host("s1", role=SWITCH), Host("s2", role=SWITCH)),
    (
        Link("a", "s1"), Link("b", "s2", 1 * MS, MS // 2), Link("client", "s1", 3 * MS, 1 * MS, 0.1),
        Link("s1", "s2", 20 * MS),
    ),
)  # fmt: skip
NODES = ("a", "b", "client")


def test_a_trip_is_there_and_back() -> None:
    found = trips(TWO_SITES, NODES)
    assert found.rtt_ns.tolist() == [[0, 42 * MS, 6 * MS], [42 * MS, 0, 48 * MS], [6 * MS, 48 * MS, 0]]
    assert found.jitter_ns[0].tolist() == [0, MS // 2, MS] and found.jitter_ns[1, 2] == MS + MS // 2
    assert found.loss_probability[0] == pytest.approx([0.0, 0.0, 0.19])
    assert trips(TWO_SITES, ["a", "a-agent"]).rtt_ns.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("name", "options", "nodes", "rtts_ms"),
    [
        ("full-mesh", {"nodes": 2}, ["n1", "n2"], [10]),
        ("star", {"nodes": 2}, ["hub", "n1", "n2"], [10, 10, 20]),
        ("dumbbell", {"nodes": 3}, ["n1", "n2", "n3"], [4, 44, 44]),
        ("wan", {"nodes": 6, "cities": "London, Tokyo"}, ["n1", "n3"], [1]),
    ],
)
def test_trips_are_those_of_the_paths(name: str, options: dict[str, Any], nodes: list[str], rtts_ms: list[int]) -> None:
    topology = load_topology(name, options)
    found = trips(topology, nodes).rtt_ns
    paths = [[2 * topology.path(a, b).one_way_delay_ns for b in nodes] for a in nodes]
    assert found.tolist() == paths
    assert found[np.triu_indices(len(nodes), 1)].tolist() == [ms * MS for ms in rtts_ms]


def test_who_hands_over_takes_the_access_link_along() -> None:
    table = TripTable(TWO_SITES, NODES)
    moved = Topology("moved", TWO_SITES.hosts, (*TWO_SITES.links[:2], replace(TWO_SITES.links[2], b="s2"),
                                                TWO_SITES.links[3]))  # fmt: skip
    for one, other in zip(table.trips({"client": "s2"}), trips(moved, NODES), strict=True):
        np.testing.assert_allclose(one, other)
    assert (table.trips({"client": "s1"}).rtt_ns == trips(TWO_SITES, NODES).rtt_ns).all()


def locate(locating: Locating, topology: Topology = TWO_SITES, seed: int = 1) -> Located:
    check_locating(topology, locating)
    return located(topology, seed, locating)


def test_reads_are_of_their_rounds_whatever_else_is_read() -> None:
    few, many = (locate(Locating(NODES, 40, reads)) for reads in ((40,), (0, 7, 39, 40)))
    assert many.at_ns == (0, 7 * SECOND_NS, 39 * SECOND_NS, 40 * SECOND_NS)
    for one, other in zip(few.coordinates[0], many.coordinates[3], strict=True):
        np.testing.assert_array_equal(one, other)
    assert not many.coordinates[0].vec.any() and len(many.coordinates) == 4
    other_seed = locate(Locating(NODES, 40, (40,)), seed=2)
    assert (other_seed.coordinates[0].vec != few.coordinates[0].vec).any()


def test_coordinates_follow_a_handover() -> None:
    calm = Topology("calm", TWO_SITES.hosts, tuple(replace(link, jitter_ns=0) for link in TWO_SITES.links))
    found = locate(Locating(NODES, 600, (300, 600), handovers=(Handover(300 * SECOND_NS, "client", "s2"),)), calm)
    before, after = (distances_s(one, one) * 1e3 for one in found.coordinates)
    assert abs(before[0, 2] - 6.0) < 5.0 and abs(before[1, 2] - 48.0) < 5.0
    assert abs(after[0, 2] - 46.0) < 5.0 and abs(after[1, 2] - 8.0) < 5.0


def test_probes_that_take_longer_than_the_timeout_move_nobody() -> None:
    far = load_topology("full-mesh", {"nodes": 3, "delay": "300ms"})
    (found,) = locate(Locating(("n1", "n2", "n3"), 20, (20,)), far).coordinates
    assert not found.vec.any()


GOOD = Locating(NODES, 10, (10,))
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"nodes": ("a",)}, "1 coordinate agents"),
    ({"reads": (11,)}, "after rounds"),
]


@pytest.mark.parametrize(("change", "names"), WRONG, ids=[names for _, names in WRONG])
def test_what_cannot_be_is_refused(change: dict[str, Any], names: str) -> None:
    with pytest.raises(SpecError, match=names):
        check_locating(TWO_SITES, replace(GOOD, **change))
