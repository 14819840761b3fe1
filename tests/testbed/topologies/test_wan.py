import csv
import gzip
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from testbed.topologies.cities import (
    ACCESS_NS,
    FIBRE,
    LIGHT_KM_PER_S,
    ROUTE_FACTOR,
    City,
    fibre_delay_ns,
    great_circle_km,
    known_cities,
)
from testbed.topologies.tables import read_table
from testbed.topologies.topology import SWITCH, load_topology

CITIES = known_cities()
PINGS = Path(__file__).parents[4] / "shared/data/wondernetwork-2020/pings-2020-07-19-2020-07-20-grouped.csv.gz"


def one_way_ns(a: str, b: str) -> int:
    return fibre_delay_ns(great_circle_km(CITIES[a], CITIES[b]))


def test_the_table_of_cities_is_sound() -> None:
    assert len(CITIES) >= 40
    assert len({city.country for city in CITIES.values()}) >= 25
    for city in CITIES.values():
        assert -90 <= city.latitude <= 90 and -180 <= city.longitude <= 180 and city.country
    places = {(city.latitude, city.longitude) for city in CITIES.values()}
    assert len(places) == len(CITIES)


@pytest.mark.parametrize(
    ("a", "b", "km"),
    [
        ("New York", "London", 5570),
        ("Sydney", "Singapore", 6300),
        ("Tokyo", "Los Angeles", 8815),
        ("Paris", "London", 344),
    ],
)
def test_distances_are_those_of_the_atlas(a: str, b: str, km: float) -> None:
    assert great_circle_km(CITIES[a], CITIES[b]) == pytest.approx(km, rel=0.01)


def test_distances_by_hand() -> None:
    pole, here, there = City("", "", 90, 0), City("", "", 0, 30), City("", "", 0, -150)
    assert great_circle_km(pole, here) == pytest.approx(10_007.5, rel=1e-4)  # a quarter of a meridian
    assert great_circle_km(here, there) == pytest.approx(20_015.1, rel=1e-4)
    assert great_circle_km(here, here) == 0
    assert fibre_delay_ns(LIGHT_KM_PER_S * FIBRE, 1.0) == SECOND_NS


DEGREES = st.tuples(st.floats(-90, 90), st.floats(-180, 180))


@given(st.tuples(DEGREES, DEGREES, DEGREES))
def test_distances_are_a_metric(places: tuple[tuple[float, float], ...]) -> None:
    a, b, c = (City("", "", *place) for place in places)
    assert great_circle_km(a, b) == pytest.approx(great_circle_km(b, a))
    assert great_circle_km(a, c) <= great_circle_km(a, b) + great_circle_km(b, c) + 1e-3


def test_nodes_are_spread_in_turn_and_named_as_in_a_full_mesh() -> None:
    topology = load_topology("wan", {"nodes": 7, "cities": "London, Tokyo, Sydney"})
    assert topology.node_names() == load_topology("full-mesh", {"nodes": 7}).node_names()
    assert [host.name for host in topology.hosts if host.role == SWITCH] == ["london", "tokyo", "sydney"]
    assert topology.path("n1", "n4").one_way_delay_ns == 2 * ACCESS_NS == MILLISECOND_NS // 2
    for other in ("n2", "n5"):
        assert topology.path("n1", other).one_way_delay_ns == one_way_ns("London", "Tokyo") + 2 * ACCESS_NS
    assert topology.path("n2", "n3").one_way_delay_ns == one_way_ns("Tokyo", "Sydney") + 2 * ACCESS_NS


def test_a_topology_smaller_than_its_cities_uses_the_first() -> None:
    assert [host.name for host in load_topology("wan", {"nodes": 2}).hosts] == ["n1", "n2", "new-york", "london"]
    assert len(load_topology("wan").machines) == 5
    assert load_topology("wan", {"nodes": 1}).node_names() == ["n1"]


def test_all_cities_at_once_go_straight() -> None:
    topology = load_topology("wan", {"nodes": len(CITIES), "cities": list(CITIES)})
    assert all(len(topology.path(a, b).links) == 3 for a, b in combinations(topology.node_names(), 2))


def test_delays_stretch_and_links_have_jitter_and_loss() -> None:
    options = {"nodes": 3, "cities": ["London", "Tokyo"]}
    plain = load_topology("wan", options)
    far = load_topology("wan", {**options, "delay_factor": 3, "jitter": "10%", "loss_probability": 0.25})
    for a, b in (("n1", "n2"), ("n1", "n3")):
        assert far.path(a, b).one_way_delay_ns == pytest.approx(3 * plain.path(a, b).one_way_delay_ns, abs=9)
    assert far.path("n1", "n2").jitter_ns == pytest.approx(0.3 * one_way_ns("London", "Tokyo"), rel=1e-6)
    assert far.path("n1", "n2").loss_probability == 0.25
    assert far.path("n1", "n3").jitter_ns == 0 and far.path("n1", "n3").loss_probability == 0
    assert load_topology("wan", {**options, "jitter": "2ms"}).path("n1", "n2").jitter_ns == 2 * MILLISECOND_NS
    assert load_topology("wan", {**options, "delay_factor": 0}).path("n1", "n2").one_way_delay_ns == 0
    straight = load_topology("wan", {**options, "route_factor": 1})
    assert straight.path("n1", "n2").one_way_delay_ns < plain.path("n1", "n2").one_way_delay_ns


