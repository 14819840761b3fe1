"""ePulsar's arithmetic: what a broker reports of a topic, what other brokers would offer it, and who is moved where.

Delays are end to end from a producer over a broker to a consumer, estimated from network coordinates.  A coordinate's
distance is a *round trip*, so the paper's sums of two distances are halved, as in the last version of its public
code; ``Policy.literal`` leaves them as printed.  Letters are those of the paper's Table 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import dist
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from core.records import Float64, Int64
from systems.parts.coordinates import Coordinates, distances_s, stacked
from systems.parts.vivaldi import NEAR_S, Coordinate, distance_s, origin

Bools = NDArray[np.bool_]

UNPLACED = -1  # instead of a broker's number
UTILISATION = 0.85  # of a broker's processor, memory or network: beyond, it is overloaded (Section 3.4.2, Pulsar's)


@dataclass(frozen=True)
class Policy:
    """Where the paper, its public code and sound rules differ."""

    literal: bool = False  # delays as printed (3.2, 3.4.1): sums of round trips; else halved, as the public code
    shortcut: bool = False  # public code: coordinates with the same vector are at distance 0, heights or not
    stay: bool = True  # 3.4.1: the present broker is a candidate; the public code moves even where that is worse
    hysteresis_s: float = 0.0  # ours: a move must gain more than this

    @property
    def share(self) -> float:
        """What a round trip counts for, each way of a message."""
        return 1.0 if self.literal else 0.5


POLICY = Policy()


class Summary(Struct, frozen=True):
    """What a broker reports of a topic (Section 3.2), however many clients it has."""

    producers: Coordinate | None  # their centroid; None: there are none
    consumers: Coordinate | None
    deviation_s: float  # W(t): from the centroids to the farthest of their clients
    worst_s: float  # E(t): of the farthest producer and consumer, over the present broker
    in_rps: float = 0.0
    out_rps: float = 0.0


def centroid(coordinates: Sequence[Coordinate]) -> Coordinate | None:
    """The mean of every part, heights too; None of nobody."""
    if not coordinates:
        return None
    count = len(coordinates)
    vec = tuple(sum(parts) / count for parts in zip(*(one.vec for one in coordinates), strict=True))
    error = sum(one.error for one in coordinates) / count
    adjustment = sum(one.adjustment for one in coordinates) / count
    height = sum(one.height for one in coordinates) / count
    return Coordinate(vec, error, adjustment, height)


def delay_s(one: Coordinate, other: Coordinate, policy: Policy = POLICY) -> float:
    """The estimated delay of a message between two places."""
    if policy.shortcut and dist(one.vec, other.vec) < NEAR_S:
        return 0.0
    return policy.share * distance_s(one, other)


def summarised(
    producers: Sequence[Coordinate],
    consumers: Sequence[Coordinate],
    broker: Coordinate,
    policy: Policy = POLICY,
    in_rps: float = 0.0,
    out_rps: float = 0.0,
) -> Summary:
    """The report on a topic whose clients and broker are there.

    An empty role contributes 0 to both delays.
    """
    centres = centroid(producers), centroid(consumers)
    deviation_s = worst_s = 0.0
    for clients, centre in zip((producers, consumers), centres, strict=True):
        if centre is not None:
            deviation_s += max(delay_s(client, centre, policy) for client in clients)
            worst_s += max(delay_s(client, broker, policy) for client in clients)
    return Summary(*centres, deviation_s, worst_s, in_rps, out_rps)


class Summaries(NamedTuple):
    """The reports on n topics, a row each; a centroid of nobody is marked as not ``there``."""

    producers: Coordinates
    consumers: Coordinates
    producers_there: Bools  # (n,)
    consumers_there: Bools
    deviation_s: Float64
    worst_s: Float64
    in_rps: Float64
    out_rps: Float64


def collected(summaries: Sequence[Summary]) -> Summaries:
    """Single reports as arrays, in the same order."""
    nowhere = origin()
    return Summaries(
        stacked([one.producers or nowhere for one in summaries]),
        stacked([one.consumers or nowhere for one in summaries]),
        np.array([one.producers is not None for one in summaries], bool),
        np.array([one.consumers is not None for one in summaries], bool),
        np.array([one.deviation_s for one in summaries], float),
        np.array([one.worst_s for one in summaries], float),
        np.array([one.in_rps for one in summaries], float),
        np.array([one.out_rps for one in summaries], float),
    )


def delays_s(one: Coordinates, other: Coordinates, policy: Policy = POLICY) -> Float64:
    """``delay_s`` of all pairs: float64 (n_one, n_other)."""
    delays: Float64 = policy.share * distances_s(one, other)
    if policy.shortcut:
        apart = np.sqrt(((one.vec[:, None, :] - other.vec[None, :, :]) ** 2).sum(axis=2))
        delays[apart < NEAR_S] = 0.0
    return delays


def expected_s(summaries: Summaries, brokers: Coordinates, policy: Policy = POLICY) -> Float64:
    """W(t, b), the worst delay that each broker is expected to offer each topic: float64 (topics, brokers)."""
    there = delays_s(summaries.producers, brokers, policy) * summaries.producers_there[:, None]
    back = delays_s(summaries.consumers, brokers, policy) * summaries.consumers_there[:, None]
    return there + back + summaries.deviation_s[:, None]


class Members(NamedTuple):
    """The clients that topics have in one role: ``topic`` int64 (m,), the number of each one's topic."""

    topic: Int64
    clients: Coordinates  # (m,)


