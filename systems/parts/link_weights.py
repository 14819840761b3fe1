"""The best weights of given links, as semidefinite programs (Siami & Skaf, "DST", Section 5.2).

Both need cvxpy, which is imported when one is solved.  With weights free the update cycle g only sets
their scale: best weights at g are the ones at g = 1 divided by g.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from core.errors import SpecError
from systems.parts.throttling_graphs import Graph, weighted

if TYPE_CHECKING:
    import cvxpy


class Optimum(NamedTuple):
    """The graph with its best weights, and the program's own value of what it minimised."""

    graph: Graph
    value: float


def fastest(graph: Graph, g: float = 1.0) -> Optimum:
    """Problem (33): the weights of the smallest Phi_cr (15) on the links of ``graph``; ``value`` is that Phi_cr.

    Weights that ``graph`` has are ignored; a best weight may be 0.  SpecError if the graph is not connected.
    """
    import cvxpy

    _check(graph, g)
    weights = cvxpy.Variable(len(graph.edges), nonneg=True)
    theta = cvxpy.Variable()
    mean = np.full((graph.n, graph.n), 1.0 / graph.n)
    slack = np.eye(graph.n) - _expression(graph, weights) - mean  # weights times g: well scaled for the solver
    identity = np.eye(graph.n)
    problem = cvxpy.Problem(cvxpy.Minimize(theta), [slack << theta * identity, slack >> -theta * identity])
    _solve(problem)
    return Optimum(_with(graph, weights, g), float(problem.value))


def most_robust(graph: Graph, g: float = 1.0, cov: ArrayLike | None = None, literal: bool = False) -> Optimum:
    """Problem (35): the weights of the smallest Phi_ss (20) on the links of ``graph``; ``value`` is that Phi_ss.

    ``cov`` is Cov(v), the identity if not given.  The paper subtracts 1'Cov 1 / (2 n g^2) from Tr[Y Cov] / 2g;
    Y holds g J beside the pseudo-inverse, so that 1'Cov 1 / (2 n) is right.  ``literal`` subtracts what is
    printed: other values, the same weights, and no difference at g = 1.
    """
    import cvxpy

    _check(graph, g)
    n = graph.n
    noise = np.eye(n) if cov is None else np.asarray(cov, float)
    if noise.shape != (n, n):
        raise SpecError(f"a covariance of shape {noise.shape}", f"give one of {n} x {n}")
    weights = cvxpy.Variable(len(graph.edges), nonneg=True)
    inverse = cvxpy.Variable((n, n), symmetric=True)  # Y / g
    identity, mean, zero = np.eye(n), np.full((n, n), 1.0 / n), np.zeros((n, n))
    scaled = _expression(graph, weights)  # g L; the paper's block times g, congruent to it
    block = cvxpy.bmat([[scaled + mean, scaled, identity], [scaled, 2.0 * identity, zero], [identity, zero, inverse]])
    bounds = [scaled + mean << 2.0 * identity]  # 0 <= I - (g L + J) / 2; the other bound always holds
    objective = cvxpy.trace(inverse @ noise) / 2.0
    problem = cvxpy.Problem(cvxpy.Minimize(objective), [block >> 0, *bounds])
    _solve(problem)
    constant = float(noise.sum()) / (2.0 * n) / (g**2 if literal else 1.0)
    return Optimum(_with(graph, weights, g), float(problem.value) - constant)


def _expression(graph: Graph, weights: "cvxpy.Variable") -> "cvxpy.Expression":
    """Sum of w(e) L_e over the links, as an expression of cvxpy."""
    import cvxpy

    incidence = np.zeros((graph.n, len(graph.edges)))
    for column, (a, b) in enumerate(graph.links):
        incidence[a, column], incidence[b, column] = 1.0, -1.0
    laplacian: cvxpy.Expression = incidence @ cvxpy.diag(weights) @ incidence.T
    return laplacian


def _solve(problem: "cvxpy.Problem") -> None:
    import cvxpy

    problem.solve(solver=cvxpy.CLARABEL)
    assert problem.status in (cvxpy.OPTIMAL, cvxpy.OPTIMAL_INACCURATE), problem.status


def _with(graph: Graph, weights: "cvxpy.Variable", g: float) -> Graph:
    """The graph with a solved program's weights; the solver may leave a zero slightly negative."""
    return weighted(graph, np.maximum(np.asarray(weights.value, float), 0.0) / g)


def _check(graph: Graph, g: float) -> None:
    if not weighted(graph, 1.0).connected or graph.n < 2:
        raise SpecError(f"a graph of {graph.n} nodes that is not connected", "join all nodes, two at least")
    if not g > 0.0:
        raise SpecError(f"update cycle {g}", "give a positive one")
