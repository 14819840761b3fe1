"""Measures of a throttler's graph: published values, closed forms against other ways to compute them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SpecError
from core.seeds import generator
from systems.parts.laplacian import (
    effective_resistance,
    fastest_phi_cr,
    largest_cycle,
    logarithmic_step,
    lyapunov_phi_ss,
    most_robust_cycle,
    optimal_cycle,
    phi_cr,
    phi_ss,
    phi_ss_identical,
    phi_ss_short_cycles,
    simulated_phi_ss,
    slowest_mode,
    spectrum,
    spread,
    spread_matrix,
    total_mismatch,
)
from systems.parts.throttling_graphs import Graph, complete, graph_named, laplacian, path, star, unweighted, weighted

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """A random tree of 2 to 8 nodes, random links on top, weights of 0.1 to 5."""
    n = draw(st.integers(2, 8))
    links = {(draw(st.integers(0, node - 1)), node) for node in range(1, n)}
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    links |= set(draw(st.lists(st.sampled_from(pairs), max_size=6)))
    weights = draw(st.lists(st.floats(0.1, 5.0), min_size=len(links), max_size=len(links)))
    return weighted(unweighted(n, links), weights)


def random_covariance(n: int, seed: int) -> Array:
    root = generator(seed, "covariance").standard_normal((n, n))
    return np.asarray(root @ root.T)


SHARES = st.floats(0.05, 0.95)  # of the largest stable cycle
SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize(
    ("name", "cycle", "factor", "performance"),
    [("dst-1", "0.4226", "0.9969", "334.7965"), ("dst-2", "0.2222", "0.9727", "69.3075")],
)
def test_tables_3_and_4_to_every_printed_digit(name: str, cycle: str, factor: str, performance: str) -> None:
    matrix = laplacian(graph_named(name))
    assert f"{optimal_cycle(matrix):.4f}" == cycle
    assert f"{phi_cr(matrix, 0.02):.4f}" == factor
    assert f"{phi_ss(matrix, 0.02):.4f}" == performance
    assert f"{lyapunov_phi_ss(matrix, 0.02):.4f}" == performance


def test_table_2_by_hand() -> None:
    assert optimal_cycle(laplacian(complete(5))) == pytest.approx(1 / 5)
    assert fastest_phi_cr(laplacian(complete(5))) == pytest.approx(0.0, abs=1e-12)
    assert optimal_cycle(laplacian(star(5))) == pytest.approx(1 / 3)
    assert fastest_phi_cr(laplacian(star(5))) == pytest.approx(2 / 3)


def test_two_servers_by_hand() -> None:
    """One link of weight 1: l_2 = 2, so p_1 - p_2 is an AR(1) process with factor 1 - 2g and variance 2 a step."""
    matrix, g = laplacian(path(2)), 0.3
    assert phi_cr(matrix, g) == pytest.approx(0.4)
    assert phi_ss(matrix, g) == pytest.approx(0.5 * 2 / (1 - 0.4**2))
    assert effective_resistance(matrix)[0, 1] == pytest.approx(1.0)


@given(graphs(), SHARES, SEEDS)
def test_closed_form_solves_the_lyapunov_equation(graph: Graph, share: float, seed: int) -> None:
    matrix = laplacian(graph)
    g, cov = share * largest_cycle(matrix), random_covariance(graph.n, seed)
    assert phi_ss(matrix, g, cov) == pytest.approx(lyapunov_phi_ss(matrix, g, cov), rel=1e-6)
    assert phi_ss(matrix, g) == pytest.approx(phi_ss_identical(matrix, g, 1 / g), rel=1e-9)


@given(graphs(), SHARES, SEEDS)
def test_closed_form_is_the_stationary_covariance(graph: Graph, share: float, seed: int) -> None:
    """P = A P A' + M Cov M about the mean, solved as linear equations: not the adjoint equation that (21) is."""
    matrix = laplacian(graph)
    n, g, cov = graph.n, share * largest_cycle(matrix), random_covariance(graph.n, seed)
    about_mean = np.eye(n) - 1.0 / n
    forward = about_mean @ (np.eye(n) - g * matrix)
    noise = about_mean @ cov @ about_mean
    p = np.linalg.solve(np.eye(n * n) - np.kron(forward, forward), noise.ravel()).reshape(n, n)
    assert phi_ss(matrix, g, cov) == pytest.approx(float(np.trace(p)), rel=1e-6)


