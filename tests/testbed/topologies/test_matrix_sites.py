import gzip
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from core.errors import SpecError
from core.units import MILLISECOND_NS
from testbed.topologies.places import sites, with_clients
from testbed.topologies.tables import read_square
from testbed.topologies.topology import load_topology

DATA = Path(__file__).parents[4] / "shared/data"
PLANETLAB = DATA / "planetlab-rtt/PlanetLabData_1.tsv.gz"
PINGS = DATA / "wondernetwork-2020/pings-2020-07-19-2020-07-20-grouped.csv.gz"

SQUARE = "0\t10\t50\n12\t0\t20\n50\t20\t0\n"


def delays_ms(options: dict[str, Any]) -> dict[tuple[int, int], float]:
    topology = load_topology("matrix-sites", options)
    pairs = combinations(range(1, len(sites(topology)) + 1), 2)
    return {(a, b): topology.path(f"broker{a}", f"proxy{b}").one_way_delay_ns / MILLISECOND_NS for a, b in pairs}


def test_by_default_sites_are_cities_of_the_world() -> None:
    topology = load_topology("matrix-sites")
    assert [site.proxy for site in sites(topology)] == [f"proxy{n}" for n in range(1, 17)]
    assert len(topology.node_names("broker")) == 32
    assert topology.path("manager1", "store").one_way_delay_ns == 0
    assert load_topology("matrix-sites").notes == ()


@pytest.mark.parametrize("mark", ["\t", ",", " "])
def test_a_matrix_without_names_is_read(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "square.tsv"
    path.write_text(SQUARE.replace("\t", mark))
    options: dict[str, Any] = {"table": str(path), "sites": 3}
    assert delays_ms(options) == {(1, 2): 5.5, (1, 3): 25, (2, 3): 10}
    assert delays_ms({**options, "detours": True}) == {(1, 2): 5.5, (1, 3): 15.5, (2, 3): 10}
    uneven = "of 3 pairs 1 have directions more than 10 % apart: the mean is taken"
    shorter = "of 3 pairs 1 have a detour shorter than the direct delay: messages "
    assert load_topology("matrix-sites", options).notes == (uneven, shorter + "go the direct way")
    assert load_topology("matrix-sites", {**options, "detours": True}).notes == (uneven, shorter + "take it")


def test_clients_keep_to_the_direct_way(tmp_path: Path) -> None:
    path = tmp_path / "square.tsv"
    path.write_text(SQUARE)
    topology = with_clients(load_topology("matrix-sites", {"table": str(path), "sites": 3}), {"a": 0, "b": 2}, 0)
    assert topology.path("a", "b").one_way_delay_ns == 25 * MILLISECOND_NS


def test_managers_may_be_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "square.tsv"
    path.write_text(SQUARE)
    for control, near in (("first", "broker1"), ("central", "broker2")):
        topology = load_topology("matrix-sites", {"table": str(path), "sites": 3, "control": control, "managers": 2})
        assert {topology.path(node, near).one_way_delay_ns for node in ("manager1", "manager2", "store")} == {0}


def test_sites_are_the_first_or_drawn() -> None:
    first, drawn = load_topology("matrix-sites", {"sites": 5}), load_topology("matrix-sites", {"sites": 5, "seed": 3})
    assert first != drawn == load_topology("matrix-sites", {"sites": 5, "seed": 3})
    everywhere = delays_ms({"sites": 50})
    few = delays_ms({"sites": 4})
    assert few == {pair: everywhere[pair] for pair in few}
    assert delays_ms({"sites": 50, "seed": 1}) == everywhere  # in their order


@pytest.mark.parametrize("hole", ["nan", "-1", "-", "", "0", "NaN"])
def test_holes_of_a_matrix_are_refused_or_filled(tmp_path: Path, hole: str) -> None:
    path = tmp_path / "square.tsv"
    path.write_text(f"0\t10\t{hole}\n12\t0\t20\n50\t20\t0\n")
    options: dict[str, Any] = {"table": str(path), "sites": 3}
    assert delays_ms(options)[1, 3] == 25  # the other direction
    assert any("in one direction only" in note for note in load_topology("matrix-sites", options).notes)
    path.write_text(f"0\t10\t{hole}\n12\t0\t20\n{hole}\t20\t0\n")
    with pytest.raises(SpecError, match=r"square\.tsv: nothing about 1 and 3"):
        load_topology("matrix-sites", options)
    assert delays_ms({**options, "repair": "detour"})[1, 3] == 15.5
    assert any(
        "1 were not measured" in note for note in load_topology("matrix-sites", {**options, "repair": "detour"}).notes
    )


def test_tables_with_names_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("here,there,30\nhere,far,8\nfar,there,50\n")
    assert delays_ms({"table": str(path), "sites": 3}) == {(1, 2): 15, (1, 3): 4, (2, 3): 25}
    assert read_square(str(path)) is None
    path.write_text(",here,there\nhere,0,30\nthere,30,0\n")
    assert delays_ms({"table": str(path), "sites": 2}) == {(1, 2): 15}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("0\t10\n12\n", "line 2: 1 fields"),
        ("0\t10\n\n12\tfast\n", "line 3, field 2: 'fast'"),
        ("0\t-3\n3\t0\n", "line 1, field 2: '-3'"),
        ("0\t10\n", "square.tsv: 1 rows"),
        ("0\t10\n12\t0\n1\t1\n", "line 3: a row too many"),
        ("", "no delays"),
        ("0\t1\n1\t0\n", "there are 2 places"),
    ],
)
def test_a_broken_matrix_is_a_spec_error_with_its_line(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "square.tsv"
    path.write_text(text)
    with pytest.raises(SpecError, match=what):
        load_topology("matrix-sites", {"table": str(path), "sites": 3})


def test_a_damaged_matrix_is_a_spec_error(tmp_path: Path) -> None:
    path = tmp_path / "square.tsv.gz"
    path.write_bytes(gzip.compress(SQUARE.encode())[:-6])
    with pytest.raises(SpecError, match="damaged"):
        load_topology("matrix-sites", {"table": str(path), "sites": 3})


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"sites": 0}, "sites = 0"),
        ({"sites": 51}, "there are 50 places"),
        ({"managers": 0}, "managers = 0"),
        ({"control": "north"}, "control = 'north'"),
        ({"repair": "guess"}, "repair = 'guess'"),
        ({"table": "none.tsv"}, "No such file"),
    ],
)
def test_bad_options_are_spec_errors(options: dict[str, Any], what: str) -> None:
    with pytest.raises(SpecError, match=what):
        load_topology("matrix-sites", options)


@pytest.mark.skipif(not PLANETLAB.exists(), reason="needs PlanetLab's round trips beside the checkout")
def test_planetlab_makes_a_topology() -> None:
    options: dict[str, Any] = {"table": str(PLANETLAB), "sites": 20, "seed": 1}
    topology = load_topology("matrix-sites", options)
    assert len(sites(topology)) == 20
    notes = topology.notes
    assert len(notes) == 1 and "of 190 pairs" in notes[0] and "direct way" in notes[0]


@pytest.mark.skipif(not PINGS.exists(), reason="needs WonderNetwork's pings of July 2020 beside the checkout")
def test_the_whole_wondernetwork_makes_a_topology() -> None:
    options: dict[str, Any] = {"table": str(PINGS), "sites": 240, "repair": "detour"}
    notes = load_topology("matrix-sites", options).notes
    assert any("were not measured" in note for note in notes)
    assert len(load_topology("matrix-sites", {**options, "sites": 12, "control": "central"}).node_names("proxy")) == 12
