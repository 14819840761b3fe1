"""``vivaldi.Vivaldi`` over arrays: all nodes of a cluster, which probe each other in rounds.  Serf's constants.

A round is one probe of every node, the nodes in an order that is drawn.  As in memberlist, a node goes through
its own shuffled list of all peers, and shuffles it anew at the end.  ``vivaldi_twin`` is the same in plain Python
and draws the same numbers from the same generator.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from collections.abc import Sequence
from math import isfinite, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.compiled import njit
from systems.parts.coordinates import Coordinates, one_of
from systems.parts.vivaldi import NEAR_S, RTT_MAXIMUM_S, SERF, Vivaldi

DIMENSIONS, SAMPLES, WINDOW = SERF.dimensions, SERF.samples, SERF.window
ERROR_MAXIMUM, ERROR_GAIN, FORCE_GAIN = SERF.error_maximum, SERF.error_gain, SERF.force_gain
HEIGHT_MINIMUM_S, GRAVITY_S = SERF.height_minimum_s, SERF.gravity_s
ORIGIN = np.zeros(DIMENSIONS)
assert SAMPLES == 3, "of so many _median is made"

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


class ClusterState(NamedTuple):
    """A cluster of n nodes between two rounds.  Arrays, changed in place; times in seconds."""

    vec: Array  # (n, 8)
    height: Array  # (n,)
    adjustment: Array  # (n,)
    error: Array  # (n,) a share
    offsets: Array  # (n, 20): what the adjustment is the mean of, a ring
    oldest: Counts  # (n,): where in the ring the next offset goes
    heard: Array  # (n, n, 3): the last round-trip times to each peer, a ring of ``heard_count`` in all
    heard_count: Counts  # (n, n)
    order: Counts  # (n, n - 1): whom each node probes in turn
    turn: Counts  # (n,): how far it is
    sequence: Counts  # (n,): the order of the nodes in a round, shuffled further in every round
    reset_count: Counts  # (n,)


def begin(nodes: int, rng: np.random.Generator) -> ClusterState:
    """All at the origin, before the first round; ``rng`` shuffles whom each will probe."""
    peers = np.arange(max(0, nodes - 1))
    order = peers + (peers >= np.arange(nodes)[:, None])
    _shuffle_rows(order, rng)
    return ClusterState(
        vec=np.zeros((nodes, DIMENSIONS)),
        height=np.full(nodes, HEIGHT_MINIMUM_S),
        adjustment=np.zeros(nodes),
        error=np.full(nodes, ERROR_MAXIMUM),
        offsets=np.zeros((nodes, WINDOW)),
        oldest=np.zeros(nodes, np.int64),
        heard=np.zeros((nodes, nodes, SAMPLES)),
        heard_count=np.zeros((nodes, nodes), np.int64),
        order=order,
        turn=np.zeros(nodes, np.int64),
        sequence=np.arange(nodes),
        reset_count=np.zeros(nodes, np.int64),
    )


def run_rounds(
    state: ClusterState,
    rtt_s: Array,
    rounds: int,
    rng: np.random.Generator,
    jitter_s: Array | None = None,
    loss_probability: Array | None = None,
) -> None:
    """Let every node probe ``rounds`` peers.  Arrays (n, n) of what holds in these rounds.

    ``jitter_s``: each way of a probe is off by so much at most, either way, uniformly.  ``loss_probability``: of a
    probe or its answer; what is lost moves nobody.
    """
    none = np.zeros_like(rtt_s)
    _run(state, rtt_s, none if jitter_s is None else jitter_s,
         none if loss_probability is None else loss_probability, rounds, rng)  # fmt: skip


def coordinates(state: ClusterState) -> Coordinates:
    """Where the nodes are, as a copy."""
    return Coordinates(state.vec.copy(), state.height.copy(), state.adjustment.copy(), state.error.copy())


def warmed(state: ClusterState, i: int, rng: np.random.Generator, names: Sequence[str] | None = None) -> Vivaldi:
    """Node ``i`` as an object that goes on from here; ``names``: what its peers are called, else their numbers."""
    peers = [str(j) for j in range(len(state.turn))] if names is None else names
    offsets = np.roll(state.offsets[i], -state.oldest[i])
    heard = {}
    for j in np.flatnonzero(state.heard_count[i]).tolist():
        count = int(state.heard_count[i, j])
        ring = state.heard[i, j]
        heard[peers[j]] = [float(ring[k % SAMPLES]) for k in range(max(0, count - SAMPLES), count)]
    node = Vivaldi(rng)
    node.resume(one_of(coordinates(state), i), offsets.tolist(), heard, int(state.reset_count[i]))
    return node


@njit(cache=True)
def _shuffle_rows(rows, rng):
    for row in rows:
        _shuffle(row, rng)


@njit(cache=True)
def _shuffle(row, rng):
    """Fisher and Yates, from the end; ``rng.random()`` is below 1, so that the place is one of the row."""
    for last in range(len(row) - 1, 0, -1):
        place = int(rng.random() * (last + 1))
        row[last], row[place] = row[place], row[last]


@njit(cache=True)
def _run(state, rtt_s, jitter_s, loss_probability, rounds, rng):
    nodes = len(state.turn)
    if nodes < 2:
        return
    for _ in range(rounds):
        _shuffle(state.sequence, rng)
        for i in state.sequence:
            if state.turn[i] == nodes - 1:
                _shuffle(state.order[i], rng)
                state.turn[i] = 0
            j = state.order[i, state.turn[i]]
            state.turn[i] += 1
            if loss_probability[i, j] > 0.0 and rng.random() < loss_probability[i, j]:
                continue
            found_s = rtt_s[i, j]
            if jitter_s[i, j] > 0.0:
                found_s = max(0.0, found_s + jitter_s[i, j] * (2.0 * (rng.random() + rng.random()) - 2.0))
            update(state, i, j, found_s, rng)


@njit(cache=True)
def update(state, i, j, rtt_s, rng):
    """Node ``i`` has probed ``j``, and the answer came after ``rtt_s``; see ``Vivaldi.update``."""
    if not (0.0 <= rtt_s <= RTT_MAXIMUM_S):
        return
    state.heard[i, j, state.heard_count[i, j] % SAMPLES] = rtt_s
    state.heard_count[i, j] += 1
    filtered_s = max(_median(state, i, j), NEAR_S)
    _pull(state, i, j, filtered_s, rng)
    state.offsets[i, state.oldest[i]] = filtered_s - _raw(state, i, j)
    state.oldest[i] = (state.oldest[i] + 1) % WINDOW
    total = 0.0
    for k in range(WINDOW):
        total += state.offsets[i, (state.oldest[i] + k) % WINDOW]
    state.adjustment[i] = total / (2.0 * WINDOW)
    _fall(state, i, rng)
    if not _is_finite(state, i):
        for k in range(DIMENSIONS):
            state.vec[i, k] = 0.0
        state.height[i], state.adjustment[i], state.error[i] = HEIGHT_MINIMUM_S, 0.0, ERROR_MAXIMUM
        state.reset_count[i] += 1


@njit(cache=True)
def _median(state, i, j):
    """Of the last three round-trip times; of two, the larger."""
    one, two, three = state.heard[i, j, 0], state.heard[i, j, 1], state.heard[i, j, 2]
    if state.heard_count[i, j] == 1:
        return one
    if state.heard_count[i, j] == 2:
        return max(one, two)
    return max(min(one, two), min(max(one, two), three))


@njit(cache=True)
def _raw(state, i, j):
    square = 0.0
    for k in range(DIMENSIONS):
        square += (state.vec[i, k] - state.vec[j, k]) ** 2
    return sqrt(square) + state.height[i] + state.height[j]


@njit(cache=True)
def _pull(state, i, j, rtt_s, rng):
    raw = _raw(state, i, j)
    estimate_s = raw + state.adjustment[i] + state.adjustment[j]
    if not estimate_s > 0.0:
        estimate_s = raw
    weight = state.error[i] / max(state.error[i] + state.error[j], NEAR_S)
    gain = ERROR_GAIN * weight
    error = gain * abs(estimate_s - rtt_s) / rtt_s + state.error[i] * (1.0 - gain)
    state.error[i] = min(ERROR_MAXIMUM, error)
    _push(state, i, FORCE_GAIN * weight * (rtt_s - estimate_s), state.vec[j], state.height[j], rng)


@njit(cache=True)
def _fall(state, i, rng):
    """Gravity: towards the origin, by the square of the distance."""
    square = 0.0
    for k in range(DIMENSIONS):
        square += state.vec[i, k] ** 2
    raw = sqrt(square) + HEIGHT_MINIMUM_S + state.height[i]
    away_s = raw + state.adjustment[i]
    if not away_s > 0.0:
        away_s = raw
    _push(state, i, -((away_s / GRAVITY_S) ** 2), ORIGIN, HEIGHT_MINIMUM_S, rng)


@njit(cache=True)
def _push(state, i, force_s, vec, height, rng):
    """Move node ``i`` away from ``vec`` by ``force_s``."""
    square = 0.0
    for k in range(DIMENSIONS):
        square += (state.vec[i, k] - vec[k]) ** 2
    apart_s = sqrt(square)
    if apart_s > NEAR_S:
        rise = (state.height[i] + height) * force_s / apart_s
        state.height[i] = max(HEIGHT_MINIMUM_S, state.height[i] + rise)
        for k in range(DIMENSIONS):
            state.vec[i, k] += (state.vec[i, k] - vec[k]) / apart_s * force_s
        return
    away, square = np.empty(DIMENSIONS), 0.0
    for k in range(DIMENSIONS):
        away[k] = rng.random() - 0.5
        square += away[k] ** 2
    length = sqrt(square)
    for k in range(DIMENSIONS):
        if length > NEAR_S:
            state.vec[i, k] += away[k] / length * force_s
        elif k == 0:
            state.vec[i, k] += force_s


@njit(cache=True)
def _is_finite(state, i):
    total = state.height[i] + state.adjustment[i] + state.error[i]  # far from overflow: finite if all are
    for k in range(DIMENSIONS):
        total += state.vec[i, k]
    return isfinite(total)