def expected_pairs_s(
    topics: int, producers: Members, consumers: Members, brokers: Coordinates, policy: Policy = POLICY
) -> Float64:
    """AllPairs (Section 5.5): the worst delay of any producer and consumer, float64 (topics, brokers).

    The broker is between them, so that it is the sum of the worst delays to it and from it.  An empty role
    contributes 0.
    """
    return _farthest_s(topics, producers, brokers, policy) + _farthest_s(topics, consumers, brokers, policy)


def _farthest_s(topics: int, members: Members, brokers: Coordinates, policy: Policy) -> Float64:
    farthest = np.zeros((topics, len(brokers.height)))
    order = np.argsort(members.topic, kind="stable")
    present, starts = np.unique(members.topic[order], return_index=True)
    if len(present):
        farthest[present] = np.maximum.reduceat(delays_s(members.clients, brokers, policy)[order], starts)
    return farthest


# --- Algorithm 1 -----------------------------------------------------------------------------------


class Topics(NamedTuple):
    """What the load manager knows of n topics, besides ``expected_s``: arrays (n,)."""

    broker: Int64  # which has it now; UNPLACED: none yet
    bound_s: Float64  # L_th(t)
    worst_s: Float64  # E(t)
    in_rps: Float64
    out_rps: Float64


def loads_rps(topics: Topics, brokers: int) -> Float64:
    """The aggregate output rate of each broker, float64 (brokers,)."""
    placed = topics.broker >= 0
    return np.bincount(topics.broker[placed], topics.out_rps[placed], brokers).astype(float)


def marks_rps(load_rps: Float64, limit_rps: float, utilisation: Float64) -> Float64:
    """The output rate beyond which each broker is overloaded, float64 (brokers,).

    R_out^th, and where a resource's ``utilisation`` (brokers,) is above ``UTILISATION`` the rate that would bring it
    back to it, in proportion (Section 3.4.3: the target that migration should achieve).
    """
    target = load_rps * UTILISATION / np.maximum(utilisation, UTILISATION)
    return np.where(utilisation > UTILISATION, np.minimum(target, limit_rps), limit_rps)


def shed(topics: Topics, load_rps: Float64, marks: Float64, held: Bools) -> Bools:
    """Lines 18-21: which topics leave overloaded brokers, bool (topics,).

    Those of the highest in and out rates first, until the others' output rate is not above the mark.
    """
    leaving = np.zeros(len(topics.broker), bool)
    total_rps = topics.in_rps + topics.out_rps
    for broker in np.flatnonzero(load_rps > marks):
        there = np.flatnonzero((topics.broker == broker) & ~held)
        there = there[np.argsort(-total_rps[there], kind="stable")]
        left_rps = load_rps[broker] - np.cumsum(topics.out_rps[there])
        leaving[there[: np.count_nonzero(left_rps > marks[broker]) + 1]] = True
    return leaving


def place(
    topics: Topics,
    expected: Float64,
    marks: Float64,
    policy: Policy = POLICY,
    held: Bools | None = None,
    candidates: Bools | None = None,
) -> Int64:
    """Algorithm 1: the broker of each topic from now on, int64 (topics,).

    Topics whose delay violates the bound, and those that overloaded brokers shed, go to the broker of the least
    ``expected`` delay (topics, brokers) that it would not overload: among those within the bound, or among all
    where there is none.  A topic with fewer such brokers chooses earlier, then one of a lower number; a broker of
    a lower number wins a tie.  A topic that finds no room is left where it is.  ``marks``: see ``marks_rps``;
    ``held`` (topics,): not to be moved now; ``candidates`` (brokers,): which may be given topics, by default all.
    """
    count, brokers = expected.shape
    held = np.zeros(count, bool) if held is None else held
    load_rps = loads_rps(topics, brokers)
    leaving = shed(topics, load_rps, marks, held)
    violated = topics.worst_s > topics.bound_s
    moving = np.flatnonzero(((violated | leaving) & ~held) | (topics.broker == UNPLACED))
    usable = np.ones(brokers, bool) if candidates is None else candidates
    ranked_by = np.where(usable, expected[moving], np.inf)
    feasible_count = (ranked_by < topics.bound_s[moving, None]).sum(axis=1)
    feasible_count[feasible_count == 0] = np.count_nonzero(usable)
    turns = np.argsort(feasible_count, kind="stable")
    ranked = np.argsort(ranked_by, axis=1, kind="stable")[turns]
    assigned = topics.broker.copy()
    room = _Room(load_rps.tolist(), marks.tolist())
    for topic, order, length in zip(
        moving[turns].tolist(), ranked.tolist(), feasible_count[turns].tolist(), strict=True
    ):
        here, rate_rps = int(assigned[topic]), float(topics.out_rps[topic])
        room.add(here, -rate_rps)
        target = next((b for b in order[:length] if (policy.stay or b != here) and room.has(b, rate_rps)), here)
        may_stay = policy.stay and here != UNPLACED and (room.has(here, rate_rps) or not leaving[topic])
        if may_stay and not expected[topic, target] < expected[topic, here] - policy.hysteresis_s:
            target = here
        room.add(target, rate_rps)
        assigned[topic] = target
    return assigned


@dataclass
class _Room:
    """Output rates of brokers and their marks."""

    load_rps: list[float]
    marks: list[float]

    def has(self, broker: int, rate_rps: float) -> bool:
        """Whether so much more would not overload the broker (``can_host``)."""
        return self.load_rps[broker] + rate_rps <= self.marks[broker]

    def add(self, broker: int, rate_rps: float) -> None:
        if broker != UNPLACED:
            self.load_rps[broker] += rate_rps
