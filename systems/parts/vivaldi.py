"""Network coordinates as Serf keeps them: Vivaldi with heights, a latency filter, adjustment terms and gravity.

The rules and constants are those of Serf 0.9.4 (ePulsar, section 3.2, estimates every delay with them).  They go
back to Dabek et al. (Vivaldi, SIGCOMM 2004), Ledlie et al. (filter and gravity, NSDI 2007) and Lee et al.
(adjustment, ToN 2010).  A coordinate is a point, in seconds; the distance of two is an estimate of the round-trip time
between their nodes.  Serf cuts distances to whole nanoseconds on its way; here they are not cut.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

NEAR_S = 1e-6  # what is nearer than this has no direction; also the least round-trip time and error
RTT_MAXIMUM_S = 10.0  # longer ones, and negative ones, are not believed


@dataclass(frozen=True)
class Rules:
    """The constants of the algorithm, Serf's by default.  Times in seconds."""

    dimensions: int = 8
    error_maximum: float = 1.5  # of an estimate, as a share of it: what a node begins with
    error_gain: float = 0.25  # Vivaldi's c_e
    force_gain: float = 0.25  # Vivaldi's c_c
    height_minimum_s: float = 1e-5
    samples: int = 3  # of a peer, of which the median counts
    window: int = 20  # offsets that the adjustment is the mean of; 0: no adjustment
    gravity_s: float = 150.0  # the distance from the origin at which gravity pulls by a second an update


SERF = Rules()


class Coordinate(Struct, frozen=True):
    """Where a node is: ``vec`` (a part a dimension), ``height`` and ``adjustment`` in seconds; ``error`` is a share."""

    vec: tuple[float, ...]
    error: float
    adjustment: float
    height: float

    @property
    def is_finite(self) -> bool:
        """Whether every part is a number that one can reckon with."""
        return all(map(isfinite, (*self.vec, self.error, self.adjustment, self.height)))


def origin(rules: Rules = SERF) -> Coordinate:
    """Where every node begins."""
    return Coordinate((0.0,) * rules.dimensions, rules.error_maximum, 0.0, rules.height_minimum_s)


def difference(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """The vector from ``other`` to ``one``."""
    return [here - there for here, there in zip(one, other, strict=True)]


def length(vec: Sequence[float]) -> float:
    """Rounded as Serf does and ``vivaldi_kernel``: near nodes' directions magnify the last bit."""
    square = 0.0
    for part in vec:
        square += part * part
    return sqrt(square)


def raw_distance_s(one: Coordinate, other: Coordinate) -> float:
    """The distance before adjustment: between the points, and both heights."""
    return length(difference(one.vec, other.vec)) + one.height + other.height


def distance_s(one: Coordinate, other: Coordinate) -> float:
    """The estimated round-trip time; an adjustment that would make it negative is left out."""
    raw = raw_distance_s(one, other)
    adjusted = raw + one.adjustment + other.adjustment
    return adjusted if adjusted > 0.0 else raw


class Vivaldi:
    """The coordinate of one node, which moves with every probe of another.

    ``rng`` draws the direction in which two nodes at the same place part.
    """

    def __init__(self, rng: np.random.Generator, rules: Rules = SERF):
        self.rules, self.coordinate, self.reset_count = rules, origin(rules), 0
        self._rng, self._origin = rng, origin(rules)
        self._heard: dict[str, deque[float]] = {}  # the last round-trip times to each peer
        self._offsets = deque([0.0] * rules.window, maxlen=rules.window)

    def update(self, peer: str, theirs: Coordinate, rtt_s: float) -> bool:
        """``peer``, which is at ``theirs``, answered after ``rtt_s``; False where that is not to be believed."""
        if not (0.0 <= rtt_s <= RTT_MAXIMUM_S and len(theirs.vec) == self.rules.dimensions and theirs.is_finite):
            return False
        filtered_s = max(self._median(peer, rtt_s), NEAR_S)
        self._pull(theirs, filtered_s)
        if self.rules.window:
            self._offsets.append(filtered_s - raw_distance_s(self.coordinate, theirs))
            total = 0.0
            for offset in self._offsets:  # not sum(), whose rounding depends on Python's version
                total += offset
            self.coordinate = replace(self.coordinate, adjustment=total / (2.0 * self.rules.window))
        away = distance_s(self._origin, self.coordinate) / self.rules.gravity_s
        self._push(-(away * away), self._origin)
        if not self.coordinate.is_finite:
            self.coordinate, self.reset_count = self._origin, self.reset_count + 1
        return True

    def resume(
        self, coordinate: Coordinate, offsets: Sequence[float], heard: Mapping[str, Sequence[float]], reset_count: int
    ) -> None:
        """Go on from where another got to: its ``offsets`` and what it ``heard`` of each peer, oldest first."""
        self.coordinate, self.reset_count = coordinate, reset_count
        self._offsets.extend(offsets)
        self._heard = {peer: deque(rtts_s, maxlen=self.rules.samples) for peer, rtts_s in heard.items()}

    def _median(self, peer: str, rtt_s: float) -> float:
        """Of the last few round-trip times; of two, the larger."""
        heard = self._heard.setdefault(peer, deque(maxlen=self.rules.samples))
        heard.append(rtt_s)
        return sorted(heard)[len(heard) // 2]

    def _pull(self, theirs: Coordinate, rtt_s: float) -> None:
        """Vivaldi's step: towards a peer that is too far, away from one too near; the surer of itself, the less."""
        mine, rules = self.coordinate, self.rules
        estimate_s = distance_s(mine, theirs)
        weight = mine.error / max(mine.error + theirs.error, NEAR_S)
        gain = rules.error_gain * weight
        error = gain * abs(estimate_s - rtt_s) / rtt_s + mine.error * (1.0 - gain)
        self.coordinate = replace(mine, error=min(rules.error_maximum, error))
        self._push(rules.force_gain * weight * (rtt_s - estimate_s), theirs)

    def _push(self, force_s: float, source: Coordinate) -> None:
        """Move away from ``source`` by so much; the height changes in proportion to how far it is."""
        mine = self.coordinate
        away = difference(mine.vec, source.vec)
        apart_s, height = length(away), mine.height
        if apart_s > NEAR_S:
            unit = [part / apart_s for part in away]
            height = max(self.rules.height_minimum_s, height + (height + source.height) * force_s / apart_s)
        else:
            unit = self._any_direction()
        vec = tuple(here + part * force_s for here, part in zip(mine.vec, unit, strict=True))
        self.coordinate = replace(mine, vec=vec, height=height)

    def _any_direction(self) -> list[float]:
        drawn = (self._rng.random(self.rules.dimensions) - 0.5).tolist()
        drawn_length = length(drawn)
        if drawn_length > NEAR_S:
            return [part / drawn_length for part in drawn]
        return [1.0] + [0.0] * (self.rules.dimensions - 1)
