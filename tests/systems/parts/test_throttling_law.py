"""The update law: its measures, its invariant, the freeze of Case IV, over-throttling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.seeds import generator
from systems.parts.laplacian import largest_cycle, logarithmic_step
from systems.parts.throttling import MEASURES, performance, step, trajectory
from systems.parts.throttling_graphs import NAMED, Graph, graph_named, laplacian, neighbours, path
from tests.systems.parts.test_laplacian import SEEDS, graphs
from tests.systems.parts.throttling_twins import admitted, over_throttling


def literal_step(graph: Graph, x: list[float], p: list[float], g: float) -> list[float]:
    """Eq. (3), server by server."""
    around = neighbours(graph)
    return [x[i] + g * sum(w * (p[i] - p[j]) for j, w in around[i]) for i in range(len(x))]


def test_the_four_measures() -> None:
    x, r = [50.0, 100.0], [100.0, 80.0]
    assert performance("throttled", x, r).tolist() == [50.0, -20.0]
    assert performance("throttled-ratio", x, r).tolist() == [0.5, -0.25]
    assert performance("log-ratio", x, r) == pytest.approx([np.log(2), np.log(0.8)])
    assert performance("allowed", x, r).tolist() == x
    with pytest.raises(SpecError, match="did you mean 'throttled'"):
        performance("throtled", x, r)


def test_measures_stay_finite_without_requests_or_limit() -> None:
    for measure in MEASURES:
        assert np.isfinite(performance(measure, [0.0, -5.0, 10.0], [0.0, 10.0, 0.0])).all()


@given(graphs(), st.sampled_from(MEASURES[:3]), SEEDS)
def test_the_law_is_the_sum_over_neighbours(graph: Graph, measure: str, seed: int) -> None:
    rng = generator(seed, "law")
    n = graph.n
    x, r = rng.uniform(1, 200, n), rng.uniform(1, 200, n)
    p = performance(measure, x, r)
    wanted = literal_step(graph, x.tolist(), p.tolist(), 0.1)
    assert step(laplacian(graph), x, r, measure, 0.1) == pytest.approx(wanted, abs=1e-9)


@given(graphs(), st.sampled_from(MEASURES), st.booleans(), st.booleans(), SEEDS)
def test_the_sum_of_limits_never_changes(graph: Graph, measure: str, freeze: bool, clamp: bool, seed: int) -> None:
    rng = generator(seed, "sum")
    n = graph.n
    x, r = rng.uniform(0, 200, n), rng.uniform(0, 200, (30, n))
    found = trajectory(laplacian(graph), x, r, measure, 0.05, freeze, clamp)
    assert found.shape == (31, n)
    assert found.sum(axis=1) == pytest.approx(np.full(31, x.sum()), rel=1e-9, abs=1e-9 * np.abs(found).max())


@given(graphs(), SEEDS, st.floats(0.01, 3.0))
def test_clamped_limits_never_fall_below_zero(graph: Graph, seed: int, share: float) -> None:
    rng = generator(seed, "clamp")
    matrix = laplacian(graph)
    r = rng.uniform(50, 150, len(matrix))
    x = r * rng.uniform(0, 1, len(matrix))
    g = share * largest_cycle(matrix)
    found = trajectory(matrix, x, [r] * 40, "allowed", g, clamp=True)
    assert found.min() >= -1e-9
    positive = trajectory(matrix, x, r * rng.uniform(0, 2, (40, len(r))), "throttled", g, clamp=True)
    assert positive.min() >= -1e-9 * np.abs(positive).max()


@given(graphs(), SEEDS)
def test_a_clamp_that_nothing_needs_changes_nothing(graph: Graph, seed: int) -> None:
    matrix = laplacian(graph)
    r = generator(seed, "idle clamp").uniform(90, 110, len(matrix))
    x, g = np.full(len(r), 100.0), 0.1 * largest_cycle(matrix)
    clamped = step(matrix, x, r, "throttled", g, clamp=True)
    assert clamped == pytest.approx(step(matrix, x, r, "throttled", g))


def test_limits_may_fall_below_zero_without_the_clamp() -> None:
    """D5: nothing in (3) keeps x_i >= 0; such a server admits nothing."""
    matrix, x, r = laplacian(path(2)), [1.0, 1.0], [0.0, 100.0]
    assert step(matrix, x, r, "throttled", 0.4)[0] < 0.0
    assert step(matrix, x, r, "throttled", 0.4, clamp=True).tolist() == [0.0, 2.0]
    assert admitted([-3.0, 5.0], [4.0, 4.0]).tolist() == [0.0, 4.0]


def test_a_frozen_server_and_its_links_sit_out() -> None:
    """0 - 1 - 2, g = 0.1: server 2 is at its bound and would grow, so 1 hears only from 0."""
    matrix, x, r = laplacian(path(3)), [10.0, 20.0, 30.0], [100.0, 100.0, 30.0]
    assert step(matrix, x, r, "allowed", 0.1).tolist() == [9.0, 21.0, 30.0]
    assert step(matrix, x, r, "allowed", 0.1, freeze=False).tolist() == [9.0, 20.0, 31.0]
    beyond = [10.0, 20.0, 30.5]
    assert step(matrix, beyond, r, "allowed", 0.1)[2] == 30.5
    assert step(matrix, beyond, r, "allowed", 0.1, literal=True)[2] > 30.5


@pytest.mark.parametrize("name", NAMED)
def test_case_iv_runs_away_unless_it_is_frozen(name: str) -> None:
    matrix = laplacian(graph_named(name))
    rng = generator(5, name)
    r = rng.uniform(50, 150, 10)
    x = r * rng.uniform(0, 1, 10)
    assert np.abs(trajectory(matrix, x, [r] * 300, "allowed", 0.02, freeze=False)[-1]).max() > 1e6
    frozen = trajectory(matrix, x, [r] * 300, "allowed", 0.02)
    assert np.array_equal(frozen[-1], frozen[-2])
    assert (frozen - r).max() < 10.0 and frozen.min() > -10.0


@given(graphs(), SEEDS, st.floats(5.0, 500.0))
def test_case_iii_is_equation_47(graph: Graph, seed: int, requests: float) -> None:
    matrix = laplacian(graph)
    share = generator(seed, "logarithm").uniform(0.5, 1.5, len(matrix))
    g = 0.1 * largest_cycle(matrix) * requests
    found = step(matrix, requests * share, np.full(len(share), requests), "log-ratio", g)
    assert found / requests == pytest.approx(logarithmic_step(matrix, share, g, requests))


def test_repetitions_are_independent_rows() -> None:
    matrix = laplacian(graph_named("dst-2"))
    rng = generator(2, "rows")
    x, r = rng.uniform(0, 100, (4, 10)), rng.uniform(0, 100, (4, 10))
    for measure in MEASURES:
        for clamp in (False, True):
            together = step(matrix, x, r, measure, 0.1, clamp=clamp)
            alone = [step(matrix, x[i], r[i], measure, 0.1, clamp=clamp) for i in range(4)]
            assert together == pytest.approx(np.array(alone))


def test_a_directed_graph_needs_balance() -> None:
    ring = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [-1.0, 0.0, 1.0]])
    chain = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 0.0]])
    x, r = [10.0, 20.0, 30.0], [30.0, 30.0, 90.0]
    assert step(ring, x, r, "throttled", 0.1).sum() == pytest.approx(60.0)
    assert step(chain, x, r, "throttled", 0.1).tolist() == pytest.approx([11.0, 15.0, 30.0])


def test_over_throttling_by_hand() -> None:
    """l_total = 20; cycle 0 admits 15 of 20 (5 + 10), cycle 1 all 8 that are asked."""
    limits = [[10.0, 10.0], [10.0, 10.0]]
    requests = [[5.0, 30.0], [4.0, 4.0]]
    assert over_throttling(limits, requests) == pytest.approx(5 / 28)
