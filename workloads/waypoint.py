"""Random waypoint mobility (Johnson and Maltz, 1996): straight to a place drawn uniformly, a pause, on to the next."""

from dataclasses import dataclass

import numpy as np

from core.records import Float64
from core.units import SECOND_NS
from workloads.zones import Zones


@dataclass(frozen=True)
class Leg:
    """A straight flight at constant speed, ``start_ns`` to ``end_ns``, from one place to another, in km."""

    start_ns: int
    end_ns: int
    start: Float64
    end: Float64

    def at(self, at_ns: int) -> Float64:
        """Where it is then; before it begins at its start, after it ends at its end."""
        share = min(1.0, max(0.0, (at_ns - self.start_ns) / (self.end_ns - self.start_ns)))
        return (1 - share) * self.start + share * self.end  # exactly the end at the end


class Track:
    """One walker's legs in the box ``low`` to ``high``; they begin at instant 0, at a place drawn uniformly.

    Legs are drawn as they are asked for, in order, so that asking for more changes nothing.
    """

    def __init__(self, rng: np.random.Generator, low: Float64, high: Float64, speed_mps: float, pause_ns: int):
        self._rng, self._low, self._high = rng, low, high
        self._km_per_ns, self._pause_ns = speed_mps * 1e-12, pause_ns
        self._legs: list[Leg] = []

    @property
    def legs_rps(self) -> float:
        """How many legs a second are expected, or fewer: a third of the box's diagonal is no more than their mean."""
        km = float(np.hypot(*(self._high - self._low))) / 3
        return SECOND_NS / (max(1.0, km / self._km_per_ns) + self._pause_ns)

    def legs(self, until_ns: int) -> list[Leg]:
        """The legs that begin by ``until_ns``, the first one always among them."""
        if not self._legs:
            self._legs.append(self._leg(0, self._drawn()))
        while (start_ns := self._legs[-1].end_ns + self._pause_ns) <= until_ns:
            self._legs.append(self._leg(start_ns, self._legs[-1].end))
        return [leg for leg in self._legs if leg.start_ns <= max(0, until_ns)]

    def at(self, at_ns: int) -> Float64:
        """The place at an instant, float64 (2,), in km."""
        return self.legs(at_ns)[-1].at(at_ns)

    def crossings(self, zones: Zones, until_ns: int) -> list[tuple[int, int]]:
        """Instant and number of each zone that is entered by ``until_ns``; the first is that at 0.

        An instant is the first whole nanosecond behind the border; zones that are crossed within one are left out.
        """
        entered: dict[int, int] = {}
        for leg in self.legs(until_ns):
            span_ns = leg.end_ns - leg.start_ns
            for share, zone in zones.along(leg.start, leg.end):
                entered[leg.start_ns - int(-share * span_ns // 1)] = zone
        crossings: list[tuple[int, int]] = []
        for at_ns, zone in entered.items():
            if at_ns <= max(0, until_ns) and (not crossings or zone != crossings[-1][1]):
                crossings.append((at_ns, zone))
        return crossings

    def _leg(self, start_ns: int, start: Float64) -> Leg:
        end = self._drawn()
        km = float(np.hypot(*(end - start)))
        return Leg(start_ns, start_ns + max(1, round(km / self._km_per_ns)), start, end)

    def _drawn(self) -> Float64:
        return self._low + self._rng.random(2) * (self._high - self._low)
