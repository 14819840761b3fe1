"""Graphs of servers: the recovered ones have the published values, malformed ones are refused."""

import networkx
import numpy as np
import pytest

from core.errors import SpecError
from systems.parts.laplacian import spectrum
from systems.parts.overlay import OVERLAYS, overlay
from systems.parts.throttling_graphs import (
    DST_1,
    DST_2,
    FAMILIES,
    NAMED,
    Graph,
    complete,
    graph_named,
    laplacian,
    neighbours,
    overlaid,
    parse_links,
    path,
    placements,
    star,
    weighted,
)


def drawn(graph: Graph) -> networkx.Graph:
    found = networkx.empty_graph(graph.n)
    found.add_weighted_edges_from(graph.edges)
    return found


def test_graph_1_is_a_tree_and_graph_2_has_eleven_links_more() -> None:
    assert networkx.is_tree(drawn(DST_1))
    assert set(DST_1.links) < set(DST_2.links)
    assert len(DST_2.links) == 20
    assert networkx.check_planarity(drawn(DST_2))[0]
    assert sorted(dict(drawn(DST_2).degree).values(), reverse=True) == [6, 6, 4, 4, 4, 4, 3, 3, 3, 3]


def test_graph_2_is_the_graph6_string_of_the_exhaustive_search() -> None:
    assert networkx.is_isomorphic(drawn(DST_2), networkx.from_graph6_bytes(b"I?qa`jk[w"))


@pytest.mark.parametrize(
    ("graph", "values"),
    [
        (DST_1, [0, 0.15609, 0.38197, 0.59651, 1.18636, 2, 2.45387, 2.61803, 4.03047, 4.57671]),
        (DST_2, [0, 1.36431, 2, 3.26795, 3.68304, 5, 5, 5.31696, 6.73205, 7.63569]),
    ],
)
def test_recovered_spectra(graph: Graph, values: list[float]) -> None:
    assert spectrum(laplacian(graph)) == pytest.approx(values, abs=6e-6)


def test_placements_are_476_all_isomorphic_the_first_as_listed() -> None:
    every = placements()
    assert len(set(every)) == len(every) == 476
    assert every[0] == DST_2 == graph_named("dst-2@0")
    for graph in every[:: len(every) // 20]:
        assert set(DST_1.links) < set(graph.links)
        assert networkx.is_isomorphic(drawn(graph), drawn(DST_2))


@pytest.mark.parametrize("n", [2, 3, 7])
def test_known_spectra(n: int) -> None:
    cosines = 2 - 2 * np.cos(np.pi * np.arange(n) / n)
    assert spectrum(laplacian(path(n))) == pytest.approx(cosines, abs=1e-12)
    assert spectrum(laplacian(complete(n))) == pytest.approx([0, *[n] * (n - 1)], abs=1e-12)
    assert spectrum(laplacian(star(n))) == pytest.approx([0, *[1] * (n - 2), n], abs=1e-12)
    if n > 2:
        circle = np.sort(2 - 2 * np.cos(2 * np.pi * np.arange(n) / n))
        assert spectrum(laplacian(overlaid("ring", n))) == pytest.approx(circle, abs=1e-12)


def test_weights_and_neighbours() -> None:
    graph = parse_links("1-0:0.5 1-2")
    assert graph.edges == ((0, 1, 0.5), (1, 2, 1.0))
    assert neighbours(graph) == (((1, 0.5),), ((0, 0.5), (2, 1.0)), ((1, 1.0),))
    assert np.array_equal(laplacian(graph), [[0.5, -0.5, 0], [-0.5, 1.5, -1], [0, -1, 1]])
    assert graph.connected
    assert not weighted(graph, [0.0, 1.0]).connected
    assert np.array_equal(weighted(graph, 3.0).weights, [3.0, 3.0])
    assert list(graph.weights) == [0.5, 1.0]


@pytest.mark.parametrize("family", FAMILIES)
def test_families_by_name(family: str) -> None:
    assert graph_named(f"{family}-4") == graph_named(family, 4) == FAMILIES[family](4)
    assert FAMILIES[family](1).edges == ()


@pytest.mark.parametrize("kind", OVERLAYS)
def test_an_overlay_is_the_same_graph_under_its_own_name(kind: str) -> None:
    names = [f"n{i}" for i in range(7)]
    around = overlay(kind, names)
    found = neighbours(graph_named(kind, 7))
    assert {names[i]: tuple(names[j] for j, _ in links) for i, links in enumerate(found)} == around
    assert {weight for links in found for _, weight in links} == {1.0}


def test_the_papers_names_are_those_of_overlays() -> None:
    for paper, ours in (("complete", "full-mesh"), ("path", "line")):
        assert graph_named(f"{paper}-5") == graph_named(f"{ours}-5")
    assert graph_named("none-5").edges == ()


def test_an_unknown_graph_lists_all_that_are_known() -> None:
    with pytest.raises(SpecError) as found:
        graph_named("wheel", 4)
    assert all(name in str(found.value) for name in (*NAMED, *FAMILIES, *OVERLAYS, '"0-1 1-2:0.5"'))


@pytest.mark.parametrize(
    ("name", "n", "complaint"),
    [
        ("dst-3", None, "did you mean 'dst-"),
        ("path", None, 'write "path-10"'),
        ("dst-2@476", None, "dst-2@0 to dst-2@475"),
        ("dst-1", 9, "10 nodes"),
        ("0-1 1", None, "link '1'"),
        ("0-1:x", None, "0-1:x"),
        ("0-1 1-0", None, "twice"),
        ("0-0", None, "link 0-0"),
        ("0-3", 3, "nodes 0 to 2"),
        ("0-1:-1", None, "weighs -1"),
        ("0-1:inf", None, "weighs inf"),
        ("path-0", None, "at least one node"),
    ],
)
def test_bad_names_say_what_and_how(name: str, n: int | None, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        graph_named(name, n)