@given(graphs(), SHARES, SEEDS)
def test_trace_of_y_exceeds_the_performance_by_the_corrected_constant(graph: Graph, share: float, seed: int) -> None:
    """(38): Y = (L + J/g - g/2 L^2)^-1 is the pseudo-inverse plus g J, so 1'Cov 1/(2n) is too much, at any g."""
    matrix = laplacian(graph)
    n, g, cov = graph.n, share * largest_cycle(matrix), random_covariance(graph.n, seed)
    y = np.linalg.inv(matrix + np.full((n, n), 1 / n) / g - g / 2 * matrix @ matrix)
    constant = cov.sum() / (2 * n)
    assert np.trace(y @ cov) / (2 * g) == pytest.approx(phi_ss(matrix, g, cov) + constant, rel=1e-6)


def test_trace_of_y_of_graph_1() -> None:
    matrix, g = laplacian(graph_named("dst-1")), 0.02
    y = np.linalg.inv(matrix + 0.1 / g - g / 2 * matrix @ matrix)
    assert np.trace(y) / (2 * g) == pytest.approx(335.2965, abs=5e-5)


@given(graphs(), SHARES)
def test_remark_4_sums_to_the_performance(graph: Graph, share: float) -> None:
    matrix = laplacian(graph)
    g = share * largest_cycle(matrix)
    assert total_mismatch(matrix, g) == pytest.approx(phi_ss(matrix, g), rel=1e-6)
    assert g * total_mismatch(matrix, g) == pytest.approx(phi_ss(matrix, g, g * np.eye(graph.n)), rel=1e-6)


@given(graphs(), SHARES)
def test_servers_share_the_performance_by_their_centrality(graph: Graph, share: float) -> None:
    matrix = laplacian(graph)
    g = share * largest_cycle(matrix)
    variances = np.arange(1.0, graph.n + 1.0)
    centrality = np.diag(spread_matrix(matrix, g))
    assert (centrality > 0).all()
    assert 0.5 * centrality @ variances == pytest.approx(phi_ss(matrix, g, g * np.diag(variances)), rel=1e-9)


@given(graphs(), st.floats(0.01, 0.99))
def test_no_cycle_is_faster_than_the_optimal_one(graph: Graph, share: float) -> None:
    matrix = laplacian(graph)
    best = optimal_cycle(matrix)
    assert phi_cr(matrix, best) == pytest.approx(fastest_phi_cr(matrix), abs=1e-9)
    assert phi_cr(matrix, share * largest_cycle(matrix)) >= phi_cr(matrix, best) - 1e-12


@settings(max_examples=30)
@given(graphs(), SEEDS)
def test_no_cycle_is_more_robust_than_problem_31s(graph: Graph, seed: int) -> None:
    matrix = laplacian(graph)
    cov = random_covariance(graph.n, seed)
    best = phi_ss(matrix, most_robust_cycle(matrix, cov), cov)
    for share in np.arange(0.05, 1.0, 0.05):
        assert best <= phi_ss(matrix, share * largest_cycle(matrix), cov) * (1 + 1e-9)


@given(graphs())
def test_bounds_of_the_most_robust_cycle(graph: Graph) -> None:
    matrix = laplacian(graph)
    values = spectrum(matrix)
    assert 1 / values[-1] * (1 - 1e-6) <= most_robust_cycle(matrix) <= 1 / values[1] * (1 + 1e-6)


@given(graphs(), st.floats(0.05, 0.9))
def test_with_a_covariance_that_grows_with_the_cycle_there_is_no_best_cycle(graph: Graph, share: float) -> None:
    matrix = laplacian(graph)
    g = share * largest_cycle(matrix)
    assert phi_ss_identical(matrix, g) < phi_ss_identical(matrix, 1.05 * g)
    assert phi_ss_short_cycles(matrix) < phi_ss_identical(matrix, g)


@given(graphs())
def test_short_cycles_tend_to_the_effective_resistance(graph: Graph) -> None:
    matrix = laplacian(graph)
    limit = phi_ss_short_cycles(matrix)
    assert phi_ss_identical(matrix, 1e-7 * largest_cycle(matrix)) == pytest.approx(limit, rel=1e-5)


