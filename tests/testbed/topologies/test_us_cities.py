import csv
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from core.errors import SpecError
from core.records import Float64
from core.units import MILLISECOND_NS
from testbed.topologies import us_cities
from testbed.topologies.cities import ACCESS_NS, ROUTE_FACTOR, fibre_delay_ns, great_circle_km, known_cities
from testbed.topologies.places import sites
from testbed.topologies.tables import read_table
from testbed.topologies.topology import load_topology

CITIES = known_cities("us_cities.csv")
WONDER = Path(__file__).parents[4] / "shared/data/wondernetwork-2020"
PINGS = WONDER / "pings-2020-07-19-2020-07-20-grouped.csv.gz"
FITTED = Path(us_cities.__file__).parent / "latencies/us_pings.csv"
needs_pings = pytest.mark.skipif(
    not PINGS.exists(), reason="needs WonderNetwork's pings of July 2020 beside the checkout"
)


def test_the_shipped_table_begins_in_new_york_and_agrees_with_that_of_the_world() -> None:
    assert len(CITIES) == 40 and next(iter(CITIES)) == "New York"
    world = known_cities()
    shared = [name for name in CITIES if name in world]
    assert len(shared) >= 8 and all(world[name] == CITIES[name] for name in shared)
    assert {city.country for city in CITIES.values()} == {"United States"}
    for city in CITIES.values():
        assert 24 < city.latitude < 50 and -125 < city.longitude < -66


def test_five_cities_have_a_broker_and_a_site_each() -> None:
    topology = load_topology("us-cities")
    assert [site.proxy for site in sites(topology)] == [f"proxy{n}" for n in range(1, 6)]
    assert topology.node_names("broker")[:4] == ["broker1", "broker1-agent", "broker2", "broker2-agent"]
    assert topology.path("proxy2", "broker2").one_way_delay_ns == 5 * MILLISECOND_NS
    assert topology.path("manager1", "store").one_way_delay_ns == 0
    assert topology.path("manager1-agent", "broker1").one_way_delay_ns == 0  # New York
    km = great_circle_km(CITIES["New York"], CITIES["Los Angeles"])
    across_ns = fibre_delay_ns(km) + 2 * ACCESS_NS
    assert topology.path("broker1", "broker2").one_way_delay_ns == across_ns
    assert topology.path("proxy1", "proxy2").one_way_delay_ns == across_ns + 10 * MILLISECOND_NS


def test_sites_are_numbered_city_by_city() -> None:
    options = {"cities": "Atlanta, Chicago", "edge_sites": 3, "access": "2ms", "control": "Chicago", "managers": 2}
    topology = load_topology("us-cities", options)
    near = {
        site.name: [n for n in (1, 2) if topology.path(site.proxy, f"broker{n}").one_way_delay_ns == 2_000_000]
        for site in sites(topology)
    }
    assert near == {f"site{n}": [1 if n <= 3 else 2] for n in range(1, 7)}
    assert topology.path("store", "broker2").one_way_delay_ns == 0
    assert topology.path("proxy1", "proxy3").one_way_delay_ns == 4_000_000
    assert load_topology("us-cities", options).notes == ()


def test_a_number_of_cities_may_be_text() -> None:
    assert load_topology("us-cities", {"cities": "3"}) == load_topology("us-cities", {"cities": 3})


def test_a_table_says_how_far_cities_are(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("New York,Here,20\nHere,New York,30\nHere,There,8\nNew York,There,90\n")
    options = {"cities": "New York, Here, There", "table": str(path)}
    topology = load_topology("us-cities", options)
    delays = [topology.path("broker1", f"broker{n}").one_way_delay_ns / MILLISECOND_NS for n in (2, 3)]
    assert delays == [12.5, 45]
    over = load_topology("us-cities", {**options, "detours": True})
    assert over.path("broker1", "broker3").one_way_delay_ns == 16_500_000  # over the second
    assert load_topology("us-cities", options).notes == (
        "of 3 pairs 1 have directions more than 10 % apart: the mean is taken",
        "of 3 pairs 2 were measured in one direction only: it stands for both",
        "of 3 pairs 1 have a detour shorter than the direct delay: messages go the direct way",
    )


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"cities": 0}, "cities = 0; give 1 to 40"),
        ({"cities": 41}, "cities = 41"),
        ({"cities": "New York, Atlante"}, "no city 'Atlante'; did you mean 'Atlanta'"),
        ({"cities": "New York,,Atlanta"}, "name some"),
        ({"cities": []}, "name some"),
        ({"cities": "New York, new york"}, "there twice"),
        ({"cities": "Atlanta"}, "control in 'New York'"),
        ({"edge_sites": 0}, "edge_sites = 0"),
        ({"managers": 0}, "managers = 0"),
        ({"access": "near"}, "access: not a duration"),
        ({"route_factor": 0.5}, "route_factor = 0.5"),
        ({"one_way_share": 0.0}, "one_way_share = 0.0; give a share"),
        ({"one_way_share": 1.5}, "one_way_share = 1.5"),
        ({"table": "no such.csv"}, "no such.csv: No such file"),
    ],
)
def test_bad_options_are_spec_errors(options: dict[str, Any], what: str) -> None:
    with pytest.raises(SpecError, match=what):
        load_topology("us-cities", options)