def test_a_table_of_round_trips_is_halved_and_its_directions_averaged(tmp_path: Path) -> None:
    path = tmp_path / "pings.csv"
    path.write_text("here,there,30\nthere,here,32\nhere,far away,100\n\n")
    topology = load_topology("wan", {"nodes": 2, "cities": "here,there", "table": str(path)})
    assert topology.path("n1", "n2").one_way_delay_ns == 15_500_000
    path.write_text("from,to,rtt_ms\nhere,there,30\n")
    topology = load_topology("wan", {"nodes": 2, "cities": "here,there", "table": str(path)})
    assert topology.path("n1", "n2").one_way_delay_ns == 15_000_000
    path.write_text("from,to,one_way_ms\nhere,there,30\n")
    topology = load_topology("wan", {"nodes": 2, "cities": "here,there", "table": str(path)})
    assert topology.path("n1", "n2").one_way_delay_ns == 30_000_000


@pytest.mark.parametrize(("corner", "halves"), [("", 2), ("ms", 2), ("rtt_ms", 2), ("one_way_ms", 1)])
def test_a_table_may_be_a_matrix(tmp_path: Path, corner: str, halves: int) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text(f"{corner},Here,There,Far\nHere,0,30,90\nThere,32,0,\nFar,,41.5,0\n")
    assert read_table(str(path)) == {
        ("Here", "There"): 30 * MILLISECOND_NS // halves,
        ("Here", "Far"): 90 * MILLISECOND_NS // halves,
        ("There", "Here"): 32 * MILLISECOND_NS // halves,
        ("Far", "There"): 41_500_000 // halves,
    }
    topology = load_topology("wan", {"nodes": 2, "cities": "Here, There", "table": str(path)})
    assert topology.path("n1", "n2").one_way_delay_ns == 31 * MILLISECOND_NS // halves


