"""Best link weights: known answers, never worse than one weight, the printed constant."""

import networkx
import numpy as np
import pytest
from hypothesis import given, settings

from core.errors import SpecError
from systems.parts.laplacian import fastest_phi_cr, most_robust_cycle, phi_cr, phi_ss
from systems.parts.link_weights import fastest, most_robust
from systems.parts.throttling_graphs import Graph, complete, graph_named, laplacian, overlaid, path, star, unweighted
from tests.systems.parts.test_laplacian import graphs

ALIKE = {
    "complete": complete(5),
    "star": star(6),
    "ring": overlaid("ring", 7),
    "cube": unweighted(8, networkx.convert_node_labels_to_integers(networkx.hypercube_graph(3)).edges),
    "Petersen": unweighted(10, networkx.petersen_graph().edges),
    "K(3,4)": unweighted(7, networkx.complete_bipartite_graph(3, 4).edges),
}


def test_table_2() -> None:
    whole, hub = fastest(complete(5)), fastest(star(5))
    assert whole.graph.weights == pytest.approx(np.full(10, 1 / 5), abs=1e-6)
    assert hub.graph.weights == pytest.approx(np.full(4, 1 / 3), abs=1e-6)
    assert (whole.value, hub.value) == pytest.approx((0.0, 2 / 3), abs=1e-6)


@pytest.mark.parametrize("name", ALIKE)
def test_one_weight_is_best_where_all_links_are_alike(name: str) -> None:
    graph = ALIKE[name]
    matrix = laplacian(graph)
    assert fastest(graph).value == pytest.approx(fastest_phi_cr(matrix), abs=1e-6)
    best = most_robust(graph)
    assert best.value == pytest.approx(phi_ss(most_robust_cycle(matrix) * matrix, 1.0), rel=1e-6)
    assert best.graph.weights == pytest.approx(np.full(len(graph.edges), most_robust_cycle(matrix)), abs=1e-3)


@settings(max_examples=15, deadline=None)
@given(graphs())
def test_never_worse_than_one_weight_and_worth_its_own_value(graph: Graph) -> None:
    even = laplacian(unweighted(graph.n, graph.links))
    quick, robust = fastest(graph), most_robust(graph)
    assert quick.value <= fastest_phi_cr(even) + 1e-6
    assert phi_cr(laplacian(quick.graph), 1.0) == pytest.approx(quick.value, abs=1e-5)
    assert robust.value <= phi_ss(most_robust_cycle(even) * even, 1.0) * (1 + 1e-6)
    assert phi_ss(laplacian(robust.graph), 1.0) == pytest.approx(robust.value, rel=1e-4)
    assert (quick.graph.weights >= 0).all() and (robust.graph.weights >= 0).all()


def test_the_recovered_graphs_gain() -> None:
    quick = {name: fastest(graph_named(name)).value for name in ("dst-1", "dst-2")}
    assert quick["dst-1"] == pytest.approx(0.929708, abs=1e-5)
    assert quick["dst-2"] == pytest.approx(0.583614, abs=1e-5)
    for name, value in quick.items():
        assert value < fastest_phi_cr(laplacian(graph_named(name))) - 1e-3


def test_the_cycle_only_scales_the_weights() -> None:
    graph = graph_named("dst-2")
    for solve in (fastest, most_robust):
        one, other = solve(graph, 1.0), solve(graph, 0.02)
        assert other.graph.weights * 0.02 == pytest.approx(one.graph.weights, abs=1e-6)
        assert other.value == pytest.approx(one.value, rel=1e-6)


def test_no_small_change_of_the_most_robust_weights_helps() -> None:
    cov = np.diag(np.arange(1.0, 7.0))
    best = most_robust(path(6), 1.0, cov).graph
    value = phi_ss(laplacian(best), 1.0, cov)
    for link in range(len(best.edges)):
        for change in (0.98, 1.02):
            edges = [(a, b, w * (change if i == link else 1.0)) for i, (a, b, w) in enumerate(best.edges)]
            assert phi_ss(laplacian(Graph(6, tuple(edges))), 1.0, cov) > value


def test_the_printed_constant_is_right_at_g_1_only() -> None:
    graph = path(4)
    assert most_robust(graph, 1.0, literal=True).value == pytest.approx(most_robust(graph, 1.0).value)
    right, printed = most_robust(graph, 0.5), most_robust(graph, 0.5, literal=True)
    assert printed.graph.weights == pytest.approx(right.graph.weights)
    assert right.value - printed.value == pytest.approx(4 / (2 * 4) * (1 / 0.5**2 - 1))
    assert right.value == pytest.approx(phi_ss(laplacian(right.graph), 0.5), rel=1e-4)


def test_bad_input() -> None:
    apart = unweighted(4, [(0, 1), (2, 3)])
    for solve in (fastest, most_robust):
        with pytest.raises(SpecError, match="not connected"):
            solve(apart)
        with pytest.raises(SpecError, match="positive"):
            solve(path(3), 0.0)
    with pytest.raises(SpecError, match="3 x 3"):
        most_robust(path(3), 1.0, np.eye(4))