def american_titles() -> list[str]:
    with (WONDER / "servers-2020-07-19.csv").open(encoding="utf-8") as file:
        rows = [row["title"] for row in csv.DictReader(file) if row["country"] == "United States"]
    return ["New York", *sorted(set(rows) - {"New York"})]


@needs_pings
def test_all_american_servers_of_the_real_table_make_a_topology() -> None:
    names = american_titles()
    assert len(names) == 67
    options = {"cities": names, "table": str(PINGS)}
    with pytest.raises(SpecError, match=r"nothing about .* repair = detour"):
        load_topology("us-cities", options)
    topology = load_topology("us-cities", {**options, "repair": "detour"})
    assert len(sites(topology)) == 67
    notes = topology.notes
    assert any("2211 pairs" in note for note in notes)
    assert any("were not measured" in note for note in notes)


def test_the_fitted_pings_are_of_all_shipped_cities() -> None:
    fitted = read_table(str(FITTED))
    assert len(fitted) == len(CITIES) * (len(CITIES) - 1)
    assert all(fitted[a, b] == fitted[b, a] > 0 for a, b in fitted)
    halves, whole = (
        load_topology("us-cities", {"cities": 12, "table": "fitted", **share}) for share in ({}, {"one_way_share": 1.0})
    )
    for number, city in enumerate(list(CITIES)[1:12], 2):
        ways = [topology.path("broker1", f"broker{number}").one_way_delay_ns for topology in (halves, whole)]
        assert ways == [fitted["New York", city], 2 * fitted["New York", city]]


@needs_pings
def test_the_fitted_pings_are_a_smooth_fit_of_the_measured_ones() -> None:
    """A line over distance, a delay of each city, and six patterns over all cities of what that leaves."""
    measured, fitted = read_table(str(PINGS)), read_table(str(FITTED))
    names = list(CITIES)
    rtt_ms = np.array([[0 if a == b else (measured[a, b] + measured[b, a]) / 1e6 for b in names] for a in names])
    km = np.array([[great_circle_km(CITIES[a], CITIES[b]) for b in names] for a in names])
    shipped_ms = np.array([[0 if a == b else 2 * fitted[a, b] / 1e6 for b in names] for a in names])
    assert (smooth_ms(rtt_ms, km) == shipped_ms).all()
    pairs = np.triu_indices(len(names), 1)
    error_ms = np.abs(shipped_ms - rtt_ms)[pairs]
    assert np.median(error_ms) < 3.0 and error_ms.max() < 15.0
    assert np.median(error_ms / rtt_ms[pairs]) == pytest.approx(0.072, abs=0.001)


def smooth_ms(rtt_ms: Float64, km: Float64, patterns: int = 6, rounds: int = 100) -> Float64:
    """Round trips (n, n) as the shipped table has them, whole ms; ``km`` (n, n): how far the places are apart."""
    here, there = np.triu_indices(len(km), 1)
    own = np.eye(len(km))
    known = np.hstack([km[here, there][:, None], own[here] + own[there]])
    line = np.zeros_like(km)
    line[here, there] = known @ np.linalg.lstsq(known, rtt_ms[here, there], rcond=None)[0]
    line += line.T
    left = rtt_ms - line
    for _ in range(rounds):  # nobody pings itself: the diagonal is what the patterns make of it
        values, vectors = np.linalg.eigh(left)
        most = np.argsort(-np.abs(values))[:patterns]
        shown = (vectors[:, most] * values[most]) @ vectors[:, most].T
        np.fill_diagonal(left, np.diag(shown))
    fitted = np.maximum(1, np.rint(line + shown))
    np.fill_diagonal(fitted, 0)
    return fitted


@needs_pings
def test_derived_delays_are_about_the_measured_ones() -> None:
    measured = read_table(str(PINGS))
    ways = [(a, b) for a in CITIES for b in CITIES if (a, b) in measured and a != b]
    assert len(ways) == 1_560
    straight_ns = {(a, b): fibre_delay_ns(great_circle_km(CITIES[a], CITIES[b]), 1.0) for a, b in ways}
    ratios = [(measured[way] - 2 * ACCESS_NS) / straight_ns[way] for way in ways]
    assert min(ratios) > 1.0 and median(ratios) == pytest.approx(2.14, abs=0.01)
    errors = {
        factor: median(abs(factor * straight_ns[way] + 2 * ACCESS_NS - measured[way]) / measured[way] for way in ways)
        for factor in (ROUTE_FACTOR, 2.14)
    }
    assert errors == pytest.approx({ROUTE_FACTOR: 0.16, 2.14: 0.18}, abs=0.005)
