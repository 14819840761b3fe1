from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from core.clients import Joined, Moved, Role
from core.errors import SpecError
from core.seeds import generator
from core.units import SECOND_NS
from workloads import load
from workloads.uav_swarms import UavSwarms, UavSwarmsConfig
from workloads.waypoint import Track
from workloads.zones import Zones

MINUTES_NS = 600 * SECOND_NS


def moves(made: UavSwarms, client: str) -> list[tuple[int, int]]:
    found = [one for one in made.happenings(MINUTES_NS) if isinstance(one, Moved) and one.client == client]
    return [(one.at_ns, one.site) for one in found]


def test_the_defaults_are_those_of_figure_8() -> None:
    made = UavSwarms(UavSwarmsConfig(), 1)
    assert len(made.homes) == 64 and made.site_count == 4 and len(made.centres) == 4
    assert [topic.name for topic in made.topics[:3]] == ["follow-leader-1", "sensor-data-1", "follow-leader-2"]
    assert {(topic.rate_rps, topic.size_bytes, topic.bound_ns) for topic in made.topics} == {(200.0, 1000, 40_000_000)}
    joined = [one for one in made.happenings(0) if isinstance(one, Joined)]
    swarm = {(one.client, one.topic, one.role) for one in joined if one.topic.endswith("-3")}
    assert len(joined) == len(made.happenings(0)) == 128 and len(swarm) == 16
    assert ("uav-3-1", "follow-leader-3", Role.PRODUCER) in swarm and (
        "uav-3-8",
        "sensor-data-3",
        Role.PRODUCER,
    ) in swarm
    assert ("uav-3-1", "sensor-data-3", Role.CONSUMER) in swarm
    assert ("uav-3-2", "follow-leader-3", Role.CONSUMER) in swarm


def test_a_swarm_moves_together() -> None:
    made = UavSwarms(UavSwarmsConfig(zones=9), 4)
    for swarm in range(1, 9):
        tracks = [moves(made, client) for client in made.members(swarm)]
        assert all(track == tracks[0] for track in tracks)
        assert len({made.homes[client] for client in made.members(swarm)}) == 1
    assert sum(len(moves(made, f"uav-{swarm}-1")) for swarm in range(1, 9)) > 8


def test_more_swarms_shift_nobody_else() -> None:
    few, many = UavSwarms(UavSwarmsConfig(swarms=2), 1), UavSwarms(UavSwarmsConfig(swarms=9), 1)
    assert moves(few, "uav-2-1") == moves(many, "uav-2-1") != []
    np.testing.assert_array_equal(few.centres, UavSwarms(UavSwarmsConfig(), 2).centres)  # seeds share their map


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([0, 7 * SECOND_NS]))
def test_moves_are_where_two_centres_are_equally_far(seed: int, count: int, pause_ns: int) -> None:
    zones = Zones(generator(seed, "centres").uniform(0, 10, (count, 2)))
    track = Track(generator(seed, "track"), np.zeros(2), np.full(2, 10.0), 50.0, pause_ns)
    crossings = track.crossings(zones, MINUTES_NS)
    assert crossings[0][0] == 0
    for (_, before), (at_ns, after) in pairwise(crossings):
        distance = np.hypot(*(track.at(at_ns) - zones.centres).T)
        assert abs(distance[before] - distance[after]) < 1e-6 and distance[after] <= distance.min() + 1e-6
    ends = [at_ns for at_ns, _ in crossings[1:]] + [MINUTES_NS]
    for (from_ns, zone), to_ns in zip(crossings, ends, strict=True):
        for at_ns in np.linspace(from_ns, to_ns - 1, 9).astype(int).tolist():  # between moves the zone is constant
            distance = np.hypot(*(track.at(at_ns) - zones.centres).T)
            assert distance[zone] <= distance.min() + 1e-6


def legs_of(made: UavSwarms) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Of each swarm: instants in ns, and places in km, where legs begin and end."""
    for track in made._tracks.values():
        legs = track.legs(MINUTES_NS)
        instants = [instant for leg in legs for instant in (leg.start_ns, min(leg.end_ns, MINUTES_NS))]
        yield np.array(instants), np.array([place for leg in legs for place in (leg.start, leg.at(MINUTES_NS))])


@pytest.mark.parametrize("pause", ["0s", "10s"])
def test_tracks_are_flown_at_the_speed_given(pause: str) -> None:
    made = UavSwarms(UavSwarmsConfig(speed_mps=25.0, pause=pause), 2)
    for at_ns, km in legs_of(made):
        assert at_ns[0] == 0 and at_ns[-1] <= MINUTES_NS and (np.diff(at_ns) >= 0).all()
        low, high = made.towers.min(axis=0), made.towers.max(axis=0)
        assert (km >= low - 1e-9).all() and (km <= high + 1e-9).all()
        seconds, metres = np.diff(at_ns) / 1e9, np.hypot(*np.diff(km, axis=0).T) * 1e3
        flown = metres > 0
        np.testing.assert_allclose(metres[flown] / seconds[flown], 25.0, rtol=1e-6)
        assert all(rest == (0 if pause == "0s" else 10) for rest in seconds[~flown])


def test_the_map_may_be_a_list_of_towers(tmp_path: Path) -> None:
    path = tmp_path / "towers.csv"
    rows = [f"{60 + i / 100},{10 + j / 50}" for i in range(6) for j in range(6)]
    path.write_text("\n".join(["lat,lon", *rows, "oops,1"]) + "\n")
    options = {"towers": str(path), "columns": "latitude=lat,longitude=lon", "zones": 3}
    workload = load("uav-swarms")
    with pytest.raises(SpecError, match="line 38: latitude"):
        workload.make(workload.configure(options), 1)
    config = workload.configure({**options, "skip_bad": True})
    made = workload.make(config, 1)
    assert made.skipped == {"latitude": 1} and len(made.towers) == 36
    before = workload.id(config, 1)
    path.write_text(path.read_text().replace("oops", "60.2"))
    assert workload.id(config, 1) != before  # the list's content counts
    assert workload.id(UavSwarmsConfig(), 1)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"swarms": 0}, "swarms=0"),
        ({"members": 1}, "members=1"),
        ({"zones": 0}, "zones=0"),
        ({"speed_mps": 0}, "speed_mps=0"),
        ({"pause": "long"}, "pause='long'"),
        ({"tower_count": 0}, "tower_count=0"),
        ({"city_km": -1}, "city_km=-1"),
        ({"columns": "height=h"}, "columns='height=h'"),
    ],
)
def test_bad_options_are_spec_errors(options: dict, what: str) -> None:
    with pytest.raises(SpecError, match=what):
        load("uav-swarms").configure(options)


def test_more_zones_than_towers_are_a_spec_error() -> None:
    with pytest.raises(SpecError, match="4 zones of 3 places"):
        UavSwarms(UavSwarmsConfig(tower_count=3), 1)