def test_wondernetworks_pings_are_read_with_their_servers(tmp_path: Path) -> None:
    pings, servers = tmp_path / "pings.csv.gz", tmp_path / "servers-2020.csv"
    rows = ["source,destination,min,avg,max,mdev", "1,1,0,0.03,1,0", "1,2,9,10,12,1", "2,1,9,12,12,1"]
    rows += ["1,9,9,70,12,1", "1,3,9,70,9,1"]  # an id that is not described, and a second server at the same place
    pings.write_bytes(gzip.compress("\n".join(rows).encode()))
    servers.write_text("id,name,title,latitude\n1,here,Here,0\n2,NewThere,New There,0\n3,Here2,Here,0\n")
    assert read_table(str(pings)) == {("Here", "New There"): 5_000_000, ("New There", "Here"): 6_000_000}
    topology = load_topology("wan", {"nodes": 2, "cities": "Here, New There", "table": str(pings)})
    assert topology.path("n1", "n2").one_way_delay_ns == 5_500_000
    (tmp_path / "servers-2021.csv").write_text("id,title\n")
    with pytest.raises(SpecError, match="2 files servers"):
        read_table(str(pings))
    assert read_table(str(pings), str(servers))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("here,there,30\nhere,there\n", "line 2: 2 fields"),
        ("here,there,fast\n", "line 1: 'fast'"),
        ("a,b,ms\nhere,there,-1\n", "line 2: '-1'"),
        ("here,there,nan\n", "line 1: 'nan'"),
        ("", "no delays"),
        ("here,elsewhere,3\n", "no city 'there'"),
        ("here,elsewhere,3\nthere,elsewhere,3\n", "nothing about here and there"),
        (",here\nhere,0\n", "line 1: cities here"),
        (",here,here\nhere,0,0\n", "line 1: cities here, here"),
        (",here,\nhere,0,0\n", "line 1: cities here,;"),
        (",here,there\nhere,0\n", "line 2: 2 fields"),
        (",here,there\nhere,0,1\nmars,1,0\n", "line 3: city 'mars'"),
        (",here,there\nhere,0,1\nhere,0,1\n", "line 3: city 'here'"),
        (",here,there\nhere,0,fast\n", "line 2: 'fast'"),
        ("ms,here,there\nhere,0,\n", "no delays"),
        ("source,destination,min\n1,2,3\n", "line 1: no column avg"),
        ("source,destination,avg\n1,2,3\n", "0 files servers"),
        ("here,there,30\nhere," + 200_000 * "x" + ",30\n", "table.csv, line 2: field larger"),
        ("a,b,ms\n\nhere,there," + 200_000 * "1" + "\n", "table.csv, line 3: field larger"),
    ],
)
def test_a_broken_table_is_a_spec_error_with_its_line(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(SpecError, match=what):
        load_topology("wan", {"nodes": 2, "cities": "here,there", "table": str(path)})


def test_a_hole_may_be_filled_by_the_best_detour(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("here,far,30\nfar,there,20\nhere,further,40\nfurther,there,40\n")
    topology = load_topology("wan", {"nodes": 2, "cities": "here, there", "table": str(path), "repair": "detour"})
    assert topology.path("n1", "n2").one_way_delay_ns == 25 * MILLISECOND_NS


def _changed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def test_a_damaged_file_is_a_spec_error(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"here,place %d,%d\n" % (n, n * n % 997) for n in range(500)), mtime=0)
    path = tmp_path / "table.csv.gz"
    for data in (whole[:-9], _changed(whole, 3), _changed(whole, 12), _changed(whole, len(whole) // 2), whole + b"xy"):
        path.write_bytes(data)
        with pytest.raises(SpecError, match=r"table\.csv\.gz: ") as raised:
            read_table(str(path))
        assert raised.value.fix
    path.write_bytes("Zürich,Genève,3\n".encode("latin-1"))
    with pytest.raises(SpecError, match=r"table\.csv\.gz: 'utf-8' codec"):
        read_table(str(path))
    with pytest.raises(SpecError, match="Is a directory"):
        read_table(str(tmp_path))


@pytest.mark.parametrize(
    ("pings", "servers", "what"),
    [
        ("source,destination,avg\n1,2\n", "id,title\n1,a\n2,b\n", "pings.csv, line 2: 2 fields"),
        ("source,destination,avg\n1,2,x\n", "id,title\n1,a\n2,b\n", "pings.csv, line 2: 'x'"),
        ("source,destination,avg\n1,2,3\n", "id,name\n1,a\n", "servers.csv, line 1: no columns id and title"),
        ("source,destination,avg\n1,2,3\n", "id,title\n1\n", "servers.csv, line 2: 1 fields"),
    ],
)
def test_broken_pings_are_spec_errors_with_their_line(tmp_path: Path, pings: str, servers: str, what: str) -> None:
    (tmp_path / "pings.csv").write_text(pings)
    (tmp_path / "servers.csv").write_text(servers)
    with pytest.raises(SpecError, match=what):
        read_table(str(tmp_path / "pings.csv"))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"nodes": 0}, "nodes = 0"),
        ({"cities": "Lundon"}, "did you mean 'London'"),
        ({"cities": "London,,Paris"}, "name some"),
        ({"cities": []}, "name some"),
        ({"cities": "London, London"}, "there twice"),
        ({"delay_factor": -1}, "delay_factor = -1"),
        ({"route_factor": 0.5}, "route_factor = 0.5"),
        ({"jitter": "much"}, "jitter: not a duration"),
        ({"jitter": "x%"}, "jitter"),
        ({"jitter": "120%"}, "from 0% to 100%"),
        ({"jitter": "1s"}, "jitter"),
        ({"loss_probability": 2}, "loss_probability"),
        ({"table": "no such file.csv"}, "no such file.csv: No such file"),
    ],
)
def test_bad_options_are_spec_errors(options: dict[str, Any], what: str) -> None:
    with pytest.raises(SpecError, match=what):
        load_topology("wan", options)


@pytest.mark.skipif(not PINGS.exists(), reason="needs WonderNetwork's pings of July 2020 beside the checkout")
def test_the_route_factor_is_the_median_of_real_pings() -> None:
    measured = read_table(str(PINGS))
    alias = {"Mexico City": "Mexico"}
    ratios = []
    for a in CITIES:
        for b in CITIES:
            one_way = measured.get((alias.get(a, a), alias.get(b, b)))
            if a != b and one_way is not None:
                straight_ns = fibre_delay_ns(great_circle_km(CITIES[a], CITIES[b]), 1.0)
                ratios.append((one_way - 2 * ACCESS_NS) / straight_ns)
    assert len(ratios) > 2_000
    assert median(ratios) == pytest.approx(ROUTE_FACTOR, abs=0.02)
    assert min(ratios) > 1.0  # nothing is faster than light in fibre, along the shortest way


@pytest.mark.skipif(not PINGS.exists(), reason="needs WonderNetwork's pings of July 2020 beside the checkout")
def test_real_pings_make_a_topology() -> None:
    topology = load_topology("wan", {"table": str(PINGS), "cities": "New York, London, Tokyo", "nodes": 3})
    assert topology.path("n1", "n2").one_way_delay_ns == pytest.approx(71.3 / 2 * MILLISECOND_NS, rel=0.01)


def test_the_readme_of_the_table_says_what_the_code_does() -> None:
    text = (Path(__file__).parents[3] / "testbed/topologies/latencies/README.md").read_text()
    with (Path(__file__).parents[3] / "testbed/topologies/latencies/cities.csv").open() as file:
        assert f"{len(list(csv.DictReader(file)))} cities" in text
    assert f"{ROUTE_FACTOR}" in text and "0.25 ms" in text