@given(graphs(), st.integers(0, 100))
def test_more_links_never_hurt_at_small_cycles(graph: Graph, choice: int) -> None:
    missing = sorted(set(complete(graph.n).links) - set(graph.links))
    if not missing:
        return
    more = Graph(graph.n, (*graph.edges, (*missing[choice % len(missing)], 1.0)))
    one, other = laplacian(graph), laplacian(more)
    g = 0.5 * largest_cycle(other)  # g l_n <= 1
    assert phi_cr(other, g) <= phi_cr(one, g) + 1e-12
    assert phi_ss(other, g) <= phi_ss(one, g) * (1 + 1e-12)


def test_resistances_add_in_series_and_by_conductance_in_parallel() -> None:
    line = effective_resistance(laplacian(path(5)))
    assert line[0, 4] == pytest.approx(4.0)
    assert line[1, 3] == pytest.approx(2.0)
    triangle = effective_resistance(laplacian(complete(3)))
    assert triangle[0, 1] == pytest.approx(2 / 3)
    assert effective_resistance(laplacian(weighted(path(2), 4.0)))[0, 1] == pytest.approx(0.25)


def test_simulation_agrees() -> None:
    for name in ("dst-2", "star-4"):
        matrix = laplacian(graph_named(name))
        g = 0.4 * largest_cycle(matrix)
        for cov in (None, random_covariance(len(matrix), 7)):
            runs = simulated_phi_ss(matrix, g, generator(3, name), cov, runs=200, cycles=2_000)
            error = runs.std(ddof=1) / len(runs) ** 0.5
            assert abs(runs.mean() - phi_ss(matrix, g, cov)) < 4 * error
            assert error < 0.02 * runs.mean()


def test_spread_is_the_sum_over_pairs() -> None:
    p = generator(1, "p").standard_normal(6)
    assert spread(p) == pytest.approx(((p[:, None] - p[None, :]) ** 2).sum() / 12)


def test_infinite_where_servers_never_agree() -> None:
    apart = laplacian(unweighted(4, [(0, 1), (2, 3)]))
    assert phi_ss(apart, 0.1) == phi_ss_identical(apart, 0.1) == np.inf
    assert phi_cr(apart, 0.1) == 1.0
    matrix = laplacian(complete(5))
    assert phi_ss(matrix, 0.4) == phi_ss(matrix, 0.41) == phi_ss_identical(matrix, 0.41) == np.inf
    assert np.isfinite(phi_ss(matrix, 0.399))


def test_equal_shares_are_at_rest_under_the_logarithm() -> None:
    matrix = laplacian(complete(3))
    assert logarithmic_step(matrix, [0.5, 0.5, 0.5], 1.0, 10.0) == pytest.approx([0.5, 0.5, 0.5])
    moved = logarithmic_step(matrix, [0.4, 0.5, 0.6], 1.0, 10.0)
    assert moved[0] > 0.4 and moved[2] < 0.6


def test_bad_input() -> None:
    with pytest.raises(SpecError, match="symmetric"):
        spectrum([[1.0, -1.0], [0.0, 0.0]])
    with pytest.raises(SpecError, match="positive"):
        phi_ss(laplacian(path(3)), 0.0)
    with pytest.raises(SpecError, match="3 x 3"):
        phi_ss(laplacian(path(3)), 0.1, np.eye(2))
    with pytest.raises(SpecError, match="eigenvalue"):
        phi_ss(laplacian(path(3)), 0.1, -np.eye(3))
    with pytest.raises(SpecError, match="never agree"):
        simulated_phi_ss(laplacian(path(3)), 1.0, generator(1, "x"))


@given(graphs(), graphs())
def test_the_slowest_mode_stands_still_where_a_graph_falls_apart(graph: Graph, other: Graph) -> None:
    matrix, beside = laplacian(graph), laplacian(other)
    assert slowest_mode(matrix) == spectrum(matrix)[1] > 0.0
    apart = np.zeros((len(matrix) + len(beside),) * 2)
    apart[: len(matrix), : len(matrix)], apart[len(matrix) :, len(matrix) :] = matrix, beside
    assert slowest_mode(apart) == 0.0 and phi_cr(apart, optimal_cycle(apart)) == pytest.approx(1.0)
