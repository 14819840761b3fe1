"""How well a throttler's graph works, from the eigenvalues of its Laplacian (Siami & Skaf, "DST", Sections 4 and 5).

L is n x n, symmetric, with eigenvalues 0 = l_1 < l_2 <= … <= l_n; g is the update cycle gamma.  Case I
of Table 1: p(k + 1) = (I - g L) p(k) + v(k + 1).

The covariance of v is given as it is, a step's: the paper's Table 4 is Eq. (20) with Cov(v) = I, not with
the g sigma^2 I of Remark 3.  (With the latter the performance only gets worse with g, so that (31) has
no optimum inside; with the former the bounds that the paper gives for it hold.)
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import SpecError

Array = NDArray[np.float64]

_BLOCK = 100  # cycles whose noise is drawn at once
ZERO = 1e-9  # an eigenvalue below this, times the largest, is zero


def spectrum(graph_laplacian: ArrayLike) -> Array:
    """Eigenvalues in ascending order; the first is 0."""
    return np.asarray(np.linalg.eigvalsh(_symmetric(graph_laplacian)), float)


def phi_cr(graph_laplacian: ArrayLike, g: float) -> float:
    """Eq. (15): the factor by which the slowest disagreement shrinks in a cycle; below 1 all agree in the end."""
    return float(np.abs(1.0 - g * spectrum(graph_laplacian)[1:]).max(initial=0.0))


def largest_cycle(graph_laplacian: ArrayLike) -> float:
    """2 / l_n: servers agree in the end for every g below it, and for none at or above it (Lemma 2)."""
    return 2.0 / float(spectrum(graph_laplacian)[-1])


def slowest_mode(graph_laplacian: ArrayLike) -> float:
    """l_2, exactly 0 where the graph is not connected (two nodes or more)."""
    values = spectrum(graph_laplacian)
    return 0.0 if values[1] <= ZERO * values[-1] else float(values[1])


def optimal_cycle(graph_laplacian: ArrayLike) -> float:
    """Eq. (27), Theorem 2: the g of the smallest ``phi_cr``, 2 / (l_2 + l_n), of a connected graph."""
    values = spectrum(graph_laplacian)
    return 2.0 / float(values[1] + values[-1])


def fastest_phi_cr(graph_laplacian: ArrayLike) -> float:
    """The ``phi_cr`` at the optimal cycle: (l_n - l_2) / (l_n + l_2)."""
    values = spectrum(graph_laplacian)
    return float((values[-1] - values[1]) / (values[-1] + values[1]))


def phi_ss(graph_laplacian: ArrayLike, g: float, cov: ArrayLike | None = None) -> float:
    """Eq. (20): the expected spread of p in the long run; ``cov`` is Cov(v), n x n, the identity if not given.

    Infinite where servers never agree: g >= 2 / l_n, or a graph that is not connected.
    """
    shape = np.asarray(graph_laplacian).shape
    middle = spread_matrix(graph_laplacian, g)
    if not np.isfinite(middle).all():
        return float("inf")
    return float(np.trace(middle @ _covariance(cov, shape[0]))) / (2.0 * g)


def spread_matrix(graph_laplacian: ArrayLike, g: float) -> Array:
    """(L - g/2 L^2)^+ of Eq. (20), infinite where ``phi_ss`` is; its diagonal is c_ii of Eq. (23).

    By Remark 2, c_ii is server i's weight in the performance: with independent changes of variance g s_i^2,
    Phi_ss = 1/2 sum_i c_ii s_i^2.
    """
    matrix = _symmetric(graph_laplacian)
    values, vectors = np.linalg.eigh(matrix)
    inside = values[1:] - g / 2.0 * values[1:] ** 2
    if not g > 0.0:
        raise SpecError(f"update cycle {g}", "give a positive one")
    if (inside <= ZERO * values[-1]).any():
        return np.full_like(matrix, np.inf)
    return np.asarray((vectors[:, 1:] / inside) @ vectors[:, 1:].T, float)


def phi_ss_identical(graph_laplacian: ArrayLike, g: float, variance: float = 1.0) -> float:
    """Eq. (24): independent, identical changes, Cov(v) = g sigma^2 I; ``variance`` is sigma^2."""
    values = spectrum(graph_laplacian)[1:]
    if (values <= ZERO * values[-1]).any() or (g * values >= 2.0).any():
        return float("inf")
    return float((variance / (values * (2.0 - g * values))).sum())


def effective_resistance(graph_laplacian: ArrayLike) -> Array:
    """Eq. (2): r_ij between every two nodes, n x n; links are conductors of their weight."""
    inverse = np.linalg.pinv(_symmetric(graph_laplacian), hermitian=True)
    diagonal = np.diag(inverse)
    return np.asarray(diagonal[:, None] + diagonal[None, :] - 2.0 * inverse, float)


def phi_ss_short_cycles(graph_laplacian: ArrayLike, variance: float = 1.0) -> float:
    """Eq. (25): the limit of (24) for g -> 0, from the effective resistances."""
    n = np.asarray(graph_laplacian).shape[0]
    return float(variance / (2.0 * n) * np.triu(effective_resistance(graph_laplacian), 1).sum())


def most_robust_cycle(graph_laplacian: ArrayLike, cov: ArrayLike | None = None) -> float:
    """Problem (31): the g that minimises ``phi_ss`` for a Cov(v) that does not depend on g.

    It lies between 1 / l_n and 1 / l_2 for Cov(v) = s^2 I, and below 2 / l_n.
    """
    from scipy.optimize import minimize_scalar

    values, vectors = np.linalg.eigh(_symmetric(graph_laplacian))
    noise = np.einsum("im,ij,jm->m", vectors, _covariance(cov, len(values)), vectors)[1:]  # variance in each mode
    modes, end = values[1:], 2.0 / values[-1]

    def spread(g: float) -> float:
        return float((noise / (g * modes * (2.0 - g * modes))).sum())

    optimum = minimize_scalar(spread, bounds=(1e-9 * end, (1 - 1e-9) * end), method="bounded", options={"xatol": 1e-12})
    return float(optimum.x)


def lyapunov_phi_ss(graph_laplacian: ArrayLike, g: float, cov: ArrayLike | None = None) -> float:
    """Eq. (21): Tr[Q Cov(v)], Q by solving the discrete Lyapunov equation (I-gL) Q (I-gL) - Q + (I - J) = 0.

    A second way to ``phi_ss``, by scipy; only for g < 2 / l_n.
    """
    from scipy.linalg import solve_discrete_lyapunov

    matrix = _symmetric(graph_laplacian)
    n = len(matrix)
    mean = np.full((n, n), 1.0 / n)
    q = solve_discrete_lyapunov(np.eye(n) - g * matrix - mean, np.eye(n) - mean)
    return float(np.trace(q @ _covariance(cov, n)))


def simulated_phi_ss(
    graph_laplacian: ArrayLike,
    g: float,
    rng: np.random.Generator,
    cov: ArrayLike | None = None,
    runs: int = 200,
    cycles: int = 10_000,
) -> Array:
    """The spread (19) by iterating (18) with Gaussian v: one mean over ``cycles`` for each of ``runs`` runs.

    A third way to ``phi_ss``.  Before that, as many cycles pass uncounted as bring the slowest
    disagreement down to e^-10.
    """
    matrix = _symmetric(graph_laplacian)
    factor = phi_cr(matrix, g)
    if factor >= 1.0:
        raise SpecError(f"update cycle {g}", f"stay below {largest_cycle(matrix):.4g}: beyond, servers never agree")
    warm_up = int(np.ceil(10.0 / -np.log(factor))) if factor > 0.0 else 1
    n = len(matrix)
    root = _root(_covariance(cov, n)) @ (np.eye(n) - 1.0 / n)  # the mean walks off and plays no part in (19)
    forward = np.eye(n) - g * matrix
    p, total = np.zeros((runs, n)), np.zeros(runs)
    for first in range(0, warm_up + cycles, _BLOCK):
        count = min(_BLOCK, warm_up + cycles - first)
        for k, noise in enumerate(rng.standard_normal((count, runs, n)) @ root, first):
            p = p @ forward + noise
            if k >= warm_up:
                total += np.einsum("ij,ij->i", p, p)
    return total / cycles


def spread(p: ArrayLike) -> Array:
    """The sum in (19): (1/2n) sum_ij (p_i - p_j)^2, which is the sum of squares about the mean; last axis = servers."""
    values = np.asarray(p, float)
    return np.asarray(((values - values.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1), float)


def total_mismatch(graph_laplacian: ArrayLike, g: float, cov: ArrayLike | None = None, cycles: int = 100_000) -> float:
    """Remark 4, summed cycle by cycle: E sum_k (1/n) sum_{i>j} (p_i - p_j)^2, without the factor dt of (26).

    Loads are constant after a random start with covariance ``cov``.  This sum is ``phi_ss`` with
    Cov(v) = ``cov``; times dt = g, as (26) is printed, it is ``phi_ss`` with Cov(v) = g ``cov``.
    """
    matrix = _symmetric(graph_laplacian)
    n = len(matrix)
    forward = np.eye(n) - g * matrix
    p = (np.eye(n) - 1.0 / n) @ _root(_covariance(cov, n)).T  # columns: one for each independent cause
    total = 0.0
    for _ in range(cycles):
        added = float((p**2).sum())
        total += added
        if added <= 1e-16 * total:
            break
        p = forward @ p
    return total


def logarithmic_step(graph_laplacian: ArrayLike, share: ArrayLike, g: float, requests: float) -> Array:
    """Eq. (47), Case III with r_i = ``requests`` everywhere: the next x_i / r_i from this cycle's ``share``."""
    values = np.asarray(share, float)
    return np.asarray(values - g / requests * (np.log(values) @ _symmetric(graph_laplacian)), float)


def _symmetric(graph_laplacian: ArrayLike) -> Array:
    matrix = np.asarray(graph_laplacian, float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T, atol=1e-12):
        raise SpecError(f"a Laplacian of shape {matrix.shape}", "give a symmetric n x n matrix: graphs are undirected")
    return matrix


def _covariance(cov: ArrayLike | None, n: int) -> Array:
    if cov is None:
        return np.eye(n)
    matrix = np.asarray(cov, float)
    if matrix.shape != (n, n) or not np.allclose(matrix, matrix.T) or np.linalg.eigvalsh(matrix)[0] < -1e-9:
        raise SpecError(f"a covariance of shape {matrix.shape}", f"give a symmetric {n} x {n} one, no eigenvalue < 0")
    return matrix


def _root(cov: Array) -> Array:
    """R with R'R = ``cov``, so that rows z R of standard normal z have this covariance; ``cov`` may be singular."""
    values, vectors = np.linalg.eigh(cov)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, float)
