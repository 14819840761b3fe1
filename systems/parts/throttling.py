"""The update law of a distributed system throttler, Eqs. (3)-(4), for all servers at once (Siami & Skaf, "DST").

In cycle k server i is asked for r_i requests, has the limit x_i and admits min(x_i, r_i).  Then
x_i += g sum_j w_ij (p_i - p_j), with one of four measures p of how well a server is doing (Table 1).
This is the law in matrices, against which the nodes of the system ``throttler`` are tested.  All arrays
have the servers on their last axis; any axes before it are independent repetitions.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import SpecError
from core.registry import hint

Array = NDArray[np.float64]

MEASURES = ("throttled", "throttled-ratio", "log-ratio", "allowed")  # Cases I, II, III, IV of Table 1
# Requests a cycle, of a user tokens per c/r: II and III divide by r and by x; less counts as this (ours: the paper has
# r > 0).  So p is nowhere steeper than in Case I, for which update cycles are chosen (Lemma 2).
SMALLEST = 1.0


def _floats(values: ArrayLike) -> Array:
    return np.asarray(values, float)


def performance(measure: str, x: ArrayLike, r: ArrayLike) -> Array:
    """The measure p of Table 1 by limits ``x`` and requests ``r`` of a cycle; SpecError for an unknown one."""
    limits, asked = _floats(x), _floats(r)
    if measure == "throttled":
        return asked - limits
    if measure == "throttled-ratio":
        return (asked - limits) / np.maximum(asked, SMALLEST)
    if measure == "log-ratio":
        return np.log(np.maximum(asked, SMALLEST) / np.maximum(limits, SMALLEST))
    if measure == "allowed":
        return limits + np.zeros_like(asked)
    raise SpecError(f"measure = {measure!r}", hint(measure, MEASURES))


def step(
    graph_laplacian: ArrayLike,
    x: ArrayLike,
    r: ArrayLike,
    measure: str,
    g: float,
    freeze: bool = True,
    clamp: bool = False,
    literal: bool = False,
) -> Array:
    """Limits of the next cycle, x(k+1) of Eq. (4); ``graph_laplacian`` is L, ``g`` the update cycle gamma.

    ``freeze`` is the rule of Case IV (appendix) and does nothing in the others: a server whose limit is at
    r_i or above and would grow, or at 0 or below and would shrink, keeps it, and its links carry nothing in
    this cycle.  ``literal`` takes the paper's "x_i = r_i" and "x_i = 0" at their word: steps of finite length
    jump over them.  ``clamp`` (ours, as the nodes' "links") cuts the flow of every link to the part of a limit that
    falls to it, x over the number of links, so that no limit falls below 0.  None of these changes the sum of the
    limits if L is symmetric (Lemma 1).
    """
    limits, asked = _floats(x), _floats(r)
    matrix = _floats(graph_laplacian)
    p = performance(measure, limits, asked)
    change = g * (p @ matrix.T)
    active = np.ones_like(limits)
    if freeze and measure == "allowed":
        active[frozen(limits, asked, change, literal)] = 0.0
    if clamp:
        return limits + _clamped(g * _weights(matrix), p, active, limits)
    if active.all():
        return limits + change
    weights = _weights(matrix)
    return limits + g * active * (p * (active @ weights.T) - (active * p) @ weights.T)


def frozen(x: Array, r: Array, change: Array, literal: bool = False) -> NDArray[np.bool_]:
    """Case IV: which servers sit out a cycle, by their limits, requests and the change that Eq. (3) asks for."""
    full, empty = (x == r, x == 0.0) if literal else (x >= r, x <= 0.0)
    return (full & (change > 0.0)) | (empty & (change < 0.0))


def _weights(matrix: Array) -> Array:
    """W of L = D - W."""
    weights = -matrix
    np.fill_diagonal(weights, 0.0)
    return weights


def _clamped(weights: Array, p: Array, active: Array, limits: Array) -> Array:
    """The change of each limit when no link takes more from its giving end than that end has for a link."""
    flow = (
        weights * (p[..., :, None] - p[..., None, :]) * (active[..., :, None] * active[..., None, :])
    )  # into i from j
    most = np.maximum(limits, 0.0) / np.maximum(np.count_nonzero(weights, axis=1), 1)
    return np.asarray(np.clip(flow, -most[..., :, None], most[..., None, :]).sum(-1), float)


def trajectory(
    graph_laplacian: ArrayLike,
    x: ArrayLike,
    requests: Iterable[ArrayLike],
    measure: str,
    g: float,
    freeze: bool = True,
    clamp: bool = False,
    literal: bool = False,
) -> Array:
    """x(0), x(1), … on the first axis, one more than there are cycles in ``requests`` (r(0), r(1), …)."""
    limits = [np.asarray(x, float)]
    for r in requests:
        limits.append(step(graph_laplacian, limits[-1], r, measure, g, freeze, clamp, literal))
    return np.array(limits)
